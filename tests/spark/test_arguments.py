"""Errors for common mistakes: each has the expected value, the value found, and what to write."""

import re
import warnings
from datetime import UTC, datetime
from queue import SimpleQueue

import pandas as pd
import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQueryListener

import sfumato as sf
from sfumato.spark.runtime.run import invalid_rows_text
from streams import observed, run, stream_of

pytestmark = pytest.mark.spark
MINUTE = {"window": "1 minute", "order": "ts"}


@pytest.fixture(scope="module")
def rows(spark):
    at = [datetime(2024, 1, 1, 0, 0, 10 * i % 60, tzinfo=UTC) for i in range(6)]
    return spark.createDataFrame(
        [(i, "ab"[i % 2], t, float(i)) for i, t in enumerate(at)],
        "id int, k string, ts timestamp, v double",
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda df: sf.top_k(df, 3), r"sf.top_k needs `by`, `window`, `order`. For example sf.top"),
        (lambda df: sf.top_k(df, 3, by="v", windw="1 h", order="ts"), "did you mean `window`"),
        (lambda df: sf.reorder(df, "ts", "ts"), "sf.reorder accepts df by position"),
        (
            lambda df: sf.reorder(df, event_time="k", arrival="ts", slack=1),
            r"`k` is string: convert it with to_timestamp\(k\)",
        ),
        (lambda df: sf.where(), "sf.where needs `df`, `condition`"),
        (
            lambda df: sf.extent_join(df, pd.DataFrame({"a": [1]})),
            "`right` must be a Spark DataFrame, like other arguments of this call; got pandas",
        ),
        (
            lambda df: sf.extent_join(pd.DataFrame({"a": [1]}), df),
            "`right` must be a pandas, Polars or Arrow table, as `left` is",
        ),
        (lambda df: sf.where(3, "a > 1"), "Spark DataFrame, or a pandas, Polars or Arrow"),
        (lambda df: sf.window_aggregate(df, {"s": "sum(v)"}, window=5, order="ts"), "be sf.Rows"),
        (lambda df: sf.sql(df.sparkSession, "SELECT 1", q=pd.DataFrame({"a": [1]})), "`q` must be"),
        (lambda df: df.select(sf.expected(F.col("v"))), "`attribute` must be the name"),
        (
            lambda df: sf.impute(df, repository=7, dependencies="a -> v : 1 -> 1", attributes="v"),
            "a Parquet path or a table's name; got builtins.int",
        ),
    ],
)  # fmt: skip
def test_a_call_that_does_not_fit_says_what_to_write(rows, call, message):
    with pytest.raises(TypeError, match=message):
        call(rows)


class Ended(StreamingQueryListener):
    """A listener that records ended queries, after all reports of their micro-batches."""

    def __init__(self):
        self.ids = SimpleQueue()

    def onQueryStarted(self, event):  # noqa: N802 - Spark's name
        pass

    def onQueryProgress(self, event):  # noqa: N802 - Spark's name
        pass

    def onQueryTerminated(self, event):  # noqa: N802 - Spark's name
        self.ids.put(str(event.id))


def test_a_stream_says_once_how_many_of_its_rows_take_no_part(spark, tmp_path):
    schema = "id int, alternatives array<struct<prob: double, x: double>>"
    given = [(i, [(0.9, 1.0), (0.9, 2.0)] if i % 4 == 0 else [(1.0, 1.0)]) for i in range(40)]
    spark.createDataFrame(given, schema).repartition(4).write.parquet(str(tmp_path / "in"))
    stream = stream_of(spark, tmp_path / "in", schema, files=2)
    found = sf.window_aggregate(
        stream, {"n": "count(*)"}, window=sf.Rows(3), order="id", name="loud"
    )
    ended = Ended()  # called after the listener that warns
    spark.streams.addListener(ended)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _, query = run(found, tmp_path)
        while ended.ids.get(timeout=120) != str(query.id):
            pass
    spark.streams.removeListener(ended)
    mine = [str(w.message) for w in told if issubclass(w.category, sf.errors.InvalidRowsWarning)]
    assert len(mine) == 1
    assert mine[0].startswith("window_loud_input: ")
    assert (
        "the most common reason: the probabilities sum to more than 1); further rows are" in mine[0]
    )
    assert invalid_rows_text("sfumato_top_k_1_input", 200, 96).startswith(
        "top_k_1_input: 96 of 200 rows (48.0%)"
    )


