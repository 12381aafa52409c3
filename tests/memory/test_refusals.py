"""Wrong arguments and tables of the functions without Spark raise errors with clear messages."""

from __future__ import annotations

import re

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sfumato as sf
from local_readings import RANGE, READINGS, READINGS_TABLE
from memory_tables import tuples_of

BOTH_BOUNDS = sf.Rows(3, within="1 minute")
WINDOW = {"window": sf.Rows(2), "order": "made"}
NUMBERS = pa.table({"a": [1.0, 2.0, 3.0], "b": [1.0, 3.0, 2.0]})
WRONG = [
    (lambda t: sf.reorder([1], event_time="a", arrival="b"), TypeError, "got list"),
    (
        lambda t: sf.reorder(t, event_time=pl.col("made") + 1, arrival="arrival", slack=1),
        TypeError,
        r"`event_time` must be a column name \(a string\); got the expression .* Add it to the",
    ),
    (
        lambda t: sf.reorder(pd.DataFrame({"t": ["1:00"]}), event_time="t", arrival="t", slack=1),
        TypeError,
        "`t` is .*string: convert text with pandas.to_datetime",
    ),
    (lambda t: sf.Rows(3, confidence="high"), ValueError, "`confidence` must lie in"),
    (lambda t: sf.samples([1.0, 2.0, 3.0], [0.1, 0.2], 4), ValueError, "values; got 3 and 2"),
    (lambda t: sf.between([1.0, 2.0], [3.0], 4), ValueError, "`low` and `high` .* got 2 and 1"),
    (lambda t: sf.circular([1.0], 2.0, 4, attributes=5), ValueError, "must be two names"),
    (
        lambda t: sf.discover_dependencies(NUMBERS, scaling={"a": 2.0}),
        TypeError,
        r"`scaling` must give \(shift, span\)",
    ),
    (
        lambda t: sf.discover_dependencies(NUMBERS, epsilons=0.1),
        ValueError,
        "`epsilons` must be a list of finite numbers",
    ),
    (lambda t: sf.discover_dependencies(NUMBERS, sample=2.5), ValueError, "`sample` must be a wh"),
    (lambda t: sf.discover_dependencies(NUMBERS, dependents=3), TypeError, "`dependents` must be"),
    (
        lambda t: sf.window_aggregate(t, {"n": "sum(abs(x))"}, **WINDOW),
        ValueError,
        "without Spark, `aggregates\\['n'\\]` can use only columns",
    ),
    (lambda t: sf.window_aggregate(t, {"n": "sum(z)"}, **WINDOW), ValueError, "or attribute `z`"),
    (lambda t: sf.window_aggregate(t, {"n": "sum(x)"}, name="a b", **WINDOW), ValueError, "`name`"),
    (
        lambda t: sf.window_aggregate(
            t, {"x": "count(*)"}, window=sf.Range("1 minute"), order="made", with_rows=True
        ),
        ValueError,
        "names a result `x`",
    ),
    (
        lambda t: sf.window_aggregate(t, {"n": "sum(x)"}, window=BOTH_BOUNDS, order="made"),
        ValueError,
        "`within` of sf.Rows is allowed only in joins: write window=sf.Rows",
    ),
    (
        lambda t: sf.top_k(t, sf.Top(3, every="1 m"), by="x", window=BOTH_BOUNDS, order="made"),
        ValueError,
        "`within` of sf.Rows is allowed only in joins: write window=sf.Rows",
    ),
    (
        lambda t: sf.similarity_join(t, t, on="z", within=1, probability=0.5, **WINDOW),
        ValueError,
        "names a column `z`",
    ),
    (lambda t: sf.where(t, 3), TypeError, "`condition` must be a string, like .*; got int"),
    (lambda t: sf.where(t, "x"), TypeError, "`x` must be a condition over booleans; got double"),
    (lambda t: sf.where(t, "zz > 1"), ValueError, "names a column `zz`"),
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
    (
        lambda t: sf.alternatives([[{"a": 1.0}]]),
        ValueError,
        "must be structs with a field `prob`, or",
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
    with pytest.raises(ValueError, match="`late`, which marks late rows, is missing"):
        sf.window_aggregate(
            rows.drop_columns(["late"]), {"n": "count(*)"}, window=RANGE, order="made"
        )


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


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda t, j: sf.reorder(t, seed=1), TypeError, "has no argument `seed`"),
        (lambda t, j: sf.top_k(t, 3, exclusives="r"), TypeError, "did you mean `exclusive`?"),
        (
            lambda t, j: sf.samples(pa.array([1.0]), 1.0, 2, attributes="prob"),
            ValueError, "must be different names without `prob`",
        ),
        (
            lambda t, j: sf.alternatives([[1.0]], [[1.0]], ["x", "X"], points=True),
            ValueError, "different names",
        ),
        (lambda t, j: sf.where(t), TypeError, "sf.where needs `condition`"),
        (lambda t, j: sf.self_join(t, **j, tasks=0), ValueError, "`tasks` must be a whole number"),
        (lambda t, j: sf.similarity_join(t, t, **j, tasks="8"), ValueError, "`tasks` must be"),
        (
            lambda t, j: sf.similarity_join(t, t, **{**j, "window": (sf.Rows(1),) * 3}),
            TypeError, "a pair of windows for left and right; got 3 windows",
        ),
        (
            lambda t, j: sf.impute(
                t, repository="none.parquet", dependencies="id -> x : 1 -> 1", attributes="x"
            ),
            ValueError, "no such file or folder: 'none.parquet'",
        ),
        (lambda t, j: sf.join_streams([t, t], **j), TypeError, "got a list. Give each"),
    ],
)  # fmt: skip
def test_wrong_calls_are_refused(call, error, message):
    asked = {"on": "x", "within": 1, "probability": 0.5, "window": sf.Rows(2), "order": "made"}
    with pytest.raises(error, match=re.escape(message)):
        call(pa.table(READINGS), asked)


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
    with pytest.warns(sf.errors.InvalidRowsWarning, match="beyond 2\\*\\*60 microseconds"):
        pairs = sf.similarity_join(table, table, **join)
    assert pairs.num_rows == 4
    assert sf.ops.counters(pairs)["sfumato_join_1_left"]["invalid"] == 1
    with pytest.warns(sf.errors.InvalidRowsWarning, match="beyond 2\\*\\*60 microseconds"):
        assert sf.self_join(table, **join).num_rows == 1
