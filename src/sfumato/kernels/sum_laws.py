"""Exact law of the sum or average of the w newest existing tuples, while it has few outcomes."""

from __future__ import annotations

import numpy as np
from numba import njit

SAME = 1e-12  # sums nearer than this times the largest are one: they differ by rounding
NEGLIGIBLE = 1e-19


@njit(cache=True, nogil=True)
def merge(key, value, prob, size, tolerance):
    """Sort the first `size` states by (key, value) and add up equal ones; how many remain."""
    order = np.argsort(value[:size], kind="mergesort")
    order = order[np.argsort(key[order], kind="mergesort")]
    keys, values, probs = key[order], value[order], prob[order]
    kept = 0
    for i in range(size):
        if probs[i] < NEGLIGIBLE:
            continue
        if kept > 0 and key[kept - 1] == keys[i] and values[i] - value[kept - 1] <= tolerance:
            prob[kept - 1] += probs[i]
        else:
            key[kept], value[kept], prob[kept] = keys[i], values[i], probs[i]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def sum_law(offsets, prob, value, head, end, w, average, most):
    """Law of the sum (or average) of the inside tuples' values: held head ... end - 1.

    offsets : int64[n + 1], prob, value : float64[...], NaN for no value: it adds nothing
    average : bool; most : int64, give up beyond this number of states (count, values, sum)
    Returns (bool done, probabilities, values), ascending; the probabilities of an average fall
    short of 1 by that of a window without a value.

    Cost: O(held * states log states); a certain tuple of one value costs O(states).
    Error: sums within 1e-12 of the largest are merged, states below 1e-19 are dropped.
    """
    widest, scale = 1, 0.0
    for i in range(head, end):
        widest = max(widest, offsets[i + 1] - offsets[i])
        top = 0.0
        for a in range(offsets[i], offsets[i + 1]):
            if not np.isnan(value[a]):
                top = max(top, abs(value[a]))
        scale += top
    room = (most + 1) * (widest + 1)
    key, total, law = np.empty(room, np.int64), np.empty(room), np.empty(room)
    key[0], total[0], law[0] = 0, 0.0, 1.0
    states, stride = 1, w + 1  # key: count * stride + number of values (0 for sums)
    tolerance = SAME * scale
    for i in range(end - 1, head - 1, -1):
        first, last = offsets[i], offsets[i + 1]
        absent = 1.0
        for a in range(first, last):
            absent -= prob[a]
        if absent < 1e-15:
            absent = 0.0
        size = states
        for s in range(states):
            if key[s] >= w * stride:
                continue
            n, x, p = key[s], total[s], law[s]
            for a in range(first, last):
                none = np.isnan(value[a])
                to = s if a == first and absent == 0.0 else size
                size += to == size
                key[to] = n + stride + (1 if average and not none else 0)
                total[to] = x if none else x + value[a]
                law[to] = p * prob[a]
            if absent > 0.0:
                law[s] = p * absent
        if size > states or last - first > 1:
            states = merge(key, total, law, size, tolerance)
            if states > most:
                return False, law[:0], total[:0]
        if states > 0 and key[0] >= w * stride:  # sorted, unless only certain tuples came since
            full = True
            for s in range(states):
                full = full and key[s] >= w * stride
            if full:
                break
    for s in range(states):
        values = key[s] % stride
        if average:
            total[s] = total[s] / values if values > 0 else np.nan
        key[s] = 1 if average and values == 0 else 0  # no value: to the end
    states = merge(key, total, law, states, tolerance / w if average else tolerance)
    while states > 0 and key[states - 1] == 1:
        states -= 1
    return True, law[:states].copy(), total[:states].copy()
