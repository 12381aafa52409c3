"""Probability that a tuple is among the w newest existing ones, exactly and in batches."""

import numpy as np

from sfumato.kernels.compile import compiled

# Entries of the law below this are dropped, so that the work is O(sigma) a tuple and not O(rows).
NEGLIGIBLE = 1e-22


@compiled
def _add_tuple(law, low, high, p, rows):
    """Convolve law[low:high] (counts below `rows`) with one Bernoulli(p); the new (low, high)."""
    if low == high:  # no mass is left below `rows`, and none comes back
        return low, high
    q = 1.0 - p
    if high < rows:
        law[high] = 0.0
        high += 1
    for k in range(high - 1, low, -1):
        law[k] = q * law[k] + p * law[k - 1]
    law[low] *= q
    while low < high and law[low] < NEGLIGIBLE:
        low += 1
    while low < high and law[high - 1] < NEGLIGIBLE:
        high -= 1
    return low, high


@compiled
def positions(existence, first, last, rows):
    """Pr(at most rows - 1 of the tuples existence[first:last] exist), one number a query.

    This is T_j, the probability that tuple j = first - 1 is among the `rows` newest existing
    ones when the newest tuple is last - 1, given that tuple j exists.
    existence : float64[n] in [0, 1], in arrival order
    first, last : int64[m], 0 <= first <= last <= n (an empty range gives 1)
    rows : int >= 1
    Returns float64[m], exactly 1.0 where fewer than `rows` of the tuples have existence > 0.
    Cost: O(sigma) a tuple, sigma the standard deviation of the count. Consecutive queries with
    the same `last` and with `first` all rising or all falling share one pass over the tuples.
    Error: within 1e-12 for up to a thousand tuples, growing with their number (roundings of a
    recursion without subtractions; entries below 1e-22 are dropped).
    Source: A, equations (5)-(8) and section 6 (RF1); T_j of its equation (24).
    """
    m = first.size
    result = np.empty(m)
    law = np.zeros(rows)
    begin = 0
    while begin < m:
        # One run of queries that can be answered by growing one law from newest to oldest.
        end = begin + 1
        step = 0
        while end < m and last[end] == last[begin]:
            direction = np.sign(first[end] - first[end - 1])
            if direction != 0:
                if step != 0 and direction != step:
                    break
                step = direction
            end += 1
        low, high, possible, at = np.int64(0), np.int64(1), 0, last[begin]
        law[0] = 1.0
        for i in range(end - begin):
            query = end - 1 - i if step > 0 else begin + i
            while at > first[query]:
                at -= 1
                if existence[at] > 0.0:
                    possible += 1
                    low, high = _add_tuple(law, low, high, existence[at], rows)
            if possible < rows:
                result[query] = 1.0
            else:
                total = 0.0
                for k in range(low, high):
                    total += law[k]
                result[query] = min(total, 1.0)
        begin = end
    return result
