"""Extents of tuples with shared outcomes: a simple simulation, and results by possible worlds."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from extents import COUNT, check_against_worlds, check_equal, facts, in_parts, simulated, stream
from seeds import seeds
from sfumato.operators.distributions.aggregate import OVER_TIME, Aggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from sfumato.operators.windows.identified_extents import SharedExtentAggregate
from window_cases import ALL, arrays, column, random_tuples
from worlds import aggregate_laws, moments_of

LENGTHS = [(10, 10), (12, 4), (7, 3), (3, 10), (30, 2)]
WEIGHTS = [
    [Fraction(1, 2), Fraction(1, 2)],
    [Fraction(1, 4), Fraction(1, 8), Fraction(5, 8)],
    [Fraction(1, 4), Fraction(1, 2)],
    [Fraction(3, 8)],
    [Fraction(1)],
]


def shared_rows(rng, group, ids, wrong=0.0):
    """Return (tuples, ids, numbers of weights), with few ids per group, and -1 for no id."""
    n = len(group)
    tuples = random_tuples(rng, n, 2, most=2)
    of = group * ids + rng.integers(0, ids, n)
    of[rng.random(n) < 0.3] = -1
    number = rng.integers(0, len(WEIGHTS), of.max(initial=0) + 1)[of]
    number[rng.random(n) < wrong] = 0
    for i in np.flatnonzero(of >= 0):
        weights = WEIGHTS[number[i]]
        others = random_tuples(rng, len(weights), 2, most=1)
        tuples[i] = [(p, values) for p, [(_, values)] in zip(weights, others, strict=True)]
    return tuples, of, number


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", seeds(8, 4))
def test_rows_with_other_weights_than_their_outcome_are_in_no_extent(seed, ordered):
    rng = np.random.default_rng(seed)
    for length, slide in LENGTHS:
        n = int(rng.integers(1, 90))
        data = stream(rng, n, int(rng.integers(1, 5)), ordered)
        tuples, of, number = shared_rows(rng, data[0], int(rng.integers(1, 6)), wrong=0.3)
        for entry in tuples:
            if rng.random() < 0.05:
                entry.clear()
        exists = [bool(entry) for entry in tuples]
        rows = data, exists
        expected, scopes = simulated(length, slide, *rows, versions=(of, number), shared=True)
        window = SharedExtentAggregate(length, slide, COUNT, members=True, attributes=3)
        window, parts = in_parts(window, rng, data, tuples, shared=of)
        assert facts(parts) == [(e, g, len(rows), p, late) for e, g, rows, p, late in expected]
        members = [
            sorted(p.members.tolist()[p.offsets[k] : p.offsets[k + 1]])
            for p in parts
            for k in range(len(p))
        ]
        assert members == [sorted(inside) for _, _, inside, _, _ in expected]
        for name in ("late", "outside", "absent", "unequal"):
            assert window.counters[name] == sum(getattr(s, name) for s in scopes.values()), name
        assert window.counters["held"] == 0
        assert window.needed_ids().size == 0


@pytest.mark.parametrize("seed", seeds(12, 3))
def test_results_are_those_of_worlds_in_which_rows_share_outcomes(seed):
    rng = np.random.default_rng(100 + seed)
    shares = (0.25, 0.875)
    for length, slide in LENGTHS:
        n = int(rng.integers(5, 30))
        data = stream(rng, n, 2, bool(seed % 2), spread=100)
        tuples, of, number = shared_rows(rng, data[0], 3)
        rows = data, [True] * n
        expected, _ = simulated(length, slide, *rows, versions=(of, number), shared=True)
        window = SharedExtentAggregate(length, slide, ALL, quantiles=shares, distribution=4)
        _, parts = in_parts(window, rng, data, tuples, shared=of)
        check_against_worlds(parts, expected, data[2], tuples, shares, of)


def test_without_shared_outcomes_extents_are_the_usual_ones():
    rng = np.random.default_rng(3)
    n = 200
    data = stream(rng, n, 3, False, spread=400)
    tuples = random_tuples(rng, n, 2)
    alone = np.where(rng.random(n) < 0.5, -1, np.arange(n))
    for length, slide in LENGTHS:
        options = {"empty": True, "quantiles": (0.5,)}
        _, usual = in_parts(
            ExtentAggregate(length, slide, ALL, **options), rng, data, tuples, crash=False
        )
        window = SharedExtentAggregate(length, slide, ALL, **options)
        _, found = in_parts(window, rng, data, tuples, shared=alone)
        check_equal(found, usual, 1e-7)


def test_too_many_combinations_are_sampled_with_an_error_that_holds():
    rng = np.random.default_rng(7)
    shared = np.repeat(np.arange(13), 2)  # 8192 combinations of outcomes
    tuples = [
        [(Fraction(1, 2), [Fraction(int(rng.integers(0, 50)))]) for _ in range(2)] for _ in shared
    ]
    for entry in tuples[:4]:
        entry[1] = (Fraction(1, 2), [None])
    asked = [Aggregate(of, 0) for of in ("sum", "max", "avg", "stddev", "first")]
    asked.append(Aggregate("quantile", 0, 0.5))
    window = SharedExtentAggregate(100, 100, asked, distribution=10**6, samples=1000)
    time = np.arange(shared.size)
    group = np.zeros_like(time)
    window.process_shared(shared, group, time, None, None, *arrays(tuples), scope=group)
    results = window.flush().results
    requests = [(a.function, a.argument) for a in asked]
    laws = aggregate_laws(requests, column(tuples, 0), shared=shared.tolist())
    for a, measured, law in zip(asked, results, laws, strict=True):
        mean, variance, existence = map(float, moments_of(law))
        values = np.array(sorted(map(float, law)))
        sampled = a.function not in ("sum", "max")
        assert np.isnan(measured.error[0]) != sampled
        tolerance = 4 * np.sqrt(variance / 1000) if sampled else 1e-9
        assert abs(measured.mean[0] - mean) <= tolerance, a
        assert abs(measured.existence[0] - existence) <= 1e-12
        cumulated = np.cumsum([float(p) for _, p in sorted(law.items())]) / existence
        found = np.array(
            [measured.prob[measured.value <= v + 1e-9].sum() for v in values]
        ) / existence  # fmt: skip
        bound = measured.error[0] if sampled else 1e-9
        assert np.abs(found - cumulated).max() <= bound


@pytest.mark.parametrize("function", OVER_TIME)
def test_averages_over_time_are_refused(function):
    with pytest.raises(ValueError, match="time_avg and integral"):
        SharedExtentAggregate(10, 10, [Aggregate(function, 0)])


def test_state_is_bounded_by_open_extents_however_many_outcomes_there_are():
    window, sizes = SharedExtentAggregate(10, 10, [Aggregate("avg", 0)]), []
    for low in range(0, 5000, 50):
        time = np.arange(low, low + 50)
        of, group = time // 5 % 20, np.zeros(50, int)
        window.process_shared(
            of, group, time, None, None, np.arange(51), np.ones(50), np.ones((50, 1)), scope=group
        )
        assert window.needed_ids().size <= 3
        sizes.append(len(window.snapshot()))
    assert max(sizes[50:]) <= 1.2 * max(sizes[:50])
