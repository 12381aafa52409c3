"""Windows of certain tuples have the answers of the general path."""

import numpy as np
import pytest

from extents import facts, in_parts, stream
from operator_subjects import PLAIN, certain_tuples, chosen
from seeds import seeds
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate

ASKED = [*PLAIN, Aggregate("max", 1)]


def same(found, general):
    """Check the results of a certain window against the general path's results."""
    for one, other in zip(found, general, strict=True):
        np.testing.assert_allclose(one.mean, other.mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(one.stddev, other.stddev, atol=1e-12)
        np.testing.assert_array_equal(one.existence, other.existence)


@pytest.mark.parametrize("rows", [1, 2, 5, 40])
@pytest.mark.parametrize("seed", seeds(6, 2))
def test_count_windows_have_the_answers_of_the_general_path(rows, seed):
    rng = np.random.default_rng(seed)
    data = certain_tuples(rng, 150, int(rng.integers(1, 5)))
    data["values"] = np.column_stack([data["values"], rng.normal(1e6, 1, 150)])
    windows = [CountWindowAggregate(rows, 0.9, ASKED, certain=of) for of in (True, False)]
    parts = np.split(np.arange(150), np.sort(rng.integers(0, 150, 4)))
    for places in parts:
        found, general = (w.process(data["key"][places], *chosen(data, places)) for w in windows)
        np.testing.assert_array_equal(found.held, general.held)
        np.testing.assert_array_equal(found.numbers, general.numbers)
        same(found.results, general.results)
        windows = [type(w).restore(w.snapshot()) for w in windows]


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize("seed", seeds(8, 2))
def test_extents_have_the_answers_of_the_general_path_with_late_rows_and_restarts(seed, empty):
    rng = np.random.default_rng(seed)
    for length, slide in [(10, 10), (12, 4), (7, 3), (3, 10), (30, 2), (11, 10)]:
        n = int(rng.integers(1, 90))
        data = stream(rng, n, int(rng.integers(1, 5)), bool(seed % 2))
        values = np.where(rng.random((n, 2)) < 0.2, np.nan, rng.normal(5, 1, (n, 2)))
        rows = [[(1.0, of)] for of in values.tolist()]
        cuts = rng.bit_generator.state
        found = []
        for certain in (True, False):
            rng.bit_generator.state = cuts
            window = ExtentAggregate(length, slide, ASKED, empty=empty, certain=certain)
            found.append(in_parts(window, rng, data, rows))
        (window, parts), (other, general) = found
        assert facts(parts) == facts(general)
        assert window.counters == other.counters
        for one, expected in zip(parts, general, strict=True):
            same(one.results, expected.results)


def test_a_certain_window_stores_panes_and_no_tuples():
    n = 20_000
    window = ExtentAggregate(1000, 100, [Aggregate("sum", 0)], certain=True)
    rows = np.arange(n + 1), np.ones(n), np.ones((n, 1))
    window.process(np.zeros(n, int), np.arange(n) // 10, None, None, *rows)
    assert window.counters["held"] > 9_000
    assert len(window.snapshot()) < 5_000
    assert not window.numbers.size


@pytest.mark.parametrize("prob", [[0.5, 1.0], [0.5, 0.5, 1.0]])
def test_uncertain_tuples_are_refused(prob):
    rows = [0, len(prob) - 1, len(prob)], prob, np.ones((len(prob), 1))
    for window, time in (
        (CountWindowAggregate(3, 0.9, PLAIN, certain=True), []),
        (ExtentAggregate(10, 10, PLAIN, certain=True), [np.arange(2), None, None]),
    ):
        with pytest.raises(ValueError, match="must each have one alternative, with `prob` 1"):
            window.process(np.zeros(2, int), *time, *rows)
