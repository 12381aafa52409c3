"""Operators refuse rows that may share tuples, unless they are said to be independent."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from handed_on import handed_on

ROWS = 6
READINGS = pa.table(
    {
        "at": pa.array(range(ROWS), pa.timestamp("s")),
        "x": [0.0, 1.0, 0.2, 1.1, 0.1, 0.9],
        "existence": [0.5] * ROWS,
    }
)
NEAR = {"on": "x", "within": 0.5, "probability": 0.1, "window": sf.Rows(5), "order": "at"}
COUNT = {"aggregates": {"n": "count(*)"}, "window": sf.Rows(3), "order": "at"}


def pairs(readings=READINGS):
    found = sf.similarity_join(readings, readings, **NEAR)
    times = pa.array(range(found.num_rows), pa.timestamp("s"))
    return found.select(["probability", "alternatives"]).append_column("at", times)


def windows(window, readings=READINGS, attribute="x"):
    found = sf.window_aggregate(
        readings, {"total": f"sum({attribute})"}, window=window, order="at", distribution=4
    )
    found = handed_on(found, "total")
    if "at" in found.column_names:
        return found
    ends = found.column("window").combine_chunks().field("end")
    return found.append_column("at", ends)


def averaged_over_time():
    found = sf.window_aggregate(READINGS, {"mean": "time_avg(x)"}, window="2 s", order="at")
    for column, struct, part in (("existence", "mean", "existence"), ("at", "window", "end")):
        cells = found.column(struct).combine_chunks()
        marked = cells.type.field(part).with_name(column)
        found = found.append_column(marked, cells.field(part))
    return found


def ranked():
    found = sf.top_k(READINGS, 1, by="x", window=sf.Range("4 s", slide="2 s"), order="at")
    return found.rename_columns(
        ["existence" if n == "probability" else n for n in found.column_names]
    )


SHARING = {
    "pairs of a join": (pairs, "pairs of a join"),
    "pairs of a stream with itself": (
        lambda: sf.self_join(READINGS, **NEAR).append_column(
            "at", pa.array(range(sf.self_join(READINGS, **NEAR).num_rows), pa.timestamp("s"))
        ),
        "pairs of a join",
    ),
    "answers of a ranking": (
        lambda: ranked().append_column("at", ranked().column("time")),
        "answers of a ranking",
    ),
    "windows of rows": (lambda: windows(sf.Rows(3)), "answers of overlapping windows"),
    "windows by change": (
        lambda: windows(sf.Delta(0.5, on="x")),
        "answers of overlapping windows",
    ),
    "extents that overlap": (
        lambda: windows(sf.Range("4 s", slide="2 s")),
        "answers of overlapping windows",
    ),
    "averages over time": (averaged_over_time, "averages over time"),
    "filtered pairs": (lambda: sf.where(pairs(), "left_x > 0.1"), "pairs of a join"),
    "reordered pairs": (
        lambda: sf.reorder(
            pairs().append_column("came", pairs().column("at")),
            event_time="at", arrival="came", slack=1,
        ),
        "pairs of a join",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARING)
def test_an_operator_refuses_rows_that_may_share_tuples(name):
    make, said = SHARING[name]
    rows = make()
    message = (
        f"window_aggregate: {said} may share tuples, .* sf.draw_worlds.* sf.assume_independent"
    )
    with pytest.raises(ValueError, match=message):
        sf.window_aggregate(rows, **COUNT)
    with pytest.raises(ValueError, match=f"draw_worlds: {said} may share"):
        sf.draw_worlds(rows, 2, source="rows", id="at")
    if "alternatives" in rows.column_names and "value" in str(
        rows.schema.field("alternatives").type
    ):
        return
    with pytest.raises(ValueError, match=f"top_k: {said} may share"):
        sf.top_k(rows, 1, by="1", window=sf.Range("2 s"), order="at")


def test_a_join_of_pairs_is_refused_and_so_are_pandas_frames():
    frame = sf.similarity_join(READINGS.to_pandas(), READINGS.to_pandas(), **NEAR)
    frame["at"] = pd.to_datetime(range(len(frame)), unit="s")
    on = NEAR | {"on": "left_x"}
    with pytest.raises(ValueError, match="similarity_join: pairs of a join may share"):
        sf.similarity_join(frame[["at", "alternatives"]], frame[["at", "alternatives"]], **on)
    with pytest.raises(ValueError, match="self_join: pairs of a join may share"):
        sf.self_join(frame[["at", "alternatives"]], **on)


def test_windows_over_uncertain_times_share_their_tuples():
    kind = pa.list_(pa.struct([("prob", pa.float64()), ("t", pa.timestamp("us", "UTC"))]))
    times = [[{"prob": 0.5, "t": 1_000_000}, {"prob": 0.5, "t": 3_000_000}]]
    rows = pa.table({"id": [1], "alternatives": pa.array(times, kind)})
    found = sf.window_aggregate(rows, {"n": "count(*)"}, window="2 s", order="t", distribution=2)
    assert [row["n"]["mean"] for row in found.to_pylist()] == [0.5, 0.5]
    ends = found.column("window").combine_chunks().field("end")
    with pytest.raises(ValueError, match="windows over uncertain times may share"):
        sf.window_aggregate(handed_on(found, "n").append_column("at", ends).drop(["n"]), **COUNT)


def test_rows_said_to_be_independent_are_taken():
    rows = pairs()
    assumed = sf.assume_independent(rows)
    assert assumed.to_pylist() == rows.to_pylist()
    found = sf.window_aggregate(assumed, **COUNT)
    assert found.column("n").combine_chunks().field("mean")[-1].as_py() > 0
    frame = sf.assume_independent(sf.similarity_join(READINGS.to_pandas(), READINGS, **NEAR))
    assert isinstance(frame, pd.DataFrame)
    with pytest.raises(ValueError, match="no column of the table is marked so: leave the call out"):
        sf.assume_independent(READINGS)
    extents = windows(sf.Range("2 s"), sf.assume_independent(pairs()), "left_x")
    sf.window_aggregate(extents, **COUNT)


@pytest.mark.parametrize(
    "rows",
    [
        lambda: READINGS,
        lambda: windows(sf.Range("2 s")),
        lambda: windows(sf.Range("2 s", slide="3 s")),
        lambda: sf.where(READINGS, "x > 0"),
        lambda: pairs().drop_columns(["alternatives"]),
        lambda: pairs(READINGS.drop_columns(["existence"])),
        lambda: sf.window_aggregate(READINGS, {"s": "sum(x)"}, window=sf.Rows(2), order="at"),
    ],
)
def test_independent_rows_are_taken(rows):
    assert sf.window_aggregate(rows(), **COUNT).num_rows
