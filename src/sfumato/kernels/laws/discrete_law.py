"""Laws on finitely many values: quantiles, and fewer values for the same law, nearly."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled

TIE = 1e-12  # a share is reached when the distribution function misses it by no more


@compiled
def quantiles_of_law(values, prob, shares):
    """Smallest values at which the distribution function reaches shares of its total.

    values : float64[n], ascending    prob : float64[n], of any total    shares : float64[q]
    Returns float64[q], NaN if n = 0.  O(n q).  Error: none but for shares within TIE of a step.
    """
    result = np.full(shares.size, np.nan)
    total = 0.0
    for i in range(prob.size):
        total += prob[i]
    for q in range(shares.size):
        reached = 0.0
        for i in range(values.size):
            reached += prob[i]
            if prob[i] > 0.0 and reached >= (shares[q] - TIE) * total:
                result[q] = values[i]
                break
    return result


@compiled
def merge_equal(values, prob, near):
    """Merge neighbours not more than `near` apart into the first, in place; how many are left.

    values : float64[n], ascending    prob : float64[n], those of 0 go
    """
    n = 0
    for i in range(values.size):
        if prob[i] <= 0.0:
            continue
        if n > 0 and values[i] - values[n - 1] <= near:
            prob[n - 1] += prob[i]
        else:
            values[n], prob[n] = values[i], prob[i]
            n += 1
    return n


@compiled
def reduce_law(values, prob, most):
    """At most `most` >= 1 values: nearest neighbours are merged into their weighted mean.

    values : float64[n], ascending    prob : float64[n] > 0
    Rounds: in each, the closest pairs of neighbours that do not overlap, until few enough.
    Returns (values, prob, the largest distance by which a value was moved).
    O(n log n) a round; a round at least removes one in three, or finishes.
    """
    n = values.size
    at, weight = values.copy(), prob.copy()
    first, last = values.copy(), values.copy()  # of what was merged into each
    while n > most:
        order = np.argsort(np.diff(at[:n]), kind="mergesort")
        joined = np.zeros(n, np.bool_)  # with the next one
        taken = np.zeros(n, np.bool_)
        left = n
        for i in order:
            if left > most and not taken[i] and not taken[i + 1]:
                taken[i], taken[i + 1], joined[i] = True, True, True
                left -= 1
        k, i = 0, 0
        while i < n:
            if joined[i]:
                p = weight[i] + weight[i + 1]
                step = (at[i + 1] - at[i]) * (weight[i + 1] / p)
                at[k], weight[k] = at[i] + step, p
                first[k], last[k] = first[i], last[i + 1]
                i += 2
            else:
                at[k], weight[k], first[k], last[k] = at[i], weight[i], first[i], last[i]
                i += 1
            k += 1
        n = k
    moved = 0.0
    for i in range(n):
        moved = max(moved, at[i] - first[i], last[i] - at[i])
    return at[:n].copy(), weight[:n].copy(), moved
