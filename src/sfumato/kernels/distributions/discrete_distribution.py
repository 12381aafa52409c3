"""Finite distributions, ascending values with probabilities: moments, quantiles, reduction."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import write_at
from sfumato.kernels.compile import compiled
from sfumato.kernels.distributions.tuples import round_to_one
from sfumato.kernels.tolerances import OUTCOME_ROUNDING, SHARE_TIE


class Distributions(NamedTuple):
    """Concatenated distributions with ascending values; the remaining probability is Pr(no value).

    places : int64[distributions + 1], start of each; int64[0] if no distributions are requested
    prob, value : float64[...], enlarged if they are too short
    """

    places: np.ndarray
    prob: np.ndarray
    value: np.ndarray


SPLIT = 2.0**17 + 1.0  # rounds to 36 binary digits
MAX_MERGE_COST = np.finfo(np.float64).max  # cost of neighbours whose distance is infinite or NaN


@compiled
def drop_rounding_outcomes(prob, value):
    """Return the distribution without outcomes that are rounding errors."""
    kept = prob > OUTCOME_ROUNDING * prob.sum()
    return prob[kept], value[kept]


@compiled
def distribution_moments(prob, value):
    """Return mean and deviation given an outcome, and existence; NaN, NaN, 0 without outcomes."""
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
    return centre + mean, np.sqrt(variance / total), round_to_one(total, prob.size)


@compiled
def _merge_cost(prob, value, i, j):
    """Return a quarter of the cost of merging outcomes i and j, rounded so that ties remain ties.

    The quarter does not overflow. An infinite or NaN distance costs MAX_MERGE_COST, which is less
    than the infinite cost of a missing neighbour.
    """
    gap = 0.5 * value[j] - 0.5 * value[i]
    cost = prob[i] * (prob[j] / (prob[i] + prob[j])) * gap
    wide = cost * SPLIT
    if np.isfinite(wide):
        return wide - (wide - cost)
    return cost if cost < MAX_MERGE_COST else MAX_MERGE_COST


@compiled
def _update_tree(tree, cost, place):
    """Update the tree of minimum costs from the leaf of `place` upwards; the leftmost wins ties."""
    node = (tree.size // 2 + place) // 2
    while node >= 1:
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node] = left if cost[left] <= cost[right] else right
        node //= 2


@compiled
def reduce_support(prob, value, most):
    """Reduce to at most `most` outcomes by repeatedly merging the cheapest neighbours.

    The cost of a merge is the sum of probability times distance to the common mean; the leftmost
    pair wins ties. Merges preserve the mean, and move likely outcomes only slightly.
    Returns (prob, value, moved): moved is the Wasserstein distance (of order 1) from the input.
    Cost: O(k log k).  Source: Ward (1963), with distances instead of squared distances.
    """
    k = prob.size
    p, v = prob.copy(), value.copy()
    if k <= most:
        return p, v, 0.0
    leaves = 1
    while leaves < k:
        leaves *= 2
    cost, tree = np.full(leaves, np.inf), np.arange(-leaves, leaves)
    after, before = np.arange(1, k + 1), np.arange(-1, k - 1)
    for i in range(k - 1):
        cost[i] = _merge_cost(p, v, i, i + 1)
    for node in range(leaves - 1, 0, -1):
        left, right = tree[2 * node], tree[2 * node + 1]
        tree[node] = left if cost[left] <= cost[right] else right
    for _ in range(k - most):
        i = tree[1]
        j = after[i]
        weight = p[i] + p[j]
        v[i] += 2.0 * ((0.5 * v[j] - 0.5 * v[i]) * (p[j] / weight))
        p[i], after[i], cost[j] = weight, after[j], np.inf
        cost[i] = np.inf
        if after[i] < k:
            before[after[i]] = i
            cost[i] = _merge_cost(p, v, i, after[i])
        _update_tree(tree, cost, j)
        _update_tree(tree, cost, i)
        if before[i] >= 0:
            cost[before[i]] = _merge_cost(p, v, before[i], i)
            _update_tree(tree, cost, before[i])
    kept, moved, i = 0, 0.0, 0
    while i < k:
        for x in range(i, after[i]):
            moved += prob[x] * abs(value[x] - v[i])
        p[kept], v[kept] = p[i], v[i]
        kept += 1
        i = after[i]
    return p[:kept].copy(), v[:kept].copy(), moved / prob.sum()


@compiled
def all_moments(places, prob, value):
    """Return the `distribution_moments` of k distributions: float64[k, 3]."""
    moments = np.empty((places.size - 1, 3))
    for t in range(places.size - 1):
        begin, end = places[t], places[t + 1]
        mean, deviation, existence = distribution_moments(prob[begin:end], value[begin:end])
        moments[t, 0], moments[t, 1], moments[t, 2] = mean, deviation, existence
    return moments


@compiled
def all_quantiles(places, prob, value, shares):
    """Return the smallest outcome v with Pr(outcome <= v) >= share, given an outcome, or NaN
    without outcomes: float64[k, q].

    Shares are lowered by SHARE_TIE. Outcomes that `drop_rounding_outcomes` drops are not returned.
    """
    quantiles = np.full((places.size - 1, shares.size), np.nan)
    for t in range(places.size - 1):
        p, v = prob[places[t] : places[t + 1]], value[places[t] : places[t + 1]]
        if p.size == 0:
            continue
        below = np.cumsum(p)
        total, last = below[-1], p.size - 1
        least = OUTCOME_ROUNDING * total
        while last > 0 and p[last] <= least:
            last -= 1
        for j in range(shares.size):
            i = last
            if shares[j] < 1.0:
                i = min(last, np.searchsorted(below, (shares[j] - SHARE_TIE) * total))
                while i < last and p[i] <= least:
                    i += 1
            quantiles[t, j] = v[i]
    return quantiles


@compiled
def all_bounded(places, prob, value, most):
    """Apply `drop_rounding_outcomes` and `reduce_support` to k distributions.

    Returns (places, prob, value, moved[k]).
    """
    new, moved, at = np.zeros(places.size, np.int64), np.zeros(places.size - 1), np.int64(0)
    to_prob, to_value = np.empty(prob.size), np.empty(prob.size)
    for t in range(places.size - 1):
        begin, end = places[t], places[t + 1]
        p, v = drop_rounding_outcomes(prob[begin:end], value[begin:end])
        p, v, moved[t] = reduce_support(p, v, most)
        write_at(to_prob, at, p)
        write_at(to_value, at, v)
        at += p.size
        new[t + 1] = at
    return new, to_prob[:at].copy(), to_value[:at].copy(), moved
