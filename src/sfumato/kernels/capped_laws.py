"""Laws of what the w newest existing tuples hold, one window at a time, from newest to oldest.

A window's tuples are counted from the newest on; a world whose count has reached w is done, older
tuples do not matter to it. So one pass with the count as (part of) its state gives the law of any
function of the inside tuples, at O(held * band) for each cell of the rest of the state.
"""

from __future__ import annotations

import numpy as np
from numba import njit

NEGLIGIBLE = 1e-20  # entries at a law's ends below this are dropped
ROUNDING = 1e-15  # a smaller share of what it was taken from is no outcome but a rounding


@njit(cache=True, nogil=True)
def existence_of(offsets, prob, i):
    """Existence of tuple i, at most 1."""
    total = 0.0
    for a in range(offsets[i], offsets[i + 1]):
        total += prob[a]
    return min(total, 1.0)


@njit(cache=True, nogil=True)
def count_laws(offsets, prob, heads, begin, w):
    """Law of the number of inside tuples after each arrival, min(N, w).

    offsets : int64[n + 1], prob : float64[...]; heads : int64[k], position of the oldest tuple
    held when tuple begin + t is the newest
    Returns float64[k, w + 1].  Cost: O(held * band) an arrival.
    """
    laws = np.zeros((heads.size, w + 1))
    law = np.empty(w + 1)  # count n at w - n, so that updates in place run forward
    for t in range(heads.size):
        law[:] = 0.0
        law[w] = 1.0
        low, high = w, w + 1
        for i in range(begin + t, heads[t] - 1, -1):
            p = existence_of(offsets, prob, i)
            law[0] += p * law[1]
            if low > 1:
                low -= 1
            for x in range(low, high - 1):
                law[x] = (1.0 - p) * law[x] + p * law[x + 1]
            law[high - 1] *= 1.0 - p
            while high > low and law[high - 1] < NEGLIGIBLE:
                high -= 1
                law[high] = 0.0
            if high == low:
                break
        for n in range(w + 1):
            laws[t, n] = law[w - n]
    return laws


@njit(cache=True, nogil=True)
def _killed(existence, killed, head, end, oldest, w, law):
    """Pr(no inside tuple takes its killed part), Pr(one does); no killed one before `oldest`.

    Both are sums of their own worlds, so that the smaller one keeps its digits.
    """
    if end - oldest <= w:  # these are all inside if they exist
        none, some = 1.0, 0.0
        for i in range(oldest, end):
            some += none * killed[i - head]
            none *= 1.0 - killed[i - head]
        return none, some
    law[:] = 0.0
    law[w] = 1.0
    low, high, none, some = w, w + 1, 0.0, 0.0
    for i in range(end - 1, oldest - 1, -1):
        p = max(existence[i - head] - killed[i - head], 0.0)
        q = 1.0 - existence[i - head]
        if killed[i - head] > 0.0:
            here = 0.0
            for x in range(low, high):
                here += law[x]
            some += killed[i - head] * here
        none += p * law[1]
        if low > 1:
            low -= 1
        for x in range(low, high):
            law[x] = q * law[x] + p * law[x + 1]
        while high > low and law[high - 1] < NEGLIGIBLE:
            high -= 1
            law[high] = 0.0
        if high == low:
            break
    for x in range(low, high):
        none += law[x]
    return min(none, 1.0), min(some, 1.0)


@njit(cache=True, nogil=True)
def value_existences(offsets, prob, value, heads, begin, w):
    """Probability that an inside tuple has a value (that is not NaN), after each arrival.

    Arguments as in average_moments; float64[k].  Cost: O(held * band), O(held) without NaN.
    """
    out, law = np.empty(heads.size), np.empty(w + 2)
    for t in range(heads.size):
        head, end = heads[t], begin + t + 1
        existence, killed = np.empty(end - head), np.zeros(end - head)
        for i in range(head, end):
            existence[i - head] = existence_of(offsets, prob, i)
            for a in range(offsets[i], offsets[i + 1]):
                if not np.isnan(value[a]):
                    killed[i - head] += prob[a]
            killed[i - head] = min(killed[i - head], existence[i - head])
        out[t] = _killed(existence, killed, head, end, head, w, law)[1]
    return out


@njit(cache=True, nogil=True)
def order_statistic_law(offsets, prob, value, head, end, w, q):
    """Law of the q-quantile of the inside tuples' values, exactly.

    The smallest inside value v such that at least q * k of the k inside values are <= v.
    Returns (probabilities, values), ascending; the rest to 1: there is no value.
    Cost: O(values * held * w^2), with a NaN among them O(values * held * w^3).
    """
    first, last = offsets[head], offsets[end]
    candidates = np.unique(value[first:last])
    missing = candidates.size > 0 and np.isnan(candidates[-1])
    while candidates.size > 0 and np.isnan(candidates[-1]):
        candidates = candidates[:-1]
    probs = np.zeros(candidates.size)
    before = 0.0
    for c in range(candidates.size):
        below = _quantile_at_most(
            offsets, prob, value, head, end, w, q, candidates[c], w + 1 if missing else 1
        )
        if below - before > ROUNDING * below:
            probs[c] = below - before
            before = below
    return probs, candidates


@njit(cache=True, nogil=True)
def rank_of(q, k):
    """How many of k values a q-quantile must reach; what q * k rounds up by does not count."""
    return max(1, int(np.ceil(q * k - 1e-9)))


@njit(cache=True, nogil=True)
def _quantile_at_most(offsets, prob, value, head, end, w, q, x, kinds):
    """Pr(there is a value, and at least q of the inside values are <= x).

    State: count n, number of NaN (if `kinds` > 1), number of values <= x.
    """
    state = np.zeros((w + 1, kinds, w + 1))
    state[0, 0, 0] = 1.0
    for i in range(end - 1, head - 1, -1):
        existence, low, none = existence_of(offsets, prob, i), 0.0, 0.0
        for a in range(offsets[i], offsets[i + 1]):
            if np.isnan(value[a]):
                none += prob[a]
            elif value[a] <= x:
                low += prob[a]
        over, absent = max(existence - low - none, 0.0), 1.0 - existence
        for n in range(min(w, end - i), -1, -1):
            stay = 1.0 if n == w else absent
            for z in range(min(n, kinds - 1), -1, -1):
                for b in range(n - z, -1, -1):
                    total = stay * state[n, z, b]
                    if n > 0:
                        total += over * state[n - 1, z, b]
                        if b > 0:
                            total += low * state[n - 1, z, b - 1]
                        if z > 0:
                            total += none * state[n - 1, z - 1, b]
                    state[n, z, b] = total
    total = 0.0
    for n in range(1, w + 1):
        for z in range(min(n, kinds)):
            for b in range(rank_of(q, n - z), n - z + 1):
                total += state[n, z, b]
    return min(total, 1.0)
