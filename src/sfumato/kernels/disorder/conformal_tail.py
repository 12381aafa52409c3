"""The largest values of a sliding window: what its upper quantiles need, and no more."""

import math

from sfumato.kernels.compile import compiled


@compiled
def insert(values, numbers, size, value, number):
    """Put a value into a descending list of at most `values.size`; the new length.

    numbers : of the row that each value is of.  O(1) for a value below a full list, else O(size).
    """
    if size == values.size:
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
    """A threshold that about `rank` of the values reach, interpolated.

    values : int64[size], descending, size >= 1     rank : float64 >= 0, below 1: beyond the largest
    by up to the distance from there to the eleventh, as beyond it nothing is known.  O(1).
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

    It lies on the lower convex hull of (share, threshold): where a gap in the values would make a
    quantile jump to and fro, the price has to change a lot first.
    rows : float64, in the window     price : float64, units of values for a share of 1
    least, most : float64, shares between which to look
    O(most * rows).  Source: Lagrange's multiplier.
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
    """Log of the threshold's fall, at least 1, a share of rows: share / 2 to 2 share.  O(1)."""
    high = values[min(int(0.5 * share * rows), size - 1)]
    low = values[min(int(2.0 * share * rows), size - 1)]
    return math.log(max(high - low, 1) / (1.5 * share))
