"""Exact law of the sum or average of the w newest existing tuples, while it has few outcomes."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled

SAME = 1e-12  # sums nearer than this times the largest are one: they differ by rounding
NEGLIGIBLE = 1e-19


@compiled
def _merge(old, size, movable, absent, source, alternative, target, tolerance, most):
    """States of `old` and those of a tuple's alternative, in one ascending list without equals.

    old, source, target : (key int64[...], value, probability), the first of which are states,
        ascending by key, then value; the movable ones are the first of `old` and of `source`
    absent : float64, factor of the movable ones of `old`, which go if it is 0
    alternative : (int64, float64, float64), added to key and value of the movable ones of
        `source`, and the factor of their probability
    Returns how many states `target` has, or `most` + 1 for more.  O(states).
    """
    key, value, prob = old
    from_key, from_value, from_prob = source
    to_key, to_value, to_prob = target
    more, x, share = alternative
    i, j, kept = movable if absent == 0.0 else 0, 0, 0
    while i < size or j < movable:
        first = j == movable
        if not first and i < size:
            other = from_key[j] + more
            first = key[i] < other or (key[i] == other and value[i] <= from_value[j] + x)
        if first:
            k, v, p = key[i], value[i], prob[i] * (absent if i < movable else 1.0)
            i += 1
        else:
            k, v, p = from_key[j] + more, from_value[j] + x, from_prob[j] * share
            j += 1
        if p < NEGLIGIBLE:
            continue
        if kept > 0 and to_key[kept - 1] == k and v - to_value[kept - 1] <= tolerance:
            to_prob[kept - 1] += p
        elif kept == most:
            return most + 1
        else:
            to_key[kept], to_value[kept], to_prob[kept] = k, v, p
            kept += 1
    return kept


@compiled
def _room(states):
    return np.empty(states, np.int64), np.empty(states), np.empty(states)


@compiled
def _scale(offsets, value, head, end):
    """Sum of the tuples' largest absolute values."""
    scale = 0.0
    for i in range(head, end):
        top = 0.0
        for a in range(offsets[i], offsets[i + 1]):
            if not np.isnan(value[a]):
                top = max(top, abs(value[a]))
        scale += top
    return scale


@compiled
def _outcomes(states, size, average, stride, tolerance):
    """Probabilities and different values, ascending, of the sums or averages of these states."""
    key, total, law = states
    outcomes = np.empty(size)
    for s in range(size):
        values = key[s] % stride
        if not average:
            outcomes[s] = total[s]
        else:
            outcomes[s] = total[s] / values if values > 0 else np.nan
    prob, value, kept = np.empty(size), np.empty(size), 0
    for s in np.argsort(outcomes):
        if np.isnan(outcomes[s]):
            break
        if kept > 0 and outcomes[s] - value[kept - 1] <= tolerance:
            prob[kept - 1] += law[s]
        else:
            prob[kept], value[kept] = law[s], outcomes[s]
            kept += 1
    return prob[:kept].copy(), value[:kept].copy()


@compiled
def sum_law(offsets, prob, value, head, end, w, average, most):
    """Law of the sum (or average) of the inside tuples' values: held head ... end - 1.

    offsets : int64[n + 1], prob, value : float64[...], NaN for no value: it adds nothing
    average : bool; most : int64, give up beyond this number of states (count, values, sum)
    Returns (bool done, probabilities, values), ascending; the probabilities of an average fall
    short of 1 by that of a window without a value.

    Cost: O(held * states * a), a alternatives a tuple, and sorting the states once.
    Error: sums within 1e-12 of the largest are merged, states below 1e-19 are dropped.
    """
    tolerance = SAME * _scale(offsets, value, head, end)
    now, aside, spare = _room(most), _room(most), _room(most)
    now[0][0], now[1][0], now[2][0] = 0, 0.0, 1.0
    states, stride = 1, w + 1  # key: count * stride + number of values (0 for sums)
    for i in range(end - 1, head - 1, -1):
        movable = states  # not those that are full
        if now[0][states - 1] >= w * stride:
            movable = np.searchsorted(now[0][:states], w * stride)
        if movable == 0:
            break
        absent = 1.0
        for a in range(offsets[i], offsets[i + 1]):
            absent -= prob[a]
        if absent < 1e-15:
            absent = 0.0
        a = offsets[i]
        if absent == 0.0 and offsets[i + 1] - a == 1 and movable == states:  # all move alike
            none = np.isnan(value[a])
            for s in range(states):
                now[0][s] += stride + (1 if average and not none else 0)
                now[1][s] += 0.0 if none else value[a]
            continue
        old = now
        for a in range(offsets[i], offsets[i + 1]):
            none = np.isnan(value[a])
            step = stride + (1 if average and not none else 0)
            moved = step, 0.0 if none else value[a], prob[a]
            states = _merge(old, states, movable, absent, now, moved, aside, tolerance, most)
            if states > most:
                return False, now[2][:0], now[1][:0]
            if a == offsets[i]:
                old, aside = aside, spare
            else:
                old, aside = aside, old
            absent = 1.0
        now, spare = old, now
    tolerance = tolerance / w if average else tolerance
    chances, outcomes = _outcomes(now, states, average, stride, tolerance)
    return True, chances, outcomes
