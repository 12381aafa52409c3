"""Known values of a stream: the newest value before each row, and feedback from hidden values.

For feedback, a known value is hidden, imputed as if it were missing, and compared with the imputed
distribution. Two corrections follow, both of the logarithms of widths:

- The scale of both sides follows the deviations of the values from the median, in units of the
  distribution's mean deviation. It adapts within a dozen tests, because every value has a
  deviation. It only widens, because tested values mostly have short ages, and ranges after long
  gaps must not become narrower because of them.
- Each value beyond an end of the range from 5% to 95% widens that side of later distributions, and
  each other value narrows it a little, so that in the long run 5% of the values lie beyond each
  end. This also holds where the distribution has changed its form.

Source: adaptive conformal inference (Gibbs and Candès 2021) for the sides; for the scale,
stochastic approximation (Robbins and Monro 1951) of the mean deviation.
"""

import math

import numpy as np

from sfumato.kernels.arrays import stable_order
from sfumato.kernels.compile import compiled, lean

END_RATE = 0.2  # a side's logarithm moves by END_RATE * (1 if the value is beyond - END_SHARE)
END_SHARE = 0.05  # share of values beyond each end of the range
SCALE_RATE = 0.1  # the scale's logarithm moves by SCALE_RATE * (deviation - expected deviation)
MOST_DEVIATION = 6.0  # cap of deviations, in mean deviations; a single outlier has little influence
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


@lean
def _bounded(width):
    return min(max(width, NARROWEST), WIDEST)


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
def correct_widths(key, asked, truth, offsets, prob, values, scale, low, high):
    """Widen imputed values, and correct widths by hidden values, in the order of the objects.

    key : int64[n], the code of each object's key
    asked : int64[n], the attribute of a hidden value, or -1    truth : float64[n], the hidden value
    offsets : int64[n + 1], start of each object's alternatives    prob : float64[m]
    values : float64[m, T], changed in place for objects with several values of an attribute
    scale, low, high : float64[keys, T], logarithms of the width, at least 0, and of its further
        factors below and above the median; updated
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
            below, above = _bounded(scale[k, t] + low[k, t]), _bounded(scale[k, t] + high[k, t])
            wider |= asked[i] < 0 and (below > 0.0 or above > 0.0)
            below, above = math.exp(below), math.exp(above)
            if asked[i] >= 0:
                deviation, expected = 0.0, 0.0
                for j in range(value.size):
                    deviation += share[j] * abs(value[j] - middle)
                if 0.0 < deviation < math.inf:
                    for j in range(value.size):
                        off = abs(value[j] - middle) / deviation
                        expected += share[j] * min(off, MOST_DEVIATION)
                    seen = abs(truth[i] - middle) / (deviation * math.exp(scale[k, t]))
                    step = SCALE_RATE * (min(seen, MOST_DEVIATION) - expected)
                    scale[k, t] = _bounded(max(scale[k, t] + step, 0.0))
            for j in range(value.size):
                off = value[j] - middle
                value[j] = middle + off * (below if off < 0.0 else above)
            if asked[i] < 0:
                continue
            under = truth[i] < _quantile(value, share, order, END_SHARE)
            over = truth[i] > _quantile(value, share, order, 1.0 - END_SHARE)
            tested += 1
            covered += not (under or over)
            low[k, t] = _bounded(low[k, t] + END_RATE * (under - END_SHARE))
            high[k, t] = _bounded(high[k, t] + END_RATE * (over - END_SHARE))
        widened += wider
    return tested, covered, widened
