"""Known values of a stream: the newest value before each row, and feedback from hidden values.

For feedback, a known value is hidden, imputed as if it were missing, and compared with the range
from 5% to 95%. Each value beyond an end of the range widens that side of later distributions. Each
value within the range narrows both sides a little, so that in the long run 5% of the values lie
beyond each end.

Source: adaptive conformal inference (Gibbs and Candès 2021), applied to the logarithm of the width
on each side of the median.
"""

import math

import numpy as np

from sfumato.kernels.arrays import stable_order
from sfumato.kernels.compile import compiled, lean

RATE = 0.1  # a width's logarithm moves by RATE * (1 if the value is beyond the end - END_SHARE)
END_SHARE = 0.05  # share of values beyond each end of the range
NARROWEST, WIDEST = -2.0, 6.0  # bounds of the logarithms


@lean
def _quantile(value, prob, order, level):
    """Return the value at a probability level. order : places of the values, ascending"""
    cumulated, last = 0.0, order[order.size - 1]
    for j in order:
        cumulated += prob[j]
        if cumulated >= level - 1e-12:
            return value[j]
    return value[last]


@compiled
def earlier_values(key, time, values, known, since):
    """Return (earlier values, their times), float64[n, T] each; NaN if there is no earlier value.

    key : int64[n] in [0, keys)    time : float64[n]
    values : float64[n, T]; values that are not finite are missing
    known, since : float64[keys, T], value and time of the newest known value by time, NaN before
        the first; updated in place, but not by older rows
    O(n T).
    """
    n, attributes = values.shape
    earlier, begin = np.empty((n, attributes)), np.empty((n, attributes))
    for i in range(n):
        for a in range(attributes):
            newest = since[key[i], a]
            earlier[i, a], begin[i, a] = known[key[i], a], newest
            if np.isfinite(values[i, a]) and not time[i] < newest:
                known[key[i], a], since[key[i], a] = values[i, a], time[i]
    return earlier, begin


@compiled
def correct_widths(key, asked, truth, offsets, prob, values, low, high):
    """Widen imputed values, and correct widths by hidden values, in the order of the objects.

    key : int64[n], the code of each object's key
    asked : int64[n], the attribute of a hidden value, or -1    truth : float64[n], the hidden value
    offsets : int64[n + 1], start of each object's alternatives    prob : float64[m]
    values : float64[m, T], changed in place for objects with several values of an attribute
    low, high : float64[keys, T], logarithms of the widths below and above the median, updated
    Returns the numbers of hidden values, of hidden values within the range, and of other objects
    with a widened attribute.  O(m T log m).
    """
    tested, covered, widened = 0, 0, 0
    for i in range(key.size):
        k, wider = key[i], False
        begin, end = offsets[i], offsets[i + 1]
        share = prob[begin:end]
        for t in range(values.shape[1]):
            value = values[begin:end, t]
            if value.size < 2 or value.min() == value.max() or (asked[i] >= 0 and asked[i] != t):
                continue
            order = stable_order(value)
            middle = _quantile(value, share, order, 0.5)
            below, above = math.exp(low[k, t]), math.exp(high[k, t])
            wider |= asked[i] < 0 and (low[k, t] > 0.0 or high[k, t] > 0.0)
            for j in range(value.size):
                off = value[j] - middle
                value[j] = middle + off * (below if off < 0.0 else above)
            if asked[i] < 0:
                continue
            under = truth[i] < _quantile(value, share, order, END_SHARE)
            over = truth[i] > _quantile(value, share, order, 1.0 - END_SHARE)
            tested += 1
            covered += not (under or over)
            step = RATE * (under - END_SHARE), RATE * (over - END_SHARE)
            low[k, t] = min(max(low[k, t] + step[0], NARROWEST), WIDEST)
            high[k, t] = min(max(high[k, t] + step[1], NARROWEST), WIDEST)
        widened += wider
    return tested, covered, widened
