"""Conversions between Arrow columns and arrays, and Arrow tables as declared state.

A table is saved as an Arrow stream with a checksum, because Arrow readers do not verify the names,
types and lengths in the stream.
"""

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.state.declared import Array, Size, Sizes, check_size
from sfumato.operators.state.snapshot import SavedState, SnapshotError

NO_PUNCTUATION = np.iinfo(np.int64).min  # no punctuation is known yet
SECOND_US = 1e6  # microseconds per second
CHECKSUM = struct.Struct("<I")


def as_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """Return a column without NULL as int64 or float64; times in microseconds, dates in days."""
    array = as_array(column)
    kind = array.type
    if pa.types.is_timestamp(kind):
        array = array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
    elif pa.types.is_date(kind):
        array = array.cast(pa.date32()).cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        array = array.cast(pa.int64())
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        array = array.cast(pa.float64())
    else:
        raise TypeError(f"expected a column of numbers, times or dates; got {kind}")
    return array.to_numpy(zero_copy_only=False)


def punctuations_of(rows: pa.Table, name: str = "punctuation") -> np.ndarray:
    """Return int64[n]: the times in column `name`, with NO_PUNCTUATION for NULL."""
    column = rows.column(name)
    if not column.null_count:
        return np.array(as_numbers(column))  # writable
    times = np.full(len(column), NO_PUNCTUATION)
    times[pc.is_valid(column).to_numpy()] = as_numbers(column.drop_null())
    return times


def numbers_of(table: pa.Table, names: Sequence[str]) -> np.ndarray:
    """Return numeric columns as float64[n, D], with NULL as NaN."""
    columns = [table.column(name).cast(pa.float64(), safe=False).to_numpy() for name in names]
    return np.ascontiguousarray(np.stack(columns, axis=1)) if columns else np.empty((0, 0))


def as_times(times: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Return int64[n] times as a column of type `kind`, with NO_PUNCTUATION as NULL."""
    column = pa.array(times, pa.int64(), mask=times == NO_PUNCTUATION)
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz))
    if pa.types.is_date(kind):
        return column.cast(pa.int32()).cast(kind)
    return column.cast(kind)


def has_all_values(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """Return bool[n]: whether rows have neither NULL nor NaN in any of `columns`."""
    whole = np.ones(table.num_rows, bool)
    for name in columns:
        column = table.column(name)
        if column.null_count:
            whole &= ~pc.is_null(column).to_numpy()
        if pa.types.is_floating(column.type):
            whole &= ~pc.is_nan(pc.fill_null(column, 0.0)).to_numpy()
    return whole


def has_no_null(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """Return bool[n]: whether rows have values, NaN included, in all of `columns`."""
    known = np.ones(table.num_rows, bool)
    for name in columns:
        known &= table.column(name).is_valid().to_numpy()
    return known


def concat_tables(tables: Sequence[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def take_rows(table: pa.Table, places: np.ndarray) -> pa.Table:
    """Return the rows at `places`, in that order; the table itself if nothing changes."""
    n = len(places)
    if n == table.num_rows and np.array_equal(places, np.arange(n)):
        return table
    return table.take(pa.array(places))


def as_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def fields_of(column: pa.ChunkedArray | pa.Array) -> dict[str, pa.Array]:
    structs = as_array(column)
    parts = zip(structs.type, structs.flatten(), strict=True)
    return {field.name: values for field, values in parts}


@dataclass(frozen=True)
class SavedTable:
    """A pyarrow.Table, or None, as declared state.

    size : symbolic number of rows, as in `Array`, or None for any number; the value None has 0 rows
    """

    size: Size = None

    def save(self, value: pa.Table | None, name: str, saved: SavedState) -> None:
        saved.arrays[name] = np.empty(0, np.uint8) if value is None else as_bytes(value)

    def load(
        self, saved: SavedState, name: str, sizes: Sizes, owner: Any, present: Any
    ) -> pa.Table | None:
        data = Array(np.uint8, None).load(saved, name, sizes, owner, present)
        table = None if not data.size else from_bytes(name, data)
        check_size(name, self.size, 0 if table is None else table.num_rows, sizes)
        return table if table is None or saved.convert is None else saved.convert(name, table)


def as_bytes(table: pa.Table) -> np.ndarray:
    """Return the table as uint8[]: an Arrow stream, followed by its CRC-32."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream = sink.getvalue().to_pybytes()
    return np.frombuffer(stream + CHECKSUM.pack(zlib.crc32(stream)), np.uint8)


def from_bytes(name: str, data: np.ndarray) -> pa.Table:
    """Return the table stored by `as_bytes`. Raises SnapshotError for other bytes."""
    stream, checksum = data[: -CHECKSUM.size].tobytes(), data[-CHECKSUM.size :].tobytes()
    if checksum != CHECKSUM.pack(zlib.crc32(stream)):
        raise SnapshotError(f"`{name}` is not a valid Arrow table")
    try:
        with pa.ipc.open_stream(pa.py_buffer(stream)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise SnapshotError(f"`{name}` is not a valid Arrow table: {error}") from error
    return table