def test_a_filter_counts_the_invalid_rows_that_it_drops(spark, tmp_path):
    schema = "id int, alternatives array<struct<prob: double, x: double>>"
    given = [
        (1, [(0.5, 1.0), (0.5, 9.0)]), (2, [(1.0, 1.0)]), (3, None), (4, []), (5, [(1.0, None)]),
        (6, [(0.5, None), (0.5, 8.0)]),
    ]  # fmt: skip
    rows_in = spark.createDataFrame(given, schema)
    found = sf.where(rows_in, "x > 3", name="high")
    rows = found.collect()
    assert [(row.id, len(row.alternatives)) for row in rows] == [(1, 1), (6, 1)]
    assert found.columns == ["id", "alternatives"]
    rows_in.coalesce(1).write.parquet(str(tmp_path / "in"))
    stream = stream_of(spark, tmp_path / "in", schema)
    _, query = run(sf.where(stream, "x > 3", name="high"), tmp_path)
    ((name, counted),) = observed(query)
    assert name == "sfumato_where_high_input"
    assert (counted.rows, counted.invalid, counted.reason) == (6, 3, "no alternatives")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda d, w: sf.where(d, "v >"), ValueError, "`condition`"),
        (lambda d, w: sf.where(d, "zz > 1"), ValueError, "`condition` names `zz`, which is not"),
        (
            lambda d, w: sf.window_aggregate(d, {"m": "avg(zz)"}, **w),
            ValueError, "`aggregates['m']` names `zz`, which is not a known column; known",
        ),
        (
            lambda d, w: sf.window_aggregate(d, {"m": "avg(k)"}, **w),
            TypeError, "`aggregates['m']` needs a numeric",
        ),
        (
            lambda d, w: sf.window_aggregate(d, {"m": "avg(v)"}, existence="k", **w),
            TypeError, "`existence` must name numeric columns",
        ),
        (
            lambda d, w: sf.similarity_join(
                d.withColumn("k", F.array("k")), d, on="k", within=1, probability=0.5, **w
            ),
            TypeError, "must name columns of numbers or strings; `k` is",
        ),
        (
            lambda d, w: sf.impute(
                d, repository="none.parquet", dependencies="id -> v : 1 -> 1", attributes="v"
            ),
            ValueError, "no such file or folder",
        ),
        (lambda d, w: sf.sql(d, "SELECT 1"), TypeError, "`spark` must be a SparkSession"),
        (lambda d, w: sf.sql(d.sparkSession, 3), TypeError, "`text` must be an SQL string"),
        (lambda d, w: sf.ops.settings("2"), ValueError, "`cores` must be an integer"),
        (
            lambda d, w: sf.split_invalid(
                d.sparkSession.readStream.format("rate").load(), exclusive="value", order="value"
            ),
            ValueError, "`exclusive` needs a static frame",
        ),
        (lambda d, w: sf.samples("v", 1, 5, attributes=3), TypeError, "`attributes` must be"),
        (lambda d, w: sf.samples("v", 1, 5, attributes="prob"), ValueError, "other than `prob`"),
        (
            lambda d, w: sf.below("v", None, 4), TypeError,
            "`scale` must be a number or a column, given by name or as F.col(...); got None",
        ),
        (lambda d, w: sf.alternatives(None, "p"), TypeError, "`values` must be a column; got None"),
        (lambda d, w: sf.quantile("x", "half"), TypeError, "`q` must be a number, as in"),
        (lambda d, w: sf.ops.run_to_end(d.sparkSession, 3), TypeError, "`start` must be"),
        (lambda d, w: sf.ops.run_to_end(None, print), TypeError, "`spark` must be a SparkSession"),
    ],
)  # fmt: skip
def test_what_spark_would_say_raw_is_a_sentence(rows, call, error, message):
    texts = rows.withColumn("k", F.lit("a"))
    with pytest.raises(error, match=re.escape(message)):
        call(texts, {"window": sf.Rows(3), "order": "id"})
