"""Aggregates over independent tuples by enumerating possible worlds in rationals: slow, obvious.

A tuple is a list of (probability: Fraction, value: Fraction or None) alternatives of an attribute.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
from scipy.stats import wasserstein_distance

FUNCTIONS = ("count", "sum", "avg", "min", "max", "quantile", "boundary_sum")


def value_in_world(function, argument, chosen):
    """The aggregate of a world: `chosen` has one entry a tuple that exists, None: no value."""
    there = sorted(v for v in chosen if v is not None)
    if function == "count":
        return Fraction(len(there))
    if function == "sum":
        return sum(there, Fraction(0))
    if not there:
        return None
    if function == "avg":
        return sum(there) / len(there)
    if function == "min":
        return there[0]
    if function == "max":
        return there[-1]
    return next(v for v in there if sum(x <= v for x in there) >= Fraction(argument) * len(there))


def worlds(tuples):
    """(probability, what exists) of every world."""
    choices = []
    for alternatives in tuples:
        absent = 1 - sum(p for p, _ in alternatives)
        options = [(p, [v]) for p, v in alternatives]
        choices.append(options + ([(absent, [])] if absent else []))
    for picked in product(*choices):
        yield (
            math.prod((p for p, _ in picked), start=Fraction(1)),
            [v for _, vs in picked for v in vs],
        )


def laws_by_worlds(requests, tuples):
    """Per request (function, argument): {value: probability}, worlds without a value left out."""
    laws = [{} for _ in requests]
    for p, chosen in worlds(tuples):
        for law, (function, argument) in zip(laws, requests, strict=True):
            if function == "boundary_sum":
                continue
            value = value_in_world(function, argument, chosen)
            if value is not None:
                law[value] = law.get(value, 0) + p
    for law, (function, _) in zip(laws, requests, strict=True):
        if function == "boundary_sum":
            total = Fraction(0)
            for alternatives in tuples:
                there = [(p, v) for p, v in alternatives if v is not None]
                if there:
                    total += sum(p * v for p, v in there) / sum(p for p, _ in there)
            law[total] = Fraction(1)
    return laws


def check(measured, row, law, shares, distribution=None):
    """One result against its law."""
    existence = sum(law.values(), Fraction(0))
    assert abs(measured.existence[row] - existence) <= 1e-12
    assert np.isnan(measured.error[row])
    if not existence:
        assert np.isnan([measured.mean[row], measured.stddev[row]]).all()
        assert np.isnan(measured.quantiles[row]).all()
        return
    mean = sum(p * v for v, p in law.items()) / existence
    variance = sum(p * (v - mean) ** 2 for v, p in law.items()) / existence
    scale = 1.0 + float(max(abs(v) for v in law))
    assert abs(measured.mean[row] - mean) <= 1e-11 * scale
    assert abs(measured.stddev[row] ** 2 - variance) <= 1e-11 * scale**2
    if variance > 1e-3:
        assert abs(measured.stddev[row] - math.sqrt(variance)) <= 1e-9 * scale
    for place, share in enumerate(shares):
        reached, expected = Fraction(0), None
        for value in sorted(law):
            reached += law[value]
            if reached >= Fraction(share) * existence:
                expected = value
                break
        assert abs(measured.quantiles[row, place] - expected) <= 1e-11 * scale
    if distribution is None:
        return
    part = slice(measured.offsets[row], measured.offsets[row + 1])
    values, prob = measured.value[part], measured.prob[part]
    assert abs(prob.sum() - existence) <= 1e-12
    assert (np.diff(values) > 0).all()
    assert len(values) <= distribution
    if len(law) <= distribution:
        assert len(values) == len(law)
        assert measured.moved[row] <= 1e-11 * scale
        for value, p, expected in zip(values, prob, sorted(law), strict=True):
            assert abs(value - expected) <= 1e-11 * scale
            assert abs(p - law[expected]) <= 1e-12
    else:
        assert abs((values * prob).sum() / existence - mean) <= 1e-11 * scale
        at, weights = [float(v) for v in law], [float(p) for p in law.values()]
        moved = wasserstein_distance(at, values, weights, prob)
        assert abs(moved - measured.moved[row]) <= 1e-9 * scale


SIXTEENTHS = [Fraction(k, 16) for k in range(1, 17)]


def random_tuples(rng, n, attributes=1, most=3, missing=0.1, certain=0.3, level=0.0):
    """n tuples: a list of (probability, [a value or None per attribute]) alternatives each."""
    tuples = []
    for _ in range(n):
        count = int(rng.integers(1, most + 1))
        left = 16 if rng.random() < certain else int(rng.integers(count, 17))
        cuts = sorted(rng.choice(np.arange(1, left), count - 1, replace=False)) if count > 1 else []
        weights = np.diff([0, *cuts, left])
        tuples.append(
            [
                (
                    Fraction(int(w), 16),
                    [
                        None
                        if rng.random() < missing
                        else Fraction(float(level + rng.choice([-2, 0, 1, 1, 3, 0.5, 7.25])))
                        for _ in range(attributes)
                    ],
                )
                for w in weights
            ]
        )
    return tuples


def arrays(tuples, attributes=1):
    """(offsets, prob, values) of such tuples."""
    offsets = np.cumsum([0] + [len(t) for t in tuples])
    prob = np.array([float(p) for t in tuples for p, _ in t])
    values = np.array(
        [[np.nan if v is None else float(v) for v in vs] for t in tuples for _, vs in t]
    ).reshape(len(prob), attributes)
    return offsets, prob, values


def column(tuples, attribute):
    """Tuples of one attribute; None: count(*), where every alternative counts."""
    if attribute is None:
        return [[(p, Fraction(1)) for p, _ in t] for t in tuples]
    return [[(p, vs[attribute]) for p, vs in t] for t in tuples]
