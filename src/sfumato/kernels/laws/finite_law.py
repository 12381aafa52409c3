"""A finite law given as ascending values with probabilities: moments, quantiles, shortening."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled


@compiled
def law_moments(prob, value):
    """Mean and variance given that there is an outcome, and its probability.

    prob, value : float64[k]; NaN, NaN, 0 for none.  O(k).
    """
    total = prob.sum()
    if total <= 0.0:
        return np.nan, np.nan, 0.0
    centre = value[np.argmax(prob)]
    mean = 0.0
    for i in range(prob.size):
        mean += prob[i] * (value[i] - centre)
    mean /= total
    variance = 0.0
    for i in range(prob.size):
        variance += prob[i] * (value[i] - centre - mean) ** 2
    return centre + mean, variance / total, min(total, 1.0)


@compiled
def law_quantiles(prob, value, q, out):
    """The smallest outcome v with Pr(outcome <= v) >= q, given that there is one.

    prob, value : float64[k], values ascending; q, out : float64[nq]; NaN for no outcome.
    Shares within 1e-12 count as reached.  O(k + nq log k).
    """
    out[:] = np.nan
    if prob.size == 0:
        return
    below, total = np.cumsum(prob), prob.sum()
    for j in range(q.size):
        i = prob.size - 1
        if q[j] < 1.0:
            i = min(i, np.searchsorted(below, (q[j] - 1e-12) * total))
        out[j] = value[i]


@compiled
def _renew(tree, gap, place):
    """Smallest gaps over the leaf of this place and above: of equal ones the first."""
    node = (tree.size // 2 + place) // 2
    while node >= 1:
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node] = left if gap[left] <= gap[right] else right
        node //= 2


@compiled
def shorten(prob, value, most):
    """At most `most` outcomes: the nearest neighbours are merged, again and again.

    prob, value : float64[k], values ascending and different; most : int64 >= 1
    Returns (prob, value, moved): a merged outcome has the weighted mean for value; moved is the
    largest distance of an outcome from the one it went into.
    Cost: O(k log k): a tournament tree holds the smallest gap.
    """
    k = prob.size
    p, v, low, high = prob.copy(), value.copy(), value.copy(), value.copy()
    leaves = 1
    while leaves < k:
        leaves *= 2
    gap, tree = np.full(leaves, np.inf), np.arange(-leaves, leaves)
    after, before = np.arange(1, k + 1), np.arange(-1, k - 1)
    if k > most:
        gap[: k - 1] = value[1:] - value[:-1]
        for node in range(leaves - 1, 0, -1):
            left, right = tree[2 * node], tree[2 * node + 1]
            tree[node] = left if gap[left] <= gap[right] else right
    for _ in range(k - most):
        i = tree[1]
        j = after[i]
        weight = p[i] + p[j]
        v[i] += (v[j] - v[i]) * (p[j] / weight)
        p[i], high[i], after[i], gap[j], p[j] = weight, high[j], after[j], np.inf, 0.0
        if after[i] < k:
            before[after[i]] = i
        gap[i] = v[after[i]] - v[i] if after[i] < k else np.inf
        _renew(tree, gap, j)
        _renew(tree, gap, i)
        if before[i] >= 0:
            gap[before[i]] = v[i] - v[before[i]]
            _renew(tree, gap, before[i])
    kept, moved, i = 0, 0.0, 0
    while i < k:
        moved = max(moved, v[i] - low[i], high[i] - v[i])
        p[kept], v[kept] = p[i], v[i]
        kept += 1
        i = after[i]
    return p[:kept], v[:kept], moved


@compiled
def all_moments(places, prob, value):
    """`law_moments`, float64[k, 3], of k laws.

    places : int64[k + 1], where each law's entries begin in prob and value
    """
    moments = np.empty((places.size - 1, 3))
    for t in range(places.size - 1):
        begin, end = places[t], places[t + 1]
        moments[t] = law_moments(prob[begin:end], value[begin:end])
    return moments


@compiled
def all_quantiles(places, prob, value, q):
    """`law_quantiles`, float64[k, nq], of k laws; places : as in `all_moments`."""
    quantiles = np.empty((places.size - 1, q.size))
    for t in range(places.size - 1):
        begin, end = places[t], places[t + 1]
        law_quantiles(prob[begin:end], value[begin:end], q, quantiles[t])
    return quantiles


@compiled
def shorten_all(places, prob, value, most):
    """`shorten` for k laws: (places, prob, value, moved float64[k])."""
    new, moved, at = np.zeros(places.size, np.int64), np.zeros(places.size - 1), 0
    p, v = prob.copy(), value.copy()
    for t in range(places.size - 1):
        begin, end = places[t], places[t + 1]
        short, values, moved[t] = shorten(prob[begin:end], value[begin:end], most)
        p[at : at + short.size], v[at : at + short.size] = short, values
        at += short.size
        new[t + 1] = at
    return new, p[:at].copy(), v[:at].copy(), moved
