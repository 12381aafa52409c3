"""The tuples of a window as kernels of one attribute take them."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import lean
from sfumato.kernels.laws.existence import existence_within


class HeldTuples(NamedTuple):
    """Tuples of a window in order: those held before, then the arrivals of a call.

    offsets : int64[n + 1], prob, value : float64[...], their alternatives, NaN for no value
    first : int64, stream index of position 0
    """

    offsets: np.ndarray
    prob: np.ndarray
    value: np.ndarray
    first: int


@lean
def centred(tuples, i, reference):
    """Existence, mean and variance of tuple i's (value - reference) * (it exists).

    A NaN alternative exists and adds 0 to the sum: its value is 0.
    """
    offsets, prob, value = tuples.offsets, tuples.prob, tuples.value
    existence, mean, total = existence_within(prob, offsets[i], offsets[i + 1]), 0.0, 0.0
    for a in range(offsets[i], offsets[i + 1]):
        x = value[a]
        total += prob[a]
        mean += prob[a] * ((0.0 if np.isnan(x) else x) - reference)
    scale = existence / total  # 1 but for roundings
    mean *= scale
    variance = (1.0 - existence) * mean * mean
    for a in range(offsets[i], offsets[i + 1]):
        x = value[a]
        away = (0.0 if np.isnan(x) else x) - reference - mean
        variance += prob[a] * scale * away * away
    return existence, mean, variance
