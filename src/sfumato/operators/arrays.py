"""Helper functions for arrays and dictionaries."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import number_codes

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Records = npt.NDArray[np.void]


def pad(array: Any, length: int, fill: Any = 0) -> Any:
    """Pad an array with `fill` to at least `length` along its first axis."""
    if len(array) >= length:
        return array
    more = np.full((length - len(array), *array.shape[1:]), fill, array.dtype)
    return np.concatenate([array, more])


def resize(array: Any, room: int) -> Any:
    """Return a copy whose last axis is truncated, or padded with zeros, to the size `room`."""
    result = np.zeros((*array.shape[:-1], room), array.dtype)
    kept = min(array.shape[-1], room)
    result[..., :kept] = array[..., :kept]
    return result


def offsets_of(lengths: npt.ArrayLike) -> Ints:
    """Return int64[n + 1]: starts of n lists with these lengths, and the end of the last list."""
    sizes = np.asarray(lengths)
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def gather_lists(offsets: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Select the lists `order` (int64[k]) from lists at `offsets` (int64[n + 1]). Returns the new
    offsets, int64[k + 1], and the old position of each element."""
    return ranges_of(offsets[order], offsets[order + 1] - offsets[order])


def ranges_of(first: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Return the offsets of lists of `lengths`, and first[i], first[i] + 1, ... for each list i."""
    offsets = offsets_of(lengths)
    return offsets, np.repeat(first - offsets[:-1], lengths) + np.arange(offsets[-1])


def renumber(codes: Ints, count: int) -> tuple[Ints, Ints]:
    """Renumber codes (int64[n], below `count`) by first appearance. Also returns the position of
    each code's first appearance. Cost: O(n + count), or O(n log n) if codes are sparse."""
    if count > 4 * codes.size + 1024:
        names, codes = np.unique(codes, return_inverse=True)
        codes, count = codes.reshape(-1), names.size
    return number_codes(codes, count)


def grouped(codes: Ints) -> tuple[Ints, Ints, Ints]:
    """Group rows by code, stably. Returns (order, starts, present): row positions sorted by code,
    the start of each group plus the final end, and the distinct codes in ascending order."""
    if codes.size and (codes == codes[0]).all():
        return np.arange(codes.size), np.array([0, codes.size]), codes[:1]
    small = codes.size and codes.min() >= 0 and codes.max() < 2**16
    order = np.argsort(codes.astype(np.uint16) if small else codes, kind="stable")  # radix sort
    by_code, first = codes[order], np.ones(codes.size, bool)
    np.not_equal(by_code[1:], by_code[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    return order, np.append(starts, codes.size), by_code[starts]


def sorted_by(columns: Sequence[Ints]) -> Ints:
    """Return the positions that sort distinct rows by `columns`, most significant first."""
    key, size = np.zeros(columns[0].size, np.int64), 1
    for column in columns:
        low = int(column.min(initial=2**62))
        several = int(column.max(initial=-(2**62))) - low + 1
        size *= max(several, 1)
        if size >= 2**62:
            return np.lexsort(columns[::-1])
        key = key * several + (column - low)
    return np.argsort(key)


def by_code(codes: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield the codes in ascending order, each with the ascending positions of its rows."""
    order, starts, present = grouped(codes)
    for i, code in enumerate(present.tolist()):
        yield code, order[starts[i] : starts[i + 1]]


def running_maximum(values: Ints, codes: Ints) -> Ints:
    """Return int64[n]: the largest value so far among rows with the same code."""
    result = np.empty_like(values)
    for _, places in by_code(codes):
        result[places] = np.maximum.accumulate(values[places])
    return result


BYTES_PER_KEY = 400  # larger dictionaries are copied; a compact dictionary needs 37 to 105

Key = TypeVar("Key")
Element = TypeVar("Element")


def compact(held: dict[Key, Element]) -> dict[Key, Element]:
    """Return the dictionary, or a compact copy in the same order if most keys were deleted."""
    return dict(held) if sys.getsizeof(held) > BYTES_PER_KEY * (len(held) + 64) else held
