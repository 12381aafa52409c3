"""Streams of files on Spark: written, read one file per micro-batch, run to their end."""

import os
from itertools import pairwise

import pyarrow.parquet as pq

from sfumato.metrics.progress import NOT_COUNTERS


def put(folder, number, table):
    """Write an Arrow table as a file; Spark reads the files of a folder in order of numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number:05d}.parquet"
    pq.write_table(table, path)
    os.utime(path, (1_000_000 + number, 1_000_000 + number))


def put_parts(folder, table, cuts):
    """Write the rows between each two cuts as a file."""
    for low, high in pairwise(cuts):
        put(folder, low, table.slice(low, high - low))


def stream_of(spark, folder, schema, files=1):
    """Return the files of a folder, which may be new, as a stream, `files` per micro-batch."""
    folder.mkdir(parents=True, exist_ok=True)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", files)
    return reader.parquet(str(folder))


def run(frame, folder):
    """Run a stream over all its input; return its rows in order, and the finished query."""
    rows = []
    query = (
        frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return rows, query


def observed(*queries):
    """Yield (name, row) for all metrics of all micro-batches."""
    for query in queries:
        for progress in query.recentProgress:
            yield from progress.observedMetrics.items()


def counts_of(*queries, but=()):
    """Add up the counters of queries, except gauges and metrics whose names end in `but`."""
    counts = {}
    for name, row in observed(*queries):
        if not name.endswith(tuple(but)):
            for counter, value in row.asDict().items():
                if isinstance(value, int) and counter not in NOT_COUNTERS:
                    counts[counter] = counts.get(counter, 0) + value
    return counts
