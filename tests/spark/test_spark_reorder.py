"""sf.reorder on real Spark: rows without times, silent streams, separate late rows."""

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from streams import observed, put_parts, run, stream_of

pytestmark = pytest.mark.spark

COLUMNS = "device string, event timestamp, arrival timestamp, value double"
TIMES = {"event_time": "event", "arrival": "arrival"}


def disordered(rows, devices, seed):
    """Build a table in order of arrival: exponential delays, some heavy; distinct arrivals."""
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
    assert sum(taken) == 300  # it would be twice that if each part computed them
    assert all(late for _, late in parts["late"])
    assert not any(late for _, late in parts["on time"])
    assert parts["late"]
    assert len(parts["late"]) + len(parts["on time"]) >= 290  # some are still held
    assert [event for event, _ in parts["on time"]] == sorted(e for e, _ in parts["on time"])
