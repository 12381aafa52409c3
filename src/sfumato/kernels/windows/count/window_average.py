"""Mean and variance of the average of the w newest existing tuples, one window at a time.

One pass from the newest tuple to the oldest keeps, for every count of existing tuples so far, its
probability and the mean and variance of their sum given that count. Two cases that meet in one
count are mixed,

    mean = a mean_1 + b mean_2,  variance = a variance_1 + b variance_2 + a b (mean_1 - mean_2)^2,

so that nothing is ever subtracted that is larger than the answer: certain tuples have variance 0.
"""

import numpy as np

from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.laws.existence import existence_of
from sfumato.kernels.laws.order_statistics import NEGLIGIBLE
from sfumato.kernels.laws.value_moments import value_moments
from sfumato.kernels.signals import after_signals

LEAST = 5e-324  # the smallest number above 0


@compiled_ieee
def average_of(offsets, prob, value, head, end, w):
    """Mean, variance and existence of the average of the inside tuples' values.

    offsets : int64[n + 1], prob, value : float64[...], NaN for no value; head, end : int64, the
    tuples held are head ... end - 1; w : int64
    Returns float64[3]: mean and variance given that there is a value, and its probability.
    Cost: O(held * band); windows where g tuples have a NaN O(held * w * min(g, w)): the number of
    values is then a state of its own.
    Error: relative to the spread of the values, about held * 2**-53.
    """
    missing = False
    for a in range(offsets[head], offsets[end]):
        missing = missing or np.isnan(value[a])
    if missing:
        return _with_missing(offsets, prob, value, head, end, w)
    return _without_missing(offsets, prob, value, head, end, w)


@compiled_ieee
def _mix(old, mean, variance, weight, new_mean, new_variance):
    """A case of probability `weight` joins those of probability `old`."""
    total = old + weight
    if total == 0.0 or weight == 0.0:
        return total, mean, variance
    b = weight / total
    away = new_mean - mean
    variance = (1.0 - b) * variance + b * new_variance + b * (1.0 - b) * away * away
    return total, mean + b * away, variance


@compiled_ieee
def _add(law, mean, variance, low, high, p, m, v):
    """One more tuple, cells low ... high - 1; `_mix` of every cell with the next one."""
    # Without a test for 0, which SIMD could not have: the least number there is changes no cell.
    q, count = 1.0 - p, high - low
    pr, mu, var = law[low : high + 1], mean[low : high + 1], variance[low : high + 1]
    for x in range(count):
        come = p * pr[x + 1]
        total = q * pr[x] + come
        b = come / (total + LEAST)
        away = mu[x + 1] + m - mu[x]
        var[x] += b * (var[x + 1] + v - var[x] + (1.0 - b) * away * away)
        mu[x] += b * away
        pr[x] = total


@compiled_ieee
def _without_missing(offsets, prob, value, head, end, w):
    """Count n lies at w - n, so that the update in place runs forward and becomes SIMD."""
    law, mean, variance = np.zeros(w + 2), np.zeros(w + 2), np.zeros(w + 2)
    law[w] = 1.0
    low, high = w, w + 1
    for i in range(end - 1, head - 1, -1):
        existence = existence_of(offsets, prob, i)
        p, m, v = value_moments(offsets, prob, value, existence, i)
        law[0], mean[0], variance[0] = _mix(
            law[0], mean[0], variance[0], p * law[1], mean[1] + m, variance[1] + v
        )
        low = max(1, low - 1)
        _add(law, mean, variance, low, high, p, m, v)
        while high > low and law[high - 1] < NEGLIGIBLE:
            high -= 1
            law[high], mean[high], variance[high] = 0.0, 0.0, 0.0
        if high == low:
            break
    total, centre, spread = 0.0, 0.0, 0.0
    for x in range(w):
        n = float(w - x)
        total, centre, spread = _mix(
            total, centre, spread, law[x], mean[x] / n, variance[x] / (n * n)
        )
    return _conditional(total, centre, spread)


@compiled_ieee
def _conditional(total, mean, variance):
    if total == 0.0:
        return np.array([np.nan, np.nan, 0.0])
    return np.array([mean, variance, min(total, 1.0)])


@compiled_ieee
def _with_missing(offsets, prob, value, head, end, w):
    """The same by (count, number of values)."""
    law, mean, variance = (
        np.zeros((w + 1, w + 1)),
        np.zeros((w + 1, w + 1)),
        np.zeros((w + 1, w + 1)),
    )
    law[0, 0] = 1.0
    least, gaps, steps = 0, 0, np.int64(0)  # gaps : tuples so far that may have no value
    for i in range(end - 1, head - 1, -1):
        steps = after_signals(steps + 16 * min(end - i, w) * (gaps + 1))
        existence = existence_of(offsets, prob, i)
        p, m, v = value_moments(offsets, prob, value, existence, i)
        empty = max(existence - p, 0.0)
        for a in range(offsets[i], offsets[i + 1]):
            if np.isnan(value[a]):
                gaps += 1
                break
        for n in range(min(end - i, w), least - 1, -1):
            stay = 1.0 if n == w else 1.0 - existence
            for k in range(n, max(n - gaps, 0) - 1, -1):
                total, centre, spread = stay * law[n, k], mean[n, k], variance[n, k]
                if n > 0:
                    total, centre, spread = _mix(
                        total, centre, spread,
                        empty * law[n - 1, k], mean[n - 1, k], variance[n - 1, k],
                    )  # fmt: skip
                    if k > 0:
                        total, centre, spread = _mix(
                            total, centre, spread, p * law[n - 1, k - 1],
                            mean[n - 1, k - 1] + m, variance[n - 1, k - 1] + v,
                        )  # fmt: skip
                law[n, k], mean[n, k], variance[n, k] = total, centre, spread
        while least < w and law[least].sum() < NEGLIGIBLE:
            law[least] = 0.0
            least += 1
        if least == w:
            break
    total, centre, spread = 0.0, 0.0, 0.0
    for n in range(1, w + 1):
        for k in range(1, n + 1):
            total, centre, spread = _mix(
                total, centre, spread, law[n, k], mean[n, k] / k, variance[n, k] / (k * k)
            )
    return _conditional(total, centre, spread)
