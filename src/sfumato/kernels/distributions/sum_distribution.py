"""The exact distribution of the sum or average of the w newest existing tuples, if few states
suffice."""

import numpy as np

from sfumato.kernels.arrays import stable_order
from sfumato.kernels.compile import compiled, inlined
from sfumato.kernels.distributions.tuples import existence_of
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import EPSILON, NEGLIGIBLE_STATE


@inlined
def _merge_states(old, size, movable, stay, states, step, to, limits):
    """Merge `old` states and `states` moved by one alternative into `to`, ascending and distinct.

    A state is (int64 key, float64 sum, float64 probability). Only the first `movable` states move;
    in `old`, they keep the share `stay` of their probability.
    step : increments of key and sum, and the factor of the probability
    limits : distance within which sums are equal, and the maximum number of states, most
    Returns the number of states, or most + 1 if there are more.
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
def _empty_states(states):
    return np.empty(states, np.int64), np.empty(states), np.empty(states)


@inlined
def _tie_distance(tuples, head, end):
    """Return the distance within which sums of tuples head ... end - 1 differ by rounding only."""
    scale = 0.0
    for i in range(head, end):
        top = 0.0
        for a in range(tuples.offsets[i], tuples.offsets[i + 1]):
            if not np.isnan(tuples.value[a]):
                top = max(top, abs(tuples.value[a]))
        scale += top
    return EPSILON * (end - head) * scale


@inlined
def _outcomes(states, size, average, stride, near):
    """Return probabilities and distinct ascending values of the sums or averages of states."""
    key, total, distribution = states
    of, reach = np.empty(size), np.empty(size)
    for s in range(size):
        values = max(key[s] % stride, 1) if average else 1
        of[s] = np.nan if average and key[s] % stride == 0 else total[s] / values
        reach[s] = near / values + (EPSILON * abs(of[s]) if average else 0.0)
    prob, value, kept, within = np.empty(size), np.empty(size), 0, 0.0
    for s in stable_order(of):
        if np.isnan(of[s]):
            break
        if kept > 0 and of[s] - value[kept - 1] <= max(within, reach[s]):
            prob[kept - 1] += distribution[s]
        else:
            prob[kept], value[kept], within = distribution[s], of[s], reach[s]
            kept += 1
    return prob[:kept].copy(), value[:kept].copy()


@inlined
def sum_distribution(tuples, head, end, w, average, most):
    """Return the distribution of the sum or average of the w newest existing tuples of [head, end).

    tuples : AttributeTuples; a tuple without a value adds nothing
    most : maximum number of states. A state has the sum, the count if more than w tuples are held,
        and, for an average, the number of values
    Returns (done, probabilities, values), ascending; the remaining probability is Pr(no average).
    done : bool, False if `most` states do not suffice
    Cost: O(held * states * alternatives per tuple), and sorting the states once.
    Error: sums that differ by rounding only are merged; states below 1e-19 are dropped.
    """
    near = _tie_distance(tuples, head, end)
    now, aside, spare = _empty_states(most), _empty_states(most), _empty_states(most)
    now[0][0], now[1][0], now[2][0] = 0, 0.0, 1.0
    # Key: count * stride + number of values.
    states, stride, steps = np.int64(1), w + 1, np.int64(0)
    one = stride if end - head > w else 0
    for i in range(end - 1, head - 1, -1):
        movable = states  # number of states whose count is below w
        if now[0][states - 1] >= w * stride:
            movable = np.searchsorted(now[0][:states], w * stride)
        if movable == 0:
            break
        begin, last = tuples.offsets[i], tuples.offsets[i + 1]
        stay = 1.0 - existence_of(tuples.offsets, tuples.prob, i)
        if stay == 0.0 and last - begin == 1 and movable == states:  # all states move equally
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
            states = _merge_states(old, states, movable, stay, now, step, aside, (near, most))
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
