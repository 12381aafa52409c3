"""Uncertain tuples: their alternatives, their existence, and the moments of their values."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled, compiled_ieee, lean
from sfumato.kernels.tolerances import CERTAIN


class AttributeTuples(NamedTuple):
    """n tuples and their alternatives, end to end.

    offsets : int64[n + 1], where each tuple's alternatives begin
    prob, value : float64[offsets[n]]; NaN: the tuple exists, but has no value
    """

    offsets: np.ndarray
    prob: np.ndarray
    value: np.ndarray


@compiled
def survey(existence, most):
    """(bad, above, certain, possible) of an array of probabilities, in one pass.  O(n).

    existence : float64[n]; most : float64 >= 1, what rounding may make of a probability
    bad : index of the first value that is NaN or outside [0, most], -1 if none is
    above : how many exceed 1;  certain : how many are at least 1;  possible : how many exceed 0
    """
    above, certain, possible = 0, 0, 0
    valid = True
    for i in range(existence.size):
        p = existence[i]
        valid &= (p >= 0.0) & (p <= most)  # NaN fails both
        above += p > 1.0
        certain += p >= 1.0
        possible += p > 0.0
    bad = -1
    if not valid:
        for i in range(existence.size):
            if not (existence[i] >= 0.0 and existence[i] <= most):
                bad = i
                break
    return bad, above, certain, possible


@compiled_ieee
def rounded_to_one(total, terms):
    """`total` of some probabilities, 1 where only roundings keep it off: 2**-52 a term of two or
    more."""
    if total > 1.0 or (terms > 1 and total >= 1.0 - terms * 2.0**-52):
        return 1.0
    return total


@compiled_ieee
def reaches(probability, threshold):
    """Whether a computed probability is at least a threshold in [0, 1].

    The one rule of certainty, for every operator: what misses 1 by at most CERTAIN is 1, and so
    reaches a threshold of 1. Elsewhere the floats are compared, and rounding decides a tie.
    Takes arrays through `reaches_all`.
    """
    return probability >= threshold or probability >= 1.0 - CERTAIN


def reaches_all(probability, threshold):
    """`reaches` for an array of probabilities: bool[n].  NumPy."""
    return (probability >= threshold) | (probability >= 1.0 - CERTAIN)


@compiled_ieee
def existence_of(offsets, prob, i):
    """Existence of tuple i: `existence_within` of its alternatives.

    offsets : int64[n + 1]    prob : float64[offsets[n]]
    """
    return existence_within(prob, offsets[i], offsets[i + 1])


@lean
def existence_within(prob, begin, end):
    """The sum of probabilities [begin, end), the alternatives of one tuple, at most 1.

    The one rule of existence: summed with compensation (one rounding), then `rounded_to_one`. So
    ten tenths are certain, and a window of confidence 1 counts only certain tuples.
    O(alternatives).  Source: spec of the model; compensated summation: Neumaier (1974).
    """
    total, lost = 0.0, 0.0
    for k in range(begin, end):
        term = prob[k]
        larger = total + term
        if total >= term:
            lost += (total - larger) + term
        else:
            lost += (term - larger) + total
        total = larger
    return rounded_to_one(total + lost, end - begin)


@compiled_ieee
def existences(offsets, prob):
    """`existence_of` every tuple: float64[n].  O(alternatives)."""
    result = np.empty(offsets.size - 1)
    for i in range(result.size):
        result[i] = existence_of(offsets, prob, i)
    return result


@compiled_ieee
def value_parts(offsets, prob, value, i):
    """(with, without): probabilities that tuple i exists with a value, and that it exists without.

    value : float64[offsets[n]], NaN for no value
    They sum to its existence; exactly 0 where no alternative is of that kind.  O(alternatives).
    """
    existence, valued, none = existence_of(offsets, prob, i), 0.0, 0.0
    for k in range(offsets[i], offsets[i + 1]):
        if np.isnan(value[k]):
            none += prob[k]
        else:
            valued += prob[k]
    if none == 0.0:
        return existence, 0.0
    if valued == 0.0:
        return 0.0, existence
    valued = min(valued, existence)
    return valued, existence - valued


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


class WindowTuples(NamedTuple):
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
