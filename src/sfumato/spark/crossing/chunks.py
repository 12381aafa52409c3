"""Rows packed into binary chunks, so that a stateful operator reads few cells with many rows.

A chunk is one Arrow IPC stream with rows of one key bucket. Spark partitions rows by hashing a
number, and might put 20 of 32 buckets into one of two partitions. The hash of an int is invertible:
bucket i is sent under the int with hash i (its place), so Spark assigns it to partition i modulo
the number of partitions.

An operator's counters and gauges are next to its answers in one list column per type. One column
per counter would be slow: Spark plans, compiles and passes on every column at each observation
point.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructType

from sfumato.reports import IDENTITY, METRIC_PREFIX
from sfumato.spark.model.columns import without_constraints

if TYPE_CHECKING:  # a process next to the driver imports this module, but must not import kernels
    from sfumato.tables.reading.chain import ChainConfig

BUCKET = "__bucket"
WORD_MASK = 0xFFFFFFFF
# Spark's MurmurHash3 of one int: the seed, the factors (odd, modulo 2**32) and the addend.
MURMUR_C1, MURMUR_C2, MURMUR_F1, MURMUR_F2 = 0xCC9E2D51, 0x1B873593, 0x85EBCA6B, 0xC2B2AE35
HASH_SEED, MURMUR_M, MURMUR_N, INT_BYTES = 42, 5, 0xE6546B64, 4
PLACES_COLUMN = "__places"
CHUNK_SCHEMA = f"{BUCKET} int, side int, chunk binary"
QUERY = -1  # a place without rows, where a stream stores its query's identity
ROWS_PER_PACK = 32_768  # rows packed together while Spark produces the next rows
MAX_ROWS = 65_536  # rows per unpacked batch; bounds the memory of downstream operators
FREEZE_SECONDS = 120.0
MAX_BYTES = 16 << 20  # per chunk and per unpacked batch, unless one row is larger


def to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def from_bytes(data: bytes | pa.Buffer) -> pa.Table:
    """Return the table of one Arrow IPC stream; its buffers are views of `data`."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def parts(table: pa.Table) -> Iterator[bytes]:
    """Yield the rows as streams of at most MAX_BYTES, unless a single row is larger."""
    most = _rows_within(table)
    for start in range(0, table.num_rows, most):
        part = table.slice(start, most)
        data = to_bytes(part)
        if len(data) <= MAX_BYTES or part.num_rows == 1:
            yield data
        else:  # row sizes vary widely
            half = part.num_rows // 2
            yield from parts(part.slice(0, half))
            yield from parts(part.slice(half))


