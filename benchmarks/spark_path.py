"""What Spark costs: an operator through Structured Streaming against the same operator in memory.

Micro-batches of 10,000 and of 100,000 rows, one file each, into a sink that discards rows. The time
of a micro-batch is the median of Spark's own figure over the later half; the operator in memory
gets the same rows as Arrow tables. The empty micro-batch comes from a query with an idle timeout,
which Spark runs on without input, once Java has compiled what it runs; beside it, in turn, a Python
processor that keeps nothing, by Spark alone. "Echo" is an operator that keeps nothing and returns
its rows: what packing, shuffle, state and unpacking cost whatever the operator does. The peers
(`peers/plain_state.py`) are the same reorder and the same extents as a user would write them with
Spark's own Python state, key by key. Beside both stands what Spark's own Java code takes for less:
for rows that are only dealt out by key, and for the same extents by its own windows; "Java's gain"
is the peer's time over that. "An echo's gain" is that over the time of an echo of the same rows: an
operator of ours that gives as many rows cannot exceed it, while windows give fewer than an echo.
Queries beside each other take turns, of which the first do not count: Java compiles what it runs in
its first minutes.
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SIZES = {10_000: 40, 100_000: 12}  # rows of a micro-batch: micro-batches
PLAIN = {10_000: 6, 100_000: 4}  # the same beside plain Python state, which takes its time
GOAL_EMPTY = 150  # ms
EMPTY = 50  # micro-batches without rows
TURNS = 3  # of queries that are compared
COLD = 3  # turns before, which do not count
STAMP = pa.timestamp("us", tz="UTC")


def readings(rows: int, keys: int, samples: int, seed: int) -> pa.Table:
    """A disordered stream of uncertain readings, in order of arrival."""
    rng = np.random.default_rng(seed)
    event = np.cumsum(rng.exponential(1e5, rows)).astype(np.int64)
    arrival = event + rng.exponential(3e6, rows).astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    centre = rng.normal(0, 100, rows)[:, None] + rng.normal(0, 0.5, (rows, samples))
    pair = pa.StructArray.from_arrays(
        [pa.array(np.full(rows * samples, 0.95 / samples)), pa.array(centre.ravel())], ["prob", "x"]
    )
    offsets = pa.array(np.arange(0, rows * samples + 1, samples), pa.int32())
    return pa.table(
        {
            "device": pa.array(rng.integers(0, keys, rows)),
            "event": pa.array(event[order]).cast(STAMP),
            "arrival": pa.array(np.sort(arrival)).cast(STAMP),
            "alternatives": pa.ListArray.from_arrays(offsets, pair),
        }
    )


def write_files(table: pa.Table, rows: int, folder: Path) -> str:
    folder.mkdir()
    for i in range(table.num_rows // rows):
        pq.write_table(table.slice(i * rows, rows), folder / f"{i:05d}.parquet")
    return str(folder)


def later(values: list[Any]) -> list[Any]:
    """The later half: by then Java has compiled what it runs."""
    return values[len(values) // 2 :]


def through_spark(out: Any, folder: Path) -> float:
    """Median seconds of a micro-batch of a query that reads one file each."""
    return statistics.median(later(times_of(out, folder)))


def times_of(out: Any, folder: Path) -> list[float]:
    """Seconds of each micro-batch of a query that reads one file each."""
    query = (
        out.writeStream.format("noop")
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [p["durationMs"]["triggerExecution"] / 1e3 for p in query.recentProgress]


def in_memory(operator: Any, batches: list[list[tuple[int, pa.Table]]]) -> float:
    """Median seconds of a batch through the operator alone."""
    times = []
    for batch in batches:
        start = time.perf_counter()
        operator.process(batch, 0)
        times.append(time.perf_counter() - start)
    return statistics.median(later(times))


def idle_batches(queries: dict[str, Any], folder: Path) -> dict[str, float]:
    """Median seconds of an empty micro-batch of each query, which take turns; of the last turn."""
    found = {}
    for turn in range(TURNS):
        for name, out in queries.items():
            found[name] = idle_batch(out, folder / f"{name}{turn}")
    return found


def idle_batch(out: Any, folder: Path) -> float:
    """Median seconds of an empty micro-batch."""
    query = out.writeStream.format("noop").option("checkpointLocation", str(folder)).start()
    times: list[int] = []
    deadline = time.monotonic() + 120
    try:
        while len(times) < EMPTY and time.monotonic() < deadline:
            time.sleep(1)
            times = [
                p["durationMs"]["triggerExecution"]
                for p in query.recentProgress
                if p["numInputRows"] == 0 and "addBatch" in p["durationMs"]
            ]
    finally:
        query.stop()
    return statistics.median(later(times)) / 1e3


def stream_of(spark: Any, source: str) -> Any:
    schema = spark.read.parquet(source).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)


def by_spark(stream: Any) -> Any:
    """Count and mean in extents by Spark's own aggregation."""
    from pyspark.sql import functions as F  # noqa: N812

    extents = F.window("event", "5 minutes", "1 minute")
    return (
        stream.withWatermark("event", "1 second")
        .groupBy(extents, "device")
        .agg(F.count("*").alias("n"), F.avg("x").alias("mean"))
    )


