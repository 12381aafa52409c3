"""A finite law given as ascending values with probabilities: moments, quantiles, shortening."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def law_quantiles(prob, value, q, out):
    """The smallest outcome v with Pr(outcome <= v) >= q, given that there is one.

    prob, value : float64[k], values ascending; q, out : float64[nq]; NaN for no outcome.
    Shares within 1e-12 count as reached.  O(k nq).
    """
    total = prob.sum()
    for j in range(q.size):
        out[j] = np.nan
        below = 0.0
        for i in range(prob.size):
            below += prob[i]
            out[j] = value[i]
            if q[j] < 1.0 and below >= (q[j] - 1e-12) * total:
                break


@njit(cache=True, nogil=True)
def shorten(prob, value, most):
    """At most `most` outcomes: the nearest neighbours are merged, again and again.

    prob, value : float64[k], values ascending and different; most : int64 >= 1
    Returns (prob, value, moved): a merged outcome has the weighted mean for value; moved is the
    largest distance of an outcome from the one it went into.
    Cost: O(k (k - most)).
    """
    k = prob.size
    p, v, low, high = prob.copy(), value.copy(), value.copy(), value.copy()
    while k > most:
        nearest = 0
        for i in range(1, k - 1):
            if v[i + 1] - v[i] < v[nearest + 1] - v[nearest]:
                nearest = i
        weight = p[nearest] + p[nearest + 1]
        v[nearest] += (v[nearest + 1] - v[nearest]) * (p[nearest + 1] / weight)
        p[nearest], high[nearest] = weight, high[nearest + 1]
        k -= 1
        for i in range(nearest + 1, k):
            p[i], v[i], low[i], high[i] = p[i + 1], v[i + 1], low[i + 1], high[i + 1]
    moved = 0.0
    for i in range(k):
        moved = max(moved, v[i] - low[i], high[i] - v[i])
    return p[:k], v[:k], moved


@njit(cache=True, nogil=True)
def summaries(places, prob, value, q):
    """law_moments float64[k, 3] and law_quantiles float64[k, nq] of k laws.

    places : int64[k + 1], where each law's entries begin in prob and value
    """
    moments, quantiles = np.empty((places.size - 1, 3)), np.empty((places.size - 1, q.size))
    for t in range(places.size - 1):
        p, v = prob[places[t] : places[t + 1]], value[places[t] : places[t + 1]]
        moments[t] = law_moments(p, v)
        law_quantiles(p, v, q, quantiles[t])
    return moments, quantiles


@njit(cache=True, nogil=True)
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
