"""Sorting gives NumPy's order: stable, with NaN last."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sfumato.kernels.arrays import distinct_values, sorted_values, stable_order

FEW = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 2.0, np.inf, np.nan])
SIZES = st.integers(0, 100)  # several runs, and widths that are not powers of two


@given(
    st.one_of(
        arrays(np.float64, SIZES, elements=FEW),
        arrays(np.float64, SIZES),
        arrays(np.int64, SIZES, elements=st.integers(-3, 3)),
    )
)
def test_sorting_is_numpys(values):
    kept = values.copy()
    assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()
    np.testing.assert_array_equal(sorted_values(values), np.sort(values))
    np.testing.assert_array_equal(values, kept)


@given(arrays(np.int64, SIZES, elements=st.integers(-9, 9)))
def test_each_value_is_once_among_the_distinct_ones(values):
    assert distinct_values(values).tolist() == sorted(set(values.tolist()))


@pytest.mark.parametrize("size", [15, 16, 17, 32, 33, 1000])
def test_runs_of_every_length_are_merged(size):
    for values in (np.arange(size)[::-1].copy(), np.arange(size) % 7, np.zeros(size, np.int64)):
        assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()