def echo(stream: Any, key: str | None = None) -> Any:
    """The rows of a stream, by way of buckets of a key, or one bucket."""
    from pyspark.sql import functions as F  # noqa: N812

    from sfumato.spark.crossing import chunks
    from sfumato.spark.runtime.run import BUCKETS
    from sfumato.spark.state.buckets import run_buckets

    class Echo:  # in here, so that it goes to the workers by value
        nbytes = 0
        took = True

        def begin(self) -> None:
            pass

        def set_clock(self, now: int) -> None:
            pass

        def process(self, batch: Any, now: int) -> list[pa.Table]:
            return [table for _, table in batch]

        def counters(self) -> dict[str, int]:
            return {"rows": 0}

        def gauges(self) -> dict[str, Any]:
            return {}

        def snapshot(self) -> bytes:
            return b"echo"

    class Blueprint:
        counters = ("rows",)
        gauges: dict[str, Any] = {}
        tasks = 1

        def for_task(self, number: int) -> Any:
            return self

        def make(self) -> Any:
            return Echo()

        def restore(self, data: bytes) -> Any:
            return Echo()

    bucket = F.lit(0) if key is None else F.pmod(F.hash(key), F.lit(BUCKETS))
    packed = chunks.pack(stream.withColumn(chunks.BUCKET, bucket), side=0)
    out = run_buckets(packed, Blueprint(), '{"operator": "echo"}')
    return chunks.unpack(out, stream.schema)


def reorder_rows(spark: Any, folder: Path, keys: int, size: int) -> list[dict[str, Any]]:
    import sfumato as sf
    from peers import plain_state
    from sfumato.operators.disorder.control import DisorderControl
    from sfumato.tables.disorder.reorder import ReorderTableConfig

    count = SIZES[size]
    table = readings(size * count, keys, 10, seed=1)
    stream = stream_of(spark, write_files(table, size, folder / "in"))
    chosen = {"drop_ratio": 0.01, "estimator": "conformal"}
    columns = {"event_time": "event", "arrival": "arrival", "key": "device"}
    stateless = through_spark(stream, folder / "stateless")
    floor = through_spark(echo(stream, "device"), folder / "echo")
    seconds = through_spark(sf.reorder(stream, **columns, **chosen), folder / "checkpoint")
    control = DisorderControl(0.01, estimator="conformal")
    operator = ReorderTableConfig(control=control, keys=1).make()
    tied = pa.table(
        {
            "row": pa.StructArray.from_arrays(
                [column.combine_chunks() for column in table.columns], table.column_names
            ),
            "event": table.column("event"),
            "order0": table.column("arrival"),
            "key0": table.column("device"),
            "__tie": np.arange(table.num_rows),
        }
    )
    alone = in_memory(operator, [[(0, tied.slice(i * size, size))] for i in range(count)])
    rows = [row(f"reorder, {keys:,} keys", size, seconds, alone, stateless, floor)]
    if keys == 1 and size == min(SIZES):
        waiting = sf.reorder(stream, **columns, **chosen, idle_timeout="1 hour")
        empty = idle_batches({"ours": waiting, "least": plain_state.nothing(stream)}, folder)
        rows.append(
            {
                "name": "reorder, an empty micro-batch",
                "ms a micro-batch": round(empty["ours"] * 1e3),
                "ms of Spark's least": round(empty["least"] * 1e3),
                "goal": f"<= {GOAL_EMPTY} ms",
                "met": empty["ours"] * 1e3 <= GOAL_EMPTY,
            }
        )
    return rows


