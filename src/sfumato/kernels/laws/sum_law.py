"""Exact law of the sum or average of the w newest existing tuples, while it has few outcomes."""

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.laws.tuples import existence_of
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import EPSILON, NEGLIGIBLE_STATE


@compiled
def _take(old, size, movable, stay, states, step, to, limits):
    """`old` states, and `states` after one alternative: one ascending list without equals.

    old, states, to : (key int64[...], sum, probability), the first of which are in use, ascending
        by key, then sum; the movable ones are the first of `old` and of `states`
    stay : float64, factor of the movable ones of `old`, which go if it is 0
    step : (int64, float64, float64), added to key and sum of the movable ones of `states`, and the
        factor of their probability
    limits : distance within which sums are one, and most states
    Returns how many states there are, or `most` + 1 for more.  O(states).
    """
    key, total, prob = old
    from_key, from_total, from_prob = states
    to_key, to_total, to_prob = to
    more, x, share = step
    near, most = limits
    i, j, kept = movable if stay == 0.0 else 0, 0, 0
    while i < size or j < movable:
        first = j == movable
        if not first and i < size:
            other = from_key[j] + more
            first = key[i] < other or (key[i] == other and total[i] <= from_total[j] + x)
        if first:
            k, v, p = key[i], total[i], prob[i] * (stay if i < movable else 1.0)
            i += 1
        else:
            k, v, p = from_key[j] + more, from_total[j] + x, from_prob[j] * share
            j += 1
        if p < NEGLIGIBLE_STATE:
            continue
        if kept > 0 and to_key[kept - 1] == k and v - to_total[kept - 1] <= near:
            to_prob[kept - 1] += p
        elif kept == most:
            return most + 1
        else:
            to_key[kept], to_total[kept], to_prob[kept] = k, v, p
            kept += 1
    return kept


@compiled
def _room(states):
    return np.empty(states, np.int64), np.empty(states), np.empty(states)


@compiled
def _near(tuples, head, end):
    """Distance within which sums of tuples head ... end - 1 differ by roundings."""
    scale = 0.0
    for i in range(head, end):
        top = 0.0
        for a in range(tuples.offsets[i], tuples.offsets[i + 1]):
            if not np.isnan(tuples.value[a]):
                top = max(top, abs(tuples.value[a]))
        scale += top
    return EPSILON * (end - head) * scale


@compiled
def _outcomes(states, size, average, stride, near):
    """Probabilities and different values, ascending, of the sums or averages of these states."""
    key, total, law = states
    of, reach = np.empty(size), np.empty(size)
    for s in range(size):
        values = max(key[s] % stride, 1) if average else 1
        of[s] = np.nan if average and key[s] % stride == 0 else total[s] / values
        reach[s] = near / values + (EPSILON * abs(of[s]) if average else 0.0)
    prob, value, kept, within = np.empty(size), np.empty(size), 0, 0.0
    for s in np.argsort(of):
        if np.isnan(of[s]):
            break
        if kept > 0 and of[s] - value[kept - 1] <= max(within, reach[s]):
            prob[kept - 1] += law[s]
        else:
            prob[kept], value[kept], within = law[s], of[s], reach[s]
            kept += 1
    return prob[:kept].copy(), value[:kept].copy()


@compiled
def sum_law(tuples, head, end, w, average, most):
    """Law of the sum (or average) of the values of the w newest existing of head ... end - 1.

    tuples : Tuples; one without a value adds nothing
    average : bool; most : int64, give up beyond this number of states: (count, values, sum), the
        count only where more than w tuples are held, the values only for an average
    Returns (bool done, probabilities, values), ascending; the probabilities of an average fall
    short of 1 by that of a window without a value.
    Cost: O(held * states * a), a alternatives a tuple, and sorting the states once.
    Error: sums within the roundings of adding them are one, states below 1e-19 are dropped.
    """
    near = _near(tuples, head, end)
    now, aside, spare = _room(most), _room(most), _room(most)
    now[0][0], now[1][0], now[2][0] = 0, 0.0, 1.0
    states, stride, steps = 1, w + 1, np.int64(0)  # key: count * stride + number of values
    one = stride if end - head > w else 0
    for i in range(end - 1, head - 1, -1):
        movable = states  # not those that are full
        if now[0][states - 1] >= w * stride:
            movable = np.searchsorted(now[0][:states], w * stride)
        if movable == 0:
            break
        begin, last = tuples.offsets[i], tuples.offsets[i + 1]
        stay = 1.0 - existence_of(tuples.offsets, tuples.prob, i)
        if stay == 0.0 and last - begin == 1 and movable == states:  # all move alike
            none = np.isnan(tuples.value[begin])
            for s in range(states):
                now[0][s] += one + (1 if average and not none else 0)
                now[1][s] += 0.0 if none else tuples.value[begin]
            continue
        old = now
        for a in range(begin, last):
            steps = after_signals(steps + 8 * states)
            none = np.isnan(tuples.value[a])
            key = one + (1 if average and not none else 0)
            step = key, 0.0 if none else tuples.value[a], tuples.prob[a]
            states = _take(old, states, movable, stay, now, step, aside, (near, most))
            if states > most:
                return False, now[2][:0], now[1][:0]
            if a == begin:
                old, aside = aside, spare
            else:
                old, aside = aside, old
            stay = 1.0
        now, spare = old, now
    chances, values = _outcomes(now, states, average, stride, near)
    return True, chances, values
