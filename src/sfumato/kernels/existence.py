"""One look over existence probabilities: are they any, and how many leave no doubt."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
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