def _rows_within(table: pa.Table) -> int:
    """Return the number of rows that occupy MAX_BYTES on average, but at least one."""
    return max(1, int(MAX_BYTES * table.num_rows // max(table.nbytes, 1)))


def pack(df: DataFrame, side: int, tasks: int = 1) -> DataFrame:
    """Return the rows of a frame with an int column BUCKET as chunks (place, side, chunk).

    tasks : number of operators that receive each chunk; bucket i has the places of i * tasks + task
    On a stream, every Spark task with rows first yields an empty chunk at the place QUERY.
    """
    asks = df.isStreaming

    def packed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        asked = not asks
        for rows in _gather_batches(batches):
            if not asked:
                asked = True
                yield _batch([([QUERY], b"")], side)
            yield from _chunks(rows, side, tasks)
        after_batch()

    found = df.mapInArrow(packed, f"{PLACES_COLUMN} array<int>, side int, chunk binary")
    of = F.explode(PLACES_COLUMN) if tasks > 1 else F.element_at(PLACES_COLUMN, 1)
    return found.select(of.alias(BUCKET), "side", "chunk")


def _gather_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield tables of ROWS_PER_PACK rows or about MAX_BYTES: each chunk has a fixed cost."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting += [batch] if batch.num_rows else []
        rows, size = (sum(getattr(of, n) for of in waiting) for n in ("num_rows", "nbytes"))
        if rows >= ROWS_PER_PACK or size >= MAX_BYTES:
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
    whole = rows.nbytes <= MAX_BYTES  # then each chunk is also small enough
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
    """Return the rows in a frame's column `chunk`, with the columns of the given schema."""
    names = schema.fieldNames()

    def unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for chunk in batch.column("chunk").drop_null():
                yield from split_batches(from_bytes(chunk.as_buffer()).select(names))
        after_batch()

    return df.select("chunk").mapInArrow(unpacked, schema)


def split_batches(rows: pa.Table) -> list[pa.RecordBatch]:
    """Return the rows in batches of at most MAX_ROWS and about MAX_BYTES."""
    found: list[pa.RecordBatch] = rows.to_batches(min(MAX_ROWS, _rows_within(rows)))
    return found


class GcFreezer:
    """Exclusion of operators from garbage collection, which PySpark runs after every task.

    A collection visits every object, and an operator with many keys has millions. Objects alive
    after a micro-batch are frozen (gc.freeze). Every FREEZE_SECONDS they are unfrozen until a full
    collection has freed their garbage.
    clock : function that returns seconds, never decreasing
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until = clock()
        self._collections_due = 0  # number of full collections before the next freeze

    def after_batch(self, evicted: bool = False) -> None:
        """End a micro-batch. evicted : whether the memory of evicted operators must be freed"""
        now, collections = self._clock(), gc.get_stats()[-1]["collections"]
        if evicted or now >= self._until:
            gc.unfreeze()
            self._until, self._collections_due = now + FREEZE_SECONDS, collections + 1
        elif collections >= self._collections_due:
            gc.freeze()


_PROCESS_FREEZER = GcFreezer()


def after_batch(evicted: bool = False) -> None:
    """End a micro-batch in this process; see `GcFreezer`."""
    # This is a function, because Spark would copy an object into tasks.
    _PROCESS_FREEZER.after_batch(evicted)


@dataclass(frozen=True)
class RawRows:
    """The rows of one frame under generated column names.

    frame : BUCKET, an int column, and the other columns
    columns : generated name by the user's name;  kinds : type by generated name
    """

    frame: DataFrame
    columns: Mapping[str, str]
    kinds: Mapping[str, DataType]


# A frame, its columns to select with their types, and the columns that determine the bucket.
SelectedColumns = tuple[DataFrame, Mapping[str, tuple[Column, DataType]], Sequence[Column]]


def raw_rows(selections: Sequence[SelectedColumns], buckets: int) -> list[RawRows]:
    """Return the rows of frames under short column names.

    Columns of one type have the same names in all frames, so that rows of several frames can be
    sorted together in few columns. Spark infers no constraints on them; see `without_constraints`.
    """
    numbers: dict[str, int] = {}  # position of a type in the order of first appearance
    found = []
    for frame, columns, key in selections:
        names, count, cells = dict[str, str](), Counter[int](), list[Column]()
        for name, (cell, kind) in columns.items():
            number = numbers.setdefault(kind.json(), len(numbers))
            names[name] = f"c{number}_{count[number]}"
            count[number] += 1
            cells.append(cell.alias(names[name]))
        bucket = F.pmod(F.xxhash64(*key), F.lit(buckets)).cast("int") if key else F.lit(0)
        rows = frame.select(*cells, bucket.alias(BUCKET))
        kinds = {names[name]: kind for name, (_, kind) in columns.items()}
        found.append(RawRows(without_constraints(rows), names, kinds))
    return found


def spark_hash(value: int) -> int:
    """Return the hash by which Spark partitions an int."""
    mixed = _rotate(value * MURMUR_C1 & WORD_MASK, 15) * MURMUR_C2 & WORD_MASK
    found = (_rotate(HASH_SEED ^ mixed, 13) * MURMUR_M + MURMUR_N & WORD_MASK) ^ INT_BYTES
    found = (found ^ found >> 16) * MURMUR_F1 & WORD_MASK
    found = (found ^ found >> 13) * MURMUR_F2 & WORD_MASK
    return _to_signed(found ^ found >> 16)


@cache
def place(bucket: int) -> int:
    """Return the int whose `spark_hash` is `bucket`, a number from 0 to 2**31 - 1."""
    word = _unshift(_unshift(bucket, 16) * pow(MURMUR_F2, -1, 1 << 32) & WORD_MASK, 13)
    word = _unshift(word * pow(MURMUR_F1, -1, 1 << 32) & WORD_MASK, 16)
    word = ((word ^ INT_BYTES) - MURMUR_N) * pow(MURMUR_M, -1, 1 << 32) & WORD_MASK
    word = (_rotate(word, 32 - 13) ^ HASH_SEED) * pow(MURMUR_C2, -1, 1 << 32) & WORD_MASK
    return _to_signed(_rotate(word, 32 - 15) * pow(MURMUR_C1, -1, 1 << 32) & WORD_MASK)


def _rotate(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & WORD_MASK


def _unshift(word: int, bits: int) -> int:
    """Invert x ^ (x >> bits) for bits > 10."""
    return word ^ word >> bits ^ word >> 2 * bits


def _to_signed(word: int) -> int:
    return word if word < 1 << 31 else word - (1 << 32)


# Per Spark type of a metric: the column that lists such metrics, and the type.
METRIC_COLUMNS: dict[str, tuple[str, DataType]] = {
    "long": ("numbers", LongType()),
    "string": ("texts", StringType()),
    "array<long>": ("lists", ArrayType(LongType())),
}


class MetricsName(str):
    """The name of an operator's observed metrics, `sfumato_KIND_NAME`.

    kind : the operator's kind;  is_chosen : whether the user chose NAME
    """

    kind: str
    is_chosen: bool

    def __new__(cls, kind: str, name: str, *, is_chosen: bool = False) -> MetricsName:
        found = super().__new__(cls, f"{METRIC_PREFIX}{kind}_{name}")
        found.kind, found.is_chosen = kind, is_chosen
        return found

    def identity(self, side: str = "", step: int = 1) -> list[Column]:
        """Return the columns that identify the operator in observed metrics."""
        values = (self.kind, self.removeprefix(METRIC_PREFIX), step, side)
        return [F.lit(of).alias(name) for name, of in zip(IDENTITY, values, strict=True)]


class OperatorMetrics:
    """An operator's counters and gauges. kinds : Spark type by metric name"""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.names: dict[str, list[str]] = {}  # per type: the metrics in its column, in order
        for name, kind in kinds.items():
            self.names.setdefault(kind, []).append(name)

    @classmethod
    def of(cls, blueprint: ChainConfig) -> OperatorMetrics:
        gauges = {name: of for name, (of, _) in blueprint.gauges.items()}
        return cls(dict.fromkeys(blueprint.counters, "long") | gauges)

    @property
    def columns(self) -> StructType:
        found = StructType()
        for kind in self.names:
            found = found.add(METRIC_COLUMNS[kind][0], ArrayType(METRIC_COLUMNS[kind][1]))
        return found

    @property
    def places(self) -> dict[str, str]:
        """Return the SQL expressions of the metrics, by name."""
        return {
            name: f"{METRIC_COLUMNS[kind][0]}[{place}]"
            for kind, names in self.names.items()
            for place, name in enumerate(names)
        }

    def cells(self, known: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return one row of the columns; unknown metrics are NULL."""
        return {
            METRIC_COLUMNS[kind][0]: [known.get(name) for name in names]
            for kind, names in self.names.items()
        }


def subtract_counts(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in after.items()}
