"""Streams of windows: operators chained in one query, and extents of streams that fall silent."""

import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

import sfumato as sf
from streams import put, stream_of

pytestmark = pytest.mark.spark
START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "id long, ts timestamp, alternatives array<struct<prob: double, x: double>>"


def put_rows(spark, folder, number, ids):
    """Write a file of rows with these numbers, one per second."""
    rows = [
        (i, START + timedelta(seconds=i), [(0.5, float(i % 5)), (0.25, float(i % 3))]) for i in ids
    ]
    put(folder, number, spark.createDataFrame(rows, SCHEMA).toArrow())


def test_answers_in_order_for_each_key_only_are_refused_where_all_are_ranked(spark, tmp_path):
    rows = stream_of(spark, tmp_path / "in", SCHEMA)
    ordered = sf.reorder(rows, event_time="ts", arrival="ts", slack=2, key="id")
    window = {"window": sf.Range("10 seconds"), "order": "ts", "key": "id"}
    extents = sf.window_aggregate(ordered, {"m": "avg(x)"}, **window)
    with pytest.raises(ValueError, match="in order only per id"):
        sf.top_k(
            extents.selectExpr("*", "window.end AS done"), 2, by="m.mean",
            window=sf.Range("10 seconds"), order="done",
        )  # fmt: skip


@pytest.mark.parametrize("key", [(), ("id",)])
@pytest.mark.parametrize(
    "of", ["join", "self join", "neighbours", "incomplete join", "rows", "delta"]
)
def test_rows_in_order_for_each_key_only_need_this_key(spark, tmp_path, of, key):
    columns = SCHEMA + ", x double"
    rows = stream_of(spark, tmp_path / "in", columns)
    given = sf.reorder(rows, event_time="ts", arrival="ts", slack=2, key="id")
    plain = given.drop("alternatives")
    near = {"on": "x", "within": 1.0, "order": "ts", "window": "1 minute"}
    pairs = {"probability": 0.5, **near}
    aggregates = {"m": "avg(x)"}
    complete = spark.createDataFrame([(1, 1.0)], "id long, x double")
    impute = {"repository": complete, "dependencies": "id -> x : 1 -> 1", "attributes": "x"}

    def called():
        match of:
            case "join":
                odd, even = given.where("id % 2 = 1"), given.where("id % 2 = 0")
                return sf.similarity_join(odd, even, key=key, **pairs)
            case "self join":
                return sf.self_join(given, key=key, **pairs)
            case "neighbours":
                return sf.neighbours(given, key=key, **near)
            case "incomplete join":
                return sf.similarity_join(plain, plain, key=key, impute=impute, **pairs)
            case "rows":
                return sf.window_aggregate(
                    given, aggregates, window=sf.Rows(3), order="ts", key=key
                )
        delta = sf.Delta(5, on="x")
        return sf.window_aggregate(given, aggregates, window=delta, order="ts", key=key)

    if key:
        assert called().isStreaming
    else:
        with pytest.raises(ValueError, match="in order only per id: add id to `key`"):
            called()


def test_an_end_of_a_window_keeps_the_order_of_the_windows(spark, tmp_path):
    rows = stream_of(spark, tmp_path / "in", SCHEMA + ", x double")
    given = sf.reorder(rows, event_time="ts", arrival="ts", slack=2, key="id").drop("alternatives")
    means = sf.window_aggregate(
        given, {"m": "avg(x)"}, window=sf.Range("1 minute"), order="ts", key="id"
    )
    met = sf.extent_join(means, means.withColumnRenamed("m", "n"), key="id")
    for extents in (means, met.select("window", "left.id", "left.m")):
        done = extents.selectExpr("id", "window.end AS done", "m")
        near = {"on": "m", "within": 1.0, "order": "done", "window": "1 hour"}
        assert sf.neighbours(done, key="id", **near).isStreaming
        with pytest.raises(ValueError, match="in order only per id: add id to `key`"):
            sf.neighbours(done, **near)


