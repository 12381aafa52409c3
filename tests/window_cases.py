"""Aggregates and random tuples for tests of windows, and a check of one result by worlds."""

import math
from fractions import Fraction

import numpy as np
from scipy.stats import wasserstein_distance

from sfumato.operators.distributions.aggregate import LISTED, Aggregate
from worlds import moments_of, quantile_of

ALL = [
    Aggregate("count"), Aggregate("count", 0), Aggregate("sum", 0), Aggregate("avg", 0),
    Aggregate("min", 0), Aggregate("max", 1), Aggregate("avg", 1), Aggregate("boundary_sum", 1),
    Aggregate("quantile", 0, 0.5), Aggregate("stddev", 0), Aggregate("var", 1),
    Aggregate("first", 0), Aggregate("last", 0), Aggregate("count_distinct", 0),
]  # fmt: skip
MOMENTS = [a for a in ALL if a.function not in LISTED]


def check(measured, row, law, shares, distribution=None):
    """Check one result against its distribution over possible worlds."""
    mean, variance, existence = moments_of(law)
    assert abs(measured.existence[row] - existence) <= 1e-12
    assert np.isnan(measured.error[row])
    if not existence:
        assert np.isnan([measured.mean[row], measured.stddev[row]]).all()
        assert np.isnan(measured.quantiles[row]).all()
        return
    scale = 1.0 + float(max(abs(v) for v in law))
    assert abs(measured.mean[row] - mean) <= 1e-11 * scale
    assert abs(measured.stddev[row] ** 2 - variance) <= 1e-11 * scale**2
    if variance > 1e-3:
        assert abs(measured.stddev[row] - math.sqrt(variance)) <= 1e-9 * scale
    for place, share in enumerate(shares):
        expected = quantile_of(law, share)
        assert abs(measured.quantiles[row, place] - expected) <= 1e-11 * scale
    if distribution is None:
        return
    part = slice(measured.offsets[row], measured.offsets[row + 1])
    values, prob = measured.value[part], measured.prob[part]
    assert abs(prob.sum() - existence) <= 1e-12
    assert (np.diff(values) > 0).all()
    assert len(values) <= distribution
    if len(law) <= distribution:
        likely = [value for value in law if law[value] > 1e-15]  # the others are rounding
        assert len(likely) <= len(values) <= len(law)
        assert measured.moved[row] <= 1e-11 * scale
        for expected in likely:
            place = np.argmin(np.abs(values - float(expected)))
            assert abs(values[place] - expected) <= 1e-11 * scale
            assert abs(prob[place] - law[expected]) <= 1e-12
    else:
        assert abs((values * prob).sum() / existence - mean) <= 1e-11 * scale
        at, weights = [float(v) for v in law], [float(p) for p in law.values()]
        moved = wasserstein_distance(at, values, weights, prob)
        assert abs(moved - measured.moved[row]) <= 1e-9 * scale


VALUES = (-2, 0, 1, 1, 3, 0.5, 7.25)


def random_tuples(
    rng, n, attributes=1, most=3, missing=0.1, certain=0.3, level=0.0, values=VALUES, rare=0.0
):
    """Return n tuples: lists of (probability, [a value or None per attribute]) alternatives.

    rare : share of the tuples that nearly never exist
    """
    tuples = []
    for _ in range(n):
        unit = Fraction(1, 2**34) if rare and rng.random() < rare else Fraction(1, 16)
        count = int(rng.integers(1, most + 1))
        left = 16 if rng.random() < certain else int(rng.integers(count, 17))
        cuts = sorted(rng.choice(np.arange(1, left), count - 1, replace=False)) if count > 1 else []
        weights = np.diff([0, *cuts, left])
        tuples.append(
            [
                (
                    int(w) * unit,
                    [
                        None
                        if rng.random() < missing
                        else Fraction(float(level + rng.choice(values)))
                        for _ in range(attributes)
                    ],
                )
                for w in weights
            ]
        )
    return tuples


def arrays(tuples, attributes=1):
    """Return (offsets, prob, values) of such tuples."""
    offsets = np.cumsum([0] + [len(t) for t in tuples])
    prob = np.array([float(p) for t in tuples for p, _ in t])
    values = np.array(
        [[np.nan if v is None else float(v) for v in vs] for t in tuples for _, vs in t]
    ).reshape(len(prob), attributes)
    return offsets, prob, values


def column(tuples, attribute):
    """Return tuples of one attribute; None for count(*), where every alternative counts."""
    if attribute is None:
        return [[(p, Fraction(1)) for p, _ in t] for t in tuples]
    return [[(p, vs[attribute]) for p, vs in t] for t in tuples]
