"""Uncertain tuples: their alternatives, their existence, and the moments of their values."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled, compiled_ieee, lean
from sfumato.kernels.tolerances import CERTAIN


class AttributeTuples(NamedTuple):
    """n tuples and their concatenated alternatives.

    offsets : int64[n + 1], start of each tuple's alternatives
    prob, value : float64[offsets[n]]; with a NaN value, the tuple exists but has no value
    """

    offsets: np.ndarray
    prob: np.ndarray
    value: np.ndarray


@compiled
def check_probabilities(existence, most):
    """Return (bad, above, certain, possible) of an array of probabilities, in one pass.

    most : float64 >= 1, the largest value that rounding may produce for a probability
    bad : index of the first value that is NaN or outside [0, most], or -1
    above, certain, possible : numbers of values > 1, >= 1 and > 0
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
def round_to_one(total, terms):
    """Return a sum of probabilities, or 1 if the sum is above 1 or is below 1 only by rounding: by
    at most 2**-52 per term for two or more terms."""
    if total > 1.0 or (terms > 1 and total >= 1.0 - terms * 2.0**-52):
        return 1.0
    return total


@compiled_ieee
def reaches(probability, threshold):
    """Return whether a computed probability is at least a threshold in [0, 1].

    Every operator applies this rule: a probability that is below the threshold by a relative
    difference of at most CERTAIN reaches it. Rounding therefore does not decide ties such as
    8 * 0.1 and 0.8.
    """
    return probability >= threshold * (1.0 - CERTAIN)


def reaches_all(probability, threshold):
    """Return `reaches` for an array of probabilities, bool[n], without compiled code."""
    return probability >= threshold * (1.0 - CERTAIN)


@compiled_ieee
def existence_of(offsets, prob, i):
    """Return the existence of tuple i: `existence_within` of its alternatives."""
    return existence_within(prob, offsets[i], offsets[i + 1])


@lean
def existence_within(prob, begin, end):
    """Return the sum of probabilities [begin, end), the alternatives of one tuple, at most 1.

    The sum is compensated (one rounding), then passed to `round_to_one`, so a tuple with ten
    alternatives of probability 0.1 is certain.  Source: Neumaier (1974).
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
    return round_to_one(total + lost, end - begin)


@compiled_ieee
def existences(offsets, prob):
    result = np.empty(offsets.size - 1)
    for i in range(result.size):
        result[i] = existence_of(offsets, prob, i)
    return result


@compiled_ieee
def value_parts(offsets, prob, value, i):
    """Return the probabilities that tuple i exists with a value, and without one (NaN).

    Their sum is the tuple's existence; a part without alternatives is exactly 0.
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
    """Return (e, mu, var) of `mergeable_moments` for tuple i; e is `existence` without NaN."""
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
def tuple_moments(offsets, prob, value, to):
    """Write the `value_moments` e, mu and var of each tuple to `to`, float64[3, n]."""
    for i in range(offsets.size - 1):
        existence = existence_of(offsets, prob, i)
        to[0, i], to[1, i], to[2, i] = value_moments(offsets, prob, value, existence, i)


class WindowTuples(NamedTuple):
    """A window's tuples in order: the held tuples, then the arrivals of a call.

    first : int64, stream index of position 0; other fields as in AttributeTuples
    """

    offsets: np.ndarray
    prob: np.ndarray
    value: np.ndarray
    first: int


@lean
def centred_moments(tuples, i, reference):
    """Return tuple i's existence, and the mean and variance of value - reference (0 if absent).

    The value of a NaN alternative is treated as 0.
    """
    offsets, prob, value = tuples.offsets, tuples.prob, tuples.value
    existence, mean, total = existence_within(prob, offsets[i], offsets[i + 1]), 0.0, 0.0
    for a in range(offsets[i], offsets[i + 1]):
        x = value[a]
        total += prob[a]
        mean += prob[a] * ((0.0 if np.isnan(x) else x) - reference)
    scale = existence / total  # 1 except for rounding
    mean *= scale
    variance = (1.0 - existence) * mean * mean
    for a in range(offsets[i], offsets[i + 1]):
        x = value[a]
        away = (0.0 if np.isnan(x) else x) - reference - mean
        variance += prob[a] * scale * away * away
    return existence, mean, variance
