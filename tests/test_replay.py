"""The replay source on real Spark: every row once, in arrival order, also across restarts."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import sfumato as sf
from sfumato.spark.replay import ReplayOptions, ReplayStreamReader, RowRange

START = datetime(2024, 5, 1, tzinfo=UTC)
# Arrival (seconds after START, None: unknown) of rows 0, 1, 2, ...; the row number breaks ties.
ARRIVALS = [5, 3, None, 3, 9, 0, 7, 3, 8, 1, None, 2]
IN_ORDER = [5, 9, 11, 1, 3, 7, 0, 6, 8, 4, 2, 10]


def table() -> pa.Table:
    arrival = [None if s is None else START + timedelta(seconds=s) for s in ARRIVALS]
    return pa.table(
        {
            "id": pa.array(range(len(ARRIVALS)), pa.uint32()),
            "arrival": pa.array(arrival, pa.timestamp("us", "UTC")),
            "name": pa.array([f"n{i % 3}" for i in range(len(ARRIVALS))]).dictionary_encode(),
        }
    )


@pytest.fixture
def trips(tmp_path) -> str:
    path = tmp_path / "trips.parquet"
    pyarrow.parquet.write_table(table(), path)
    return str(path)


@pytest.fixture
def replay(spark):
    spark.dataSource.register(sf.ReplaySource)
    return spark


def micro_batches(spark, path, checkpoint: Path, trigger=None, **options) -> list[list[int]]:
    """The ids of every micro-batch of one run until nothing is left."""
    batches: list[list[int]] = []

    def keep(df, _):
        batches.append([row.id for row in df.collect()])

    stream = spark.readStream.format("replay").options(**options).load(path)
    query = (
        stream.writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(checkpoint))
        .trigger(**(trigger or {"availableNow": True}))
        .start()
    )
    try:
        if trigger is None:
            query.awaitTermination(60)
        else:
            query.processAllAvailable()
    finally:
        query.stop()
    return batches


def test_a_static_read_gives_the_whole_file_in_arrival_order(replay, trips):
    frame = replay.read.format("replay").option("order", "arrival").load(trips)
    assert [row.id for row in frame.collect()] == IN_ORDER
    assert frame.schema.simpleString() == "struct<id:bigint,arrival:timestamp,name:string>"


def test_without_an_order_the_rows_come_as_they_lie(replay, trips):
    frame = replay.read.format("replay").load(trips)
    assert [row.id for row in frame.collect()] == list(range(12))


def test_several_tasks_read_consecutive_runs_of_rows(replay, trips):
    frame = replay.read.format("replay").options(order="arrival", partitions=5).load(trips)
    assert frame.rdd.getNumPartitions() == 5
    assert [row.id for row in frame.collect()] == IN_ORDER


def test_a_stream_comes_in_micro_batches_of_the_wanted_size(replay, trips, tmp_path):
    batches = micro_batches(
        replay, trips, tmp_path / "checkpoint", order="arrival", rows_per_batch=5
    )
    assert batches == [IN_ORDER[:5], IN_ORDER[5:10], IN_ORDER[10:]]


def test_without_a_limit_everything_comes_in_one_micro_batch(replay, trips, tmp_path):
    assert micro_batches(replay, trips, tmp_path / "checkpoint", order="arrival") == [IN_ORDER]


def test_a_processing_time_trigger_plays_the_same_rows(replay, trips, tmp_path):
    batches = micro_batches(
        replay,
        trips,
        tmp_path / "checkpoint",
        {"processingTime": "0 seconds"},
        order="arrival",
        rows_per_batch=7,
    )
    assert [b for b in batches if b] == [IN_ORDER[:7], IN_ORDER[7:]]


def test_a_restart_from_the_checkpoint_goes_on_with_the_next_row(replay, trips, tmp_path):
    seen: list[list[int]] = []

    def fail_at_the_third(df, number):
        if number == 2:
            raise RuntimeError("the machine goes down here")
        seen.append([row.id for row in df.collect()])

    stream = (
        replay.readStream.format("replay").options(order="arrival", rows_per_batch=3).load(trips)
    )
    checkpoint = tmp_path / "checkpoint"
    query = (
        stream.writeStream.foreachBatch(fail_at_the_third)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="goes down"):
        query.awaitTermination(60)
    # The batch under way is run again as it was planned; the rest follows in batches of 4.
    rest = micro_batches(replay, trips, checkpoint, order="arrival", rows_per_batch=4)
    assert [*seen, *rest] == [IN_ORDER[:3], IN_ORDER[3:6], IN_ORDER[6:9], IN_ORDER[9:]]
    assert micro_batches(replay, trips, checkpoint, order="arrival") == []


def test_a_restart_on_a_file_of_another_length_is_an_error(replay, trips, tmp_path):
    micro_batches(replay, trips, tmp_path / "checkpoint", order="arrival")
    pyarrow.parquet.write_table(table().slice(1), trips)
    with pytest.raises(Exception, match="a replayed file must not change"):
        micro_batches(replay, trips, tmp_path / "checkpoint", order="arrival")


@pytest.mark.parametrize("kind", ["csv", "jsonl", "arrow", "folder"])
def test_every_file_format_gives_the_same_rows(replay, tmp_path, kind):
    path = tmp_path / f"trips.{kind}"
    rows = table().set_column(2, "name", table()["name"].cast(pa.string()))
    if kind == "csv":
        pyarrow.csv.write_csv(rows, path)
    elif kind == "jsonl":
        frame = rows.to_pandas()
        frame.to_json(path, orient="records", lines=True, date_format="iso")
    elif kind == "arrow":
        pyarrow.feather.write_feather(rows, path)
    else:
        path.mkdir()
        pyarrow.parquet.write_table(rows.slice(0, 5), path / "part-0.parquet")
        pyarrow.parquet.write_table(rows.slice(5), path / "part-1.parquet")
        (path / "_SUCCESS").touch()
    schema = "id long, name string, arrival timestamp"
    frame = replay.read.schema(schema).format("replay").option("order", "arrival").load(str(path))
    expected = table().select(["id", "name", "arrival"]).take(IN_ORDER).to_pylist()
    assert [row.asDict() for row in frame.collect()] == [
        row | {"arrival": row["arrival"] and row["arrival"].replace(tzinfo=None)}
        for row in expected
    ]
    found = replay.read.format("replay").option("order", "arrival").load(str(path))
    assert [row.id for row in found.collect()] == IN_ORDER


def test_a_given_schema_chooses_and_casts_columns(replay, trips):
    frame = replay.read.schema("name string, id double").format("replay")
    rows = frame.option("order", "arrival").load(trips).collect()
    assert [tuple(row) for row in rows] == [(f"n{i % 3}", float(i)) for i in IN_ORDER]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ordr": "arrival"}, "no option `ordr`.*did you mean `order`"),
        ({"order": "arival"}, "`order` must name a column.*did you mean `arrival`"),
        ({"speed": "2"}, "`speed` needs `order`"),
        ({"speed": "-1", "order": "arrival"}, "`speed` must be a number greater than 0; got '-1'"),
        ({"speed": "nan", "order": "arrival"}, "`speed` must be a number greater than 0"),
        ({"rows_per_batch": "0"}, "`rows_per_batch` must be a whole number of at least 1; got '0'"),
        ({"partitions": "two"}, "`partitions` must be a whole number"),
        ({"file_format": "orc"}, "`file_format` must be one of"),
    ],
)
def test_a_wrong_option_is_named(replay, trips, options, message):
    with pytest.raises(Exception, match=message):
        replay.read.format("replay").options(**options).load(trips).collect()


def test_a_missing_file_or_column_is_named(replay, trips, tmp_path):
    with pytest.raises(Exception, match="there is no .*nothing.parquet"):
        replay.read.format("replay").load(str(tmp_path / "nothing.parquet"))
    with pytest.raises(Exception, match=r"has no columns \['x'\]; it has"):
        replay.read.schema("x long").format("replay").load(trips).collect()
    with pytest.raises(ValueError, match="cannot tell the format"):
        ReplayOptions.of({"path": str(tmp_path)})


def reader(path, **options) -> ReplayStreamReader:
    source = sf.ReplaySource({"path": path, **{k: str(v) for k, v in options.items()}})
    return ReplayStreamReader(source.replay, source.schema())


def test_speed_follows_the_clock_of_the_order_column(trips, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    source = reader(trips, order="arrival", speed=2)
    offset = source.initialOffset()
    played = []
    for _ in range(6):  # a second of ours is two of theirs
        offset = source.latestOffset(offset, source.getDefaultReadLimit())
        played.append(offset["row"])
        clock[0] += 1.0
    # arrivals 0 | 1 2 | 3 3 3 | 5 | 7 8 | 9, and with the last one those of unknown time
    assert played == [1, 3, 6, 7, 9, 12]


def test_after_a_restart_the_clock_goes_on_where_it_stood(trips, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    source = reader(trips, order="arrival", speed=1)
    limit = source.getDefaultReadLimit()
    assert source.latestOffset({"row": 6, "rows": 12}, limit)["row"] == 7  # that of second 5
    clock[0] = 2.5
    assert source.latestOffset({"row": 7, "rows": 12}, limit)["row"] == 8  # and of second 7


def test_with_available_now_speed_does_not_hold_rows_back(replay, trips, tmp_path):
    batches = micro_batches(replay, trips, tmp_path / "checkpoint", order="arrival", speed=0.001)
    assert batches == [IN_ORDER]


def test_speed_needs_a_column_of_times(trips):
    source = reader(trips, order="name", speed=1)
    with pytest.raises(ValueError, match="`speed` needs an `order` column of times"):
        source.latestOffset(source.initialOffset(), source.getDefaultReadLimit())


def test_ranges_cover_every_row_once_however_many_tasks(trips):
    for parts in range(1, 20):
        source = reader(trips, order="arrival", partitions=parts)
        found = source.partitions({"row": 2, "rows": 12}, {"row": 11, "rows": 12})
        assert all(isinstance(part, RowRange) for part in found)
        assert [i for part in found for i in range(part.start, part.end)] == list(range(2, 11))
    assert source.partitions({"row": 5, "rows": 12}, {"row": 5, "rows": 12}) == []
