"""A Column is accepted wherever an argument names a column, including expressions."""

import pandas as pd
import polars as pl
import pytest
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from column_cases import CASES, readings, shown

pytestmark = pytest.mark.spark
ROWS = {"window": sf.Rows(2)}


@pytest.fixture(scope="module")
def df(spark):
    return readings(spark).cache()


@pytest.mark.parametrize("case", CASES)
def test_objects_give_what_names_give(df, case):
    with_objects, with_names = CASES[case]
    assert shown(with_objects(df)) == shown(with_names(df))


def test_dependencies_are_discovered_among_column_objects(df):
    twice = (2 * F.col("id")).alias("twice")
    how = {"within": 0.5, "confidence": 0.5}
    found = sf.discover_dependencies(df, [F.col("id"), twice], dependents=[F.col("id")], **how)
    named = sf.discover_dependencies(
        df.withColumn("twice", 2 * F.col("id")), ["id", "twice"], dependents=["id"], **how
    )
    assert [*map(str, found)] == [*map(str, named)]
    with pytest.raises(ValueError, match="names a column `tss`"):
        sf.discover_dependencies(df, [F.col("tss"), "x"])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda df: sf.window_aggregate(df, {"n": "count(*)"}, order=F.col("tss"), **ROWS),
            ValueError,
            "`order` names a column `tss` that is not in the frame.* did you mean",
        ),
        (
            lambda df: sf.window_aggregate(df, {"n": "count(*)"}, order=F.col("q") + 1, **ROWS),
            ValueError,
            r"Spark cannot compute `order` = .*`q`",
        ),
        (
            lambda df: sf.window_aggregate(df, {"n": "count(*)"}, order=df.ts.desc(), **ROWS),
            TypeError,
            "`order` must be a column without a direction",
        ),
        (
            lambda df: sf.window_aggregate(df, {"n": "count(*)"}, order=F.col("*"), **ROWS),
            TypeError,
            "`order` must be one column; got .*, which is 8 columns",
        ),
        (
            lambda df: sf.reorder(df, event_time=(df.us + 1).alias("us"), arrival="us", slack=1),
            ValueError,
            "`event_time` has the alias `us`, but the frame already has",
        ),
        (
            lambda df: sf.self_join(
                df, on=2 * F.col("x"), within=1, probability=1, order="id", **ROWS
            ),
            TypeError,
            "`on` names columns of the result, but .* has no name",
        ),
        (
            lambda df: sf.resample(df, every="1 s", order=F.col("us") + 1),
            TypeError,
            r'`order` names a column of the result, .*\.alias\("ts"\)',
        ),
        (
            lambda df: sf.window_aggregate(df, {"n": "count(*)"}, order=pl.col("ts"), **ROWS),
            TypeError,
            "`order` must be a string or a Spark Column, .* got polars.Expr",
        ),
        (
            lambda df: sf.window_aggregate(
                pd.DataFrame({"ts": [1]}), {"n": "count(*)"}, order=F.col("ts"), **ROWS
            ),
            TypeError,
            'Spark column. Write "ts"',
        ),
    ],
)
def test_other_objects_are_refused_with_what_to_write(df, call, error, message):
    with pytest.raises(error, match=message):
        call(df)
