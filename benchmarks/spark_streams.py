"""Streams of files through Spark: sessions, sources, and Spark's own micro-batch times."""

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

COLD = 3  # first turns of compared queries, which are discarded


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
    """Yield a folder that is removed afterwards, even if Spark still writes to it."""
    folder = Path(tempfile.mkdtemp(prefix="sfumato-benchmark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_files(table: pa.Table, rows: int, folder: Path) -> str:
    """Write one file per `rows` rows, and return the folder."""
    return write_tables((table.slice(i, rows) for i in range(0, table.num_rows, rows)), folder)


def write_tables(tables: Iterator[pa.Table], folder: Path) -> str:
    """Write one file per table, in the order in which Spark reads them."""
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
    """Return the seconds of each micro-batch of a query over all its input; rows are discarded."""
    query = (
        out.writeStream.format("noop")
        .option("checkpointLocation", str(folder))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [p["durationMs"]["triggerExecution"] / 1e3 for p in query.recentProgress]


def later(values: list[Any]) -> list[Any]:
    """Return the later half, measured after Java has compiled its code."""
    return values[len(values) // 2 :]


def through_spark(out: Any, folder: Path) -> float:
    """Return the median seconds of the later micro-batches."""
    return statistics.median(later(times_of(out, folder)))


def turns_through_spark(
    queries: Mapping[str, Callable[[], Any]], folder: Path, turns: int
) -> dict[str, list[list[float]]]:
    """Return the seconds of each query's later micro-batches, by turn, without the first turns."""
    found: dict[str, list[list[float]]] = {name: [] for name in queries}
    for turn in range(COLD + turns):
        for name, make in queries.items():
            times = later(times_of(make(), folder / f"{name}{turn}"))
            if turn >= COLD:
                found[name].append(times)
    return found
