"""sf.reorder on real Spark: the same rows as the operator, whatever the micro-batches do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.functions import lit

import sfumato as sf
from sfumato.operators.disorder.reorder import Reorder
from sfumato.tables.disorder.table_reorder import RowReorder
from streams import observed, put_parts, run, stream_of

pytestmark = pytest.mark.spark

COLUMNS = "device string, event timestamp, arrival timestamp, value double"
TIMES = {"event_time": "event", "arrival": "arrival"}
SETTINGS = {"drop_ratio": 0.02, "estimator": "conformal"}


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


def by_operator(table):
    """What one operator a device gives, as (value, late, punctuation) in order."""
    expected = {}
    for device in sorted(set(table.column("device").to_pylist())):
        own = table.filter(pa.compute.equal(table.column("device"), device))
        event, arrival = (own.column(c).cast(pa.int64()).to_numpy() for c in ("event", "arrival"))
        operator = RowReorder(Reorder(**SETTINGS))
        released = operator.process(np.zeros(own.num_rows, np.int64), event, arrival, own)
        expected[device] = (flat(released), flat(operator.flush()))
    return expected


def flat(released):
    unknown = np.iinfo(np.int64).min
    punctuation = [None if p == unknown else int(p) for p in released.punctuation]
    late = released.late.tolist()
    return list(zip(released.rows.column("value").to_pylist(), late, punctuation, strict=True))


def by_device(rows):
    got = {}
    for device, *row in rows:
        got.setdefault(device, []).append(tuple(row))
    return got


def ordered(frame, **settings):
    out = sf.reorder(frame, **TIMES, key="device", **settings)
    return out.selectExpr("device", "value", "late", "unix_micros(punctuation)")


def test_a_static_frame_comes_out_whole_as_the_operator_says(spark):
    table = disordered(3000, 5, seed=1)
    df = spark.createDataFrame(table).repartition(3)
    added = sf.reorder(df, **TIMES, slack=1).columns
    assert added == ["device", "event", "arrival", "value", "late", "punctuation"]
    got = by_device(ordered(df, **SETTINGS).collect())
    for device, (before_end, at_end) in by_operator(table).items():
        assert got[device] == before_end + at_end


def test_a_stream_in_any_micro_batches_and_after_a_restart_answers_as_the_operator(spark, tmp_path):
    table, source = disordered(2400, 4, seed=2), tmp_path / "in"
    put_parts(source, table, [0, 1, 700, 701])
    first, _ = run(ordered(stream_of(spark, source, COLUMNS), **SETTINGS), tmp_path)
    put_parts(source, table, [701, 1500, 2400])
    second, _ = run(ordered(stream_of(spark, source, COLUMNS), **SETTINGS), tmp_path)
    got = by_device(first + second)
    for device, (before_end, _) in by_operator(table).items():
        assert got.get(device, []) == before_end
    put_parts(source, table, [2399, 2400])
    with pytest.raises(Exception, match="checkpoint belongs to another query"):
        run(ordered(stream_of(spark, source, COLUMNS), slack=6), tmp_path)


@pytest.mark.parametrize("paces", [(1, 4), (4, 1)], ids=str)
def test_two_sources_at_any_pace_give_what_the_static_frame_gives(spark, tmp_path, paces):
    tables = {"a": disordered(900, 1, seed=7), "b": disordered(900, 1, seed=8)}
    settings = {"source": ["topic"], "expected_sources": 2, "drop_ratio": 0.02}
    times = {"event_time": "event", "arrival": "arrival", "estimator": "conformal"}
    streams, frames = [], []
    for (topic, table), pace in zip(tables.items(), paces, strict=True):
        put_parts(tmp_path / topic, table, range(0, 901, 75))
        stream = stream_of(spark, tmp_path / topic, COLUMNS, pace)
        streams.append(stream.withColumn("topic", lit(topic)))
        frames.append(spark.createDataFrame(table).withColumn("topic", lit(topic)))
    shown = ("event", "topic", "value", "late", "punctuation")
    joined = sf.reorder(streams[0].union(streams[1]), **settings, **times).select(*shown)
    got = list(map(tuple, run(joined, tmp_path)[0]))
    static = sf.reorder(frames[0].union(frames[1]), **settings, **times).select(*shown)
    static = list(map(tuple, static.collect()))
    on_time = [row for row in got if not row[3]]
    assert len(on_time) > 1500
    # on a stream the last rows are still held
    assert on_time == [row for row in static if not row[3]][: len(on_time)]
    assert sorted(row for row in got if row[3]) == sorted(row for row in static if row[3])


def test_rows_without_times_come_out_late_and_are_counted(spark, tmp_path):
    table = disordered(300, 2, seed=5)
    event = table.column("event").to_pylist()
    event[7] = event[200] = None
    column = pa.array(event, pa.timestamp("us", tz="UTC"))
    table = table.set_column(1, "event", column)
    df = spark.createDataFrame(table)
    stream = sf.reorder(df, event_time="event", arrival="arrival", key="device", slack=3)
    out = stream.toArrow()
    assert out.num_rows == 300
    lost = out.filter(pa.compute.is_null(out.column("event")))
    assert lost.column("late").to_pylist() == [True, True]
    assert lost.column("punctuation").to_pylist() == [None, None]
    put_parts(tmp_path / "in", table, [0, 300])
    frame = sf.reorder(stream_of(spark, tmp_path / "in", COLUMNS), **TIMES, slack=3)
    metrics = [row for name, row in observed(run(frame, tmp_path)[1]) if "reorder" in name]
    assert sum(row.rows for row in metrics) == 300
    assert sum(row.invalid for row in metrics) == 2
    times = sorted(t.timestamp() for t in event if t is not None)
    last = metrics[-1]
    assert last.held == 3
    assert last.punctuation < last.oldest <= times[-1] * 1e6
    assert last.lag == round(times[-1] * 1e6) - last.punctuation


def test_an_idle_stream_gives_out_what_it_holds(spark, tmp_path):
    import time

    table = disordered(200, 3, seed=6)
    put_parts(tmp_path / "in", table, [0, 200])
    stream = stream_of(spark, tmp_path / "in", COLUMNS)
    out = sf.reorder(stream, **TIMES, key="device", slack=50, idle_timeout="2 seconds")
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


def test_late_rows_go_to_a_place_of_their_own_in_one_query_that_computes_them_once(spark, tmp_path):
    put_parts(tmp_path / "in", disordered(300, 1, 11), [0, 100, 200, 300])
    stream = stream_of(spark, tmp_path / "in", COLUMNS)
    together = stream.transform(sf.reorder, **TIMES, slack=5, name="split")
    parts = {"on time": [], "late": []}

    def write(batch, number):
        batch.persist()
        for name, part in zip(parts, sf.split_late(batch), strict=True):
            parts[name] += [(row.event, row.late) for row in part.collect()]
        batch.unpersist()

    query = (
        together.writeStream.foreachBatch(write)
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
