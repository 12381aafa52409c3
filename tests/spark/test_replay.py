"""The replay source on real Spark: order, pacing, restarts, and errors that explain what to do."""

import gzip
import json
import subprocess
import sys
import time
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import (
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    _parse_datatype_string,
)

from sfumato.spark.replay import Pace, ReplaySource

pytestmark = pytest.mark.spark

START = datetime(2024, 3, 10, 1, 59, 59)
# (name, received in seconds after START): out of order, with ties and an unknown arrival
READINGS = [("a", 4), ("b", 1), ("c", None), ("d", 1), ("e", 0), ("f", 4), ("g", 2.5)]
ARRIVAL = ["e", "b", "d", "g", "a", "f", "c"]


def readings() -> pa.Table:
    received = [None if s is None else START + timedelta(seconds=s) for _, s in READINGS]
    return pa.table(
        {
            "name": [name for name, _ in READINGS],
            "received": pa.array(received, pa.timestamp("us")),
            "value": [float(place) for place in range(len(READINGS))],
        }
    )


def written(table: pa.Table, path) -> str:
    kind = path.suffix.removeprefix(".")
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "csv":
        pyarrow.csv.write_csv(table, path)
    elif kind == "feather":
        pyarrow.feather.write_feather(table, str(path))
    elif kind == "arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as stream:
            stream.write_table(table)
    else:
        lines = "".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist())
        if kind == "gz":
            path.write_bytes(gzip.compress(lines.encode()))
        else:
            path.write_text(lines)
    return str(path)


def numbers(path, n: int) -> str:
    return written(pa.table({"i": np.arange(n)}), path)


@pytest.fixture
def replay(spark):
    """Return a function that plays a file into a list of micro-batches, and ends."""
    spark.dataSource.register(ReplaySource)

    def play(path, checkpoint, batches=None, stop_after=None, **options):
        batches = [] if batches is None else batches

        def keep(df, number):
            if stop_after is not None and len(batches) >= stop_after:
                raise InterruptedError("stopped in the middle")
            batches.append([tuple(row) for row in df.collect()])

        stream = spark.readStream.format("replay").options(**options).load(str(path))
        query = (
            stream.writeStream.foreachBatch(keep)
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(60)
        finally:
            query.stop()
        return batches

    return play


def static(path, schema=None, **options) -> pa.Table:
    """Return the rows that a static read passes to Spark, without Spark."""
    source = ReplaySource({"path": str(path), **options})
    wanted = source.schema() if schema is None else _parse_datatype_string(schema)
    reader = source.reader(wanted)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches) if batches else pa.table({})


def rows_of(table: pa.Table) -> list[tuple]:
    return [tuple(row.values()) for row in table.to_pylist()]


def flat(batches):
    return [row for batch in batches for row in batch]


NAMES = ["r.parquet", "r.csv", "r.jsonl", "r.json.gz", "r.feather", "r.arrow"]


def test_every_format_gives_all_rows_in_arrival_order(spark, tmp_path):
    spark.dataSource.register(ReplaySource)
    table = readings()
    by_name = {row["name"]: row for row in table.to_pylist()}
    for name in NAMES:
        reader = spark.read.format("replay").option("order", "received")
        df = reader.load(written(table, tmp_path / name))
        assert [row.asDict() for row in df.collect()] == [by_name[name] for name in ARRIVAL]
        assert df.schema["received"].dataType == TimestampNTZType()


def test_a_stream_has_the_same_rows_and_keeps_the_limit_at_any_speed(replay, tmp_path):
    path = written(readings(), tmp_path / "r.jsonl")
    batches = replay(path, tmp_path / "c", order="received", rows_per_batch=3, speed="1e9")
    assert max(len(batch) for batch in batches) == 3
    assert [row[0] for row in flat(batches)] == ARRIVAL


def test_without_order_rows_come_in_file_order(tmp_path):
    path = written(readings(), tmp_path / "r.parquet")
    assert static(path)["name"].to_pylist() == [name for name, _ in READINGS]


def test_several_order_columns_break_ties_and_the_file_position_breaks_the_rest(tmp_path):
    random = np.random.default_rng(7)
    a, b = random.integers(0, 4, 500), random.integers(0, 4, 500)
    table = pa.table({"a": a, "b": b, "position": np.arange(500)})
    rows = rows_of(static(written(table, tmp_path / "t.parquet"), order="a, b"))
    assert rows == sorted(zip(a.tolist(), b.tolist(), range(500), strict=True))


def test_the_order_columns_need_not_be_in_the_given_schema(spark, tmp_path):
    path = written(readings(), tmp_path / "r.csv")
    position = {name: str(place) for place, (name, _) in enumerate(READINGS)}
    table = static(path, schema="value string, name string", order="received")
    assert rows_of(table) == [(position[name], name) for name in ARRIVAL]


@pytest.mark.parametrize("name", ["r.parquet", "r.csv", "r.jsonl"])
def test_times_without_zone_are_utc_where_the_schema_says_timestamp(spark, tmp_path, name):
    path = written(readings(), tmp_path / name)
    column = static(path, schema="received timestamp", order="received")["received"]
    assert column.type == pa.timestamp("us", tz="UTC")
    assert column.cast(pa.int64())[0].as_py() == 1710035999 * 1_000_000  # 2024-03-10 01:59:59 UTC


