"""The baselines do what their names say, and never change existing values."""

import numpy as np
import pytest

from experiments.incomplete_joins.baselines import impute_mean, impute_nearest, interpolate_stream

nan = np.nan
ROWS = np.array([[0.0, 10.0, 1.0], [1.0, 20.0, 2.0], [2.0, 60.0, 6.0]])


def with_gaps(n, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.random((n, 3)) * [2.0, 50.0, 5.0] + [0.0, 10.0, 1.0]
    values[rng.random((n, 3)) < 0.3] = nan
    return values


def test_the_mean_of_the_repository():
    done = impute_mean(ROWS, np.array([[nan, 5.0, nan]]))
    assert done.tolist() == [[1.0, 5.0, 3.0]]


def test_the_nearest_rows_by_what_is_present():
    rows = np.array([[0.9, nan, 2.0], [nan, 60.0, nan], [nan] * 3])
    done = impute_nearest(ROWS, rows, neighbours=1)
    assert done.tolist() == [[0.9, 20.0, 2.0], [2.0, 60.0, 6.0], [1.0, 30.0, 3.0]]
    two = impute_nearest(ROWS, np.array([[0.4, nan, 1.5]]), neighbours=2)
    assert two.tolist() == [[0.4, 15.0, 1.5]]


def test_interpolation_between_neighbours_in_the_stream():
    values = np.array([[nan, 1.0], [0.0, nan], [nan, nan], [6.0, 4.0], [nan, nan]])
    done = interpolate_stream(values, np.arange(5.0), ahead=True)
    assert done.tolist() == [[0.0, 1.0], [0.0, 2.0], [3.0, 3.0], [6.0, 4.0], [6.0, 4.0]]
    timed = interpolate_stream(values, np.array([0.0, 1, 2, 11, 12]), ahead=True)
    assert timed[2, 0] == pytest.approx(0.6)


def test_the_last_value_repeated_never_looks_ahead():
    values = np.array([[nan], [2.0], [nan], [3.0], [nan]])
    done = interpolate_stream(values, np.arange(5.0), ahead=False)
    np.testing.assert_array_equal(done, [[nan], [2.0], [2.0], [3.0], [3.0]])
    assert np.isnan(interpolate_stream(values[:1], np.zeros(1), ahead=True)).all()


@pytest.mark.parametrize("impute", [impute_mean, impute_nearest])
def test_present_values_and_inputs_stay(impute):
    values = with_gaps(30)
    before = values.copy()
    done = impute(ROWS, values)
    np.testing.assert_array_equal(values, before)
    np.testing.assert_array_equal(done[~np.isnan(values)], values[~np.isnan(values)])
    assert np.isfinite(done).all()
