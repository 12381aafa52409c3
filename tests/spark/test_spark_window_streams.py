"""Streams of windows: operators chained in one query, and extents of streams that fall silent."""

from __future__ import annotations

import json
import os
import time
from datetime import UTC, datetime, timedelta

import pytest

import sfumato as sf

pytestmark = pytest.mark.spark
START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "id long, ts timestamp, alternatives array<struct<prob: double, x: double>>"


def put(folder, number, ids):
    folder.mkdir(exist_ok=True)
    lines = [
        json.dumps(
            {
                "id": i,
                "ts": (START + timedelta(seconds=i)).isoformat(),
                "alternatives": [{"prob": 0.5, "x": i % 5}, {"prob": 0.25, "x": i % 3}],
            }
        )
        for i in ids
    ]
    path = folder / f"{number:03d}.json"
    path.write_text("\n".join(lines))
    os.utime(path, (number, number))


def stream_of(spark, folder):
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.json(str(folder))


def test_reorder_window_and_ranking_run_in_one_streaming_query(spark, tmp_path):
    """The two devices of highest mean in the extents of each ten seconds, from disordered rows."""
    rows = [(i, i % 4, i * i % 37 + i / 128, i + (i * 7 % 11) * 0.9) for i in range(120)]
    rows.sort(key=lambda row: row[3])
    schema = "id long, device long, x double, ts timestamp, arrival timestamp"
    for number in range(2):
        (tmp_path / "in").mkdir(exist_ok=True)
        part = rows[60 * number : 60 * number + 60]
        lines = [
            json.dumps(
                {
                    "device": device,
                    "x": x,
                    "ts": (START + timedelta(seconds=i)).isoformat(),
                    "arrival": (START + timedelta(seconds=arrival)).isoformat(),
                }
            )
            for i, device, x, arrival in part
        ]
        path = tmp_path / "in" / f"{number}.json"
        path.write_text("\n".join(lines))
        os.utime(path, (number, number))

    def extents(df, **each):
        ordered = sf.reorder(df, event_time="ts", arrival="arrival", slack=2, **each)
        extents = sf.window_aggregate(
            ordered,
            {"m": "avg(x)"},
            window=sf.Range("10 seconds"),
            order="ts",
            key="device",
        )
        return extents.selectExpr("*", "window.end AS done")

    def ranked(df):
        top = sf.Top(2, every="10 seconds")
        return sf.top_k(df, top, by="m", window=sf.Range("10 seconds"), order="done")

    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    stream = extents(reader.json(str(tmp_path / "in")))
    with pytest.raises(ValueError, match="in order for each device only"):
        ranked(extents(reader.json(str(tmp_path / "in")), key="device"))
    query = (
        ranked(stream).writeStream.format("parquet")
        .option("path", str(tmp_path / "out")).option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    came = spark.read.parquet(str(tmp_path / "out")).collect()
    static = extents(spark.read.schema(schema).json(str(tmp_path / "in"))).collect()
    given = spark.read.schema(schema).json(str(tmp_path / "in"))
    late = sf.reorder(given, event_time="ts", arrival="arrival", slack=2).where("late")
    assert late.count() > 0
    expected = set()
    for extent in static:
        others = [e["m"] for e in static if e["done"] == extent["done"]]
        above = sum(mean > extent["m"] for mean in others)
        if above < 2:
            instant = extent["done"] + timedelta(seconds=10)  # the extent of `done` is now inside
            expected.add((instant, above + 1, extent["device"], extent["m"]))
    last = max(row["time"] for row in came)
    assert last >= max(instant for instant, *_ in expected) - timedelta(seconds=20)
    assert {(r["time"], r["rank"], r["row"]["device"], r["score"]) for r in came} == {
        answer for answer in expected if answer[0] <= last
    }


def test_join_filter_and_window_run_in_one_streaming_query(spark, tmp_path):
    for number in range(4):
        put(tmp_path / "in", number, range(10 * number, 10 * number + 10))

    def chained(df):
        pairs = sf.similarity_join(
            df, df, on="x", within=0.5, probability=0.1, window=sf.Rows(5), order="id"
        )
        # A pair is found when its later tuple arrives: by that time pairs come in order.
        found = pairs.selectExpr("greatest(left.ts, right.ts) AS ts", "alternatives")
        high = sf.where(found, "left_x >= 1")
        return sf.window_aggregate(
            high,
            {"n": "count(*)", "total": "sum(left_x)"},
            window=sf.Range("8 seconds"),
            order="ts",
        )

    query = (
        chained(stream_of(spark, tmp_path / "in")).writeStream.format("parquet")
        .option("path", str(tmp_path / "out")).option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    came = spark.read.parquet(str(tmp_path / "out")).collect()
    static = chained(spark.read.schema(SCHEMA).json(str(tmp_path / "in"))).collect()
    whole = {row["window"]["end"]: row for row in static}
    assert len(came) == len({row["window"]["end"] for row in came}) == len(whole) - 1
    for row in came:  # the last extent is still open
        other = whole[row["window"]["end"]]
        assert row["held"] == other["held"]
        for name in ("n", "total"):
            assert row[name]["mean"] == pytest.approx(other[name]["mean"], abs=1e-12)
            assert row[name]["stddev"] == pytest.approx(other[name]["stddev"], abs=1e-9)


def test_a_silent_stream_gives_out_its_open_extents_once(spark, tmp_path):
    put(tmp_path / "in", 0, range(10))
    out = sf.window_aggregate(
        stream_of(spark, tmp_path / "in"),
        {"n": "count(id)"},
        window=sf.Range("4 seconds", idle_timeout="2 seconds"),
        order="ts",
    )
    query = (
        out.writeStream.format("memory").queryName("silent")
        .option("checkpointLocation", str(tmp_path / "c")).start()
    )  # fmt: skip

    def ends():
        rows = spark.sql("SELECT window.end AS e, held FROM silent").collect()
        return sorted((int((r["e"].replace(tzinfo=UTC) - START).total_seconds()), r["held"])
                      for r in rows)  # fmt: skip

    def until(count):
        deadline = time.monotonic() + 120
        while len(ends()) < count and time.monotonic() < deadline:
            assert query.exception() is None
            time.sleep(0.3)
        return ends()

    try:
        assert until(3) == [(4, 4), (8, 4), (12, 2)]
        put(tmp_path / "in", 1, [10, 11, 12, 13])  # 10 and 11 are late: their extent is out
        assert until(4) == [(4, 4), (8, 4), (12, 2), (16, 2)]
        counted = sum(
            row.late
            for progress in query.recentProgress
            for name, row in progress.observedMetrics.items()
            if "window" in name and "input" not in name
        )
        assert counted == 2
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("grouped", "mode", "way_out"),
    [(True, "append", 'set `mode = "update"`'), (False, "complete", "Leave out `mode`")],
)
def test_a_sink_in_a_mode_that_spark_refuses_is_told_the_way_out(
    spark, tmp_path, grouped, mode, way_out
):
    from sfumato.cli.follow import Running
    from sfumato.cli.pipeline.model import Sink
    from sfumato.cli.pipeline.section import PipelineError
    from sfumato.cli.run import start

    put(tmp_path / "in", 0, range(3))
    rows = sf.reorder(
        stream_of(spark, tmp_path / "in"), event_time="ts", arrival="ts", estimator="max"
    )
    answers = rows.groupBy("late").count() if grouped else rows
    sink = Sink("out", "answers", mode=mode)
    with pytest.raises(PipelineError, match=way_out):
        start(Running(sink, "out", answers), folder=str(tmp_path / "c"), once=True)
