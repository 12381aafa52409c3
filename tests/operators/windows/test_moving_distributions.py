"""Distributions of count, sum, average and quantile updated over long streams.

Small windows are compared with possible worlds in test_count_window_aggregate. Here sampled worlds
are drawn again for every window, and the count's distribution is compared with the recursion.
"""

import math
from itertools import pairwise

import numpy as np
import pytest

from sfumato.operators.distributions import discrete_distributions
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from window_reference import count_law

SUM, AVG, COUNT = Aggregate("sum", 0), Aggregate("avg", 0), Aggregate("count")
VALUES, MEDIAN = Aggregate("count", 0), Aggregate("quantile", 0, 0.5)
EDGES = [Aggregate("quantile", 0, q) for q in (0.0, 0.07, 1.0)]
MASK = (1 << 64) - 1


@pytest.fixture
def only_worlds(monkeypatch):
    """Abandon exact distributions at once, unless they have one outcome."""
    monkeypatch.setattr(discrete_distributions, "MAX_STATES", 1)
    monkeypatch.setattr(discrete_distributions, "MAX_WORK", 0.0)


def stream(seed, n, shape="noise", most=3):
    """Return (offsets, prob, values) with up to `most` alternatives and changing existences."""
    rng = np.random.default_rng(seed)
    stretch = np.arange(n) // 60 % 4
    existence = np.select(
        [stretch == 0, stretch == 1, stretch == 2],
        [rng.random(n), 1.0 - rng.random(n) ** 3 / 5, rng.random(n) / 10],
        np.where(rng.random(n) < 0.5, 1.0, 0.5),
    )
    sizes = rng.integers(1, most + 1, n)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    share = rng.random(offsets[-1]) + 0.05
    share /= np.repeat(np.add.reduceat(share, offsets[:-1]), sizes)
    prob = share * np.repeat(np.maximum(existence, 1e-3), sizes)
    noise, place = rng.normal(3.0, 5.0, prob.size), np.repeat(np.arange(n), sizes)
    value = {
        "noise": noise,
        "rising": noise + place,
        "falling": noise - place,
        "few": np.round(noise / 4.0),
        "missing": np.where(rng.random(prob.size) < 0.2, math.nan, noise),
        "mostly missing": np.where(rng.random(prob.size) < 0.9, math.nan, noise),
        "outlier": np.where(place == n // 2, 1e139, noise),
    }[shape]
    return offsets, prob, value[:, None]


def take(window, offsets, prob, value, begin, end):
    some = slice(offsets[begin], offsets[end])
    codes = np.zeros(end - begin, int)
    return window.process(codes, offsets[begin : end + 1] - offsets[begin], prob[some], value[some])


def mixed(z):
    """Return SplitMix64's mix of a Python number."""
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def draw(seed, index, world):
    """Return the number in [0, 1) of a tuple in a world."""
    golden = 0x9E3779B97F4A7C15
    step = world * golden
    z = mixed(seed * golden + int(index) & MASK)
    z = mixed(z + step & MASK) + step & MASK
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    return ((z ^ (z >> 31)) >> 11) * 2.0**-53


class Drawn:
    """The value of every tuple in every world; None where the tuple does not exist."""

    def __init__(self, seed, samples, offsets, prob, value):
        self.worlds = [
            [self._pick(draw(seed, i, s), offsets, prob, value, i) for i in range(len(offsets) - 1)]
            for s in range(samples)
        ]

    @staticmethod
    def _pick(left, offsets, prob, value, i):
        for a in range(offsets[i], offsets[i + 1]):
            left -= prob[a]
            if left < 0.0:
                return float(value[a, 0])
        return None

    def results(self, aggregate, head, end, rows):
        """Return the aggregate in each world, sorted, for a window of tuples head ... end - 1."""
        found = []
        for world in self.worlds:
            inside = [x for x in reversed(world[head:end]) if x is not None][:rows]
            there = sorted(x for x in inside if not math.isnan(x))
            if aggregate.function == "count":
                found.append(float(len(there)))
            elif aggregate.function == "sum":
                found.append(math.fsum(there))
            elif there and aggregate.function == "avg":
                found.append(math.fsum(there) / len(there))
            elif there:
                place = math.ceil(aggregate.argument * len(there) - 1e-9)
                found.append(there[max(1, place) - 1])
        return sorted(found)


def samples_of(measured, i):
    """Return the samples behind the distribution of answer i, in ascending order."""
    span = slice(measured.offsets[i], measured.offsets[i + 1])
    number = round(math.log(200.0) / (2.0 * measured.error[i] ** 2))
    times = measured.prob[span] / measured.existence[i] * number
    np.testing.assert_allclose(times, np.round(times), atol=1e-6)
    return np.repeat(measured.value[span], np.round(times).astype(int))


@pytest.mark.parametrize(("rows", "options"), [
    (1, {}), (6, {}), (40, {}), (40, {"max_tuples": 17}),
])  # fmt: skip
@pytest.mark.parametrize("shape", ["noise", "rising", "falling", "few", "missing"])
def test_updated_worlds_are_those_drawn_for_each_window(rows, options, shape, only_worlds):
    n, samples, asked = 300, 12, [SUM, AVG, VALUES, MEDIAN, *EDGES]
    offsets, prob, value = stream(rows, n, shape)
    window = CountWindowAggregate(
        rows, 0.8, asked, distribution=samples, seed=5, samples=samples, **options
    )
    edges = [0, 1, 2, 60, 61, 200, n]
    parts = [take(window, offsets, prob, value, a, b) for a, b in pairwise(edges)]
    drawn, sampled = Drawn(5, samples, offsets, prob, value), 0
    for (a, b), part in zip(pairwise(edges), parts, strict=True):
        for i in range(a, b, 7 if rows > 1 else 3):
            head = i + 1 - part.held[i - a]
            for aggregate, measured in zip(asked, part.results, strict=True):
                if math.isnan(measured.error[i - a]):
                    continue
                expected = drawn.results(aggregate, head, i + 1, rows)
                got = samples_of(measured, i - a)
                np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)
                sampled += 1
    assert sampled > 80