def join_rows(spark: Any, folder: Path, size: int) -> list[dict[str, Any]]:
    """Half of the rows left, half right; w = 1,000, ten samples."""
    import sfumato as sf
    from sfumato.tables.joins.similarity_join import SimilarityJoinTableConfig
    from sfumato.tables.operator import TIE
    from sfumato.windows import JoinWindow

    count = SIZES[size]
    table = readings(size * count, 1, 10, seed=2)
    stream = stream_of(spark, write_files(table, size, folder / "in"))
    even = "unix_micros(event) % 2 = 0"
    out = sf.similarity_join(
        stream.where(even),
        stream.where(f"not ({even})"),
        on="x",
        within=0.1,
        probability=0.5,
        window=sf.Rows(1000, confidence=0.95),
        order="arrival",
    )
    stateless = through_spark(stream, folder / "stateless")
    floor = through_spark(echo(stream), folder / "echo")
    seconds = through_spark(out, folder / "checkpoint")
    operator = SimilarityJoinTableConfig(
        within=0.1, probability=0.5, windows=(JoinWindow(1000),) * 2, on=("x",)
    ).make()
    left = table.column("event").cast(pa.int64()).to_numpy() % 2 == 0
    sides = pa.table(
        {
            "row": pa.StructArray.from_arrays(
                [table.column("device").combine_chunks()], ["device"]
            ),
            "alternatives": table.column("alternatives"),
            "order0": table.column("arrival"),
            TIE: pa.array(np.arange(table.num_rows)),
        }
    )
    batches = []
    for i in range(count):
        part = slice(i * size, (i + 1) * size)
        rows, is_left = sides.slice(i * size, size), left[part]
        batches.append([(0, rows.filter(pa.array(is_left))), (1, rows.filter(pa.array(~is_left)))])
    alone = in_memory(operator, batches)
    return [row("similarity join, w = 1,000", size, seconds, alone, stateless, floor)]


def extent_rows(spark: Any, folder: Path, size: int) -> list[dict[str, Any]]:
    """Count and mean of certain values in extents that overlap five times, 100 keys, in order.

    Beside them the same windows by Spark's own aggregation, which knows certain values only.
    """
    import sfumato as sf

    count = SIZES[size]
    table = readings(size * count, 100, 1, seed=3).select(["device", "event"])
    table = table.sort_by("event").append_column("x", pa.array(np.arange(table.num_rows) % 97.0))
    stream = stream_of(spark, write_files(table, size, folder / "in"))
    ours = sf.window_aggregate(
        stream,
        {"n": "count(*)", "mean": "avg(x)"},
        window=sf.Range("5 minutes", slide="1 minute"),
        order="event",
        key="device",
    )
    stateless = through_spark(stream, folder / "stateless")
    floor = through_spark(echo(stream), folder / "echo")
    sparks = through_spark(by_spark(stream), folder / "theirs")
    seconds = through_spark(ours, folder / "ours")
    return [
        {
            "name": "extents of certain values, 100 keys",
            "rows a micro-batch": size,
            "rows/s": round(size / seconds),
            "ms a micro-batch": round(seconds * 1e3),
            "ms of Spark's own windows": round(sparks * 1e3),
            "ms of an echo": round(floor * 1e3),
            "ms without operator": round(stateless * 1e3),
        }
    ]


