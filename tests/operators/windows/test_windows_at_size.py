"""Windows of hundreds of tuples against the recursion over the tuples that each one holds.

Small windows are compared with possible worlds in other modules. The windows here are large enough
that the front and back stacks, their bands, slices and panes, and the choice of candidates matter.
"""

import itertools
import math

import numpy as np
import pytest

from operator_subjects import chosen
from seeds import seeds
from sfumato.kernels.windows.delta_window import STRIDE
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from window_reference import Window

COUNT, VALUES, SUM, AVG, MAX, MIN = (
    Aggregate("count"), *(Aggregate(of, 0) for of in ("count", "sum", "avg", "max", "min"))
)  # fmt: skip
MOMENTS = [COUNT, VALUES, SUM, AVG]
NOT_AVERAGED = [COUNT, VALUES, SUM, MAX, MIN]
ASKED = [*MOMENTS, MAX, MIN]
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


def values(kind, rng, n, place):
    """Return a value for each alternative of n tuples; place : the alternatives' tuples"""
    noise = rng.normal(0.0, 3.0, place.size)
    kinds = {
        "noise": noise,
        "rising": noise + place,
        "falling": noise - 0.3 * place,  # the largest are always the next to leave
        "a step": noise + 1e4 * (place > n // 2),
        "few whole numbers": np.round(noise / 3.0),
        "large": noise + 1e7,
        "drifting": noise + place / 100,
        "a walk": 1e6 + np.cumsum(rng.normal(0.0, 1.0, n))[place],
        "sometimes missing": np.where(rng.random(place.size) < 0.1, math.nan, noise),
        "mostly missing": np.where(rng.random(place.size) < 0.96, math.nan, noise + place / 100),
    }
    return kinds[kind]


def stream(seed, existence, value, n=LONG, sizes=(2,), keys=1):
    """Return n tuples in time order, with these numbers of alternatives."""
    rng = np.random.default_rng(seed)
    size = rng.choice(sizes, n)
    offsets, place = np.concatenate([[0], np.cumsum(size)]), np.repeat(np.arange(n), size)
    share = rng.random(place.size) + 0.01
    share /= np.add.reduceat(share, offsets[:-1])[place]
    return {
        "key": rng.integers(0, keys, n), "offsets": offsets,
        "prob": np.minimum(share * existences(existence, rng, n)[place], 1.0),
        "values": values(value, rng, n, place)[:, None],
        "time": np.sort(rng.integers(0, 20 * n, n)),
    }  # fmt: skip


def parts_of(seed, n):
    """Return the places of a few rows per call, or of very many."""
    cuts = np.cumsum(np.random.default_rng(seed).pareto(0.7, n).astype(int) + 1)
    return np.split(np.arange(n), cuts[cuts < n])


def answers(window, rows, parts):
    """Yield (places of the held tuples, results, row there) of every answer."""
    timed = isinstance(window, ExtentAggregate)
    for places in parts:
        times = (rows["time"][places], None, None) if timed else ()
        found = window.process(rows["key"][places], *times, *chosen(rows, places))
        yield from held_in(found, rows, None if timed else places)
    if timed:
        yield from held_in(window.flush(), rows, None)


def held_in(found, rows, places):
    for k, held in enumerate(found.held.tolist()):
        if places is not None:
            inside = np.arange(places[k] + 1 - held, places[k] + 1)
        else:
            time = (found.start[k] <= rows["time"]) & (rows["time"] < found.end[k])
            inside = np.flatnonzero(time & (rows["key"] == found.group[k]))
            assert held == inside.size
        yield inside, found.results, k


def window_of(rows, places, size=None):
    """Return the reference of a window of the tuples at these places."""
    begin, flat = rows["offsets"], rows["values"][:, 0]
    spans = [slice(begin[i], begin[i + 1]) for i in places]
    return Window([(rows["prob"][span], flat[span]) for span in spans], size)


def check(window, asked, results, place):
    """Compare the results of all aggregates at one place with the recursion."""
    missing = any(np.isnan(value).any() for _, value in window.tuples)
    spread = np.ptp(np.concatenate([value for _, value in window.tuples]))
    for aggregate, measured in zip(asked, results, strict=True):
        if aggregate in (MIN, MAX):
            check_extreme(window.extreme(1 if aggregate == MAX else -1), measured, place)
            continue
        if aggregate == AVG and missing:
            continue
        of = {COUNT: window.count, VALUES: window.values, SUM: window.sum, AVG: window.average}
        mean, variance, *existence = of[aggregate]()
        assert measured.mean[place] == pytest.approx(float(mean), rel=1e-12, abs=1e-10)
        # Roundings of the recursion itself: long double has 64 bits.
        own = {SUM: 1e-16 * float(mean) ** 2, AVG: 1e-17 * spread**2}.get(aggregate, 1e-13)
        assert measured.stddev[place] ** 2 == pytest.approx(float(variance), rel=2e-9, abs=own)
        for exists in existence:
            assert measured.existence[place] == pytest.approx(float(exists), abs=1e-12)


def check_extreme(law, measured, place):
    """Compare an extreme's distribution, if it is given, its moments and its existence."""
    if measured.offsets is not None:
        span = slice(measured.offsets[place], measured.offsets[place + 1])
        got = dict(zip(measured.value[span].tolist(), measured.prob[span], strict=True))
        assert {x for x, p in law.items() if p > 1e-15} <= set(got) <= set(law)
        for x, p in got.items():
            assert p == pytest.approx(float(law[x]), rel=1e-9, abs=1e-15)
    chance, x = np.array(list(law.values())), np.array(list(law))
    exists = chance.sum()
    if not exists:
        assert measured.existence[place] == 0.0
        return
    mean = (chance @ x) / exists
    deviation = np.sqrt(chance @ (x - mean) ** 2 / exists)
    assert measured.existence[place] == pytest.approx(float(exists), abs=1e-13)
    assert measured.mean[place] == pytest.approx(float(mean), rel=1e-11, abs=1e-11)
    assert measured.stddev[place] == pytest.approx(float(deviation), rel=1e-9, abs=1e-9)


def check_count_windows(rows, size, asked, at, parts=None, **options):
    """Compare count windows of this size with the recursion, at some of their answers."""
    n = rows["time"].size
    window = CountWindowAggregate(size, options.pop("confidence", 0.9), asked, **options)
    found = list(answers(window, rows, [np.arange(n)] if parts is None else parts))
    for i in at:
        held, results, place = found[i]
        held = held if asked == MOMENTS else held[-400:]  # older ones are outside, but for rounding
        check(window_of(rows, held, size), asked, results, place)


@pytest.mark.parametrize("size", [1, 7, 64, 200])
@pytest.mark.parametrize("options", [{}, {"max_tuples": 90}, {"confidence": 1.0 - 1e-9}])
@pytest.mark.parametrize("kind", ["changing", "all but certain"])
def test_moments_follow_a_stream(size, options, kind):
    for shape in ("noise", "rising", "a step", "large"):
        rows = stream(size, kind, shape)
        check_count_windows(rows, size, MOMENTS, range(29, LONG, 167), **options)


@pytest.mark.parametrize("size", [1, 6, 40])
@pytest.mark.parametrize("shape", ["noise", "falling", "few whole numbers", "sometimes missing"])
@pytest.mark.parametrize("kind", ["changing", "uniform"])
def test_extremes_follow_a_stream(size, shape, kind):
    rows = stream(size, kind, shape, 600)
    options = {"confidence": 0.95, "distribution": 10_000}
    check_count_windows(rows, size, [MIN, MAX], [17, 290, 433], **options)


@pytest.mark.parametrize("confidence", [0.2, 1.0 - 1e-9, 1.0])
@pytest.mark.parametrize("options", [{}, {"max_tuples": 40}])
@pytest.mark.parametrize("kind", ["near 1", "certain but for some", "all but certain"])
def test_extremes_hold_at_any_confidence_and_bound(confidence, options, kind):
    rows = stream(5, kind, "falling", 600)
    options = {"confidence": confidence, "distribution": 10_000, **options}
    check_count_windows(rows, 30, [MIN, MAX], [61, 250, 588], **options)


@pytest.mark.parametrize("seed", seeds(6))
def test_extremes_of_hundreds_of_alternatives_have_their_laws(seed):
    rows = stream(seed, "changing", "few whole numbers", 8, sizes=(1, 2, 33, 200))
    rows["values"] = np.round(rows["values"] + np.random.default_rng(seed).normal(), 1)
    check_count_windows(rows, 100, [MIN, MAX], range(8), confidence=0.95, distribution=10_000)


@pytest.mark.nightly
@pytest.mark.parametrize(("shape", "sizes"), [
    ("drifting", (1, 2, 3)), ("sometimes missing", (1, 2, 3)), ("mostly missing", (1, 2, 3)),
    ("mostly missing", (1,)), ("drifting", range(1, 13)),
])  # fmt: skip
def test_count_windows_of_many_calls_are_those_of_the_recursion(shape, sizes):
    rows, asked = stream(1, "uniform", shape, 500, sizes), NOT_AVERAGED
    asked = ASKED if shape == "drifting" and len(sizes) == 3 else asked  # slow with missing values
    at = np.random.default_rng(1).choice(np.arange(30, 500), 8, replace=False)
    check_count_windows(rows, 100, asked, at, parts_of(1, 500))


@pytest.mark.parametrize(
    ("make", "shape", "n", "most"),
    [
        (lambda: DeltaWindowAggregate(12.0, 0, ASKED, threshold=0.9), "a walk", 1_500, 5 * STRIDE),
        (lambda: DeltaWindowAggregate(9.0, 0, ASKED), "sometimes missing", 500, 100),
        (lambda: ExtentAggregate(2_000, 200, ASKED), "large", 400, 60),
        (lambda: ExtentAggregate(3_000, 700, ASKED), "drifting", 1_500, 60),
        (lambda: ExtentAggregate(3_000, 700, ASKED), "sometimes missing", 1_500, 60),
    ],
)
def test_other_windows_are_sums_over_what_they_hold(make, shape, n, most):
    keys = 1 if isinstance(make(), DeltaWindowAggregate) else 2
    rows = stream(5, "uniform", shape, n, (1, 2, 3), keys)
    found = list(answers(make(), rows, parts_of(5, n)))
    sizes = np.array([held.size for held, _, _ in found])
    assert sizes.max() > most
    assert (np.diff(sizes) < 0).any()
    for held, results, place in found[20 :: len(found) // 8]:
        check(window_of(rows, held), ASKED, results, place)


@pytest.mark.nightly
@pytest.mark.parametrize("make", [
    lambda asked, **laws: CountWindowAggregate(80, 0.9, asked, **laws),
    lambda asked, **laws: DeltaWindowAggregate(4.0, 0, asked, **laws),
])  # fmt: skip
def test_other_aggregates_change_no_mean(make):
    rows = stream(7, "uniform", "drifting", 300, (1, 2, 3))

    def means(asked, **laws):
        found = answers(make(asked, **laws), rows, parts_of(7, 300))
        return np.array([[of.mean[place] for of in results] for _, results, place in found]).T

    for aggregate, expected in zip(ASKED, means(ASKED), strict=True):
        (alone,) = means([aggregate])
        (with_laws,) = means([aggregate], quantiles=(0.1,), distribution=9, samples=9)
        np.testing.assert_array_equal(alone, with_laws)
        close = 1e-12 if aggregate == COUNT else 0.0  # counted together with another sum
        np.testing.assert_allclose(alone, expected, rtol=close)


@pytest.mark.parametrize("confidence", [0.2, 0.95, 1.0 - 1e-9])
def test_few_averages_are_recomputed_over_their_whole_window(confidence):
    for kind in ("uniform", "near 1", "certain but for some"):
        rows = stream(3, kind, "rising")
        window = CountWindowAggregate(100, confidence, [AVG])
        window.process(np.zeros(LONG, int), rows["offsets"], rows["prob"], rows["values"])
        assert window._scratch.states[0].average.header[0]["recomputed"] <= LONG // 20


@pytest.mark.nightly
def test_state_stays_small():
    rows, sizes = stream(2, "uniform", "noise", 2_400), []
    window = CountWindowAggregate(400, 0.95, [AVG, MIN, MAX])
    for places in np.split(np.arange(2_400), 6):
        window.process(rows["key"][places], *chosen(rows, places))
        sizes.append(window.nbytes)
    assert max(sizes) <= 4_000_000
    assert sizes[-1] <= 1.3 * sizes[2]


@pytest.mark.parametrize("seed", seeds(6))
def test_a_quantile_of_many_alternatives_has_its_law(seed):
    rows = stream(seed, "uniform", "noise", 3, (1, 2, 33, 120))
    rows["values"] = np.round(rows["values"], 1)
    asked = [Aggregate("quantile", 0, 0.5)]
    *_, (_, [result], place) = answers(
        CountWindowAggregate(3, 0.95, asked, distribution=10_000), rows, [np.arange(3)]
    )
    assert np.isnan(result.error[place])  # it is exact
    parts = [
        [*zip(p.astype(float), v, strict=True), (1.0 - float(p.sum()), None)]
        for p, v in window_of(rows, range(3)).tuples
    ]
    law: dict[float, float] = {}
    for (p, x), (q, y), (r, z) in itertools.product(*parts):
        there = sorted(v for v in (x, y, z) if v is not None)
        if there and p * q * r > 0:
            middle = there[(len(there) + 1) // 2 - 1]
            law[middle] = law.get(middle, 0.0) + p * q * r
    places = slice(result.offsets[place], result.offsets[place + 1])
    found = dict(zip(result.value[places].tolist(), result.prob[places].tolist(), strict=True))
    for x in law.keys() | found.keys():
        assert found.get(x, 0.0) == pytest.approx(law.get(x, 0.0), abs=1e-10)
