"""A threshold of 1 keeps certain matches, and `within` compares numbers as decimals."""

import math
from fractions import Fraction

import numpy as np
import pytest

from join_cases import arrivals_of
from join_reference import join_of, strategies_for
from sfumato.operators.joins.answers import SampledTuples, pair_matches

STRATEGIES = ("nested", "index", "sort")


def spread(count, centre, dimensions, rng, width=1.0):
    """Return a certain tuple of `count` samples around a centre, equally or unequally probable."""
    weight = np.full(count, 1 / count) if rng.random() < 0.5 else rng.dirichlet(np.ones(count))
    points = centre + rng.uniform(-width, width, (count, dimensions))
    return list(zip(weight, points, strict=True))


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_a_match_in_every_world_has_probability_one_at_a_threshold_of_one(dimensions):
    rng = np.random.default_rng(dimensions)
    for left in (1, 2, 3, 7, 10, 30, 49):
        for right in (1, 3, 10, 49):
            tuples = [spread(n, np.zeros(dimensions), dimensions, rng) for n in (left, right)]
            stream = arrivals_of([0, 1], [0, 0], tuples, dimensions)
            for strategy in strategies_for(dimensions):
                join = join_of(dimensions, 5.0, 1.0, 5, 0.9, strategy=strategy)
                assert join.process(stream).probability.tolist() == [1.0], (left, right, strategy)


def test_a_match_of_many_samples_in_every_world_is_certain():
    rng = np.random.default_rng(3)
    for dimensions in (1, 2):
        both = [spread(1500, np.zeros(dimensions), dimensions, rng) for _ in range(2)]
        stream = arrivals_of([0, 1], [0, 0], both, dimensions)
        assert len(join_of(dimensions, 5.0, 1.0, 5, 0.9).process(stream)) == 1


@pytest.mark.parametrize("dimensions", [1, 2])
def test_a_match_that_some_world_does_not_have_is_not_certain(dimensions):
    near, far = np.zeros(dimensions), np.full(dimensions, 90.0)
    for rare in (0.1, 1e-6, 1e-9):
        almost = [(1 - rare, near), (rare, far)]
        for samples in (1, 12):
            other = [(1 / samples, near)] * samples
            stream = arrivals_of([0, 1], [0, 0], [almost, other], dimensions)
            for strategy in strategies_for(dimensions):
                join = join_of(dimensions, 5.0, 1.0, 5, 0.9, strategy=strategy)
                assert len(join.process(stream)) == 0
    maybe = [(0.5, near), (0.5 - 1e-9, near)]
    stream = arrivals_of([0, 1], [0, 0], [maybe, [(1.0, near)]], dimensions)
    assert len(join_of(dimensions, 5.0, 1.0, 5, 0.9).process(stream)) == 0


def test_extents_keep_what_is_certain():
    tenths = np.full(10, 0.1)
    left = SampledTuples(np.array([0, 10]), tenths, np.linspace(0, 1, 10)[:, None])
    right = SampledTuples(np.array([0, 1]), np.ones(1), np.zeros((1, 1)))
    pair = np.zeros(1, np.int64), np.zeros(1, np.int64)
    assert pair_matches(left, right, pair, 5.0, 1.0).probability.tolist() == [1.0]


def pairs_within(values, within, strategy="index", rows=400):
    """Count the pairs of certain tuples that a join of two equal streams finds."""
    points = np.asarray(values, float).reshape(len(values), -1)
    tuples = [[(1.0, x)] for x in points]
    n, d = points.shape
    stream = arrivals_of([0] * n + [1] * n, [0] * 2 * n, tuples * 2, d)
    return len(join_of(d, within, 1.0, rows, 0.9, strategy=strategy).process(stream))


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("offset", ["0", "0.05", "-4.3", "1000.7", "123456.7", "1700000000"])
def test_decimal_steps_are_within_a_distance_of_as_many_steps(strategy, offset):
    exact = [Fraction(offset) + Fraction(i, 10) for i in range(100)]
    values = [float(x) for x in exact]
    for steps in (1, 3, 7):
        expected = sum(2 * min(i, steps) + 1 for i in range(100))
        found = pairs_within(values, float(Fraction(steps, 10)), strategy)
        assert found == expected, (steps, strategy)


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_decimal_distances_hold_in_several_dimensions(dimensions):
    rng = np.random.default_rng(dimensions)
    whole = rng.integers(0, 8, (120, dimensions)) + 1000 * rng.integers(0, 2)
    found = pairs_within(whole / 10, 0.5)
    squares = ((whole[:, None] - whole[None]) ** 2).sum(axis=2)
    assert found == np.count_nonzero(squares <= 25)
    assert found > np.count_nonzero(squares < 25)  # there are ties


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("offset", [0, 2**40, 2**52])
def test_whole_numbers_are_compared_exactly(strategy, offset):
    values = [float(offset + i) for i in range(60)]
    for within in (1.0, 5.0):
        expected = sum(abs(i - j) <= within for i in range(60) for j in range(60))
        assert pairs_within(values, within, strategy) == expected
        below = math.nextafter(within, 0)
        expected = sum(abs(i - j) < within for i in range(60) for j in range(60))
        assert pairs_within(values, below, strategy) == expected


def test_a_next_decimal_is_not_within_the_distance():
    for digits in (1, 3, 6, 9):
        step = 10.0**-digits
        values = [round(0.7 + i * step, digits) for i in range(30)]
        assert pairs_within(values, 0.999 * step) == 30
        assert pairs_within(values, step) == 30 + 2 * 29
