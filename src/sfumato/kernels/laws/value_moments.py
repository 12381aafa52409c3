"""What a tuple is to an aggregate: the probability of a value, and its mean and variance."""

import numpy as np

from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.laws.existence import existence_of


@compiled_ieee
def value_moments(offsets, prob, value, existence, i):
    """(e, mu, var) of tuple i; e is exactly `existence` where each alternative has a value."""
    total, mean, first, missing = 0.0, 0.0, np.nan, False
    for k in range(offsets[i], offsets[i + 1]):
        if np.isnan(value[k]):
            missing = True
            continue
        if np.isnan(first):
            first = value[k]
        total += prob[k]
        mean += prob[k] * (value[k] - first)
    if total == 0.0:
        return 0.0, 0.0, 0.0
    mean /= total
    variance = 0.0
    for k in range(offsets[i], offsets[i + 1]):
        if not np.isnan(value[k]):
            variance += prob[k] * (value[k] - first - mean) ** 2
    return min(total, existence) if missing else existence, first + mean, variance / total


@compiled_ieee
def lift(offsets, prob, value, to):
    """What tuples are to a channel: e, mu and var; mu = var = 0 where e = 0.

    offsets : int64[n + 1]    prob, value : float64[m], NaN: no value    to : float64[3, n], written
    O(m).
    """
    for i in range(offsets.size - 1):
        existence = existence_of(offsets, prob, i)
        to[0, i], to[1, i], to[2, i] = value_moments(offsets, prob, value, existence, i)
