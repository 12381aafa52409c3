"""The cost of Spark: an operator in Structured Streaming against the same operator in memory.

Micro-batches of 10,000 and of 100,000 rows, one file each, are written to a sink that discards
rows. The time of a micro-batch is the median of Spark's own figure over the later half; the
operator in memory gets the same rows as Arrow tables.

The empty micro-batch comes from a query with an idle timeout, which Spark runs without input, once
Java has compiled its code. It takes turns with a Python processor that keeps nothing, run by Spark
alone.

"Echo" is an operator that keeps nothing and returns its rows: the cost of packing, shuffle, state
and unpacking, independent of the operator. The peers (`peers/plain_state.py`) are the same reorder
and the same extents as a user would write them with Spark's own Python state, one key at a time.
Both are shown with the time of Spark's own Java code for less work: rows that are only dealt out by
key, and the same extents by Spark's windows. "Java's gain" is the peer's time over the time of this
Java code. "An echo's gain" is the peer's time over the time of an echo of the same rows: an
operator that returns the same number of rows cannot exceed it, while windows emit fewer rows than
an echo.

Compared queries take turns; the first turns are discarded, because Java compiles its code in its
first minutes.
"""

import statistics
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.data.streams import certain_readings, operator_rows, readings
from benchmarks.harness import Row
from benchmarks.peers import plain_state
from benchmarks.spark_streams import (
    benchmark_session,
    fresh_folder,
    later,
    stream_of,
    through_spark,
    turns_through_spark,
    write_files,
)

SIZES = {10_000: 40, 100_000: 12}  # by rows of a micro-batch: the number of micro-batches
PLAIN = {10_000: 6, 100_000: 4}  # the same, compared with plain Python state, which is slow
GOAL_EMPTY = 150  # ms
EMPTY = 50  # micro-batches without rows
TURNS = 3  # turns of the compared queries
QUICK = {"SIZES": {1_000: 2}, "PLAIN": {1_000: 2}, "EMPTY": 2, "TURNS": 1}
COLUMNS = {"event_time": "event", "arrival": "arrival", "key": "device"}


def row(name: str, size: int, seconds: float, times: dict[str, float]) -> Row:
    """Return the row of one query; `times` are the compared seconds, shown in ms."""
    others = {f"ms {what}": round(of * 1e3) for what, of in times.items()}
    about = {"name": name, "rows per micro-batch": size, "rows/s": round(size / seconds)}
    return {**about, "ms per micro-batch": round(seconds * 1e3), **others}


def beside_memory(
    name: str, size: int, seconds: float, alone: float, times: dict[str, float]
) -> Row:
    """Compare a query with its operator in memory, which takes `alone` seconds."""
    shown = {
        "rows/s in memory": round(size / alone),
        "time / time in memory": round(seconds / alone, 1),
    }
    return {**row(name, size, seconds, times), **shown}


def in_memory(operator: Any, batches: list[list[tuple[int, pa.Table]]]) -> float:
    """Return the median seconds of a batch through the operator alone."""
    times = []
    for batch in batches:
        start = time.perf_counter()
        operator.process(batch, 0)
        times.append(time.perf_counter() - start)
    return statistics.median(later(times))


def idle_batches(queries: dict[str, Any], folder: Path) -> dict[str, float]:
    """Return the median seconds of an empty micro-batch per query, in the last of several turns."""
    found = {}
    for turn in range(TURNS):
        for name, out in queries.items():
            found[name] = idle_batch(out, folder / f"{name}{turn}")
    return found


def idle_batch(out: Any, folder: Path) -> float:
    """Return the median seconds of an empty micro-batch."""
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


def by_spark(stream: Any) -> Any:
    """Compute count and mean in extents by Spark's own aggregation."""
    from pyspark.sql import functions as F  # noqa: N812

    extents = F.window("event", "5 minutes", "1 minute")
    return (
        stream.withWatermark("event", "1 second")
        .groupBy(extents, "device")
        .agg(F.count("*").alias("n"), F.avg("x").alias("mean"))
    )