@contextmanager
def started(spark, answers, tmp_path):
    """Start a query into the table `silent`, and yield it and a function that waits for rows."""
    query = (
        answers.writeStream.format("memory").queryName("silent")
        .option("checkpointLocation", str(tmp_path / "c")).start()
    )  # fmt: skip

    def until(count):
        deadline = time.monotonic() + 120
        while spark.table("silent").count() < count and time.monotonic() < deadline:
            assert query.exception() is None
            time.sleep(0.3)
        rows = spark.sql("SELECT unix_timestamp(window.end) AS e, * FROM silent").collect()
        return sorted((r["e"] - int(START.timestamp()), *r[2:]) for r in rows)

    try:
        yield query, until
    finally:
        query.stop()
        spark.catalog.dropTempView("silent")


def late_rows(query, operator):
    return sum(
        row.late
        for progress in query.recentProgress
        for name, row in progress.observedMetrics.items()
        if operator in name and "input" not in name
    )


def test_a_silent_stream_gives_out_its_open_extents_once(spark, tmp_path):
    put_rows(spark, tmp_path / "in", 0, range(10))
    out = sf.window_aggregate(
        stream_of(spark, tmp_path / "in", SCHEMA),
        {"n": "count(id)"},
        window=sf.Range("4 seconds", idle_timeout="2 seconds"),
        order="ts",
    )
    with started(spark, out.select("window", "held"), tmp_path) as (query, until):
        assert until(3) == [(4, 4), (8, 4), (12, 2)]
        # 10 and 11 are late: their extent has been emitted
        put_rows(spark, tmp_path / "in", 1, [10, 11, 12, 13])
        assert until(4) == [(4, 4), (8, 4), (12, 2), (16, 2)]
        assert late_rows(query, "window") == 2


@pytest.mark.nightly
def test_a_join_of_windows_answers_without_a_silent_stream(spark, tmp_path):
    put_rows(spark, tmp_path / "a", 0, range(10))
    put_rows(spark, tmp_path / "b", 0, range(6))
    sides = {name: stream_of(spark, tmp_path / name, SCHEMA) for name in "ab"}
    out = sf.extent_join(
        *(
            sf.window_aggregate(
                side, {"n": "count(id)"}, window=sf.Range("4 seconds"), order="ts", name=name
            )
            for name, side in sides.items()
        ),
        how="left",
        idle_timeout="2 seconds",
        name="both",
    ).selectExpr("window", "left.held", "right.held AS other")
    with started(spark, out, tmp_path) as (query, until):
        assert until(2) == [(4, 4, 4), (8, 4, None)]
        put_rows(spark, tmp_path / "b", 1, range(6, 14))  # its extent until 8 is late
        put_rows(spark, tmp_path / "a", 1, range(10, 14))
        assert until(3) == [(4, 4, 4), (8, 4, None), (12, 4, 4)]
        assert late_rows(query, "extents_both") == 1


@pytest.mark.parametrize(
    ("grouped", "mode", "way_out"),
    [(True, "append", 'write mode = "update"'), (False, "complete", "Remove `mode`")],
)
def test_a_sink_in_a_mode_that_spark_refuses_is_told_the_way_out(
    spark, tmp_path, grouped, mode, way_out
):
    from sfumato.cli.pipeline.model import PipelineError, Sink
    from sfumato.cli.sink_query import SinkQuery, start_sink

    put_rows(spark, tmp_path / "in", 0, range(3))
    stream = stream_of(spark, tmp_path / "in", SCHEMA)
    rows = sf.reorder(stream, event_time="ts", arrival="ts", estimator="max")
    answers = rows.groupBy("late").count() if grouped else rows
    sink = Sink(name="out", query="answers", mode=mode)
    with pytest.raises(PipelineError, match=way_out):
        start_sink(
            SinkQuery(sink, "out", [answers], start_sink), folder=str(tmp_path / "c"), once=True
        )
