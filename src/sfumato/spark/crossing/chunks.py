"""Rows packed into binary chunks, so that a stateful operator reads few cells and many rows.

A chunk is one Arrow IPC stream with the rows of one bucket of keys. Packing and unpacking are
stateless; handing single cells between Spark and Python is what makes Python operators slow.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sfumato.spark.crossing.buckets import BUCKET, place
from sfumato.spark.crossing.gc_freezer import after_batch

PLACES_COLUMN = "__places"
CHUNK_SCHEMA = f"{BUCKET} int, side int, chunk binary"
QUERY = -1  # the place, without rows, in which a stream keeps the query that it belongs to
GATHERED = 32_768  # rows that are packed together, while Spark makes the next ones
MAX_ROWS = 65_536  # of an unpacked batch: bounds the rows that a downstream operator holds
MAX_BYTES = 16 << 20  # of a chunk, and of an unpacked batch, unless one row has more


def to_bytes(table: pa.Table) -> bytes:
    """Return a table as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> pa.Table:
    """Return the table of one Arrow IPC stream; its buffers are views of `data`."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def parts(table: pa.Table) -> Iterator[bytes]:
    """Yield the rows as streams of at most MAX_BYTES, unless one row has more."""
    most = _rows_within(table)
    for start in range(0, table.num_rows, most):
        part = table.slice(start, most)
        data = to_bytes(part)
        if len(data) <= MAX_BYTES or part.num_rows == 1:
            yield data
        else:  # rows of very different sizes
            half = part.num_rows // 2
            yield from parts(part.slice(0, half))
            yield from parts(part.slice(half))


def _rows_within(table: pa.Table) -> int:
    """Return how many rows of a table have MAX_BYTES on average; at least one."""
    return max(1, int(MAX_BYTES * table.num_rows // max(table.nbytes, 1)))


def pack(df: DataFrame, side: int, tasks: int = 1) -> DataFrame:
    """Return chunks (place, side, chunk) of a frame with an int column BUCKET.

    tasks : how many operators get each chunk; those of bucket i are at the places of the numbers
        from i * tasks on
    On a stream every task that has rows first yields one chunk of place QUERY, without rows.
    """
    asks = df.isStreaming

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        asked = not asks
        for rows in _gathered(batches):
            if not asked:
                asked = True
                yield _batch([([QUERY], b"")], side)
            yield from _chunks(rows, side, tasks)
        after_batch()

    found = df.mapInArrow(packed, f"{PLACES_COLUMN} array<int>, side int, chunk binary")
    of = F.explode(PLACES_COLUMN) if tasks > 1 else F.element_at(PLACES_COLUMN, 1)
    return found.select(of.alias(BUCKET), "side", "chunk")


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows of several batches together, GATHERED or about MAX_BYTES: one of Spark's
    batches has few rows of a bucket, and each chunk costs something."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting += [batch] if batch.num_rows else []
        rows, size = (sum(getattr(of, n) for of in waiting) for n in ("num_rows", "nbytes"))
        if rows >= GATHERED or size >= MAX_BYTES:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()


def _chunks(table: pa.Table, side: int, tasks: int) -> Iterator[pa.RecordBatch]:
    buckets = table.column(BUCKET).to_numpy()
    rows = table.drop_columns([BUCKET])
    order = np.argsort(buckets, kind="stable")
    present, starts = np.unique(buckets[order], return_index=True)
    if len(present) > 1:
        rows = rows.take(pa.array(order))
    ends = np.append(starts[1:], len(buckets))
    whole = rows.nbytes <= MAX_BYTES  # then so is each chunk
    found: list[tuple[list[int], bytes]] = []
    for bucket, start, end in zip(present.tolist(), starts, ends, strict=True):
        of = rows.slice(start, end - start)
        places = [place(bucket * tasks + task) for task in range(tasks)]
        for chunk in [to_bytes(of)] if whole else parts(of):
            found.append((places, chunk))
            if sum(len(data) for _, data in found) > MAX_BYTES:
                yield _batch(found, side)
                found = []
    if found:
        yield _batch(found, side)


def _batch(found: list[tuple[list[int], bytes]], side: int) -> pa.RecordBatch:
    return pa.record_batch(
        {
            PLACES_COLUMN: pa.array([places for places, _ in found], pa.list_(pa.int32())),
            "side": pa.array([side] * len(found), pa.int32()),
            "chunk": pa.array([chunk for _, chunk in found], pa.binary()),
        }
    )


def unpack(df: DataFrame, schema: StructType) -> DataFrame:
    """Return the rows of a frame's column `chunk`, with the columns of the given schema."""
    names = schema.fieldNames()

    def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for chunk in batch.column("chunk").drop_null():
                with pa.ipc.open_stream(chunk.as_buffer()) as reader:
                    yield from batches_of(reader.read_all().select(names))
        after_batch()

    return df.select("chunk").mapInArrow(unpacked, schema)


def batches_of(rows: pa.Table) -> list[pa.RecordBatch]:
    """Return the rows in batches of at most MAX_ROWS and about MAX_BYTES."""
    found: list[pa.RecordBatch] = rows.to_batches(min(MAX_ROWS, _rows_within(rows)))
    return found
