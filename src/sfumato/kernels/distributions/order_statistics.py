"""Order statistics of the w newest existing tuples, which are the inside tuples of a window.

In a world whose count has reached w, older tuples do not matter. So one pass from the newest tuple
to the oldest, whose state includes the count, computes the distribution of any function of the
inside tuples.
"""

import numpy as np

from sfumato.kernels.arrays import distinct_values, kth_smallest, stable_order
from sfumato.kernels.compile import compiled, inlined
from sfumato.kernels.distributions.tuples import existence_of
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import OUTCOME_ROUNDING


@compiled
def rank_of(share, k):
    """Return the rank of a quantile among k values, ignoring rounding errors of share * k."""
    return max(1, int(np.ceil(share * k - 1e-9)))


@compiled
def _are_certain(tuples, head, end, w):
    for i in range(end - 1, max(head, end - w) - 1, -1):
        a = tuples.offsets[i]
        if tuples.offsets[i + 1] != a + 1 or tuples.prob[a] != 1.0:
            return False
    return True


@inlined
def _quantile_of_certain(tuples, head, end, w, share):
    inside = tuples.value[tuples.offsets[max(head, end - w)] : tuples.offsets[end]]
    inside = inside[~np.isnan(inside)]
    if inside.size == 0:
        return np.empty(0), inside
    rank = rank_of(share, inside.size) - 1
    value = np.empty(1)
    value[0] = kth_smallest(inside, inside.size, rank)
    return np.ones(1), value


@inlined
def quantile_is_small(tuples, head, end, w, most):
    """Return whether `order_statistic_distribution` needs at most `most` cell updates."""
    if _are_certain(tuples, head, end, w):
        return True
    held, counts = end - head, min(w, end - head) + 1.0
    cells = held * counts * counts
    if cells > most:
        return False
    value = tuples.value[tuples.offsets[head] : tuples.offsets[end]]
    there = value[~np.isnan(value)]
    if there.size < value.size and held > w:
        cells *= counts
    return there.size * cells <= most or distinct_values(there).size * cells <= most


@inlined
def order_statistic_distribution(tuples, head, end, w, share):
    """Return the exact distribution of a quantile of the w newest existing tuples of [head, end).

    tuples : AttributeTuples    share : float64 in [0, 1]; the quantile is the smallest inside
    value v such that at least share * k of the k inside values are <= v
    Returns (probabilities, values), ascending; the remaining probability is Pr(no value).
    Cost: O(values * held * w**2); O(values * held * w**3) with a NaN among more than w held tuples;
    O(w) if everything is certain.
    """
    if _are_certain(tuples, head, end, w):
        return _quantile_of_certain(tuples, head, end, w, share)
    first, last = tuples.offsets[head], tuples.offsets[end]
    value, prob = tuples.value[first:last], tuples.prob[first:last]
    order, owner = stable_order(value), np.empty(last - first, np.int64)
    for i in range(head, end):
        owner[tuples.offsets[i] - first : tuples.offsets[i + 1] - first] = i - head
    size, missing = last - first, False
    while size > 0 and np.isnan(value[order[size - 1]]):
        size -= 1
        missing = True
    # If all held tuples are inside, a tuple without a value is treated as absent.
    kinds = w + 1 if missing and end - head > w else 1
    over, none = _sums_above(prob, owner, order, size, end - head)
    existence, low, above = np.empty(end - head), np.zeros(end - head), np.zeros(end - head)
    for i in range(end - head):
        existence[i] = existence_of(tuples.offsets, tuples.prob, head + i)
    for r in range(size - 1, -1, -1):
        above[owner[order[r]]] = over[r] + prob[order[r]]
    parts, before, found, steps = np.empty((end - head, 4)), 0.0, 0, np.int64(0)
    for i in range(end - head):
        _write_parts(low[i], above[i], none[i], existence[i], kinds == 1, parts[i])
    probs, candidates, r = np.zeros(size), np.empty(size), 0
    work = (end - head) * min(w, end - head) ** 2 * kinds
    while r < size:
        x = value[order[r]]
        while r < size and value[order[r]] == x:
            i = owner[order[r]]
            low[i] += prob[order[r]]
            _write_parts(low[i], over[r], none[i], existence[i], kinds == 1, parts[i])
            r += 1
        steps = after_signals(steps + work)
        below = _quantile_at_most(parts, w, share, kinds)
        candidates[found] = x
        if below - before > OUTCOME_ROUNDING * below:
            probs[found] = below - before
            before = below
        found += 1
    return probs[:found], candidates[:found]


@inlined
def _sums_above(prob, owner, order, size, n):
    """Return sums of probabilities of alternatives: float64[size] and float64[n].

    The first array has, per sorted alternative, the sum over later alternatives of the same tuple.
    The second array has, per tuple, the sum over its alternatives without a value.

    order : int64[m], alternatives by value; from `size` onwards without a value    owner : int64[m]
    """
    over, above, none = np.empty(size), np.zeros(n), np.zeros(n)
    for r in range(size, order.size):
        none[owner[order[r]]] += prob[order[r]]
    for r in range(size - 1, -1, -1):
        over[r] = above[owner[order[r]]]
        above[owner[order[r]]] += prob[order[r]]
    return over, none


@compiled
def _write_parts(low, over, none, existence, absent, to):
    """Write the probabilities that a tuple is low, over, without a value, or absent."""
    if over == none == 0.0:
        low = existence
    elif low == none == 0.0:
        over = existence
    to[0], to[1], to[2], to[3] = low, over, none, 1.0 - existence
    if absent:
        to[2], to[3] = 0.0, to[3] + none


@inlined
def _quantile_at_most(parts, w, share, kinds):
    """Return Pr(there is a value, and at least `share` of the inside values are low).

    State: count n, number without a value (if `kinds` > 1), number of low values.
    """
    held = parts.shape[0]
    state = np.zeros((w + 1, kinds, w + 1))
    state[0, 0, 0] = 1.0
    for i in range(held - 1, -1, -1):
        low, over, none, absent = parts[i, 0], parts[i, 1], parts[i, 2], parts[i, 3]
        for n in range(min(w, held - i), -1, -1):
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
            for b in range(rank_of(share, n - z), n - z + 1):
                total += state[n, z, b]
    return min(total, 1.0)
