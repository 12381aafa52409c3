"""Wrong arguments and tables of the functions without Spark raise errors with clear messages."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from local_readings import RANGE, READINGS_TABLE
from memory_tables import tuples_of

WINDOW = {"window": sf.Rows(2), "order": "made"}
WRONG = [
    (lambda t: sf.reorder([1], event_time="a", arrival="b"), TypeError, "got list"),
    (lambda t: sf.Rows(3, confidence="high"), ValueError, "`confidence` must lie in"),
    (lambda t: sf.samples([1.0, 2.0, 3.0], [0.1, 0.2], 4), ValueError, "values; got 3 and 2"),
    (
        lambda t: sf.samples(pa.array([1.0]), 1.0, 2, attributes="prob"),
        ValueError,
        "must be different names other than `prob`",
    ),
    (lambda t: sf.between([1.0, 2.0], [3.0], 4), ValueError, "`low` and `high` .* got 2 and 1"),
    (lambda t: sf.circular([1.0], 2.0, 4, attributes=5), ValueError, "must be two names"),
    (sf.where, TypeError, "sf.where needs `condition`"),
    (sf.split_late, ValueError, "a boolean column `late`"),
    (lambda t: sf.split_invalid(t, "z")[1], ValueError, "names a column `z`"),
    (
        lambda t: sf.quantile(t, "x", 0.5),
        TypeError,
        r"attribute of the alternatives, as in sf.quantile\(attribute, q, column\); got Table",
    ),
    (lambda t: sf.quantile("x", "x", t), TypeError, "`q` must be a number, as in sf.quantile"),
    (lambda t: sf.expected(t, "x"), TypeError, r"sf.expected\(attribute, column\); got Table"),
    (lambda t: sf.stddev(t, "x"), TypeError, r"sf.stddev\(attribute, column\); got Table"),
    (sf.existence, ValueError, "must have the column `alternatives`"),
    (lambda t: sf.alternatives([[1]], [1.0]), TypeError, "must be a column of lists"),
    (
        lambda t: sf.alternatives([None, {131.0: 0.6}]),
        TypeError,
        r"got dicts. Write alternatives\(\[list\(d\) for d in column\], ",
    ),
    (lambda t: sf.alternatives([[{"a": 1.0}]]), ValueError, "structs with a field `prob`, or"),
    (
        lambda t: sf.alternatives([[1.0]], [[1.0]], ["x", "X"], points=True),
        ValueError,
        "different names",
    ),
    (
        lambda t: sf.join_streams([t, t], on="x", within=1, probability=0.5, **WINDOW),
        TypeError,
        "got a list. Give each",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), WRONG)
def test_wrong_arguments_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call(READINGS_TABLE)


def test_a_plain_column_of_polars_stands_for_its_name():
    named = {"event_time": "made", "arrival": "arrival", "key": ["id"]}
    given = {"event_time": pl.col("made"), "arrival": pl.col("arrival"), "key": [pl.col("id")]}
    assert sf.reorder(READINGS_TABLE, **given, slack=1) == sf.reorder(
        READINGS_TABLE, **named, slack=1
    )
    window = sf.Delta(2.0, on=pl.col("x"))
    counts = sf.window_aggregate(READINGS_TABLE, {"n": "count(*)"}, window=window, order="made")
    assert counts.num_rows == 6


def test_a_frame_that_lost_its_mark_of_late_rows_is_refused():
    rows = sf.reorder(READINGS_TABLE, event_time="made", arrival="arrival", slack=1)
    lost, near = rows.drop_columns(["late"]), {"on": "x", "within": 1, "probability": 1}
    for call in (
        lambda: sf.window_aggregate(lost, {"s": "sum(x)"}, **WINDOW),
        lambda: sf.window_aggregate(lost, {"s": "sum(x)"}, window=RANGE, order="made"),
        lambda: sf.top_k(lost, 1, by="x", window=RANGE, order="made"),
        lambda: sf.similarity_join(lost, READINGS_TABLE, **near, **WINDOW),
        lambda: sf.self_join(lost, **near, **WINDOW),
    ):
        with pytest.raises(ValueError, match="`late`, which marks late rows, is missing"):
            call()


def test_columns_of_one_name_and_names_that_are_no_text_are_refused():
    twice = pa.table([[1], [2]], names=["a", "a"])
    for table in (twice, pd.DataFrame([[1, 2]], columns=["a", "a"])):
        with pytest.raises(ValueError, match="`df` has several columns called a: rename"):
            sf.split_invalid(table)
    kind = pa.list_(pa.struct([("prob", pa.float64()), ("x", pa.float64()), ("x", pa.int64())]))
    with pytest.raises(ValueError, match="`alternatives` have several fields called 'x': rename"):
        sf.split_invalid(pa.table({"alternatives": pa.array([None], kind)}))
    with pytest.raises(TypeError, match="column names of `df` must be strings; got 1"):
        sf.split_invalid(pd.DataFrame({1: [2]}))
    with pytest.raises(TypeError, match=r"got LazyFrame\. Collect it first"):
        sf.split_invalid(pl.LazyFrame({"a": [1]}))


def test_an_uncertain_event_time_orders_no_joins_and_rankings():
    table = pa.table({"id": [1], "alternatives": tuples_of([[(1.0, 5)]], t=pa.int64())})
    said = "`order.*` must name a column .*; `t` is an attribute of the alternatives: .*window_agg"
    with pytest.raises(ValueError, match=said):
        sf.self_join(table, on="t", within=1, probability=0.5, window=sf.Rows(2), order="t")
    with pytest.raises(ValueError, match=said):
        sf.top_k(table, 1, by="id", window=sf.Range("1 us"), order="t")


@pytest.mark.parametrize("far", [2**60 + 1, -(2**62), -(2**63)])
def test_a_time_out_of_range_is_an_invalid_row_of_a_join(far):
    table = pa.table({"id": [1, 2, 3], "t": [far, 10, 11], "x": [1.0, 1.0, 1.0]})
    join = {"on": "x", "within": 0.5, "probability": 0.5, "window": sf.Range("5 us"), "order": "t"}
    with pytest.warns(sf.errors.InvalidRowsWarning, match="more than 2\\*\\*60 microseconds"):
        pairs = sf.similarity_join(table, table, **join)
    assert pairs.num_rows == 4
    assert sf.ops.counters(pairs)["sfumato_join_1_left"]["invalid"] == 1
    with pytest.warns(sf.errors.InvalidRowsWarning, match="more than 2\\*\\*60 microseconds"):
        assert sf.self_join(table, **join).num_rows == 1
