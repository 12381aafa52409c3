"""Sums over the near samples of two tuples of many samples, in one dimension, by sorting.

The samples of one tuple that are near to a sample of the other one lie next to each other once they
are sorted by value, and their probability is a difference of two running sums. These are kept as
unevaluated sums of two floats, so that the differences lose no digits.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean, lean_inline
from sfumato.kernels.joins.tuple_store import padded
from sfumato.kernels.laws.existence import rounded_to_one


class Sorted(NamedTuple):
    """The samples of a tuple by value.

    place : int64[n], of each sample among those of the tuple    value : float64[n], ascending
    sum, rest : float64[n + 1], the probability of the first samples, as sum + rest
    """

    place: np.ndarray
    value: np.ndarray
    sum: np.ndarray
    rest: np.ndarray


@compiled_ieee
def sorted_samples(tuples, s):
    """Return the `Sorted` samples of slot s.  O(n log n)."""
    at, n = tuples.at[s], tuples.samples[s]
    row = at + padded(n)
    values = tuples.blocks[row : row + n]
    place = np.argsort(values, kind="mergesort")
    value, total, rest = np.empty(n), np.zeros(n + 1), np.zeros(n + 1)
    for i in range(n):
        value[i] = values[place[i]]
        total[i + 1], rest[i + 1] = _added(total[i], rest[i], tuples.blocks[at + place[i]])
    return Sorted(place, value, total, rest)


@lean_inline
def _added(total, rest, term):
    """A sum of two floats and one more float, as two floats."""
    larger = total + term
    part = larger - total
    rest += (total - (larger - part)) + (term - part)
    whole = larger + rest
    return whole, rest - (whole - larger)


@lean
def near_places(value, x, limit, low, high):
    """Where the values within `limit` of x begin and end: low and high, moved.

    value : float64[n], ascending    low, high : those of a smaller x, or 0
    A difference rounds monotonically, so that these are the same as by comparing one by one.
    """
    while low < value.size and x - value[low] > limit:
        low += 1
    high = max(high, low)
    while high < value.size and value[high] - x <= limit:
        high += 1
    return low, high


@lean_inline
def mass_between(ordered, low, high):
    """The probability of the sorted samples [low, high)."""
    return (ordered.sum[high] - ordered.sum[low]) + (ordered.rest[high] - ordered.rest[low])


@compiled_ieee
def sorted_sum(tuples, u, v, limit):
    """Sum of Pr(u_k) Pr(v_l) over the near samples of slots u and v, one dimension.

    O(n log n) for n samples of both.  Error: relative, a few 2**-53; sums that miss 1 by roundings
    are 1, as in `existence_within`.
    """
    one, other = sorted_samples(tuples, u), sorted_samples(tuples, v)
    total, rest, low, high = 0.0, 0.0, 0, 0
    at = tuples.at[u]
    for i in range(one.place.size):
        low, high = near_places(other.value, one.value[i], limit, low, high)
        if high > low:
            mass = mass_between(other, low, high)
            total, rest = _added(total, rest, tuples.blocks[at + one.place[i]] * mass)
    return rounded_to_one(total + rest, one.place.size + other.place.size)


@compiled_ieee
def near_ranges(tuples, u, ordered, limit):
    """For each sample of slot u, in their order, where the near ones of `ordered` begin and end:
    int64[n], int64[n].  O(n log n)."""
    one = sorted_samples(tuples, u)
    first, last = np.empty(one.place.size, np.int64), np.empty(one.place.size, np.int64)
    low, high = 0, 0
    for i in range(one.place.size):
        low, high = near_places(ordered.value, one.value[i], limit, low, high)
        first[one.place[i]], last[one.place[i]] = low, high
    return first, last
