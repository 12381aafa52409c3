"""A stream that is run to its end gives all answers of the static frame, and can be continued."""

from threading import Timer

import pytest
from pyspark.errors import StreamingQueryException

import sfumato as sf
from sfumato.spark.runtime.run import EMPTY_BATCHES_SETTING
from two_sources import PART, ROWS, SCHEMA, put, source

pytestmark = pytest.mark.spark


def stream(spark, folder):
    """Return the files of a folder as a stream."""
    return spark.readStream.schema(SCHEMA).json(str(folder / "in"))


def ordered(spark, folder, **more):
    """Return the stream in order, behind a controller that holds three rows."""
    rows = stream(spark, folder)
    return sf.reorder(rows, event_time="ts", arrival="arrival", slack=3, **more)


def writer(frame, folder, sink="noop"):
    """Return the writer of a frame to a sink, up to the end of what is there."""
    kept = frame.writeStream.option("checkpointLocation", str(folder / "state"))
    return kept.option("path", str(folder / "out")).format(sink).trigger(availableNow=True)


def test_a_run_that_fails_in_its_last_micro_batch_ends_the_stream_when_it_is_run_again(
    spark, tmp_path
):
    put(tmp_path / "in", 0, source(1)[:-5])
    came, failures = [], iter([None, RuntimeError("the sink is full")])

    def sink(rows, _):
        if failure := next(failures, None):
            raise failure
        came.extend(row.id for row in rows.collect())

    def start():
        return writer(ordered(spark, tmp_path), tmp_path).foreachBatch(sink).start()

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        sf.ops.run_to_end(spark, start)
    assert 0 < len(came) < ROWS
    put(tmp_path / "in", 1, [row | {"id": row["id"] + ROWS} for row in source(1)[:-5]])
    sf.ops.run_to_end(spark, start)
    assert sorted(came) == [1000 + i for i in range(2 * ROWS)]


def test_a_query_that_waits_for_more_rows_is_stopped_with_what_to_write(spark, tmp_path):
    put(tmp_path / "in", 0, source(1)[:20])

    def start():
        waiting = writer(ordered(spark, tmp_path), tmp_path).trigger(processingTime="0 seconds")
        return waiting.start()

    with pytest.raises(ValueError, match=r"write .trigger\(availableNow=True\)"):
        sf.ops.run_to_end(spark, start)
    assert not spark.streams.active


def test_a_query_without_a_checkpoint_is_refused_and_not_run_twice_unseen(spark, tmp_path):
    put(tmp_path / "in", 0, source(1)[:20])

    def start():
        rows = ordered(spark, tmp_path).writeStream.format("noop")
        return rows.trigger(availableNow=True).start()

    with pytest.raises(ValueError, match=r"write .option\("):
        sf.ops.run_to_end(spark, start)
    assert not spark.streams.active


def test_a_query_with_an_idle_timeout_ends_too(spark, tmp_path):
    """Spark repeats its empty micro-batches forever, with any trigger."""
    put(tmp_path / "in", 0, source(1)[:20])
    runs = []
    limit = Timer(300, lambda: [run.stop() for run in runs])
    limit.start()

    def start():
        rows = ordered(spark, tmp_path, idle_timeout="1 hour")
        runs.append(writer(rows, tmp_path, "parquet").start())
        return runs[-1]

    sf.ops.run_to_end(spark, start)
    limit.cancel()
    assert [run.lastProgress.batchId for run in runs] == [0, 1]
    assert spark.read.parquet(str(tmp_path / "out")).count() == 20
    assert spark.conf.get(EMPTY_BATCHES_SETTING) == "true"


def test_start_must_return_a_query(spark):
    with pytest.raises(TypeError, match="must return the streaming query"):
        sf.ops.run_to_end(spark, lambda: None)
    assert spark.conf.get("spark.sfumato.ends", None) is None


def test_a_frame_that_was_made_before_is_refused_because_its_operators_would_not_end(
    spark, tmp_path
):
    put(tmp_path / "in", 0, source(1)[:20])
    rows = ordered(spark, tmp_path)
    with pytest.raises(ValueError, match="`start` must create the whole frame"):
        sf.ops.run_to_end(spark, lambda: writer(rows, tmp_path).start())
    assert not spark.streams.active


