"""The same tuples have the same distributions in every kind of window: those of possible worlds."""

import numpy as np
import pytest

from seeds import seeds
from sfumato.operators.distributions import discrete_distributions
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate

ASKED = [
    Aggregate("count"), Aggregate("count", 0), Aggregate("sum", 0), Aggregate("avg", 0),
    Aggregate("min", 0), Aggregate("max", 0), Aggregate("quantile", 0, 0.5),
    Aggregate("quantile", 0, 0.2), Aggregate("boundary_sum", 0), Aggregate("stddev", 0),
    Aggregate("var", 0),
]  # fmt: skip
SHARES = (0.0, 0.1, 0.5, 0.77, 1.0)


def through(window, offsets, prob, values, asked=None, **options):
    """Return the results of a window that holds all tuples, ordered as `asked`, and their row."""
    n, asked = len(offsets) - 1, ASKED if asked is None else asked
    codes = np.zeros(n, int)
    if window == "rows":
        operator = CountWindowAggregate(max(n, 1), 0.9, asked, **options)
        return operator.process(codes, offsets, prob, values).results, n - 1
    if window == "delta":
        operator = DeltaWindowAggregate(1e300, 0, asked, **options)
        return operator.process(codes, offsets, prob, values).results, n - 1
    operator = ExtentAggregate(n, n, asked, **options)
    operator.process(codes, np.arange(n), None, None, offsets, prob, values)
    return operator.flush().results, 0


def row_of(measured, row):
    """Return a row's fields: distribution and its loss, quantiles, moments and existence."""
    part = slice(measured.offsets[row], measured.offsets[row + 1])
    return {
        "value": measured.value[part],
        "prob": measured.prob[part],
        "moved": measured.moved[row],
        "quantiles": measured.quantiles[row],
        "mean": measured.mean[row],
        "stddev": measured.stddev[row],
        "existence": measured.existence[row],
        "error": measured.error[row],
    }


def assert_same_everywhere(offsets, prob, values, asked=None, **options):
    """Check that all windows agree, and return the results of the row window."""
    asked = ASKED if asked is None else asked
    rows, last = through("rows", offsets, prob, values, asked, **options)
    expected = [row_of(measured, last) for measured in rows]
    scale = np.nanmax(np.abs(values), initial=1.0) * len(offsets)
    for window in ("range", "delta"):
        results, at = through(window, offsets, prob, values, asked, **options)
        for aggregate, measured, wanted in zip(asked, results, expected, strict=True):
            for name, got in row_of(measured, at).items():
                np.testing.assert_allclose(
                    got, wanted[name], rtol=1e-10, atol=1e-10 * scale if name != "prob" else 1e-12,
                    err_msg=f"{name} of {aggregate} over {window}",
                )  # fmt: skip
    return expected


def random_law(rng, kinds=3):
    """Return tuples with arbitrary probabilities, including thirds and the like."""
    n = int(rng.integers(1, 9))
    sizes = rng.integers(1, 5, n)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    share = rng.random(offsets[-1]) + 0.01
    share /= np.repeat(np.add.reduceat(share, offsets[:-1]), sizes)
    equal = np.repeat(rng.random(n) < 0.4, sizes)
    prob = np.where(equal, 1.0 / np.repeat(sizes, sizes), share)
    prob *= np.repeat(np.where(rng.random(n) < 0.5, 1.0, rng.random(n) + 1e-9), sizes)
    kind = rng.integers(kinds)
    values = rng.normal(0, 10, (prob.size, 1))
    if kind == 1:
        values = np.round(values / 5)
    elif kind == 2:
        values = rng.choice([-1e15, 1e15, 0.1, 0.2, 0.3], (prob.size, 1))
    values[rng.random(prob.size) < rng.choice([0.0, 0.15])] = np.nan
    return offsets, prob, values


@pytest.mark.parametrize("seed", seeds(10))
def test_a_hundred_random_laws_are_the_same_in_every_window(seed):
    rng = np.random.default_rng(seed)
    for _ in range(100):
        assert_same_everywhere(*random_law(rng), distribution=4, quantiles=SHARES)


@pytest.mark.parametrize("seed", [0, 1, -5, 2**62])
def test_one_seed_draws_the_same_worlds_in_every_window(seed, monkeypatch):
    monkeypatch.setattr(discrete_distributions, "MAX_STATES", 1)
    monkeypatch.setattr(discrete_distributions, "MAX_WORK", 0.0)
    asked = [a for a in ASKED if a.function in ("sum", "avg", "quantile")]
    rng = np.random.default_rng(seed & 0xFF)
    for _ in range(5):
        found = assert_same_everywhere(
            *random_law(rng, 2), asked, distribution=50, quantiles=SHARES, seed=seed, samples=40
        )
    assert any(np.isfinite(each["error"]) for each in found)


TENTHS = [np.full(10, 0.1), np.array([0.7, 0.2, 0.1]), np.full(3, 1 / 3), np.full(49, 1 / 49)]


@pytest.mark.parametrize("prob", TENTHS)
@pytest.mark.parametrize("level", [1.0, 1e15])
def test_alternatives_that_sum_to_one_but_for_roundings_are_certain(prob, level):
    asked = [*ASKED, Aggregate("quantile", 0, 0.0), Aggregate("quantile", 0, 1.0)]
    offsets = np.array([0, 1, 1 + prob.size, 1 + 2 * prob.size])
    prob = np.concatenate([[0.5], prob, prob])
    one = np.arange(prob.size // 2) - 1.0
    values = level * np.concatenate([[-10.0], one, one])[:, None]
    found = assert_same_everywhere(
        offsets, prob, values, asked, distribution=10_000, quantiles=(0.0, 1.0)
    )
    count = found[0]
    assert count["value"].tolist() == [2.0, 3.0]
    assert count["stddev"] == 0.5
    for each in found[:-1]:
        assert each["existence"] == 1.0
        assert each["prob"].min() > 1e-6
    rest = offsets[1:] - 1, prob[1:], values[1:]  # without the uncertain tuple
    for window in ("rows", "range", "delta"):
        results, row = through(window, *rest, asked, distribution=10_000, quantiles=(0.0, 1.0))
        count = row_of(results[0], row)
        assert (count["value"].tolist(), count["stddev"]) == ([2.0], 0.0)
        low = row_of(results[asked.index(Aggregate("quantile", 0, 0.0))], row)
        assert low["quantiles"][0] == level * one[0]
