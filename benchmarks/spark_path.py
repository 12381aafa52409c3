"""What Spark costs: an operator through Structured Streaming against the same operator in memory.

Micro-batches of 10,000 rows, one file each, into a sink that discards rows. The time of a
micro-batch is the median of Spark's own figure over the later ones; the operator in memory gets
the same rows as Arrow tables. The empty micro-batch comes from a query with an idle timeout,
which Spark runs on without input.
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

ROWS, BATCHES, WARM = 10_000, 16, 6
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


def write_files(table: pa.Table, folder: Path) -> str:
    folder.mkdir()
    for i in range(table.num_rows // ROWS):
        pq.write_table(table.slice(i * ROWS, ROWS), folder / f"{i:05d}.parquet")
    return str(folder)


def batch_times(query: Any) -> list[int]:
    """Milliseconds of the micro-batches, the first ones left out."""
    return [
        p["durationMs"]["triggerExecution"] for p in query.recentProgress if p["batchId"] >= WARM
    ]


def through_spark(out: Any, folder: Path) -> float:
    """Median seconds of a micro-batch of a query that reads one file each."""
    query = (
        out.writeStream.format("noop")
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return statistics.median(batch_times(query)) / 1e3


def in_memory(operator: Any, batches: list[list[tuple[int, pa.Table]]]) -> float:
    """Median seconds of a batch through the operator alone."""
    times = []
    for batch in batches:
        start = time.perf_counter()
        operator.process(batch, 0)
        times.append(time.perf_counter() - start)
    return statistics.median(times[WARM:])


def idle_batch(out: Any, folder: Path) -> float:
    """Median seconds of an empty micro-batch."""
    query = out.writeStream.format("noop").option("checkpointLocation", str(folder)).start()
    try:
        time.sleep(12)
        times = [
            p["durationMs"]["triggerExecution"]
            for p in query.recentProgress
            if p["numInputRows"] == 0 and "addBatch" in p["durationMs"]
        ]
    finally:
        query.stop()
    return statistics.median(times[2:]) / 1e3


def stream_of(spark: Any, source: str) -> Any:
    schema = spark.read.parquet(source).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)


def reorder_rows(spark: Any, folder: Path, keys: int) -> list[dict[str, Any]]:
    import sfumato as sf
    from sfumato.operators.table_reorder import ReorderSettings

    table = readings(ROWS * BATCHES, keys, 10, seed=1)
    stream = stream_of(spark, write_files(table, folder / "in"))
    chosen = {"drop_ratio": 0.01, "estimator": "conformal"}
    columns = {"event_time": "event", "arrival": "arrival", "key": "device"}
    stateless = through_spark(stream, folder / "stateless")
    seconds = through_spark(sf.reorder(stream, **columns, **chosen), folder / "checkpoint")
    operator = ReorderSettings(
        "event", "arrival", ("device",), 0.01, None, "conformal", None, None, "", 1
    ).make()
    tied = table.append_column("__tie", pa.array(np.arange(table.num_rows)))
    alone = in_memory(operator, [[(0, tied.slice(i * ROWS, ROWS))] for i in range(BATCHES)])
    rows = [row(f"reorder, {keys} keys", seconds, alone, stateless)]
    if keys == 1:
        waiting = sf.reorder(stream, **columns, **chosen, idle_timeout="1 hour")
        empty = idle_batch(waiting, folder / "idle")
        rows.append(
            {"name": "reorder, an empty micro-batch", "ms a micro-batch": round(empty * 1e3)}
        )
    return rows


def join_rows(spark: Any, folder: Path) -> list[dict[str, Any]]:
    """Half of the rows left, half right; w = 1,000, ten samples."""
    import sfumato as sf
    from sfumato.operators.table_similarity_join import TIE, SimilarityJoinSettings

    table = readings(ROWS * BATCHES, 1, 10, seed=2)
    stream = stream_of(spark, write_files(table, folder / "in"))
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
    seconds = through_spark(out, folder / "checkpoint")
    operator = SimilarityJoinSettings(
        1, 0.1, 0.5, 1000, 0.95, None, "auto", "append", ("x",), 1, 0, ("", ""), 1
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
    for i in range(BATCHES):
        part = slice(i * ROWS, (i + 1) * ROWS)
        rows, is_left = sides.slice(i * ROWS, ROWS), left[part]
        batches.append([(0, rows.filter(pa.array(is_left))), (1, rows.filter(pa.array(~is_left)))])
    return [row("similarity join, w = 1,000", seconds, in_memory(operator, batches), stateless)]


def row(name: str, seconds: float, alone: float, stateless: float) -> dict[str, Any]:
    return {
        "name": name,
        "rows/s": round(ROWS / seconds),
        "rows/s in memory": round(ROWS / alone),
        "time / time in memory": round(seconds / alone, 1),
        "ms a micro-batch": round(seconds * 1e3),
        "ms without operator": round(stateless * 1e3),
    }


def run() -> list[dict[str, Any]]:
    from sfumato.cli.session import session

    spark = session("sfumato benchmark")
    results = []
    cases = [
        lambda folder: reorder_rows(spark, folder, 1),
        lambda folder: reorder_rows(spark, folder, 1000),
        lambda folder: join_rows(spark, folder),
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
