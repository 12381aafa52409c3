"""Arrow types as Spark has them, and columns as one array."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.tables.arrow import as_array

Kind = Literal["timestamp", "timestamp_ntz", "whole", "number", "date", "truth", "text", ""]
"""Of values: times with and without a time zone, whole numbers (microseconds, maybe), other
numbers, dates, truth values, text, and anything else."""
EXACT_DIGITS = 15  # decimals of at most so many are whole numbers that a double holds exactly
UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
}


def spark_type(kind: pa.DataType) -> pa.DataType:
    """The type that a column has after it went through Spark."""
    if kind in UNSIGNED:
        return UNSIGNED[kind]
    if kind == pa.float16():
        return pa.float32()
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_duration(kind):
        return pa.duration("us")
    if pa.types.is_date(kind):
        return pa.date32()
    if pa.types.is_time(kind):
        return pa.time64("ns")
    if pa.types.is_dictionary(kind):
        return spark_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(spark_type(f.type)) for f in kind])
    if is_list(kind):
        return pa.list_(kind.value_field.with_type(spark_type(kind.value_type)))
    if is_text(kind):
        return pa.string()
    return pa.binary() if is_bytes(kind) else kind


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists, of any layout (maps are not)."""
    tests = ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view")
    return any(getattr(pa.types, test, lambda _: False)(kind) for test in tests)


def is_text(kind: pa.DataType) -> bool:
    """Whether values are text, of any layout."""
    tests = ("is_string", "is_large_string", "is_string_view")
    return any(getattr(pa.types, test, lambda _: False)(kind) for test in tests)


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values are strings of bytes, of any layout."""
    tests = ("is_binary", "is_large_binary", "is_binary_view", "is_fixed_size_binary")
    return any(getattr(pa.types, test, lambda _: False)(kind) for test in tests)


def is_number(kind: pa.DataType) -> bool:
    """Whether Spark takes values for numbers: truth values are none."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def kind_of(kind: pa.DataType) -> Kind:
    """Of which kind the values of a type are; a column of nothing but NULL is one of numbers."""
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if is_number(kind) or pa.types.is_null(kind):
        return "whole" if pa.types.is_integer(kind) else "number"
    if pa.types.is_date(kind):
        return "date"
    return "truth" if pa.types.is_boolean(kind) else "text" if is_text(kind) else ""


def as_doubles(column: pa.ChunkedArray | pa.Array, what: str) -> pa.Array:
    """The column as float64, as CAST does it: of a time the seconds since 1970.

    Raises TypeError, naming `what`, for values that are no numbers.
    """
    array = as_array(column)
    kind = array.type
    if pa.types.is_float64(kind):
        return array
    if pa.types.is_null(kind) or (is_number(kind) and not pa.types.is_decimal(kind)):
        return array.cast(pa.float64(), safe=False)
    if pa.types.is_boolean(kind):
        return array.cast(pa.int8()).cast(pa.float64())
    if pa.types.is_timestamp(kind):
        whole = array.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        return pc.divide(whole.cast(pa.float64(), safe=False), 1e6)
    if not pa.types.is_decimal(kind):
        raise TypeError(f"{what} must be of numbers; it is {kind}: cast it before")
    if kind.precision <= EXACT_DIGITS and 0 <= kind.scale <= EXACT_DIGITS:
        # Both numbers are exact as doubles, so their quotient is the nearest double.
        numbers = unscaled(array) / 10.0**kind.scale
        return pa.array(numbers, pa.float64(), mask=array.is_null().to_numpy(zero_copy_only=False))
    values = [None if value is None else float(value) for value in array.to_pylist()]
    return pa.array(values, pa.float64())


def unscaled(column: pa.Array) -> np.ndarray:
    """int64[n]: decimals of few digits without their point; anything where NULL."""
    if column.type.bit_width != 128:
        column = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    both = np.frombuffer(column.buffers()[1], np.int64)  # the low word first
    return both.reshape(-1, 2)[column.offset : column.offset + len(column), 0].copy()


def floats_of(array: pa.Array) -> np.ndarray:
    """float64[n] of an array of doubles, NULL as NaN."""
    return array.to_numpy(zero_copy_only=False)


def lengths_of(lists: pa.Array) -> np.ndarray:
    """int64[n]: how many elements each list has; 0 where it is NULL."""
    return pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)
