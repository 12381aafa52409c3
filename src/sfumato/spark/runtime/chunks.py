"""Rows packed into binary chunks, so that a stateful operator touches few cells and many rows.

A chunk is one Arrow IPC stream with the rows of one bucket of keys. Packing and unpacking are
stateless; handing single cells between Spark and Python is what makes Python operators slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

BUCKET = "__bucket"
CHUNK_SCHEMA = f"{BUCKET} int, side int, chunk binary"
MAX_ROWS = 65_536  # of an unpacked batch: bounds what a downstream operator holds at once


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


def pack(df: DataFrame, side: int) -> DataFrame:
    """Chunks (bucket, side, chunk) of a frame with an int column BUCKET: one a bucket and batch."""

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield _chunks(pa.table(batch), side)

    return df.mapInArrow(packed, CHUNK_SCHEMA)


def _chunks(table: pa.Table, side: int) -> pa.RecordBatch:
    buckets = table.column(BUCKET).to_numpy()
    rows = table.drop_columns([BUCKET])
    order = np.argsort(buckets, kind="stable")
    present, starts = np.unique(buckets[order], return_index=True)
    if len(present) > 1:
        rows = rows.take(pa.array(order))
    ends = np.append(starts[1:], len(buckets))
    chunks = [
        to_bytes(rows.slice(start, end - start)) for start, end in zip(starts, ends, strict=True)
    ]
    return pa.record_batch(
        {
            BUCKET: pa.array(present, pa.int32()),
            "side": pa.array(np.full(len(present), side), pa.int32()),
            "chunk": pa.array(chunks, pa.binary()),
        }
    )


def unpack(df: DataFrame, schema: StructType) -> DataFrame:
    """The rows of a frame's column `chunk`, with the columns of the given schema."""
    names = schema.fieldNames()

    def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for chunk in batch.column("chunk").drop_null():
                with pa.ipc.open_stream(chunk.as_buffer()) as reader:
                    rows = reader.read_all().select(names)
                    yield from rows.to_batches(max_chunksize=MAX_ROWS)

    return df.select("chunk").mapInArrow(unpacked, schema)
