"""Streams of files through Spark: sessions, sources, and Spark's own times of micro-batches."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

COLD = 3  # turns of compared queries that do not count


@contextmanager
def benchmark_session() -> Iterator[Any]:
    from sfumato.cli.session import session

    spark = session("sfumato benchmark")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def fresh_folder() -> Iterator[Path]:
    """A folder that is removed afterwards, whatever Spark still writes there."""
    folder = Path(tempfile.mkdtemp(prefix="sfumato-benchmark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_files(table: pa.Table, rows: int, folder: Path) -> str:
    """Write a file for each `rows` rows, and return the folder."""
    return write_tables((table.slice(i, rows) for i in range(0, table.num_rows, rows)), folder)


def write_tables(tables: Iterator[pa.Table], folder: Path) -> str:
    """Write a file for each table; Spark reads them in this order."""
    folder.mkdir(parents=True)
    for i, table in enumerate(tables):
        path = folder / f"{i:05d}.parquet"
        pq.write_table(table, path)
        os.utime(path, (1_000_000 + i, 1_000_000 + i))
    return str(folder)


def stream_of(spark: Any, source: str) -> Any:
    """Return the files of a folder as a stream, one file per micro-batch."""
    schema = spark.read.parquet(source).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)


def times_of(out: Any, folder: Path) -> list[float]:
    """Seconds of each micro-batch of a query over all its input, into a sink that discards rows."""
    query = (
        out.writeStream.format("noop")
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [p["durationMs"]["triggerExecution"] / 1e3 for p in query.recentProgress]


def later(values: list[Any]) -> list[Any]:
    """The later half: by then Java has compiled what it runs."""
    return values[len(values) // 2 :]


def through_spark(out: Any, folder: Path) -> float:
    """Median seconds of a later micro-batch."""
    return statistics.median(later(times_of(out, folder)))


def turns_through_spark(
    queries: Mapping[str, Callable[[], Any]], folder: Path, turns: int
) -> dict[str, list[list[float]]]:
    """Seconds of the later micro-batches of each query, by turn; the first turns do not count."""
    found: dict[str, list[list[float]]] = {name: [] for name in queries}
    for turn in range(COLD + turns):
        for name, make in queries.items():
            times = later(times_of(make(), folder / f"{name}{turn}"))
            if turn >= COLD:
                found[name].append(times)
    return found
