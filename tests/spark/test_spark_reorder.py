"""sf.reorder on real Spark: the same rows as the operator, whatever the micro-batches do."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.functions import lit

import sfumato as sf
from sfumato.operators.disorder.reorder import Reorder
from sfumato.tables.disorder.ordered_rows import RowReorder

pytestmark = pytest.mark.spark

COLUMNS = "device string, event timestamp, arrival timestamp, value double"
SETTINGS = [
    {"drop_ratio": 0.02, "estimator": "conformal"},
    {"drop_ratio": 0.02, "estimator": "normal"},
    {"slack": 20},
    {"max_delay": "5 seconds"},
    {"estimator": "max", "max_buffer": 50},
]


def disordered(rows, devices, seed):
    """A table in order of arrival: exponential delays, some heavy; distinct arrivals."""
    rng = np.random.default_rng(seed)
    event = np.cumsum(rng.exponential(1e6, rows)).astype(np.int64)
    delay = rng.exponential(3e6, rows) * np.where(rng.random(rows) < 0.02, 20, 1)
    arrival = event + delay.astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    arrival = arrival[order] + np.arange(rows)
    stamp = pa.timestamp("us", tz="UTC")
    return pa.table(
        {
            "device": [f"d{i}" for i in rng.integers(0, devices, rows)],
            "event": pa.array(event[order]).cast(stamp),
            "arrival": pa.array(arrival).cast(stamp),
            "value": rng.normal(size=rows),
        }
    )


def by_operator(table, settings):
    """What one operator a device gives, as (device, value, late, punctuation) in order."""
    expected = {}
    for device in sorted(set(table.column("device").to_pylist())):
        mask = pa.compute.equal(table.column("device"), device)
        own = table.filter(mask)
        event, arrival = (own.column(c).cast(pa.int64()).to_numpy() for c in ("event", "arrival"))
        delay = {"max_delay": 5_000_000} if "max_delay" in settings else {}
        operator = RowReorder(Reorder(**{**settings, **delay}))
        released = operator.process(np.zeros(own.num_rows, np.int64), event, arrival, own)
        expected[device] = (flat(released), flat(operator.flush()))
    return expected


def flat(released):
    unknown = np.iinfo(np.int64).min
    punctuation = [None if p == unknown else int(p) for p in released.punctuation]
    late = released.late.tolist()
    return list(zip(released.rows.column("value").to_pylist(), late, punctuation, strict=True))


def by_device(table):
    got = {}
    punctuation = table.column("punctuation").cast(pa.int64()).to_pylist()
    for device, *row in zip(
        table.column("device").to_pylist(),
        table.column("value").to_pylist(),
        table.column("late").to_pylist(),
        punctuation,
        strict=True,
    ):
        got.setdefault(device, []).append(tuple(row))
    return got


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_static_frame_comes_out_whole_as_the_operator_says(spark, settings):
    table = disordered(3000, 5, seed=1)
    df = spark.createDataFrame(table).repartition(3)
    out = sf.reorder(df, event_time="event", arrival="arrival", key="device", **settings)
    assert out.columns == ["device", "event", "arrival", "value", "late", "punctuation"]
    got = by_device(out.toArrow())
    for device, (before_end, at_end) in by_operator(table, settings).items():
        assert got[device] == before_end + at_end


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_stream_comes_out_as_the_operator_says_in_any_micro_batches(spark, tmp_path, settings):
    table = disordered(2400, 4, seed=2)
    cuts = [0, 1, 700, 701, 1500, 2400]
    source = write_files(table, cuts, tmp_path / "in")
    out = run_stream(spark, source, tmp_path, settings)
    got = by_device(out)
    for device, (before_end, _) in by_operator(table, settings).items():
        assert got.get(device, []) == before_end


def write_files(table, cuts, folder):
    import os

    folder.mkdir(parents=True, exist_ok=True)
    for i, (low, high) in enumerate(pairwise(cuts)):
        path = folder / f"{i:04d}.parquet"
        pq.write_table(table.slice(low, high - low), path)
        os.utime(path, (1_000_000 + i * 10, 1_000_000 + i * 10))
    return folder


def run_stream(spark, source, tmp_path, settings, key="device"):
    """Read the folder one file a micro-batch; the output in order of batch and row."""
    collected = []
    stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1).parquet(str(source))
    out = sf.reorder(stream, event_time="event", arrival="arrival", key=key, **settings)
    query = (
        out.writeStream.foreachBatch(lambda df, _: collected.append(df.toArrow()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return pa.concat_tables([c for c in collected if c.num_rows])


@pytest.mark.parametrize("paces", [(1, 4), (4, 1)], ids=str)
def test_two_sources_at_any_pace_give_what_the_static_frame_gives(spark, tmp_path, paces):
    tables = {"a": disordered(900, 1, seed=7), "b": disordered(900, 1, seed=8)}
    settings = {"source": ["topic"], "expected_sources": 2, "drop_ratio": 0.02}
    times = {"event_time": "event", "arrival": "arrival", "estimator": "conformal"}
    streams, frames = [], []
    for (topic, table), pace in zip(tables.items(), paces, strict=True):
        folder = write_files(table, range(0, 901, 75), tmp_path / topic)
        reader = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", pace)
        streams.append(reader.parquet(str(folder)).withColumn("topic", lit(topic)))
        frames.append(spark.createDataFrame(table).withColumn("topic", lit(topic)))
    collected = []
    query = (
        sf.reorder(streams[0].union(streams[1]), **settings, **times)
        .writeStream.foreachBatch(lambda df, _: collected.append(df.toArrow()))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    got = rows_of(pa.concat_tables([c for c in collected if c.num_rows]))
    static = rows_of(sf.reorder(frames[0].union(frames[1]), **settings, **times).toArrow())
    on_time = [row for row in got if not row[3]]
    assert len(on_time) > 1500
    # on a stream the last rows are still held
    assert on_time == [row for row in static if not row[3]][: len(on_time)]
    assert sorted(row for row in got if row[3]) == sorted(row for row in static if row[3])


def rows_of(table):
    event = table.column("event").cast(pa.int64()).to_pylist()
    topic, value, late = (table.column(c).to_pylist() for c in ("topic", "value", "late"))
    punctuation = table.column("punctuation").cast(pa.int64()).to_pylist()
    return list(zip(event, topic, value, late, punctuation, strict=True))


def test_a_restart_from_the_checkpoint_continues_exactly(spark, tmp_path):
    table, settings = disordered(2000, 3, seed=3), SETTINGS[0]
    half = write_files(table, [0, 300, 900], tmp_path / "in")
    first = run_stream(spark, half, tmp_path, settings)
    pq.write_table(table.slice(900), half / "9999.parquet")
    second = run_stream(spark, half, tmp_path, settings)
    got = by_device(pa.concat_tables([first, second]))
    for device, (before_end, _) in by_operator(table, settings).items():
        assert got[device] == before_end


def test_a_checkpoint_of_other_settings_is_refused(spark, tmp_path):
    table = disordered(200, 1, seed=4)
    source = write_files(table, [0, 100], tmp_path / "in")
    run_stream(spark, source, tmp_path, {"slack": 5})
    pq.write_table(table.slice(100), source / "9999.parquet")
    with pytest.raises(Exception, match="checkpoint belongs to another query"):
        run_stream(spark, source, tmp_path, {"slack": 6})


def test_rows_without_times_come_out_late_and_are_counted(spark, tmp_path):
    table = disordered(300, 2, seed=5)
    event = table.column("event").to_pylist()
    event[7] = event[200] = None
    column = pa.array(event, pa.timestamp("us", tz="UTC"))
    table = table.set_column(1, "event", column)
    df = spark.createDataFrame(table)
    observed = []
    stream = sf.reorder(df, event_time="event", arrival="arrival", key="device", slack=3)
    out = stream.toArrow()
    assert out.num_rows == 300
    lost = out.filter(pa.compute.is_null(out.column("event")))
    assert lost.column("late").to_pylist() == [True, True]
    assert lost.column("punctuation").to_pylist() == [None, None]
    source = write_files(table, [0, 300], tmp_path / "in")
    frame = sf.reorder(
        spark.readStream.schema(COLUMNS).parquet(str(source)),
        event_time="event",
        arrival="arrival",
        slack=3,
    )
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "cp"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    for progress in query.recentProgress:
        observed += [row for name, row in progress.observedMetrics.items() if "reorder" in name]
    assert sum(row.rows for row in observed) == 300
    assert sum(row.invalid for row in observed) == 2
    times = sorted(t.timestamp() for t in event if t is not None)
    assert observed[-1].held == 3
    assert observed[-1].oldest <= times[-1] * 1e6
    assert observed[-1].punctuation < observed[-1].oldest
    assert observed[-1].lag == round(times[-1] * 1e6) - observed[-1].punctuation


def test_an_idle_stream_gives_out_what_it_holds(spark, tmp_path):
    import time

    table = disordered(200, 3, seed=6)
    source = write_files(table, [0, 200], tmp_path / "in")
    stream = spark.readStream.schema(COLUMNS).parquet(str(source))
    out = sf.reorder(
        stream,
        event_time="event",
        arrival="arrival",
        key="device",
        slack=50,
        idle_timeout="2 seconds",
    )
    query = (
        out.writeStream.format("memory")
        .queryName("idle_out")
        .option("checkpointLocation", str(tmp_path / "cp"))
        .start()
    )
    try:
        deadline = time.monotonic() + 60
        while spark.table("idle_out").count() < 200 and time.monotonic() < deadline:
            time.sleep(0.5)
        assert spark.table("idle_out").where("not late").count() == 200
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"slack": 3, "drop_ratio": 0.1}, "exclude each other"),
        ({}, "one of `drop_ratio`"),
        ({"drop_ratio": 1.5}, "drop_ratio"),
        ({"slack": 3, "event_time": "evnt"}, "did you mean `event`"),
        ({"slack": 3, "key": ["device", "devise"]}, "`key` names a column `devise`"),
        ({"slack": 3, "arrival": "value"}, "`value` is double"),
        ({"slack": 3, "idle_timeout": "5 parsecs"}, "duration like"),
        ({"slack": 3, "estimator": "best"}, "must be one of"),
        ({"slack": 3, "source": "topik"}, "`source` names a column `topik`"),
        ({"slack": 3, "expected_sources": 2}, "`expected_sources` needs `source`"),
    ],
)
def test_wrong_arguments_are_named_before_anything_runs(spark, arguments, message):
    df = spark.createDataFrame([], COLUMNS)
    with pytest.raises((ValueError, TypeError), match=message):
        sf.reorder(df, **{"event_time": "event", "arrival": "arrival", **arguments})


def test_a_frame_splits_into_what_is_late_and_what_is_not(spark):
    df = spark.createDataFrame(disordered(500, 2, seed=9))
    out = sf.reorder(df, event_time="event", arrival="arrival", slack=3)
    on_time, late = sf.split_late(out)
    assert on_time.columns == late.columns == out.columns
    assert (on_time.count(), late.count()) == (
        out.where("not late").count(),
        out.where("late").count(),
    )
    with pytest.raises(ValueError, match="reorder it first"):
        sf.split_late(df)


def test_reorders_chain_and_the_second_judges_anew(spark):
    df = spark.createDataFrame(disordered(600, 3, seed=10))
    times = {"event_time": "event", "arrival": "arrival"}
    first = sf.reorder(df, key="device", slack=2, **times)
    second = sf.reorder(first, slack=600, **times)
    assert second.columns == first.columns
    out = second.toArrow()
    assert not any(out.column("late").to_pylist())
    event = out.column("event").cast(pa.int64()).to_numpy()
    assert (np.diff(event) >= 0).all()
    assert out.num_rows == 600


def test_an_empty_frame_gives_an_empty_frame(spark):
    df = spark.createDataFrame([], COLUMNS)
    out = sf.reorder(df, event_time="event", arrival="arrival", slack=3)
    assert out.collect() == []


def test_late_rows_go_to_a_place_of_their_own_in_one_query_that_computes_them_once(spark, tmp_path):
    table = disordered(300, 1, 11)
    for i in range(3):
        pq.write_table(table.slice(100 * i, 100), tmp_path / f"{i}.parquet")
    stream = spark.readStream.schema(COLUMNS).option("maxFilesPerTrigger", 1)
    stream = stream.parquet(str(tmp_path / "*.parquet"))
    ordered = stream.transform(
        sf.reorder, event_time="event", arrival="arrival", slack=5, name="split"
    )
    parts = {"on time": [], "late": []}

    def write(batch, number):
        batch.persist()
        for name, part in zip(parts, sf.split_late(batch), strict=True):
            parts[name] += [(row.event, row.late) for row in part.collect()]
        batch.unpersist()

    query = (
        ordered.writeStream.foreachBatch(write)
        .option("checkpointLocation", str(tmp_path / "state"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    taken = [r.observedMetrics["sfumato_reorder_split"].rows for r in query.recentProgress]
    assert sum(taken) == 300  # twice that, if each part computed them
    assert all(late for _, late in parts["late"])
    assert not any(late for _, late in parts["on time"])
    assert parts["late"]
    assert len(parts["late"]) + len(parts["on time"]) >= 290  # some are held yet
    assert [event for event, _ in parts["on time"]] == sorted(e for e, _ in parts["on time"])
