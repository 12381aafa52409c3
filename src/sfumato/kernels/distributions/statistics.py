"""Statistics of the values of the w newest existing tuples: exact if cheap, otherwise sampled.

In a world with k >= 2 values of mean m, the sample variance is sum (x - m)**2 / (k - 1). Deviations
are taken from each world's mean, so large values with a small spread keep their precision.
"""

import numpy as np

from sfumato.kernels.arrays import sort_slots, sorted_values, stable_order, with_room, write_at
from sfumato.kernels.compile import compiled, inlined, lean
from sfumato.kernels.distributions.end_values import end_value
from sfumato.kernels.distributions.order_statistics import (
    order_statistic_distribution,
    quantile_is_small,
    rank_of,
)
from sfumato.kernels.distributions.sampled_worlds import alternative_in_world
from sfumato.kernels.distributions.sum_distribution import sum_distribution
from sfumato.kernels.distributions.tuples import existence_of, value_parts
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import NEGLIGIBLE

SUM, AVERAGE, QUANTILE, VARIANCE, DEVIATION, DISTINCT, FIRST_VALUE, LAST_VALUE = range(8)
SAMPLE_TIE = 1e-14  # relative difference up to which results are merged


@compiled
def _statistic(values, count, what, share):
    """Return a statistic of the first `count` values, newest first, or NaN without a result."""
    if what == SUM or (what == AVERAGE and count > 0):
        total = 0.0
        for i in range(count - 1, -1, -1):
            total += values[i]
        return total if what == SUM else total / count
    if what == DISTINCT:
        sort_slots(values, count)
        distinct = 0
        for i in range(count):
            distinct += i == 0 or values[i] != values[i - 1]
        return float(distinct)
    if count == 0 or (what in (VARIANCE, DEVIATION) and count == 1):
        return np.nan
    if what == FIRST_VALUE:
        return values[count - 1]
    if what == QUANTILE:
        return sorted_values(values[:count])[rank_of(share, count) - 1]
    mean = 0.0
    for i in range(count):
        mean += (values[i] - mean) / (i + 1)
    squares = 0.0
    for i in range(count):
        squares += (values[i] - mean) ** 2
    variance = squares / (count - 1)
    return np.sqrt(variance) if what == DEVIATION else variance


@lean
def _count_choices(tuples, i):
    """Return the number of choices of tuple i: its alternatives, and absence if possible."""
    alternatives = tuples.offsets[i + 1] - tuples.offsets[i]
    return alternatives + (existence_of(tuples.offsets, tuples.prob, i) < 1.0)


@inlined
def _oldest_inside(tuples, head, end, w, most):
    """Return the oldest possibly inside tuple, or -1 if the worlds total over `most` tuples."""
    worlds, certain = 1.0, 0
    for i in range(end - 1, head - 1, -1):
        worlds *= _count_choices(tuples, i)
        if worlds > 1.0 and worlds * (end - i) > most:
            return -1
        certain += existence_of(tuples.offsets, tuples.prob, i) >= 1.0
        if certain == w:
            return i
    return head


@inlined
def _distribution_by_worlds(tuples, first, end, w, what):
    """Return the probability and result of each world that has a result.  O(worlds * tuples)."""
    n, worlds = end - first, 1
    choice = np.zeros(n, np.int64)
    for i in range(first, end):
        worlds *= _count_choices(tuples, i)
    prob, value, found = np.empty(worlds), np.empty(worlds), 0
    there, steps = np.empty(n), np.int64(0)
    for _ in range(worlds):
        steps = after_signals(steps + 4 * n)
        chance, inside, values = 1.0, 0, np.int64(0)
        for i in range(end - 1, first - 1, -1):
            a = tuples.offsets[i] + choice[i - first]
            if a == tuples.offsets[i + 1]:
                chance *= 1.0 - existence_of(tuples.offsets, tuples.prob, i)
                continue
            if tuples.offsets[i + 1] - tuples.offsets[i] > 1 or tuples.prob[a] < 1.0:
                chance *= tuples.prob[a]
            inside += 1
            if inside <= w and not np.isnan(tuples.value[a]):
                there[values] = tuples.value[a]
                values += 1
        result = _statistic(there, values, what, 0.0)
        if chance > 0.0 and not np.isnan(result):
            prob[found], value[found] = chance, result
            found += 1
        at = 0
        while at < n:
            choice[at] += 1
            if choice[at] < _count_choices(tuples, first + at):
                break
            choice[at] = 0
            at += 1
    return prob[:found], value[:found]


@compiled
def merge_near(prob, value, near):
    """Return outcomes in ascending order; values within near * value of each other are merged."""
    order, kept = stable_order(value), -1
    to_prob, to_value, last = np.empty(prob.size), np.empty(prob.size), np.nan
    for k in order:
        if not value[k] - last <= near * abs(value[k]):
            kept += 1
            to_prob[kept], to_value[kept] = 0.0, value[k]
        to_prob[kept] += prob[k]
        last = value[k]
    return to_prob[: kept + 1], to_value[: kept + 1]