def test_types_that_spark_lacks_become_the_next_wider(spark, tmp_path):
    spark.dataSource.register(ReplaySource)
    fine = 1_700_000_000_123_456_789
    table = pa.table(
        {
            "small": pa.array([255], pa.uint8()),
            "word": pa.array(["x"]).dictionary_encode(),
            "nothing": pa.nulls(1),
            "fine": pa.array([fine], pa.timestamp("ns", tz="America/New_York")),
            "points": pa.array([[{"prob": 0.5, "x": 3}]]),
        }
    )
    df = spark.read.format("replay").load(written(table, tmp_path / "t.parquet"))
    assert df.schema["small"].dataType == ShortType()
    assert df.schema["word"].dataType == df.schema["nothing"].dataType == StringType()
    row = df.selectExpr("small", "word", "nothing", "unix_micros(fine)", "points[0].x").first()
    assert tuple(row) == (255, "x", None, fine // 1000, 3)


def test_an_empty_field_of_a_csv_file_is_null(tmp_path):
    (tmp_path / "t.csv").write_text("station,reading\nNA,1\n,NA\n")
    assert ReplaySource({"path": str(tmp_path / "t.csv")}).schema() == StructType(
        [StructField("station", StringType()), StructField("reading", LongType())]
    )
    assert rows_of(static(tmp_path / "t.csv")) == [("NA", 1), (None, None)]


def test_json_times_with_a_zone_or_parts_of_a_second_are_times(tmp_path):
    lines = ['{"t": "2024-01-01T00:00:00.25+01:00", "d": "x"}', '{"t": null, "d": "y"}']
    (tmp_path / "t.jsonl").write_text("\n".join(lines))
    source = ReplaySource({"path": str(tmp_path / "t.jsonl")})
    assert source.schema()["t"].dataType == TimestampType()
    (time_of_day, _), _ = rows_of(static(tmp_path / "t.jsonl"))
    assert time_of_day.isoformat() == "2023-12-31T23:00:00.250000+00:00"


def test_an_empty_file_ends_at_once(replay, tmp_path):
    path = written(readings().slice(0, 0), tmp_path / "r.parquet")
    assert flat(replay(path, tmp_path / "c", order="received", speed=1)) == []
    assert rows_of(static(path, order="received")) == []
    (tmp_path / "e.jsonl").touch()
    assert rows_of(static(tmp_path / "e.jsonl", schema="a int")) == []
    with pytest.raises(ValueError, match=r"is empty.*\.schema"):
        static(tmp_path / "e.jsonl")


def test_a_restart_in_the_middle_continues_with_the_next_row(replay, tmp_path):
    path = numbers(tmp_path / "n.csv", 20)
    batches = []
    with pytest.raises(StreamingQueryException, match="stopped in the middle"):
        replay(path, tmp_path / "c", batches, stop_after=2, rows_per_batch=4)
    assert flat(batches) == [(i,) for i in range(8)]
    numbers(tmp_path / "n.csv", 25)  # rows added after the last played row are played too
    replay(path, tmp_path / "c", batches, rows_per_batch=10)
    assert flat(batches) == [(i,) for i in range(25)]
    # The failed micro-batch was planned with 4 rows and is repeated unchanged.
    assert [len(batch) for batch in batches] == [4, 4, 4, 10, 3]
    numbers(tmp_path / "n.csv", 9)
    with pytest.raises(StreamingQueryException, match=r"25 replayed rows.* has 9: the file has"):
        replay(path, tmp_path / "c")


def test_a_running_query_plays_until_it_is_stopped(spark, tmp_path):
    spark.dataSource.register(ReplaySource)
    path = numbers(tmp_path / "n.parquet", 30)
    stream = spark.readStream.format("replay").option("path", path).option("rows_per_batch", 7)
    query = (
        stream.load()
        .writeStream.format("memory")
        .queryName("running")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(processingTime="0 seconds")
        .start()
    )
    try:
        query.processAllAvailable()
        assert [row.i for row in spark.table("running").collect()] == list(range(30))
        assert query.isActive
        assert {p["numInputRows"] for p in query.recentProgress} <= {7, 2, 0}
    finally:
        query.stop()


def test_at_speed_one_the_arrival_clock_is_ours(replay, tmp_path):
    clock = [0, 0, 1_000_000, 3_000_000]
    path = written(pa.table({"at": clock}), tmp_path / "t.parquet")
    began = time.monotonic()
    batches = [batch for batch in replay(path, tmp_path / "c", order="at", speed=1) if batch]
    assert 3.0 <= time.monotonic() - began < 15
    assert batches == [[(0,), (0,)], [(1_000_000,)], [(3_000_000,)]]


def test_the_pace_is_that_of_the_clock_from_the_last_row_played():
    clock = np.array([0, 10, 10, 40, 100], dtype=np.int64) * 1_000_000
    pace = Pace(clock, speed=2.0, row=0, now=50.0)
    due = {50.0: 1, 54.9: 1, 55.0: 3, 69.9: 3, 70.0: 4, 100.0: 5, 1e12: 5}
    assert {now: pace.due(now) for now in due} == due
    assert pace.wait(3, 55.0) == 15.0
    assert pace.wait(1, 60.0) == 0.0
    again = Pace(clock, speed=1.0, row=4, now=0.0)  # the fourth row, of second 40, was played last
    assert [again.due(now) for now in (0.0, 59.9, 60.0)] == [4, 4, 5]


def test_a_wait_always_ends_with_a_row_that_is_due():
    random = np.random.default_rng(3)
    clock = np.sort(random.integers(0, 2**50, 400)) + 1_700_000_000_000_000
    pace = Pace(clock, speed=0.3, row=0, now=12345.678)
    for row in range(400):
        now = 12345.678 + pace.wait(row, 12345.678)
        assert pace.due(now) > row


BAD = [
    ({"order": "recieved"}, r"option `order`.*`recieved`.*did you mean `received`"),
    ({"order": "received,,value"}, r"option `order` must be"),
    ({"order": "received", "speed": "0"}, r"option `speed` must be a positive number.*'0'"),
    ({"order": "received", "speed": "-2"}, r"option `speed` must be"),
    ({"order": "received", "speed": "inf"}, r"option `speed` must be"),
    ({"order": "received", "speed": "fast"}, r"option `speed` must be"),
    ({"speed": "1"}, r"option `speed` is '1', but `order` is missing"),
    ({"rows_per_batch": "0"}, r"option `rows_per_batch` must be an integer.*'0'"),
    ({"rows_per_batch": "1.5"}, r"option `rows_per_batch` must be"),
    ({"rowsPerBatch": "5"}, r"no option `rowsPerBatch`.*did you mean `rows_per_batch`"),
    ({"ordr": "received"}, r"no option `ordr`.*did you mean `order`"),
    ({"format": "parqet"}, r"option `format` must be one of.*did you mean `parquet`"),
    ({"format": "json"}, r"cannot read .* as json"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
def test_a_bad_option_is_named(tmp_path, options, message):
    path = written(readings(), tmp_path / "r.parquet")
    with pytest.raises(ValueError, match=message):
        static(path, **options)


def test_an_error_reaches_the_user_when_the_stream_is_made(spark, tmp_path):
    spark.dataSource.register(ReplaySource)
    path = written(readings(), tmp_path / "r.parquet")
    with pytest.raises(AnalysisException, match=r"no option `ordr`.*did you mean `order`"):
        spark.readStream.format("replay").option("ordr", "received").load(path)
    with pytest.raises(AnalysisException, match=r"`recieved`.*did you mean `received`"):
        spark.readStream.format("replay").option("order", "recieved").load(path)
    with pytest.raises(AnalysisException, match="option `path` is missing"):
        spark.read.format("replay").load()


def test_a_path_that_cannot_be_played_is_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"option `path` is not an existing file; got '.*gone\.csv'"
    ):
        static(tmp_path / "gone.csv")
    with pytest.raises(ValueError, match=r"option `path` must be one file.* is a folder"):
        static(tmp_path)
    (tmp_path / "a.dat").touch()
    with pytest.raises(ValueError, match="option `format` is missing"):
        static(tmp_path / "a.dat")


def test_a_schema_that_does_not_fit_is_named(spark, tmp_path):
    path = written(readings(), tmp_path / "r.parquet")
    with pytest.raises(ValueError, match=r"the given schema names.*did you mean `value`"):
        static(path, schema="valu double")
    with pytest.raises(ValueError, match=r"column `name`.*cannot be converted to"):
        static(path, schema="name double")
    with pytest.raises(ValueError, match=r"column `received`.*1 NULLs.*NOT NULL"):
        static(path, schema="received timestamp not null")
    twice = pa.table([[1], [2]], names=["a", "a"])
    with pytest.raises(ValueError, match="two columns called `a`"):
        static(written(twice, tmp_path / "t.arrow"))


def test_a_speed_needs_a_clock(tmp_path):
    path = written(readings(), tmp_path / "r.parquet")
    source = ReplaySource({"path": path, "order": "name", "speed": "1"})
    reader = source.streamReader(source.schema())
    with pytest.raises(ValueError, match=r"needs arrival times: `name` must be a timestamp"):
        reader.latestOffset({"row": 0}, ReadAllAvailable())


def test_a_file_that_changes_while_it_is_played_is_an_error(tmp_path):
    path = numbers(tmp_path / "n.parquet", 9)
    source = ReplaySource({"path": path})
    reader = source.streamReader(source.schema())
    (part,) = reader.partitions({"row": 2}, {"row": 5})
    assert [row for batch in reader.read(part) for row in batch["i"].to_pylist()] == [2, 3, 4]
    numbers(tmp_path / "n.parquet", 8)
    with pytest.raises(RuntimeError, match=r"had 9 rows when this query started and has 8"):
        list(reader.read(part))


def test_the_source_loads_no_compiled_kernels():
    code = "import sys, sfumato.spark.replay; print({'numba', 'scipy'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "set()"
