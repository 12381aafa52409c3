"""Lists of different lengths, stored end to end: where the chosen ones are."""

from __future__ import annotations

import numpy as np


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """int64[n + 1]: where n lists of these lengths begin, and the last one ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def chosen(offsets: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The lists `order` (int64[k], any order) of those at `offsets` (int64[n + 1]).

    Returns their own offsets int64[k + 1], and the place of each of their elements in the old
    storage. O(k + elements).
    """
    lengths = np.diff(offsets)[order]
    fresh = offsets_of(lengths)
    places = np.repeat(offsets[:-1][order] - fresh[:-1], lengths) + np.arange(fresh[-1])
    return fresh, places
