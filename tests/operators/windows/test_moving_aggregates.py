"""Moments, min and max updated over long streams, against the recursion over each held window.

Small windows are compared with possible worlds in test_count_window_aggregate. The windows here are
large enough that the front and back stacks, their bands, and the choice of candidates matter.
"""

import math

import numpy as np
import pytest

from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from window_reference import Window

AVG, MIN, MAX = Aggregate("avg", 0), Aggregate("min", 0), Aggregate("max", 0)
LONG = 1_200


def existences(kind, rng, n):
    """Return n existences; "changing" moves from mixed to near 1, near 0, then halves and ones."""
    stretch = np.arange(n) // 150 % 4
    changing = np.select(
        [stretch == 0, stretch == 1, stretch == 2],
        [rng.random(n), 1.0 - rng.random(n) ** 3 / 5, rng.random(n) / 20],
        np.where(rng.random(n) < 0.5, 1.0, 0.5),
    )
    kinds = {
        "changing": changing,
        "uniform": rng.random(n),
        "near 1": 1.0 - np.abs(rng.normal(0.0, 0.1, n)),
        "certain but for some": np.where(rng.random(n) < 0.03, 0.5, 1.0),
        "all but certain": 1.0 - rng.random(n) * 1e-9,
    }
    return np.clip(kinds[kind], 1e-6, 1.0)


def values(kind, rng, n):
    """Return two values per tuple."""
    noise = rng.normal(0.0, 3.0, (n, 2))
    ramp = np.arange(n)[:, None]
    kinds = {
        "noise": noise,
        "rising": noise + ramp,
        "falling": noise - 0.3 * ramp,  # the largest are always the next to leave
        "a step": noise + 1e4 * (ramp > n // 2),
        "few whole numbers": np.round(noise / 3.0),
        "large": noise + 1e7,
        "sometimes missing": np.where(rng.random((n, 2)) < 0.1, math.nan, noise),
    }
    return kinds[kind]


def stream(seed, existence, value, n=LONG):
    """Return (offsets, prob, values); the first of two alternatives has a random share."""
    rng = np.random.default_rng(seed)
    exists, value = existences(existence, rng, n), values(value, rng, n)
    share = np.round(rng.random(n), 3) * 0.98 + 0.01
    prob = np.stack([exists * share, exists - exists * share], axis=1)
    return np.arange(n + 1) * 2, prob.ravel(), value.reshape(-1, 1)


def take(window, offsets, prob, value, begin, end):
    some = slice(offsets[begin], offsets[end])
    codes = np.zeros(end - begin, int)
    return window.process(codes, offsets[begin : end + 1] - offsets[begin], prob[some], value[some])


def held_at(i, held, prob, value, rows):
    """Return the reference of the window of the tuples held after tuple i."""
    places = range(i + 1 - held, i + 1)
    return Window([(prob[2 * j : 2 * j + 2], value[2 * j : 2 * j + 2, 0]) for j in places], rows)


@pytest.mark.parametrize("rows", [1, 7, 64, 200])
@pytest.mark.parametrize("options", [{}, {"max_tuples": 90}])
@pytest.mark.parametrize("kind", ["changing", "all but certain"])
def test_moments_follow_a_stream(rows, options, kind):
    for shape in ("noise", "rising", "a step", "large"):
        offsets, prob, value = stream(rows, kind, shape)
        asked = [AVG, Aggregate("sum", 0), Aggregate("count")]
        window = CountWindowAggregate(rows, 0.9, asked, **options)
        answers = take(window, offsets, prob, value, 0, LONG)
        for i in range(29, LONG, 167):
            window = held_at(i, answers.held[i], prob, value, rows)
            expected = window.average()[:2], window.sum(), window.count()
            # Roundings of the recursion itself: long double has 64 bits.
            spread = np.ptp([x for _, x in window.tuples])
            slack = 1e-17 * spread**2, 1e-16 * float(expected[1][0]) ** 2, 1e-13
            for found, (mean, variance), own in zip(answers.results, expected, slack, strict=True):
                assert found.mean[i] == pytest.approx(float(mean), rel=1e-11, abs=1e-10)
                assert found.stddev[i] ** 2 == pytest.approx(float(variance), rel=2e-9, abs=own)


@pytest.mark.parametrize("confidence", [0.2, 0.95, 1.0 - 1e-9])
def test_few_averages_are_recomputed_over_their_whole_window(confidence):
    for kind in ("uniform", "near 1", "certain but for some"):
        offsets, prob, value = stream(3, kind, "rising")
        window = CountWindowAggregate(100, confidence, [AVG])
        take(window, offsets, prob, value, 0, LONG)
        assert window._scratch.states[0].average.header[0]["recomputed"] <= LONG // 20


def check_extremes(seed, kind, shape, rows, confidence, options, at):
    offsets, prob, value = stream(seed, kind, shape, 600)
    window = CountWindowAggregate(rows, confidence, [MIN, MAX], distribution=10_000, **options)
    answers = take(window, offsets, prob, value, 0, 600)
    for i in at:
        window = held_at(i, min(answers.held[i], 400), prob, value, rows)  # older ones are outside
        for sign, measured in zip((-1, 1), answers.results, strict=True):
            span = slice(measured.offsets[i], measured.offsets[i + 1])
            got = dict(zip(measured.value[span].tolist(), measured.prob[span], strict=True))
            expected = window.extreme(sign)
            assert {x for x, p in expected.items() if p > 1e-15} <= set(got) <= set(expected)
            for x, p in got.items():
                assert p == pytest.approx(float(expected[x]), rel=1e-9, abs=1e-15)
            chance, x = np.array(list(expected.values())), np.array(list(expected))
            exists = chance.sum()
            mean = (chance @ x) / exists
            deviation = np.sqrt(chance @ (x - mean) ** 2 / exists)
            assert measured.existence[i] == pytest.approx(float(exists), abs=1e-13)
            assert measured.mean[i] == pytest.approx(float(mean), rel=1e-11, abs=1e-11)
            assert measured.stddev[i] == pytest.approx(float(deviation), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("rows", [1, 6, 40])
@pytest.mark.parametrize("shape", ["noise", "falling", "few whole numbers", "sometimes missing"])
@pytest.mark.parametrize("kind", ["changing", "uniform"])
def test_extremes_follow_a_stream(rows, shape, kind):
    check_extremes(rows, kind, shape, rows, 0.95, {}, [17, 290, 433])


@pytest.mark.parametrize("confidence", [0.2, 1.0 - 1e-9, 1.0])
@pytest.mark.parametrize("options", [{}, {"max_tuples": 40}])
@pytest.mark.parametrize("kind", ["near 1", "certain but for some", "all but certain"])
def test_extremes_hold_at_any_confidence_and_bound(confidence, options, kind):
    check_extremes(5, kind, "falling", 30, confidence, options, [61, 250, 588])


@pytest.mark.nightly
def test_state_stays_small():
    offsets, prob, value = stream(2, "uniform", "noise", 2_400)
    window = CountWindowAggregate(400, 0.95, [AVG, MIN, MAX])
    sizes = []
    for begin in range(0, 2_400, 400):
        take(window, offsets, prob, value, begin, begin + 400)
        sizes.append(window.nbytes)
    assert max(sizes) <= 4_000_000
    assert sizes[-1] <= 1.3 * sizes[2]
