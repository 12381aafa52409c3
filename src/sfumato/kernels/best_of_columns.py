"""The greatest values of several columns, each with its own number of them."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def worse(value, a, b):
    """Whether place a ranks after place b: a smaller value, or the same one later."""
    return value[a] < value[b] or (value[a] == value[b] and a > b)


@njit(cache=True, nogil=True)
def settle(heap, size, at, value):
    """Sink the entry at `at` of a heap whose root is the worst place."""
    place = heap[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and worse(value, heap[child + 1], heap[child]):
            child += 1
        if not worse(value, heap[child], place):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = place


@njit(cache=True, nogil=True)
def best_of_columns(values, ks):
    """For each column c the places of its min(n, ks[c]) greatest values, the greatest first.

    values : float64[n, c], no NaN;  ks : int64[c], at least 1.  Equal values by ascending place.
    Returns offsets int64[c + 1] and places int64[offsets[c]], column after column.
    Cost: O(n + k log k) a column where few values enter late, O(n log k) at worst: a heap.
    """
    n = values.shape[0]
    offsets = np.zeros(ks.size + 1, dtype=np.int64)
    for c in range(ks.size):
        offsets[c + 1] = offsets[c] + min(n, ks[c])
    places = np.empty(offsets[ks.size], dtype=np.int64)
    value = np.empty(n)
    for c in range(ks.size):
        heap = places[offsets[c] : offsets[c + 1]]
        size = heap.size
        for i in range(n):
            value[i] = values[i, c]
        for i in range(size):
            heap[i] = i
        for at in range(size // 2 - 1, -1, -1):
            settle(heap, size, at, value)
        for i in range(size, n):
            if value[i] > value[heap[0]]:  # a later place must be greater to be better
                heap[0] = i
                settle(heap, size, 0, value)
        for last in range(size - 1, 0, -1):  # the worst one to the end, again and again
            heap[0], heap[last] = heap[last], heap[0]
            settle(heap, last, 0, value)
    return offsets, places
