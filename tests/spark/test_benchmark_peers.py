"""The peers of the benchmark of Spark's path agree with the library; an echo changes nothing."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sfumato as sf
from benchmarks.data.streams import readings
from benchmarks.peers import plain_state
from benchmarks.spark_streams import stream_of, write_files
from benchmarks.suites.spark_path import echo
from streams import run

pytestmark = [pytest.mark.spark, pytest.mark.nightly]


def collected(frame, folder):
    rows, _ = run(frame, folder)
    return pd.DataFrame([row.asDict() for row in rows])


@pytest.fixture
def few_partitions(spark):
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before)


def test_plain_state_reorders_as_we_do(spark, tmp_path, few_partitions):
    table = readings(900, 5, 2, seed=1)
    stream = stream_of(spark, write_files(table, 300, tmp_path / "in"))
    theirs = collected(plain_state.reorder(stream, "4 seconds"), tmp_path / "theirs")
    out = sf.reorder(
        stream, event_time="event", arrival="arrival", key="device", max_delay="4 seconds"
    )
    ours = collected(out, tmp_path / "ours")
    assert 20 < theirs["late"].sum() < 400
    for device in range(5):
        of = [frame[frame["device"] == device] for frame in (ours, theirs)]
        late = [sorted(frame["event"][frame["late"]]) for frame in of]
        assert late[0] == late[1]
        on_time = [frame["event"][~frame["late"]].tolist() for frame in of]
        assert on_time[0] == on_time[1]


def test_plain_state_aggregates_windows_as_we_do(spark, tmp_path, few_partitions):
    table = readings(600, 3, 1, seed=3).select(["device", "event"]).sort_by("event")
    event = pa.array(table["event"].cast("int64").to_numpy() * 60, pa.int64())
    table = table.set_column(1, "event", event.cast(pa.timestamp("us", "UTC")))
    table = table.append_column("x", pa.array(np.arange(600) % 97.0))
    stream = stream_of(spark, write_files(table, 200, tmp_path / "in"))
    theirs = collected(plain_state.window(stream), tmp_path / "theirs")
    out = sf.window_aggregate(
        stream,
        {"n": "count(*)", "mean": "avg(x)"},
        window=sf.Range("5 minutes", slide="1 minute"),
        order="event",
        key="device",
    )
    ours = collected(out, tmp_path / "ours")
    ours["end"] = [window["end"] for window in ours["window"]]
    both = theirs.merge(ours, on=["device", "end"], suffixes=("", "_ours"))
    assert len(both) > 0.9 * max(len(ours), len(theirs)) > 100
    assert (both["n"] == both["n_ours"]).all()
    np.testing.assert_allclose(both["mean"], both["mean_ours"])


def test_an_echo_gives_every_row_back(spark, tmp_path):
    source = write_files(pa.table({"x": [1, 2, 3]}), 3, tmp_path / "in")
    echoed = collected(echo(stream_of(spark, source)), tmp_path)
    assert sorted(echoed["x"]) == [1, 2, 3]
