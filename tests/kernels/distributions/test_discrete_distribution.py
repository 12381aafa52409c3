"""Reducing finite distributions: quantiles, and fewer values at the least movement."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from seeds import examples
from sfumato.kernels.distributions.discrete_distribution import (
    all_bounded,
    all_quantiles,
    drop_rounding_outcomes,
    reduce_support,
)

laws = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(0, 12)), min_size=1, max_size=30
)


def law_of(steps):
    """Return (prob, ascending whole values); probabilities range from large to tiny."""
    value = np.cumsum(np.array([gap for gap, _, _ in steps], float))
    prob = np.array([weight / 10.0**shift for _, weight, shift in steps])
    return prob / prob.sum(), value


def bounded_slowly(prob, value, most):
    """Merge the neighbours that move least, one pair at a time, in rationals."""
    groups = [(Fraction(p), Fraction(v)) for p, v in zip(prob, value, strict=True)]
    while len(groups) > most:
        moves = [2 * p * q / (p + q) * (w - v) for (p, v), (q, w) in pairwise(groups)]
        i = moves.index(min(moves))
        (p, v), (q, w) = groups[i : i + 2]
        groups[i : i + 2] = [(p + q, (p * v + q * w) / (p + q))]
    return groups


@given(steps=laws, most=st.integers(1, 12))
@examples(150)
def test_the_neighbours_that_are_merged_move_the_least_probability_the_least(steps, most):
    prob, value = law_of(steps)
    got, at, moved = reduce_support(prob, value, most)
    expected = bounded_slowly(prob, value, most)
    np.testing.assert_allclose(got, [float(p) for p, _ in expected], rtol=1e-9)
    np.testing.assert_allclose(at, [float(v) for _, v in expected], rtol=1e-12)
    distance = wasserstein_distance(value, at, prob, got)
    np.testing.assert_allclose(moved, distance, rtol=1e-6, atol=1e-13)


def test_what_is_likely_stays_in_its_place():
    value, prob = np.array([2.0, 3.0, 4.0, 5.0]), np.array([0.9997, 3e-4, 3e-8, 1e-12])
    got, at, moved = reduce_support(prob / prob.sum(), value, 3)
    np.testing.assert_allclose(at, [2.0, 3.0, 4.0 + 1e-12 / 3e-8], rtol=1e-8)
    assert 1e-12 < moved < 2.1e-12
    got, at, moved = reduce_support(prob / prob.sum(), value, 1)
    assert at.tolist() == [got @ at]
    assert len(reduce_support(prob, value, 4)[0]) == 4


def test_equal_costs_are_merged_from_the_left_whatever_the_roundings():
    value, prob = np.arange(8.0), np.full(8, 0.125)
    noise = 1.0 + 1e-13 * np.random.default_rng(1).standard_normal(8)
    for p in (prob, prob * noise):
        np.testing.assert_allclose(
            reduce_support(p, value, 7)[1], [0.5, 2, 3, 4, 5, 6, 7], rtol=1e-12
        )


def test_the_largest_values_overflow_nowhere():
    value, prob = np.array([-1.7e308, 0.0, 1.7e308]), np.array([0.5, 0.25, 0.25])
    got, at, _ = reduce_support(prob, value, 2)
    assert got.tolist() == [0.5, 0.5]
    np.testing.assert_allclose(at, [-1.7e308, 0.85e308])


def test_outcomes_below_rounding_are_none():
    prob, value = np.array([1e-16, 0.7, 0.3, 2e-16]), np.array([-10.0, 1.0, 2.0, 9.0])
    assert [part.tolist() for part in drop_rounding_outcomes(prob, value)] == [
        [0.7, 0.3],
        [1.0, 2.0],
    ]
    places = np.array([0, 4])
    assert all_quantiles(places, prob, value, np.array([0.0, 1.0])).tolist() == [[1.0, 2.0]]
    assert all_bounded(places, prob, value, 4)[2].tolist() == [1.0, 2.0]


def test_a_quantile_is_the_first_value_that_reaches_its_share():
    value, prob = np.array([1.0, 2.0, 5.0]), np.array([0.1, 0.2, 0.2])
    shares = np.array([0.0, 0.2, 0.21, 0.6, 0.61, 1.0])
    got = all_quantiles(np.array([0, 3, 3]), prob, value, shares)
    assert got[0].tolist() == [1, 1, 2, 2, 5, 5]
    assert np.isnan(got[1]).all()


@pytest.mark.parametrize("last", [np.inf, np.nan])
def test_outcomes_that_are_no_numbers_are_merged_like_others(last):
    for values in ([last] * 9, [1.0] * 3 + [last] * 6, [-np.inf] * 4 + [last] * 5):
        prob, value, _ = reduce_support(np.full(9, 0.1), np.array(values), 3)
        assert len(value) == 3
        np.testing.assert_allclose(prob.sum(), 0.9)