def test_the_law_is_exact_again_after_the_uncertain_tuples_left():
    # Certain tuples, then 13 uncertain tuples with 2^13 sums, then certain tuples again.
    n, rows = 120, 20
    prob = np.where((np.arange(n) >= 60) & (np.arange(n) < 73), 0.5, 1.0)
    value = np.random.default_rng(1).normal(0.0, 1.0, (n, 1))
    window = CountWindowAggregate(rows, 0.9, [SUM], quantiles=(0.5,), samples=50)
    answers = take(window, np.arange(n + 1), prob, value, 0, n)
    exact = np.isnan(answers.results[0].error)
    heads = np.arange(n) + 1 - answers.held
    first = int(np.argmin(exact))
    again = first + int(np.argmax(exact[first:]))
    assert first == 72
    assert heads[again] > first >= heads[again - 1]
    assert exact[:first].all()
    assert exact[again:].all()


@pytest.mark.nightly
def test_a_huge_value_leaves_no_error_in_later_windows(only_worlds):
    n, rows, samples = 100_000, 50, 6
    offsets, prob, value = stream(8, n, "outlier", most=1)
    asked = [SUM, AVG, MEDIAN]
    window = CountWindowAggregate(rows, 0.9, asked, distribution=samples, seed=7, samples=samples)
    for begin in range(0, n, 10_000):
        answers = take(window, offsets, prob, value, begin, begin + 10_000)
    head = n - answers.held[-1]
    last = offsets[head:] - offsets[head], prob[offsets[head] :], value[offsets[head] :]
    drawn = Drawn.__new__(Drawn)
    drawn.worlds = [
        [Drawn._pick(draw(7, head + i, s), *last, i) for i in range(n - head)]
        for s in range(samples)
    ]
    for aggregate, measured in zip(asked, answers.results, strict=True):
        expected = drawn.results(aggregate, 0, n - head, rows)
        got = samples_of(measured, measured.error.size - 1)
        np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("confidence", [0.3, 0.95, 1.0 - 1e-9])
@pytest.mark.parametrize("options", [{}, {"max_tuples": 50}])
@pytest.mark.parametrize("rows", [1, 2, 30, 150])
def test_the_law_of_a_count_is_that_of_the_recursion(rows, confidence, options):
    offsets, prob, value = stream(4, 700, most=2)
    window = CountWindowAggregate(rows, confidence, [COUNT], distribution=rows + 1, **options)
    answers = take(window, offsets, prob, value, 0, 700)
    existence, count = np.add.reduceat(prob, offsets[:-1]), answers.results[0]
    for i in [*range(12), *range(20, 700, 61)]:
        law = count_law(existence[i + 1 - answers.held[i] : i + 1], rows)
        span = slice(count.offsets[i], count.offsets[i + 1])
        got = np.zeros(rows + 1)
        got[count.value[span].astype(int)] = count.prob[span]
        np.testing.assert_allclose(got, law.astype(float), rtol=0.0, atol=1e-15)
        assert np.isnan(count.error[i])


def test_a_count_of_values_is_exact_while_no_value_is_missing(monkeypatch):
    monkeypatch.setattr(discrete_distributions, "MAX_STATES", 500)
    rng = np.random.default_rng(6)
    offsets, prob, value = np.arange(601), 0.1 + 0.8 * rng.random(600), np.ones((600, 1))
    value[300:420:2] = math.nan
    window = CountWindowAggregate(120, 0.9, [VALUES, COUNT], quantiles=(0.01, 0.5), samples=40)
    answers = take(window, offsets, prob, value, 0, 600)
    values, tuples = answers.results
    heads = np.arange(600) + 1 - answers.held
    without = (heads > 418) | (np.arange(600) < 300)
    assert np.isnan(values.error[without]).all()
    assert not np.isnan(values.error[~without]).all()  # too many states to be exact
    np.testing.assert_array_equal(values.quantiles[without], tuples.quantiles[without])


@pytest.mark.nightly
def test_the_worlds_of_a_group_use_few_bytes():
    offsets, prob, value = stream(2, 3_000, most=1)
    sizes = {}
    for aggregate in (SUM, MEDIAN):
        bare = CountWindowAggregate(400, 0.95, [aggregate], samples=1, quantiles=(0.5,))
        window = CountWindowAggregate(400, 0.95, [aggregate], samples=1_000, quantiles=(0.5,))
        for begin in range(0, 3_000, 500):
            for each in (bare, window):
                take(each, offsets, prob, value, begin, begin + 500)
        sizes[aggregate.function] = window.nbytes - bare.nbytes
    assert sizes["sum"] <= 1_000 * 1_000
    assert sizes["quantile"] <= 8 * 1_000 * 6
