"""Uncertainty that an operator did not know when it repeated rows is not taken for independent."""

import warnings

import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf

ROWS = pa.table({"t": [0, 30], "conf": [0.5, 1.0]})
ROOM = {"window": sf.Range("1 s"), "order": "t"}
NEAR = {"on": "t", "within": 50, "probability": 0.5, "window": sf.Rows(5), "order": "t"}


def field(rows, struct, name):
    """Return a field of a struct, as a column of its own with its metadata."""
    column = rows.column(struct).combine_chunks()
    return rows.append_column(column.type.field(name), column.field(name))


def overlapping():
    window = sf.Range("40 us", slide="10 us")
    return sf.window_aggregate(ROWS, {"n": "count(*)"}, window=window, order="t", with_rows=True)


def matched():
    found = sf.asof_join(pa.table({"t": [31, 32, 33]}), ROWS, order="t")
    return field(field(found, "left", "t"), "right", "conf")


def paired():
    found = sf.self_join(ROWS, alternatives=False, **NEAR)
    return field(field(found, "left", "t"), "left", "conf")


def ranked():
    window = sf.Range("40 us", slide="10 us")
    found = sf.top_k(ROWS, 1, by="conf", window=window, order="t")
    return field(field(found, "row", "t"), "row", "conf")


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        (lambda: sf.resample(ROWS, every="10 us", order="t"), "points of a resampling"),
        (overlapping, "answers of overlapping windows"),
        (matched, "pairs of an as-of join"),
        (paired, "pairs of a join"),
        (ranked, "answers of a ranking"),
    ],
)
def test_a_repeated_column_of_probabilities_is_refused(make, rows):
    found = make()
    with pytest.raises(ValueError, match=f"{rows} may share readings"):
        sf.window_aggregate(found, {"n": "count(*)"}, existence="conf", **ROOM)
    known = sf.assume_independent(found)
    assert sf.window_aggregate(known, {"n": "count(*)"}, existence="conf", **ROOM).num_rows
    with warnings.catch_warnings():  # certain rows are independent
        warnings.simplefilter("error")
        sf.window_aggregate(found, {"n": "count(*)"}, **ROOM)


@pytest.mark.parametrize("make", [overlapping, matched, paired, ranked])
def test_new_probabilities_of_repeated_rows_warn(make):
    found = make().append_column("p", pa.array([0.5] * make().num_rows))
    with pytest.warns(UserWarning, match="may repeat an earlier row, but are treated as"):
        sf.window_aggregate(found, {"n": "count(*)"}, existence="p", **ROOM)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known = sf.assume_independent(found)
        sf.window_aggregate(known, {"n": "count(*)"}, existence="p", **ROOM)


def test_rows_with_the_answer_of_their_window_share_it():
    rows = pa.table({"t": [0, 1, 2], "existence": [0.5, 1.0, 1.0], "x": [1.0, 0.0, 0.0]})
    window = {"window": sf.Range("10 us"), "order": "t"}
    found = sf.window_aggregate(rows, {"m": "sum(x)"}, distribution=9, with_rows=True, **window)
    own = sf.window_aggregate(found, {"n": "count(*)"}, **window)  # each row's own existence
    assert own.to_pylist()[0]["n"] == {"mean": 2.5, "stddev": 0.5, "existence": 1.0}
    in_polars = sf.window_aggregate(
        pl.from_arrow(rows), {"m": "sum(x)"}, distribution=9, with_rows=True, **window
    )
    own = sf.window_aggregate(in_polars, {"n": "count(*)"}, **window)
    assert own["n"][0] == {"mean": 2.5, "stddev": 0.5, "existence": 1.0}
    given = [row["m"]["distribution"] for row in found.to_pylist()]
    frame = found.to_pandas(ignore_metadata=True).assign(alternatives=given)
    table = found.drop_columns(["existence"]).append_column("alternatives", pa.array(given))
    with pytest.raises(ValueError, match="rows that have the answer of their window may share"):
        sf.window_aggregate(table, {"s": "sum(value)"}, **window)
    with pytest.raises(ValueError, match="metadata was dropped may share"):
        sf.window_aggregate(frame.drop(columns="existence"), {"s": "sum(value)"}, **window)


def test_answers_that_a_join_of_extents_repeats_are_refused():
    rows = pa.table({"t": [0, 1], "a": [0, 1], "room": [1, 2], "existence": [0.5, 0.5]})
    rows = sf.reorder(rows, event_time="t", arrival="a", slack=0)
    window = {"window": sf.Range("10 us"), "order": "t", "distribution": 4}
    total = sf.window_aggregate(rows, {"n": "count(*)"}, **window)
    by_room = sf.window_aggregate(rows, {"n": "count(*)"}, key="room", **window)

    def count(left, right, side, **key):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # both sides contain the same readings
            found = field(sf.extent_join(left, right, **key), side, "n")
        lists = found.column("n").combine_chunks()
        place = lists.type.get_field_index("distribution")
        marked = lists.type.field(place).with_name("alternatives")
        ends = found.column("window").combine_chunks().field("end")
        found = found.append_column(marked, lists.field(place)).append_column("t", ends)
        return sf.window_aggregate(found, {"s": "sum(value)"}, window=sf.Rows(5), order="t")

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert count(by_room, by_room, "left", key="room").num_rows == 2
        assert count(total, total, "right").num_rows == 1
    for left, right, side in ((total, by_room, "left"), (by_room, by_room, "right")):
        with pytest.warns(UserWarning, match="pairs of a join may repeat an earlier row"):
            count(left, right, side)