def plain_rows(spark: Any, folder: Path, size: int) -> list[dict[str, Any]]:
    """Beside what a user would write with Spark's own Python state: 1,000 keys, a fixed delay."""
    import sfumato as sf
    from peers import plain_state

    count = PLAIN[size]
    table = readings(size * count, 1000, 10, seed=4)
    stream = stream_of(spark, write_files(table, size, folder / "in"))
    columns = {"event_time": "event", "arrival": "arrival", "key": "device"}
    orders = {
        "ours": sf.reorder(stream, **columns, max_delay="10 seconds"),
        "plain": plain_state.reorder(stream, "10 seconds"),
        "echo": echo(stream, "device"),
        "least": stream.repartition("device"),
    }
    table = table.select(["device", "event"]).sort_by("event")
    table = table.append_column("x", pa.array(np.arange(table.num_rows) % 97.0))
    certain = stream_of(spark, write_files(table, size, folder / "certain"))
    window = sf.Range("5 minutes", slide="1 minute")
    asked = {"n": "count(*)", "mean": "avg(x)"}
    windows = {
        "ours": sf.window_aggregate(certain, asked, window=window, order="event", key="device"),
        "plain": plain_state.window(certain),
        "echo": echo(certain, "device"),
        "least": by_spark(certain),
    }
    found = []
    names = {"reorder, a fixed delay, 1,000 keys": orders, "extents, 1,000 keys": windows}
    for name, queries in names.items():
        times: dict[str, list[float]] = {who: [] for who in queries}
        for turn in range(COLD + TURNS):
            for who, out in queries.items():
                seconds = through_spark(out, folder / f"{who}{turn}{name}")
                times[who] += [seconds] if turn >= COLD else []
        ours, plain, echoed, least = (min(times[who]) for who in queries)
        found.append(
            {
                "name": f"{name}: beside plain Python state",
                "rows a micro-batch": size,
                "rows/s": round(size / ours),
                "ms a micro-batch": round(ours * 1e3),
                "ms of plain state": round(plain * 1e3),
                "ms of an echo": round(echoed * 1e3),
                "ms of Spark's least": round(least * 1e3),
                "times as fast": round(plain / ours, 1),
                "Java's gain": round(plain / least, 1),
                "an echo's gain": round(plain / echoed, 1),
            }
        )
    return found


def state_rows(spark: Any, folder: Path, size: int) -> list[dict[str, Any]]:
    """Packing, a shuffle and unpacking, and the same with an operator that keeps nothing."""
    from pyspark.sql import functions as F  # noqa: N812

    from sfumato.spark.crossing import chunks
    from sfumato.spark.runtime.run import BUCKETS

    count = SIZES[size]
    table = readings(size * count, 1000, 10, seed=5)
    stream = stream_of(spark, write_files(table, size, folder / "in"))
    packed = chunks.pack(
        stream.withColumn(chunks.BUCKET, F.pmod(F.hash("device"), F.lit(BUCKETS))), side=0
    )
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
    shuffled = packed.repartition(partitions, chunks.BUCKET).where("length(chunk) > 0")
    queries = {"floor": chunks.unpack(shuffled, stream.schema), "echo": echo(stream, "device")}
    times: dict[str, list[float]] = {name: [] for name in queries}
    for turn in range(COLD + TURNS):
        for name, out in queries.items():
            seconds = through_spark(out, folder / f"{name}{turn}")
            times[name] += [seconds] if turn >= COLD else []
    floor, echoed = (statistics.median(times[name]) for name in ("floor", "echo"))
    return [
        {
            "name": "an echo beside packing, shuffle and unpacking alone",
            "rows a micro-batch": size,
            "ms a micro-batch": round(echoed * 1e3),
            "ms without state": round(floor * 1e3),
            "time / time without state": round(echoed / floor, 2),
        }
    ]


def row(
    name: str, size: int, seconds: float, alone: float, stateless: float, floor: float
) -> dict[str, Any]:
    return {
        "name": name,
        "rows a micro-batch": size,
        "rows/s": round(size / seconds),
        "rows/s in memory": round(size / alone),
        "time / time in memory": round(seconds / alone, 1),
        "ms a micro-batch": round(seconds * 1e3),
        "ms of an echo": round(floor * 1e3),
        "ms without operator": round(stateless * 1e3),
    }


def run() -> list[dict[str, Any]]:
    from sfumato.cli.session import session

    spark = session("sfumato benchmark")
    results = []
    cases = [
        lambda folder: reorder_rows(spark, folder, 1, 10_000),
        lambda folder: reorder_rows(spark, folder, 1000, 10_000),
        lambda folder: reorder_rows(spark, folder, 1000, 100_000),
        lambda folder: join_rows(spark, folder, 10_000),
        lambda folder: join_rows(spark, folder, 100_000),
        lambda folder: extent_rows(spark, folder, 10_000),
        lambda folder: extent_rows(spark, folder, 100_000),
        lambda folder: state_rows(spark, folder, 10_000),
        lambda folder: state_rows(spark, folder, 100_000),
        lambda folder: plain_rows(spark, folder, 10_000),
        lambda folder: plain_rows(spark, folder, 100_000),
    ]
    for case in cases:
        folder = Path(tempfile.mkdtemp())
        try:
            results += case(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    spark.stop()
    return results


if __name__ == "__main__":
    for result in run():
        print(result)
