"""Existence: the probability that a tuple exists, and how many of some leave no doubt."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled, compiled_ieee


@compiled
def survey(existence, most):
    """(bad, above, certain, possible) of an array of probabilities, in one pass.

    existence : float64[n]; most : float64 >= 1, what rounding may make of a probability
    bad : index of the first value that is NaN or outside [0, most], -1 if none is
    above : how many exceed 1;  certain : how many are at least 1;  possible : how many exceed 0
    Cost: O(n), no allocation.  Error: none.  Source: the model's rule for a tuple's existence.
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
def existences(offsets, prob):
    """Existence of each tuple: the sum of its samples' probabilities, at most 1.

    offsets : int64[n + 1]    prob : float64[offsets[n]]    Returns float64[n].
    O(samples).

    Error: summed with compensation, one rounding. A sum that misses 1 by no more than the
    roundings of its terms (2**-52 a sample, two samples or more) is 1: three thirds are certain,
    and a window of confidence 1 counts only certain tuples.
    Source: spec of the model; compensated summation: Neumaier (1974).
    """
    n = offsets.size - 1
    result = np.zeros(n)
    for i in range(n):
        total, lost = 0.0, 0.0
        for k in range(offsets[i], offsets[i + 1]):
            term = prob[k]
            larger = total + term
            if total >= term:
                lost += (total - larger) + term
            else:
                lost += (term - larger) + total
            total = larger
        total += lost
        terms = offsets[i + 1] - offsets[i]
        if total > 1.0 or (terms > 1 and total >= 1.0 - terms * 2.0**-52):
            total = 1.0
        result[i] = total
    return result
