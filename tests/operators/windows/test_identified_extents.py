"""Extents of rows with ids, corrected by newer versions or with shared outcomes: bounds, refusals.

`test_extent_aggregate` compares their rows and results with a simulation and possible worlds.
"""

from fractions import Fraction

import numpy as np
import pytest

from extents import COUNT
from sfumato.operators.distributions.aggregate import OVER_TIME, Aggregate
from sfumato.operators.windows.identified_extents import (
    SharedExtentAggregate,
    VersionedExtentAggregate,
)
from window_cases import arrays, column
from worlds import aggregate_laws, moments_of


def test_too_many_combinations_are_sampled_within_the_stated_error():
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


@pytest.mark.parametrize("make", [VersionedExtentAggregate, SharedExtentAggregate])
@pytest.mark.parametrize("function", OVER_TIME)
def test_averages_over_time_are_refused(function, make):
    with pytest.raises(ValueError, match="time_avg and integral"):
        make(10, 10, [Aggregate(function, 0)])


def test_state_does_not_grow_with_the_number_of_outcomes():
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


def test_state_does_not_grow_with_the_number_of_corrections():
    window = VersionedExtentAggregate(100, 100, [Aggregate("sum", 0)])
    rng = np.random.default_rng(4)
    version = np.arange(20_000)
    sizes = []
    for low in range(0, version.size, 200):
        part = version[low : low + 200]
        time = part // 20
        of, values = (part // 2000 * 10) % 30 + part % 10, rng.normal(0, 1, (part.size, 1))
        window.process_versions(
            of, part, np.zeros(part.size, int), time, None, None, np.arange(part.size + 1),
            np.ones(part.size), values, scope=np.zeros(part.size, int),
        )  # fmt: skip
        sizes.append((window.counters["held"], len(window.snapshot())))
        assert window.needed_ids().size <= 20
    assert max(held for held, _ in sizes) <= 20
    assert max(size for _, size in sizes[50:]) <= 1.5 * max(size for _, size in sizes[:50])


def test_ids_and_versions_must_be_whole_numbers_of_the_rows():
    window = VersionedExtentAggregate(10, 10, COUNT, attributes=1)
    rows = np.zeros(2, int), np.arange(2), None, None, *arrays([[(1, [1])]] * 2)
    scope = np.zeros(2, int)
    with pytest.raises(ValueError, match="`ids` must have 2 entries"):
        window.process_versions(np.zeros(3, int), np.zeros(2, int), *rows, scope=scope)
    with pytest.raises(TypeError, match="`version` must be an array of int64"):
        window.process_versions(np.zeros(2, int), np.zeros(2), *rows, scope=scope)