def echo(stream: Any, key: str | None = None) -> Any:
    """Return a stream's rows, passed through the buckets of a key or through one bucket."""
    from pyspark.sql import functions as F  # noqa: N812

    from sfumato.spark.crossing import chunks
    from sfumato.spark.runtime.run import DEFAULT_BUCKETS
    from sfumato.spark.state.bucket_state import run_buckets

    class Echo:  # defined here so that it is pickled by value for the workers
        nbytes, has_processed_rows = 0, True

        def begin(self, *_: Any) -> None: ...

        set_clock = begin

        def process(self, batch: Any, now: int) -> list[pa.Table]:
            return [table for _, table in batch]

        def counters(self) -> dict[str, int]:
            return {"rows": 0}

        def gauges(self) -> dict[str, Any]:
            return {}

        def snapshot(self) -> bytes:
            return b"echo"

        def next_timeout(self) -> None: ...

    class Blueprint:
        counters = ("rows",)
        gauges: dict[str, Any] = {}
        tasks = 1

        def for_task(self, number: int) -> Any:
            return self

        def layout(self) -> list[Any]:
            return []

        def make(self) -> Any:
            return Echo()

        def restore(self, data: bytes, change: Any = None) -> Any:
            return Echo()

    bucket = F.lit(0) if key is None else F.pmod(F.hash(key), F.lit(DEFAULT_BUCKETS))
    packed = chunks.pack(stream.withColumn(chunks.BUCKET, bucket), side=0)
    out = run_buckets(packed, Blueprint(), '{"operator": "echo"}')
    return chunks.unpack(out, stream.schema)


def reorder_rows(spark: Any, folder: Path, keys: int, size: int) -> list[Row]:
    import sfumato as sf
    from sfumato.operators.disorder.control import DisorderControl
    from sfumato.tables.disorder.table_reorder import ReorderTableConfig

    count = SIZES[size]
    table = readings(size * count, keys, 10, seed=1)
    stream = stream_of(spark, write_files(table, size, folder / "in"))
    chosen = {"drop_ratio": 0.01, "estimator": "conformal"}
    stateless = through_spark(stream, folder / "stateless")
    floor = through_spark(echo(stream, "device"), folder / "echo")
    seconds = through_spark(sf.reorder(stream, **COLUMNS, **chosen), folder / "checkpoint")
    operator = ReorderTableConfig(control=DisorderControl(**chosen), keys=1).make()
    rows = operator_rows(
        dict(zip(table.column_names, table.columns, strict=True)),
        event=table["event"],
        order0=table["arrival"],
        key0=table["device"],
    )
    alone = in_memory(operator, [[(0, rows.slice(i * size, size))] for i in range(count)])
    times = {"of an echo": floor, "without operator": stateless}
    found = [beside_memory(f"reorder, {keys:,} keys", size, seconds, alone, times)]
    if keys == 1 and size == min(SIZES):
        waiting = sf.reorder(stream, **COLUMNS, **chosen, idle_timeout="1 hour")
        empty = idle_batches({"ours": waiting, "least": plain_state.nothing(stream)}, folder)
        found.append(
            {
                "name": "reorder, an empty micro-batch",
                "ms per micro-batch": round(empty["ours"] * 1e3),
                "ms of minimal Spark work": round(empty["least"] * 1e3),
                "goal": f"<= {GOAL_EMPTY} ms",
                "met": empty["ours"] * 1e3 <= GOAL_EMPTY,
            }
        )
    return found


def join_rows(spark: Any, folder: Path, size: int) -> list[Row]:
    """Measure a join: half of the rows left, half right; w = 1,000, ten samples."""
    import sfumato as sf
    from sfumato.tables.joins.table_similarity_join import SimilarityJoinTableConfig
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
    right = table["event"].cast(pa.int64()).to_numpy() % 2
    rows = operator_rows(
        {"device": table["device"]}, alternatives=table["alternatives"], order0=table["arrival"]
    )
    batches = []
    for begin in range(0, size * count, size):
        part, of = rows.slice(begin, size), right[begin : begin + size]
        batches.append([(side, part.filter(pa.array(of == side))) for side in (0, 1)])
    alone = in_memory(operator, batches)
    times = {"of an echo": floor, "without operator": stateless}
    return [beside_memory("similarity join, w = 1,000", size, seconds, alone, times)]


def extents(stream: Any) -> Any:
    """Compute count and mean in extents that overlap five times, by key, in order."""
    import sfumato as sf

    asked, window = {"n": "count(*)", "mean": "avg(x)"}, sf.Range("5 minutes", slide="1 minute")
    return sf.window_aggregate(stream, asked, window=window, order="event", key="device")


