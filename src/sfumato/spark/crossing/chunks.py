"""Rows packed into binary chunks, so that a stateful operator touches few cells and many rows.

A chunk is one Arrow IPC stream with the rows of one bucket of keys. Packing and unpacking are
stateless; handing single cells between Spark and Python is what makes Python operators slow.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from sfumato.spark.crossing.even_partitions import BUCKET, place
from sfumato.spark.crossing.garbage import behind_batch

PLACES = "__places"
CHUNK_SCHEMA = f"{BUCKET} int, side int, chunk binary"
QUERY = -1  # the place of no rows in which a stream keeps what query it is
GATHERED = 32_768  # rows that are packed at once: Spark makes the next ones meanwhile
MAX_ROWS = 65_536  # of an unpacked batch: bounds what a downstream operator holds at once
MAX_BYTES = 16 << 20  # of a chunk, and of an unpacked batch, unless one row has more


def to_bytes(table: pa.Table) -> bytes:
    """One Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes) -> pa.Table:
    """The table of one Arrow IPC stream; its buffers are views of `data`."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def parts(table: pa.Table) -> Iterator[bytes]:
    """The rows as streams of MAX_BYTES at most, unless one row has more."""
    most = rows_within(table)
    for start in range(0, table.num_rows, most):
        part = table.slice(start, most)
        data = to_bytes(part)
        if len(data) <= MAX_BYTES or part.num_rows == 1:
            yield data
        else:  # rows of very different sizes
            half = part.num_rows // 2
            yield from parts(part.slice(0, half))
            yield from parts(part.slice(half))


def rows_within(table: pa.Table) -> int:
    """How many rows of a table, on average, have MAX_BYTES; one at least."""
    return max(1, int(MAX_BYTES * table.num_rows // max(table.nbytes, 1)))


def pack(df: DataFrame, side: int, tasks: int = 1) -> DataFrame:
    """Chunks (place, side, chunk) of a frame with an int column BUCKET, for each batch of it.

    tasks : how many operators get each chunk; those of bucket i are at the places of the numbers
        from i * tasks on
    On a stream every task that has rows gives one chunk of place QUERY, without rows, before.
    """
    asks = df.isStreaming

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        asked = not asks
        for rows in _gathered(batches):
            if not asked:
                asked = True
                yield _batch([([QUERY], b"")], side)
            yield from _chunks(rows, side, tasks)
        behind_batch()

    found = df.mapInArrow(packed, f"{PLACES} array<int>, side int, chunk binary")
    of = F.explode(PLACES) if tasks > 1 else F.element_at(PLACES, 1)
    return found.select(of.alias(BUCKET), "side", "chunk")


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows of some batches at a time, GATHERED or about MAX_BYTES: what a chunk costs is not
    paid for the few rows that a bucket has in one of Spark's batches."""
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
            PLACES: pa.array([places for places, _ in found], pa.list_(pa.int32())),
            "side": pa.array([side] * len(found), pa.int32()),
            "chunk": pa.array([chunk for _, chunk in found], pa.binary()),
        }
    )


def unpack(df: DataFrame, schema: StructType) -> DataFrame:
    """The rows of a frame's column `chunk`, with the columns of the given schema."""
    names = schema.fieldNames()

    def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for chunk in batch.column("chunk").drop_null():
                with pa.ipc.open_stream(chunk.as_buffer()) as reader:
                    yield from batches_of(reader.read_all().select(names))
        behind_batch()

    return df.select("chunk").mapInArrow(unpacked, schema)


def batches_of(rows: pa.Table) -> list[pa.RecordBatch]:
    """The rows in batches of MAX_ROWS and about MAX_BYTES at most."""
    found: list[pa.RecordBatch] = rows.to_batches(min(MAX_ROWS, rows_within(rows)))
    return found
