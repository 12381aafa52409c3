"""Match probabilities of tuples with many samples: sums by sorting or along one axis, and pairs."""

import math

import numpy as np
import pytest

from join_reference import near_on_paper
from seeds import seeds
from sfumato.kernels.joins.match_probability import (
    MANY_PAIRS,
    criterion,
    match_probabilities,
    sorted_sum,
)
from sfumato.kernels.joins.matching_pairs import matching_pairs
from sfumato.kernels.joins.tuple_store import tuples_without_windows
from sfumato.operators.arrays import offsets_of


def tuples_of(*given):
    """Return tuples in slots 0, 1, ... from (prob, points) pairs."""
    prob = np.concatenate([p for p, _ in given])
    points = np.concatenate([np.reshape(x, (len(p), -1)) for p, x in given])
    offsets = offsets_of(np.array([len(p) for p, _ in given]))
    existence = np.array([min(p.sum(), 1.0) for p, _ in given])
    return tuples_without_windows(offsets, prob, points, existence, 0)


def drawn(rng, n, d=1, axis=None):
    """Return samples with ties and distances of exactly the limit; they may vary along one axis."""
    prob = rng.dirichlet(np.ones(n)) * rng.choice([0.3, 1.0])
    points = np.round(rng.normal(size=(n, d)), int(rng.integers(0, 3)))
    if axis is not None:
        points[:, np.arange(d) != axis] = points[0, np.arange(d) != axis]
    return prob, points


def near(left, right, within):
    return [
        (i, j)
        for i, x in enumerate(left[1])
        for j, y in enumerate(right[1])
        if near_on_paper(x, y, within)
    ]


def mass_of(left, right, pairs):
    return math.fsum(left[0][i] * right[0][j] for i, j in pairs)


def pair_of(rng, d, most=40):
    return [drawn(rng, int(rng.integers(1, most)), d) for _ in range(2)]


@pytest.mark.parametrize("seed", seeds(20))
def test_a_sum_by_sorting_is_the_sum_over_all_near_pairs(seed):
    rng = np.random.default_rng(seed)
    left, right = pair_of(rng, 1)
    limit = float(rng.choice([0.0, 0.1, 0.5, 1.0, 9.0]))
    pairs = [(i, j) for i, x in enumerate(left[1]) for j, y in enumerate(right[1])
             if abs(x - y) <= limit]  # fmt: skip
    tuples = tuples_of(left, right)
    exact = mass_of(left, right, pairs)
    assert sorted_sum(tuples, 0, 1, limit) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("seed", seeds(30))
def test_sums_along_one_axis_are_the_sums_over_all_near_pairs(seed):
    rng = np.random.default_rng(seed)
    d, one, zero = int(rng.integers(2, 5)), np.ones(1, np.int64), np.zeros(1, np.int64)
    axes = [None if rng.random() < 0.2 else int(rng.integers(0, d)) for _ in range(2)]
    left, right = (drawn(rng, int(rng.integers(1, 40)), d, axis) for axis in axes)
    for within in (0.1, 0.5, 1.0, 2.0):
        exact = mass_of(left, right, near(left, right, within))
        found = match_probabilities(tuples_of(left, right), zero, one, criterion(d, within, 1e-3))
        assert found[0] == (-1.0 if exact < 1e-3 else pytest.approx(exact, rel=1e-12))


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("seed", seeds(20))
def test_the_pairs_of_a_match_are_the_near_ones_or_fewer_of_the_same_probability(seed, d):
    rng = np.random.default_rng(seed)
    left, right = pair_of(rng, d)
    within, swap = float(rng.choice([0.1, 1.0])), int(rng.choice([0, -1]))
    known = near(left, right, within)
    exact, (zero, one) = mass_of(left, right, known), np.array([[0], [1]])
    about = criterion(d, within, 1e-9)
    for most in {1, 7, max(len(known), 1), 10_000} if known else {10_000}:
        offsets, pairs = matching_pairs(
            tuples_of(left, right), zero, one, zero + swap, np.array([exact]), np.array([0.5]),
            about, most,
        )  # fmt: skip
        sides = (pairs.left, pairs.right) if swap == 0 else (pairs.right, pairs.left)
        found = list(zip(*(side.tolist() for side in sides), strict=True))
        assert offsets.tolist() == [0, len(found)]
        assert len(found) == min(most, len(known))
        assert set(found) <= set(known)
        assert len(known) > most or sorted(found) == known
        assert pairs.prob.sum() == pytest.approx(0.5 * exact, rel=1e-12)


def test_hundreds_of_thousands_of_samples_per_side_are_matched():
    n = 200_000
    assert n * n > MANY_PAIRS
    prob, rng = np.full(n, 1.0 / n), np.random.default_rng(0)
    tuples = tuples_of((prob, rng.permutation(n) * 1.0), (prob, rng.permutation(n) * 1.0))
    one = np.zeros(1, np.int64)
    for within, expected in ((0.5, 1 / n), (1.0, (3 * n - 2) / n**2), (2.0 * n, 1.0)):
        found = match_probabilities(tuples, one, one + 1, criterion(1, within, 1e-9))
        assert found[0] == pytest.approx(expected, rel=1e-12)
    assert match_probabilities(tuples, one, one + 1, criterion(1, 2.0 * n, 1.0))[0] == 1.0
    assert match_probabilities(tuples, one, one + 1, criterion(1, 0.5, 0.1))[0] == -1.0
