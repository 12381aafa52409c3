"""Probabilities corrected by what the repository's own rows show when they are left out.

Where a value of the repository, hidden, falls within the distribution that the others give for it
is its rank, from 0 to 1. If distributions are right, ranks are uniform; if they are too wide, they
crowd in the middle. A curve that rises from 0 to 1 as ranks do turns cumulated shares into
probabilities whose ranks are uniform.

Source: recalibration of Kuleshov, Fenner and Ermon (2018), by leaving one row out.
"""

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean


@lean
def height(curve, share):
    """The curve at a share in [0, 1]: linear between its q + 1 points, at equal steps."""
    q = curve.size - 1
    at = share * q
    i = min(int(at), q - 1)
    return curve[i] + (curve[i + 1] - curve[i]) * (at - i)


@lean
def recalibrate(weight, k, total, curve):
    """Turn k counts of ascending values, `total` together, into probabilities by a curve."""
    before, cumulated = 0.0, 0.0
    for i in range(k):
        cumulated += weight[i]
        now = height(curve, min(cumulated / total, 1.0))
        weight[i] = now - before
        before = now


@compiled_ieee
def curve_of(ranks, q, prior):
    """The curve of ranks, float64[q + 1]; as if `prior` uniform ranks had been seen before."""
    counts = np.full(q, prior / q)
    for rank in ranks:
        counts[min(int(rank * q), q - 1)] += 1.0
    curve = np.zeros(q + 1)
    total = prior + ranks.size
    for i in range(q):
        curve[i + 1] = curve[i] + counts[i] / total
    curve[q] = 1.0
    return curve
