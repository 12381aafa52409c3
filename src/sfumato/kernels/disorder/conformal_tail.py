"""The largest values of a sliding window: what its upper quantiles need, and no more."""

from __future__ import annotations

import math

from sfumato.kernels.compile import compiled


@compiled
def insert(values, numbers, size, capacity, value, number):
    """Put a value into a descending list of at most `capacity`; the new length.

    values, numbers : int64[>= capacity], changed in place; numbers say which row a value is of
    Cost: O(1) for a value below a full list, else O(capacity).  Error: none.  Source: textbook.
    """
    if size == capacity:
        if value <= values[size - 1]:
            return size
        place = size - 1
    else:
        place = size
        size += 1
    while place > 0 and values[place - 1] < value:
        values[place] = values[place - 1]
        numbers[place] = numbers[place - 1]
        place -= 1
    values[place] = value
    numbers[place] = number
    return size


@compiled
def expire(values, numbers, size, oldest):
    """Remove the values of rows numbered below `oldest`; the new length. O(size)."""
    kept = 0
    for i in range(size):
        if numbers[i] >= oldest:
            values[kept] = values[i]
            numbers[kept] = numbers[i]
            kept += 1
    return kept


@compiled
def quantile(values, size, rank):
    """A threshold that about `rank` of the values reach, interpolated; below rank 1 it lies beyond
    the largest by up to the distance from there to the eleventh.

    values : int64[size], descending, size >= 1     rank : float64 >= 0
    Returns float64, in the units of values.  Cost: O(1).  Error: float64.
    Source: ours; beyond the largest value nothing is known, the distance is a scale.
    """
    place = int(rank)
    if place >= size - 1:
        return float(values[size - 1] + 1)
    if rank < 1.0:
        beyond = values[0] - values[min(size - 1, 10)]
        return values[0] + 1 + (1.0 - rank) * beyond
    return values[place] + 1 - (rank - place) * (values[place] - values[place + 1])


@compiled
def priced(values, size, rows, price, least, most):
    """The threshold v that makes v + price * (share of rows that reach it) smallest.

    It lies on the lower convex hull of (share, threshold): where a gap in the values would make
    a quantile jump to and fro, the price has to change a lot first.

    rows : float64, in the window     price : float64, units of values for a share of 1
    least, most : float64, shares between which to look
    Returns float64.  Cost: O(most * rows).  Error: float64.  Source: Lagrange's multiplier.
    """
    first = min(int(least * rows), size - 1)
    last = min(int(most * rows) + 1, size - 1)
    step = price / rows
    best = math.inf
    chosen = first
    for place in range(first, last + 1):
        cost = values[place] + step * place
        if cost < best:
            best = cost
            chosen = place
    return float(values[chosen] + 1)


@compiled
def log_slope(values, size, rows, share):
    """Log of what the threshold falls, per share of rows, between the shares share/2 and 2 share.

    A fall below 1 counts as 1 unit of values.  Cost: O(1).  Error: float64.  Source: ours.
    """
    high = values[min(int(0.5 * share * rows), size - 1)]
    low = values[min(int(2.0 * share * rows), size - 1)]
    return math.log(max(high - low, 1) / (1.5 * share))
