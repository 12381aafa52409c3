"""Extremes of open extents, one tuple at a time: against all possible worlds, in bounded memory."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.kernels.windows.early_extremes import (
    CDF_STEP,
    STEP_POOL,
    Extremes,
    add_to_extremes,
    clear_extremes,
    extreme_moments,
    with_extremes,
)
from worlds import aggregate_laws, moments_of

SIGNS = np.array([-1.0, 1.0])
OUTCOMES = st.tuples(st.integers(1, 8), st.none() | st.integers(-3, 3))
TUPLE = st.lists(OUTCOMES, min_size=1, max_size=4).map(
    lambda of: [(weight / (8 if sum(w for w, _ in of) <= 8 else 32), value) for weight, value in of]
)


def columns_of(tuples):
    offsets = np.cumsum([0, *map(len, tuples)])
    prob, values = (np.array([a[i] for of in tuples for a in of], float) for i in (0, 1))
    return offsets, prob, values[np.newaxis], np.empty((3, max(map(len, tuples), default=0) + 1))


def add(columns, i, s, extremes):
    *tuples, scratch = columns
    add_to_extremes(*tuples, i, s, scratch, extremes)


def without_tuples(sets):
    first, attribute = np.full((sets, len(SIGNS)), -1), np.zeros(len(SIGNS), np.int64)
    return Extremes(SIGNS, attribute, np.array([(0, -1)], STEP_POOL), first, np.empty(0, CDF_STEP))


@given(st.lists(st.lists(TUPLE, max_size=4), min_size=1, max_size=4))
def test_moments_are_those_of_all_possible_worlds(sets):
    extremes = without_tuples(1)
    for tuples in sets:  # in one slot, so that steps are reused
        clear_extremes(0, extremes)
        columns = columns_of(tuples)
        for i in range(len(tuples)):
            extremes = with_extremes(extremes, 1, 2 * (len(tuples[i]) + 1))
            add(columns, i, 0, extremes)
        laws = aggregate_laws([("min", None), ("max", None)], tuples)
        for r, (mean, variance, existence) in enumerate(map(moments_of, laws)):
            found = extreme_moments(0, r, extremes)
            assert found[2] == pytest.approx(float(existence), rel=1e-13)
            if mean is None:
                assert np.isnan(found[:2]).all()
            else:
                assert found[0] == pytest.approx(float(mean), abs=1e-12)
                assert found[1] == pytest.approx(math.sqrt(variance), abs=1e-12)


def test_steps_that_no_extreme_reaches_are_dropped():
    random, n = np.random.default_rng(1), 4000
    columns = columns_of([[(0.5, value)] for value in random.permutation(n)])
    extremes = with_extremes(without_tuples(3), 3, 5000)
    for i in range(n):
        add(columns, i, i % 3, extremes)
    assert extremes.pool[0]["steps"] < 3 * 2 * 80  # probabilities of 2**-67 are negligible
    before = int(extremes.pool[0]["steps"])
    for s in range(3):
        clear_extremes(s, extremes)
        for i in range(s, n, 3):
            add(columns, i, s, extremes)
    assert extremes.pool[0]["steps"] <= before + 2
    mean, _, existence = extreme_moments(0, 1, extremes)
    assert n - 12 < mean < n
    assert existence == 1.0


def test_a_tuple_that_certainly_has_a_value_drops_all_lower_ones():
    extremes = with_extremes(without_tuples(1), 1, 50)
    add(columns_of([[(0.25, 1), (0.25, 2)], [(0.5, 7), (0.5, 9)]]), 0, 0, extremes)
    add(columns_of([[(0.5, 7), (0.5, 9)]]), 0, 0, extremes)
    first = extremes.first[0, 1]
    held = []
    while first != -1:
        *step, first = extremes.steps[first]
        held.append(step)
    assert held == [[-np.inf, 0, 0], [7, 0.5, 0.5], [9, 0.5, 1]]


def test_small_probabilities_keep_their_digits():
    extremes = with_extremes(without_tuples(1), 1, 50)
    for prob, value in ((1e-300, 3), (1e-200, 5), (1e-18, 4)):
        add(columns_of([[(prob, value)]]), 0, 0, extremes)
    mean, deviation, existence = extreme_moments(0, 1, extremes)
    assert (mean, existence) == (4.0, pytest.approx(1e-18))
    assert deviation < 1e-90
