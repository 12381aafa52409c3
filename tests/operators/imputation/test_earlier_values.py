"""The newest earlier value of every attribute before each row, and its age."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.operators.imputation.earlier_values import EarlierValues
from sfumato.operators.state.snapshot import SnapshotError


def by_definition(key, time, values):
    earlier, age = np.full(values.shape, np.nan), np.full(values.shape, np.nan)
    for i in range(len(key)):
        for a in range(values.shape[1]):
            known = [j for j in range(i) if key[j] == key[i] and not np.isnan(values[j, a])]
            if known:
                earlier[i, a], age[i, a] = values[known[-1], a], time[i] - time[known[-1]]
    return earlier, age


def drawn(seed, n):
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 9, (n, 3)).astype(float)
    values[rng.random(values.shape) < 0.5] = np.nan
    return rng.integers(0, 3, n), np.cumsum(rng.integers(0, 4, n)).astype(float), values


@given(st.integers(0, 2**32), st.integers(0, 30))
def test_each_row_gets_the_newest_known_values_of_its_key(seed, n):
    key, time, values = drawn(seed, n)
    found = EarlierValues(3).process(key, time, values)
    for got, want in zip(found, by_definition(key, time, values), strict=True):
        np.testing.assert_array_equal(got, want)


def test_the_newest_is_the_newest_by_time():
    earlier, age = EarlierValues(1).process([0] * 4, [0, 9, 4, 9], [[1.0], [2.0], [3.0], [4.0]])
    np.testing.assert_array_equal(earlier[:, 0], [np.nan, 1.0, 2.0, 2.0])
    np.testing.assert_array_equal(age[:, 0], [np.nan, 9.0, -5.0, 0.0])


def test_an_infinite_reading_is_not_known():
    earlier, age = EarlierValues(1).process([0] * 3, [0, 1, 2], [[5.0], [np.inf], [-np.inf]])
    np.testing.assert_array_equal(earlier[:, 0], [np.nan, 5.0, 5.0])
    np.testing.assert_array_equal(age[:, 0], [np.nan, 1.0, 2.0])


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="attributes"):
        EarlierValues(0)
    operator = EarlierValues(2)
    with pytest.raises(ValueError, match=r"\(n, 2\)"):
        operator.process([0], [0.0], [[1.0]])
    with pytest.raises(ValueError, match="key"):
        operator.process([-1], [0.0], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="time"):
        operator.process([0], [np.nan], [[1.0, 2.0]])
    with pytest.raises(SnapshotError):
        EarlierValues.restore(b"nothing")
