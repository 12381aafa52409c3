"""Tie-breakers for simultaneous rows: a hash of their columns, equal to Spark's xxhash64."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import offsets_of
from sfumato.operators.row_hash import Hashes, add_bytes, add_words, new_hashes
from sfumato.tables.arrow import as_array
from sfumato.tables.reading.frame import is_hashable
from sfumato.tables.reading.types import (
    ALL_DIGITS,
    is_bytes,
    is_list,
    is_text,
    lengths_of,
    unscaled,
)

SMALL_DIGITS = 18  # decimals with at most this many digits are hashed as 8-byte numbers


def ties_of(table: pa.Table) -> pa.Array:
    """Return int64[n]: Spark's `xxhash64` of all columns except maps; 0 if there are none."""
    columns = [column for column in table.columns if is_hashable(column.type)]
    if not columns:
        return pa.array(np.zeros(table.num_rows, np.int64))
    hashes = new_hashes(table.num_rows)
    for column in columns:
        _add(hashes, as_array(column))
    return pa.array(hashes.view(np.int64))


def hash_numbers(strings: pa.Array) -> pa.Array:
    """Hash strings or other values to finite numbers, float64[n], with NULL for NULL.

    Different values have different numbers unless their 62-bit hashes collide: among a million
    values, with a probability of one in ten million.
    """
    hashes = new_hashes(len(strings))
    _add(hashes, strings)
    sign_and_fraction = hashes & np.uint64(0x800FFFFFFFFFFFFF)
    exponent = np.uint64(512) + ((hashes >> np.uint64(52)) & np.uint64(0x7FF)) % np.uint64(900)
    numbers = (sign_and_fraction | (exponent << np.uint64(52))).view(np.float64)
    return pa.array(numbers, mask=strings.is_null().to_numpy(zero_copy_only=False))


def _add(hashes: Hashes, column: pa.Array) -> None:
    kind = column.type
    if pa.types.is_null(kind):
        return
    if pa.types.is_dictionary(kind):
        _add(hashes, column.dictionary_decode())
    elif pa.types.is_struct(kind):
        for field in column.flatten():
            _add(hashes, field)
    elif is_list(kind):
        _add_lists(hashes, column)
    elif is_text(kind) or is_bytes(kind):
        _add_strings(hashes, column)
    elif _is_large(kind):
        _add_strings(hashes, _big_integer_bytes(column))
    else:
        words, present = _words(column)
        add_words(hashes, np.arange(len(column) + 1), [words], [present])


def _add_lists(hashes: Hashes, column: pa.Array) -> None:
    lengths, elements = lengths_of(column), column.flatten()
    offsets = offsets_of(lengths)
    if _has_fixed_size(elements.type):
        cells = [_words(leaf) for leaf in _leaves(elements)]
        if cells:
            words, present = zip(*cells, strict=True)
            add_words(hashes, offsets, list(words), list(present))
        return
    for j in range(int(lengths.max(initial=0))):  # all first elements, then all second, ...
        rows = np.flatnonzero(lengths > j)
        of = hashes[rows]
        _add(of, as_array(elements.take(pa.array(offsets[rows] + j))))
        hashes[rows] = of


def _has_fixed_size(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return all(_has_fixed_size(field.type) for field in kind)
    nested = is_list(kind) or pa.types.is_dictionary(kind)
    return not (nested or is_text(kind) or is_bytes(kind) or _is_large(kind))


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    if pa.types.is_struct(column.type):
        for field in column.flatten():
            yield from _leaves(field)
    elif not pa.types.is_null(column.type):
        yield column


def _is_large(kind: pa.DataType) -> bool:
    return pa.types.is_decimal(kind) and kind.precision > SMALL_DIGITS


def _words(column: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return a column's 4-byte or 8-byte values, and whether each is present."""
    present = column.is_valid().to_numpy(zero_copy_only=False)
    kind = column.type
    if pa.types.is_decimal(kind):
        return np.ascontiguousarray(unscaled(column)[:, 0]), present
    if pa.types.is_boolean(kind) or (pa.types.is_integer(kind) and kind.bit_width < 32):
        column = column.cast(pa.int32())
    elif pa.types.is_date(kind):
        column = column.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    elif pa.types.is_time(kind):
        column = column.cast(pa.time64("ns")).cast(pa.int64())
    elif pa.types.is_duration(kind):
        column = column.cast(pa.duration("us"), safe=False).cast(pa.int64())
    if column.null_count:
        column = column.fill_null(0)
    return column.to_numpy(zero_copy_only=False), present


def _big_integer_bytes(column: pa.Array) -> pa.Array:
    """Return unscaled decimals as big-endian bytes, like Java's BigInteger."""

    def bytes_of(number: Any) -> bytes | None:
        if number is None:
            return None
        whole = int(number.scaleb(column.type.scale, ALL_DIGITS))
        size = (whole if whole >= 0 else ~whole).bit_length() // 8 + 1
        return whole.to_bytes(size, "big", signed=True)

    return pa.array([bytes_of(number) for number in column.to_pylist()], pa.binary())


def _add_strings(hashes: Hashes, column: pa.Array) -> None:
    column = column.cast(pa.large_binary())
    _, offsets, data = column.buffers()
    starts = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
    content = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    add_bytes(hashes, starts, content, column.is_valid().to_numpy(zero_copy_only=False))