@compiled
def exact_distribution(what, share, tuples, head, end, w, limits):
    """Return the exact distribution of a statistic of the w newest existing tuples of [head, end).

    tuples : AttributeTuples    share : float64, for QUANTILE
    limits : maximum numbers of states of a sum or average, of cell updates of a quantile or first
        value, and of tuples in all enumerated worlds
    Returns (True if small enough, prob, ascending values); the remaining probability is Pr(no
    result).
    """
    most_states, most_work, most_spread = limits
    prob, value, done = np.empty(0), np.empty(0), True
    if what in (SUM, AVERAGE):
        done, prob, value = sum_distribution(tuples, head, end, w, what == AVERAGE, most_states)
    elif what == QUANTILE:
        done = quantile_is_small(tuples, head, end, w, most_work)
        if done:
            prob, value = order_statistic_distribution(tuples, head, end, w, share)
    elif what in (FIRST_VALUE, LAST_VALUE):
        done, prob, value = end_value(tuples, head, end, w, what == LAST_VALUE, most_work)
    else:
        first = _oldest_inside(tuples, head, end, w, most_spread)
        done = first >= 0
        if done:
            prob, value = _distribution_by_worlds(tuples, first, end, w, what)
    if what >= VARIANCE:
        prob, value = merge_near(prob, value, 0.0 if what >= FIRST_VALUE else SAMPLE_TIE)
    some = prob > 0.0
    return done, prob[some], value[some]


@compiled
def exact_distributions(what, share, tuples, heads, ends, w, limits, group, first, untried):
    """Return the `exact_distribution` of each of k windows.

    heads, ends, group : int64[k]; window t holds tuples heads[t] ... ends[t] - 1 of its group
    first : int64[g], offset from positions to stream indices
    untried : int64[g], updated: the stream index before which no window with a sum may start,
        because such windows overlap a window whose sum had too many states
    Returns (places int64[k + 1], prob, value, done bool[k]); empty for windows that are not done.
    """
    places, done = np.zeros(heads.size + 1, np.int64), np.zeros(heads.size, np.bool_)
    prob, value, steps = np.empty(heads.size), np.empty(heads.size), np.int64(0)
    for t in range(heads.size):
        steps = after_signals(steps + 64 * (tuples.offsets[ends[t]] - tuples.offsets[heads[t]]))
        begin, j, sums = places[t], group[t], what in (SUM, AVERAGE)
        places[t + 1] = begin
        if sums and first[j] + heads[t] < untried[j]:
            continue
        done[t], p, v = exact_distribution(what, share, tuples, heads[t], ends[t], w, limits)
        if done[t]:
            prob, value = with_room(prob, begin + p.size), with_room(value, begin + p.size)
            write_at(prob, begin, p)
            write_at(value, begin, v)
            places[t + 1] = begin + p.size
        elif sums:
            untried[j] = first[j] + ends[t]
    return places, prob[: places[-1]], value[: places[-1]], done


@compiled
def sampled_statistics(what, share, drawn, heads, ends, w, samples):
    """Return a statistic of the w newest existing tuples in sampled worlds: float64[k, samples].

    drawn : SampledWorlds    heads, ends : int64[k], tuples heads[t] ... ends[t] - 1
    NaN: no result
    Cost: O(tuples until w exist) per window and world, times its logarithm if values are sorted.
    """
    out, there = np.empty((heads.size, samples)), np.empty(drawn.tuples.offsets.size)
    steps = np.int64(0)
    for t in range(heads.size):
        for s in range(samples):
            inside, values = 0, np.int64(0)
            steps = after_signals(steps + 8 * (ends[t] - heads[t]))
            for i in range(ends[t] - 1, heads[t] - 1, -1):
                a = alternative_in_world(drawn.tuples, drawn.hashes, i, s)
                if a < 0:
                    continue
                if not np.isnan(drawn.tuples.value[a]):
                    there[values] = drawn.tuples.value[a]
                    values += 1
                inside += 1
                if inside == w:
                    break
            out[t, s] = _statistic(there, values, what, share)
    return out


@inlined
def _result_existence(tuples, head, end, w, distribution):
    """Return Pr(at least r inside tuples have a value); distribution[r, w + 1] is overwritten."""
    distribution[:, :] = 0.0
    distribution[0, 0] = 1.0
    some, high, least = 0.0, 1, distribution.shape[0]  # counts below `high` are possible
    for i in range(end - 1, head - 1, -1):
        valued, without = value_parts(tuples.offsets, tuples.prob, tuples.value, i)
        stay, left = max(1.0 - valued - without, 0.0), 0.0
        for c in range(min(high, w) - 1, -1, -1):  # a world with count w is full
            some += valued * distribution[least - 1, c]
            for r in range(least - 1, -1, -1):
                distribution[r, c + 1] += without * distribution[r, c]
                if r > 0:
                    distribution[r, c + 1] += valued * distribution[r - 1, c]
                distribution[r, c] *= stay
        high = min(high + 1, w + 1)
        for c in range(min(high, w)):
            for r in range(least):
                left += distribution[r, c]
        if left < NEGLIGIBLE:
            break
    return min(some, 1.0)


@compiled
def result_existences(what, tuples, heads, ends, w):
    """Return the probability that a statistic has a result, float64[k]; see `exact_distributions`.

    Cost: O(tuples until worlds with too few values are negligible * band).
    """
    out, steps = np.ones(heads.size), np.int64(0)
    if what in (SUM, DISTINCT):
        return out
    w = min(w, tuples.offsets.size - 1)
    distribution = np.empty((2 if what in (VARIANCE, DEVIATION) else 1, w + 1))
    for t in range(heads.size):
        steps = after_signals(steps + w + tuples.offsets[ends[t]] - tuples.offsets[heads[t]])
        out[t] = _result_existence(tuples, heads[t], ends[t], w, distribution)
    return out
