"""Helpers of operators for arrays and dictionaries."""

import sys
from collections.abc import Iterator
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sfumato.kernels.arrays import number_codes

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Records = npt.NDArray[np.void]


def longer(array: Any, length: int, fill: Any = 0) -> Any:
    """The array with `fill` behind it, of this length along its first axis; itself if that long."""
    if len(array) >= length:
        return array
    more = np.full((length - len(array), *array.shape[1:]), fill, array.dtype)
    return np.concatenate([array, more])


def moved(array: Any, room: int, begin: int = 0, end: int | None = None) -> Any:
    """Entries [begin, end) of the last axis at the front of an array with so much room there."""
    result = np.zeros((*array.shape[:-1], room), array.dtype)
    kept = array[..., begin:end][..., :room]
    result[..., : kept.shape[-1]] = kept
    return result


def offsets_of(lengths: npt.ArrayLike) -> Ints:
    """int64[n + 1]: where n lists of these lengths begin, and the last one ends."""
    sizes = np.asarray(lengths)
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def chosen(offsets: Ints, order: Ints) -> tuple[Ints, Ints]:
    """The lists `order` (int64[k], any order) of those at `offsets` (int64[n + 1]).

    Returns their own offsets int64[k + 1], and the place of each of their elements in the old
    storage. O(k + elements).
    """
    return spans(offsets[order], offsets[order + 1] - offsets[order])


def spans(first: Ints, lengths: Ints) -> tuple[Ints, Ints]:
    """Offsets of lists end to end, and the place of each element: first[i], first[i] + 1, ..."""
    offsets = offsets_of(lengths)
    return offsets, np.repeat(first - offsets[:-1], lengths) + np.arange(offsets[-1])


def numbered(codes: Ints, count: int) -> tuple[Ints, Ints]:
    """Codes (int64[n], below `count`) numbered as they first come, and the place where each does.

    O(n + count), or O(n log n) where codes lie far apart.
    """
    if count > 4 * codes.size + 1024:
        names, codes = np.unique(codes, return_inverse=True)
        codes, count = codes.reshape(-1), names.size
    return number_codes(codes, count)


def grouped(codes: Ints) -> tuple[Ints, Ints, Ints]:
    """(order, starts, present): rows by code, each code's in their order; where each code's rows
    start there, and the last ones end; the codes, ascending."""
    if codes.size and (codes == codes[0]).all():
        return np.arange(codes.size), np.array([0, codes.size]), codes[:1]
    order = np.argsort(codes, kind="stable")
    by_code, first = codes[order], np.ones(codes.size, bool)
    np.not_equal(by_code[1:], by_code[:-1], out=first[1:])
    starts = np.flatnonzero(first)
    return order, np.append(starts, codes.size), by_code[starts]


def by_code(codes: Ints) -> Iterator[tuple[int, Ints]]:
    """Each code and the places that have it, in their order."""
    order, starts, present = grouped(codes)
    for i, code in enumerate(present.tolist()):
        yield code, order[starts[i] : starts[i + 1]]


def running_maximum(values: Ints, codes: Ints) -> Ints:
    """int64[n]: the largest value so far of each row's code."""
    result = np.empty_like(values)
    for _, places in by_code(codes):
        result[places] = np.maximum.accumulate(values[places])
    return result


BYTES_PER_KEY = (
    400  # bytes a key; where there are no more keys than Python makes room for, 37 to 105
)

Key = TypeVar("Key")
Value = TypeVar("Value")


def fitted(held: dict[Key, Value]) -> dict[Key, Value]:
    """The same dictionary, or one with the same in the same order where it has far too much room.

    Cost: nothing, or O(keys) after three quarters of the keys left.
    """
    return dict(held) if sys.getsizeof(held) > BYTES_PER_KEY * (len(held) + 64) else held
