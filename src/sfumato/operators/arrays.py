"""Arrays of numbers: their types, growth, and lists of different lengths stored end to end."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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