def test_a_query_whose_operators_hold_nothing_is_run_once(spark, tmp_path):
    put(tmp_path / "in", 0, source(1)[:20])
    runs = []

    def start():
        some = sf.where(stream(spark, tmp_path), "x >= 0")
        runs.append(writer(some, tmp_path, "parquet").start())
        return runs[-1]

    for night in (1, 2):
        assert sf.ops.run_to_end(spark, start) is runs[-1]
        assert len(runs) == night
        assert spark.read.parquet(str(tmp_path / "out")).count() == 20 * night
        put(tmp_path / "in", night, source(1)[20 * night : 20 * night + 20])


def test_files_that_arrive_before_the_end_are_emitted_too(spark, tmp_path):
    rows, runs = source(0), []
    put(tmp_path / "in", 0, rows[:PART])

    def start():
        for part in range(1, 4) if len(runs) == 1 else ():  # several micro-batches
            put(tmp_path / "in", part, rows[part * PART : part * PART + PART])
        files = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        read = files.json(str(tmp_path / "in"))
        frame = sf.reorder(read, event_time="ts", arrival="arrival", slack=3)
        runs.append(writer(frame, tmp_path, "parquet").start())
        return runs[-1]

    assert sf.ops.run_to_end(spark, start) is runs[-1]
    assert len(runs) == 3
    assert spark.read.parquet(str(tmp_path / "out")).count() == 4 * PART


def nights(spark, folder, made, query):
    """Run a query to its end once per night; return its runs, and the sink's rows per night.

    made : minutes of the rows of each night
    """
    found, runs = [], []

    def start():
        rows = spark.readStream.schema("made timestamp, arrival timestamp, id int")
        rows = rows.parquet(str(folder / "in"))
        rows = sf.reorder(rows, event_time="made", arrival="arrival", max_delay="5 minutes")
        runs.append(writer(query(rows), folder, "parquet").start())
        return runs[-1]

    for minutes in made:
        rows = spark.createDataFrame([(m,) for m in minutes], "id int").selectExpr(
            "timestamp_seconds(id * 60) AS made", "timestamp_seconds(id * 60 + 5) AS arrival", "id"
        )
        rows.coalesce(1).write.mode("append").parquet(str(folder / "in"))
        assert sf.ops.run_to_end(spark, start) is runs[-1]
        assert len({frozenset(run.lastProgress.observedMetrics) for run in runs[-2:]}) == 1
        found.append(spark.read.parquet(str(folder / "out")).collect())
    return runs, found


def test_each_night_adds_its_rows_and_a_window_open_at_an_end_is_emitted_once(spark, tmp_path):
    def hours(ordered):
        window = sf.Range("1 hour")
        return sf.window_aggregate(
            ordered, {"n": "count(*)"}, window=window, order="made", name="hours"
        )

    made = [range(0, 150), range(150, 300)]
    runs, found = nights(spark, tmp_path, made, hours)
    shown = [
        sorted((f"{row.window.start:%H:%M}", row.n, row.late) for row in rows) for rows in found
    ]
    first = [("00:00", 60.0, 0), ("01:00", 60.0, 0), ("02:00", 30.0, 0)]
    second = [("03:00", 60.0, 0), ("04:00", 60.0, 0)]
    assert shown == [first, first + second]
    late = [
        sum(p.observedMetrics["sfumato_window_hours"].late for p in run.recentProgress)
        for run in runs
    ]
    assert late == [0, 0, 30, 0]  # minutes 150 to 179, of the hour emitted the night before


def test_a_checkpoint_of_a_query_that_was_started_otherwise_is_refused(spark, tmp_path):
    put(tmp_path / "in", 0, source(1)[:1])

    def start():
        return writer(ordered(spark, tmp_path), tmp_path).start()

    start().awaitTermination()
    with pytest.raises(ValueError, match="without run_to_end"):
        sf.ops.run_to_end(spark, start)
