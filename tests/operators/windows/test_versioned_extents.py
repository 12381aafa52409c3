"""Extents of rows that newer versions correct: a simple simulation, and results by worlds."""

from __future__ import annotations

import numpy as np
import pytest

from extents import COUNT, check_against_worlds, check_equal, facts, in_parts, simulated, stream
from seeds import seeds
from sfumato.operators.distributions.aggregate import OVER_TIME, Aggregate
from sfumato.operators.windows.extent_aggregate import ExtentAggregate
from sfumato.operators.windows.identified_extents import VersionedExtentAggregate
from window_cases import ALL, arrays, random_tuples

LENGTHS = [(10, 10), (12, 4), (7, 3), (3, 10), (30, 2)]


def versions_of(rng, group, ids):
    """Return (id, version) of rows: few ids per group, -1 for no id; most versions rise."""
    n = len(group)
    of = group * ids + rng.integers(0, ids, n)
    of[rng.random(n) < 0.1] = -1
    version = np.arange(n) // 2 + rng.integers(-8, 3, n)
    return of, version


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("seed", seeds(8, 4))
def test_an_extent_has_the_newest_version_that_came_before_it_was_complete(seed, ordered):
    rng = np.random.default_rng(seed)
    for length, slide in LENGTHS:
        n = int(rng.integers(1, 90))
        data = stream(rng, n, int(rng.integers(1, 5)), ordered)
        versions = versions_of(rng, data[0], int(rng.integers(1, 6)))
        tuples = random_tuples(rng, n, 2, most=1)
        for entry in tuples:
            if rng.random() < 0.1:  # a version that removes the row
                entry.clear()
        exists = [bool(entry) for entry in tuples]
        expected, scopes = simulated(length, slide, data, exists, versions=versions)
        window = VersionedExtentAggregate(length, slide, COUNT, members=True, attributes=2)
        window, parts = in_parts(window, rng, data, tuples, versions=versions)
        assert facts(parts) == [(e, g, len(rows), p, late) for e, g, rows, p, late in expected]
        members = [
            p.members.tolist()[p.offsets[k] : p.offsets[k + 1]]
            for p in parts
            for k in range(len(p))
        ]
        assert members == [inside for _, _, inside, _, _ in expected]
        counters = window.counters
        counted = ("late", "outside", "absent", "outdated")
        for name in counted:
            assert counters[name] == sum(getattr(s, name) for s in scopes.values()), name
        assert counters["corrections"] == sum(s.corrected for s in scopes.values())
        assert counters["rows"] == n
        assert counters["held"] == 0
        assert window.needed_ids().size <= counters["absent"]  # absent rows do not complete extents


@pytest.mark.parametrize("seed", seeds(6, 2))
def test_results_are_those_of_the_possible_worlds_of_the_newest_versions(seed):
    rng = np.random.default_rng(100 + seed)
    shares = (0.25, 0.875)
    for length, slide in LENGTHS:
        n = int(rng.integers(5, 30))
        data = stream(rng, n, 2, bool(seed % 2), spread=100)
        versions = versions_of(rng, data[0], 4)
        certain = float(rng.choice([0.0, 0.5, 1.0]))
        tuples = random_tuples(rng, n, 2, most=2, certain=certain)
        expected, _ = simulated(length, slide, data, [True] * n, versions=versions)
        window = VersionedExtentAggregate(length, slide, ALL, quantiles=shares, distribution=4)
        _, parts = in_parts(window, rng, data, tuples, versions=versions)
        check_against_worlds(parts, expected, data[2], tuples, shares)


def test_without_corrections_extents_are_the_usual_ones():
    rng = np.random.default_rng(3)
    n = 300
    data = stream(rng, n, 3, False, spread=400)
    tuples = random_tuples(rng, n, 2)
    versions = np.where(rng.random(n) < 0.2, -1, np.arange(n)), np.zeros(n, int)
    for length, slide in LENGTHS:
        options = {"empty": True, "quantiles": (0.5,)}
        _, usual = in_parts(
            ExtentAggregate(length, slide, ALL, **options), rng, data, tuples, crash=False
        )
        _, found = in_parts(
            VersionedExtentAggregate(length, slide, ALL, **options), rng, data, tuples,
            versions=versions,
        )  # fmt: skip
        check_equal(found, usual, 1e-9)


def test_state_is_bounded_by_open_extents_however_often_rows_are_corrected():
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


@pytest.mark.parametrize("function", OVER_TIME)
def test_values_that_hold_beyond_their_extents_are_refused(function):
    with pytest.raises(ValueError, match="time_avg and integral"):
        VersionedExtentAggregate(10, 10, [Aggregate(function, 0)])


def test_ids_and_versions_must_be_whole_numbers_of_the_rows():
    window = VersionedExtentAggregate(10, 10, COUNT, attributes=1)
    rows = np.zeros(2, int), np.arange(2), None, None, *arrays([[(1, [1])]] * 2)
    scope = np.zeros(2, int)
    with pytest.raises(ValueError, match="`ids` must have 2 entries"):
        window.process_versions(np.zeros(3, int), np.zeros(2, int), *rows, scope=scope)
    with pytest.raises(TypeError, match="`version` must be an array of int64"):
        window.process_versions(np.zeros(2, int), np.zeros(2), *rows, scope=scope)