def extent_rows(spark: Any, folder: Path, size: int) -> list[Row]:
    """Compare extents of certain values of 100 keys with Spark's own windows and aggregation, which
    support certain values only.
    """
    table = certain_readings(size * SIZES[size], 100, seed=3)
    stream = stream_of(spark, write_files(table, size, folder / "in"))
    stateless = through_spark(stream, folder / "stateless")
    floor = through_spark(echo(stream), folder / "echo")
    sparks = through_spark(by_spark(stream), folder / "theirs")
    seconds = through_spark(extents(stream), folder / "ours")
    times = {"of Spark's own windows": sparks, "of an echo": floor, "without operator": stateless}
    return [row("extents of certain values, 100 keys", size, seconds, times)]


def plain_rows(spark: Any, folder: Path, size: int) -> list[Row]:
    """Compare with Spark's own Python state as a user would write it: 1,000 keys, a fixed delay."""
    import sfumato as sf

    total = size * PLAIN[size]
    table = readings(total, 1000, 10, seed=4)
    stream = stream_of(spark, write_files(table, size, folder / "in"))
    certain = certain_readings(total, 1000, seed=4)
    certain = stream_of(spark, write_files(certain, size, folder / "certain"))
    names = {
        "reorder, a fixed delay, 1,000 keys": {
            "ours": lambda: sf.reorder(stream, **COLUMNS, max_delay="10 seconds"),
            "plain": lambda: plain_state.reorder(stream, "10 seconds"),
            "echo": lambda: echo(stream, "device"),
            "least": lambda: stream.repartition("device"),
        },
        "extents, 1,000 keys": {
            "ours": lambda: extents(certain),
            "plain": lambda: plain_state.window(certain),
            "echo": lambda: echo(certain, "device"),
            "least": lambda: by_spark(certain),
        },
    }
    found = []
    for number, (name, queries) in enumerate(names.items()):
        times = turns_through_spark(queries, folder / f"turns{number}", TURNS)
        ours, plain, echoed, least = (min(map(statistics.median, times[who])) for who in queries)
        times = {"of plain state": plain, "of an echo": echoed, "of minimal Spark work": least}
        gains = {
            "times as fast": round(plain / ours, 1),
            "Java's gain": round(plain / least, 1),
            "an echo's gain": round(plain / echoed, 1),
        }
        found.append(row(f"{name}: compared with plain Python state", size, ours, times) | gains)
    return found


def state_rows(spark: Any, folder: Path, size: int) -> list[Row]:
    """Compare packing, shuffle and unpacking with and without an operator that keeps nothing."""
    from pyspark.sql import functions as F  # noqa: N812

    from sfumato.spark.crossing import chunks
    from sfumato.spark.runtime.run import DEFAULT_BUCKETS

    table = readings(size * SIZES[size], 1000, 10, seed=5)
    stream = stream_of(spark, write_files(table, size, folder / "in"))
    bucket = F.pmod(F.hash("device"), F.lit(DEFAULT_BUCKETS))
    packed = chunks.pack(stream.withColumn(chunks.BUCKET, bucket), side=0)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions"))
    shuffled = packed.repartition(partitions, chunks.BUCKET).where("length(chunk) > 0")
    queries = {
        "floor": lambda: chunks.unpack(shuffled, stream.schema),
        "echo": lambda: echo(stream, "device"),
    }
    times = turns_through_spark(queries, folder, TURNS)
    floor, echoed = (
        statistics.median(map(statistics.median, times[name])) for name in ("floor", "echo")
    )
    name = "an echo compared with packing, shuffle and unpacking alone"
    ratio = {"time / time without state": round(echoed / floor, 2)}
    return [row(name, size, echoed, {"without state": floor}) | ratio]


def run() -> list[Row]:
    cases = [(reorder_rows, (1, min(SIZES))), *((reorder_rows, (1000, size)) for size in SIZES)]
    for measure in (join_rows, extent_rows, state_rows, plain_rows):
        cases += [(measure, (size,)) for size in SIZES]
    found: list[Row] = []
    with benchmark_session() as spark:
        for measure, arguments in cases:
            with fresh_folder() as folder:
                found += measure(spark, folder, *arguments)
    return found
