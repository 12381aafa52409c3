"""Laws of what the w newest existing tuples hold, one window at a time, from newest to oldest.

A window's tuples are counted from the newest on; a world whose count has reached w is done, older
tuples do not matter to it. So one pass with the count as (part of) its state gives the law of any
function of the inside tuples, at O(held * band) for each cell of the rest of the state.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled

NEGLIGIBLE = 1e-20  # entries at a law's ends below this are dropped
ROUNDING = 1e-15  # a smaller share of what it was taken from is no outcome but a rounding


@compiled
def existence_of(offsets, prob, i):
    """Existence of tuple i, at most 1."""
    total = 0.0
    for a in range(offsets[i], offsets[i + 1]):
        total += prob[a]
    return min(total, 1.0)


@compiled
def _valued(offsets, prob, value, head, end, w, law):
    """Probability that one of the inside tuples held (head ... end - 1) has a value.

    law : float64[w + 2], scratch: of the count in worlds without a value so far, count n at w - n
    """
    law[:] = 0.0
    law[w] = 1.0
    low, high, some = w, w + 1, 0.0  # cell 0 is of full worlds, and not looked at
    for i in range(end - 1, head - 1, -1):
        valued, none = 0.0, 0.0
        for a in range(offsets[i], offsets[i + 1]):
            if np.isnan(value[a]):
                none += prob[a]
            else:
                valued += prob[a]
        here = 0.0
        for x in range(low, high):
            here += law[x]
        some += min(valued, 1.0) * here
        stay = max(1.0 - valued - none, 0.0)
        if low > 1 and none > 0.0:
            low -= 1
        for x in range(low, high):
            law[x] = stay * law[x] + none * law[x + 1]
        while high > low and law[high - 1] < NEGLIGIBLE:
            high -= 1
            law[high] = 0.0
        if high == low:
            break
    return min(some, 1.0)


@compiled
def value_existences(offsets, prob, value, heads, begin, w):
    """Probability that an inside tuple has a value (that is not NaN), after each arrival.

    offsets : int64[n + 1], prob, value : float64[...]; heads : int64[k], position of the oldest
    tuple held when tuple begin + t is the newest
    Returns float64[k].  Cost: O(tuples until no world is likely to be without a value * band).
    """
    out, law = np.empty(heads.size), np.empty(w + 2)
    for t in range(heads.size):
        out[t] = _valued(offsets, prob, value, heads[t], begin + t + 1, w, law)
    return out


@compiled
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


@compiled
def rank_of(q, k):
    """How many of k values a q-quantile must reach; what q * k rounds up by does not count."""
    return max(1, int(np.ceil(q * k - 1e-9)))


@compiled
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
