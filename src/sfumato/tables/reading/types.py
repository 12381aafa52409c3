"""Arrow types that Spark supports, and columns as single arrays."""

from decimal import Context
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.tables.arrow import as_array

Kind = Literal["timestamp", "timestamp_ntz", "whole", "number", "date", "truth", "text", ""]
"""Timestamps with and without a time zone, integers, other numbers, dates, booleans, text, and
other types.
"""
EXACT_DIGITS = 15  # decimals with at most this many digits are exact as doubles
ALL_DIGITS = Context(prec=80)  # decimals have at most 76 digits; the user's context may have fewer
EXACT_WHOLE = 2**53  # integers up to this magnitude are exact as doubles
SPARK_TYPE_OF_UNSIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.int64(),
}


def spark_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that a column has after passing through Spark."""
    if kind in SPARK_TYPE_OF_UNSIGNED:
        return SPARK_TYPE_OF_UNSIGNED[kind]
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
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return spark_type(kind.value_type)
    extended = isinstance(kind, pa.BaseExtensionType)  # UUIDs, periods of pandas
    if extended or pa.types.is_union(kind) or pa.types.is_interval(kind):
        raise TypeError(f"rows cannot have values of type {kind}")
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(spark_type(f.type)) for f in kind])
    if is_list(kind):
        return pa.list_(kind.value_field.with_type(spark_type(kind.value_type)))
    if is_text(kind):
        return pa.string()
    return pa.binary() if is_bytes(kind) else kind


def _is_any(kind: pa.DataType, *layouts: str) -> bool:
    return any(getattr(pa.types, f"is_{layout}")(kind) for layout in layouts)


def is_list(kind: pa.DataType) -> bool:
    """Return whether a type is a list in any layout; maps are not."""
    layouts = ("list", "large_list", "fixed_size_list", "list_view", "large_list_view")
    return _is_any(kind, *layouts)


def is_text(kind: pa.DataType) -> bool:
    return _is_any(kind, "string", "large_string", "string_view")


def is_bytes(kind: pa.DataType) -> bool:
    return _is_any(kind, "binary", "large_binary", "binary_view", "fixed_size_binary")


def is_number(kind: pa.DataType) -> bool:
    """Return whether a type is numeric in Spark; booleans are not."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def as_doubles(column: pa.ChunkedArray | pa.Array, what: str) -> pa.Array:
    """Cast a column to float64 as SQL does: timestamps become seconds since 1970."""
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
        raise TypeError(f"{what} must be numeric; it is {kind}: cast it first")
    if kind.precision <= EXACT_DIGITS and 0 <= kind.scale <= EXACT_DIGITS:
        # Numerator and denominator are exact as doubles, so the quotient is the nearest double.
        numbers = unscaled(array)[:, 0] / 10.0**kind.scale
        return pa.array(numbers, pa.float64(), mask=array.is_null().to_numpy(zero_copy_only=False))
    values = [None if value is None else float(value) for value in array.to_pylist()]
    return pa.array(values, pa.float64())


def unscaled(column: pa.Array) -> np.ndarray:
    """Return int64[n, 2]: the unscaled values of decimals, low word first; arbitrary for NULL."""
    if column.type.bit_width != 128:
        column = column.cast(pa.decimal128(column.type.precision, column.type.scale))
    words = np.frombuffer(column.buffers()[1], np.int64)
    return words.reshape(-1, 2)[column.offset : column.offset + len(column)].copy()


def floats_of(array: pa.Array) -> np.ndarray:
    """Return an array of doubles as float64[n], with NULL as NaN."""
    return array.to_numpy(zero_copy_only=False)


def lengths_of(lists: pa.Array) -> np.ndarray:
    """Return int64[n]: the length of each list, 0 for NULL."""
    return pc.fill_null(pc.list_value_length(lists), 0).to_numpy().astype(np.int64)


def has_more_digits(values: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether some values change when converted to doubles."""
    kind = values.type
    if pa.types.is_integer(kind) and kind.bit_width == 64:
        ends = pc.min_max(values).as_py()
        return ends["min"] is not None and max(-ends["min"], ends["max"]) > EXACT_WHOLE
    if not pa.types.is_decimal(kind) or kind.precision <= EXACT_DIGITS:
        return False
    known = (value for value in values.to_pylist() if value is not None)
    digits = (value.normalize(ALL_DIGITS).as_tuple().digits for value in known)
    return any(len(each) > EXACT_DIGITS for each in digits)
