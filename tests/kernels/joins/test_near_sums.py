"""Matches of tuples of many samples in one dimension: sums and pairs by sorting."""

from __future__ import annotations

import math

import numpy as np
import pytest

from seeds import seeds
from sfumato.kernels.joins.match_probability import (
    MANY_PAIRS,
    criterion,
    match_probabilities,
    sorted_sum,
)
from sfumato.kernels.joins.matching_pairs import Match, Pairs, _pairs_by_sorting, _pairs_of_numbers
from sfumato.kernels.joins.tuple_store import lone_tuples
from sfumato.operators.arrays import offsets_of


def tuples_of(*given):
    """Slots 0, 1, ... of (prob, values)."""
    prob = np.concatenate([p for p, _ in given])
    points = np.concatenate([v for _, v in given])[:, None]
    offsets = offsets_of(np.array([len(p) for p, _ in given]))
    existence = np.array([min(p.sum(), 1.0) for p, _ in given])
    return lone_tuples(offsets, prob, points, existence, 0)


def drawn(rng, n):
    """Samples with ties and distances of just the limit among them."""
    prob = rng.dirichlet(np.ones(n)) * rng.choice([0.3, 1.0])
    return prob, np.round(rng.normal(size=n), int(rng.integers(0, 3)))


def near(left, right, limit):
    return [
        (i, j) for i, x in enumerate(left[1]) for j, y in enumerate(right[1]) if abs(x - y) <= limit
    ]


@pytest.mark.parametrize("seed", seeds(20))
def test_a_sum_by_sorting_is_the_sum_over_all_near_pairs(seed):
    rng = np.random.default_rng(seed)
    left, right = drawn(rng, int(rng.integers(1, 40))), drawn(rng, int(rng.integers(1, 40)))
    limit = float(rng.choice([0.0, 0.1, 0.5, 1.0, 9.0]))
    exact = math.fsum(left[0][i] * right[0][j] for i, j in near(left, right, limit))
    tuples = tuples_of(left, right)
    assert sorted_sum(tuples, 0, 1, limit) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("seed", seeds(20))
def test_pairs_found_by_sorting_are_the_near_pairs(seed):
    rng = np.random.default_rng(seed)
    left, right = drawn(rng, int(rng.integers(1, 30))), drawn(rng, int(rng.integers(1, 30)))
    limit, most = float(rng.choice([0.0, 0.1, 1.0])), 1_000
    tuples, exchange = tuples_of(left, right), int(rng.choice([0, -1]))
    match = Match(np.int64(0), np.int64(1), 0.5, exchange)
    none = Pairs(np.empty(0), np.empty(0, np.int32), np.empty(0, np.int32))
    pairs = Pairs(np.empty(1_000), np.empty(1_000, np.int32), np.empty(1_000, np.int32))
    wanted = _pairs_of_numbers(tuples, match, limit, 0, none)
    assert _pairs_by_sorting(tuples, match, limit, most, 0, none) == wanted
    assert _pairs_by_sorting(tuples, match, limit, most, 0, pairs) == wanted
    sides = (pairs.left, pairs.right) if exchange == 0 else (pairs.right, pairs.left)
    found = sorted(zip(*(side[:wanted].tolist() for side in sides), strict=True))
    assert found == near(left, right, limit)
    exact = math.fsum(left[0][i] * right[0][j] for i, j in found)
    assert pairs.prob[:wanted].sum() == pytest.approx(0.5 * exact, rel=1e-12)


@pytest.mark.parametrize("seed", seeds(20))
def test_fewer_pairs_have_the_same_probability_and_are_near(seed):
    rng = np.random.default_rng(seed)
    left, right = drawn(rng, 25), drawn(rng, 25)
    limit, most = float(rng.choice([0.1, 1.0])), int(rng.integers(1, 12))
    known = near(left, right, limit)
    if len(known) <= most:
        pytest.skip("so few pairs are near")
    tuples, match = tuples_of(left, right), Match(np.int64(0), np.int64(1), 1.0, 0)
    pairs = Pairs(np.empty(most + 1), np.empty(most + 1, np.int32), np.empty(most + 1, np.int32))
    assert _pairs_by_sorting(tuples, match, limit, most, 0, pairs) == most
    exact = math.fsum(left[0][i] * right[0][j] for i, j in known)
    assert pairs.prob[:most].sum() == pytest.approx(exact, rel=1e-12)
    found = zip(pairs.left[:most].tolist(), pairs.right[:most].tolist(), strict=True)
    assert set(found) <= set(known)


def test_hundreds_of_thousands_of_samples_a_side_are_matched():
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
