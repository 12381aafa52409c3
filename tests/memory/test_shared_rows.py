"""Rows that may share tuples are taken as independent, with a warning; no other rows are."""

from __future__ import annotations

import warnings

import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from handed_on import handed_on
from sfumato.tables.reading.user_warnings import IndependenceWarning

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
    "filtered pairs": (lambda: sf.where(pairs(), "left_x > 0.1"), "pairs of a join"),
    "reordered pairs": (
        lambda: sf.reorder(
            pairs().append_column("came", pairs().column("at")),
            event_time="at", arrival="came", slack=1,
        ),
        "pairs of a join",
    ),
}  # fmt: skip


def windows_of_pairs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IndependenceWarning)
        return windows(sf.Range("2 s"), pairs(), "left_x")


SHARING["extents of pairs"] = windows_of_pairs, "pairs of a join"


@pytest.mark.parametrize("name", SHARING)
def test_an_operator_over_rows_that_may_share_tuples_warns(name):
    make, said = SHARING[name]
    rows = make()
    message = f"window_aggregate: rows are taken as independent, but {said} may share tuples"
    with pytest.warns(IndependenceWarning, match=message) as caught:
        sf.window_aggregate(rows, **COUNT)
    assert caught[0].filename == __file__
    if "alternatives" in rows.column_names and "value" in str(
        rows.schema.field("alternatives").type
    ):
        return
    with pytest.warns(IndependenceWarning, match=f"top_k: .* but {said}"):
        sf.top_k(rows, 1, by="1", window=sf.Range("2 s"), order="at")


def test_a_join_of_pairs_warns_and_so_do_pandas_frames():
    frame = sf.similarity_join(READINGS.to_pandas(), READINGS.to_pandas(), **NEAR)
    frame["at"] = pd.to_datetime(range(len(frame)), unit="s")
    on = NEAR | {"on": "left_x"}
    with pytest.warns(IndependenceWarning, match="similarity_join: rows are taken as independent"):
        sf.similarity_join(frame[["at", "alternatives"]], frame[["at", "alternatives"]], **on)
    with pytest.warns(IndependenceWarning, match="self_join: rows are taken as independent"):
        sf.self_join(frame[["at", "alternatives"]], **on)


@pytest.mark.parametrize(
    "rows",
    [
        lambda: READINGS,
        lambda: windows(sf.Range("2 s")),
        lambda: windows(sf.Range("2 s", slide="3 s")),
        lambda: sf.where(READINGS, "x > 0"),
        lambda: pairs().drop_columns(["alternatives"]),
    ],
)
def test_independent_rows_are_taken_without_a_warning(rows):
    with warnings.catch_warnings():
        warnings.simplefilter("error", IndependenceWarning)
        sf.window_aggregate(rows(), **COUNT)
