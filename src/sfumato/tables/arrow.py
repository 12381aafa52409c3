"""Arrow columns as the arrays the operators take, and back."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

UNKNOWN = np.iinfo(np.int64).min  # a punctuation that is not known yet


def as_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """int64 or float64 of a column without NULLs; times as microseconds, dates as days."""
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


def as_times(times: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Microseconds as a column of the event time's own type; UNKNOWN becomes NULL."""
    column = pa.array(times, pa.int64(), mask=times == UNKNOWN)
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("us", kind.tz))
    if pa.types.is_date(kind):
        return column.cast(pa.int32()).cast(kind)
    return column.cast(kind)


def complete(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """bool[n]: rows that have a value, and not NaN, in each of `columns`."""
    whole = np.ones(table.num_rows, bool)
    for name in columns:
        column = table.column(name)
        if column.null_count:
            whole &= ~pc.is_null(column).to_numpy()
        if pa.types.is_floating(column.type):
            whole &= ~pc.is_nan(pc.fill_null(column, 0.0)).to_numpy()
    return whole


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """One table out of several of one schema."""
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def taken(table: pa.Table, places: np.ndarray) -> pa.Table:
    """The rows at some places, in that order: the table itself where they are all, as they are."""
    n = len(places)
    if n == table.num_rows and np.array_equal(places, np.arange(n)):
        return table
    return table.take(pa.array(places))


def as_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """A column in one piece."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.array([], whole.type)
    return whole


def fields_of(column: pa.ChunkedArray | pa.Array) -> dict[str, pa.Array]:
    """The fields of a struct column by name."""
    structs = as_array(column)
    parts = zip(structs.type, structs.flatten(), strict=True)
    return {field.name: values for field, values in parts}
