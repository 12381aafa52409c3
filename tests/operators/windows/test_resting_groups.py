"""Groups that rest wake when something of theirs is complete: no answer knows of it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from seeds import seeds
from sfumato.operators.laws.aggregate import Aggregate
from sfumato.operators.windows import extent_tuples
from sfumato.operators.windows.extent_aggregate import ExtentAggregate

WANTED = [Aggregate("sum", 0), Aggregate("count"), Aggregate("avg", 0), Aggregate("max", 0)]


def stream(seed, n=400, groups=25):
    """Rows of groups with a punctuation each, some late."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, n)
    time = np.cumsum(rng.integers(0, 4, n))
    late = rng.random(n) < 0.1
    punctuation = time - 1
    time = np.where(late, time - rng.integers(1, 40, n), time)
    lengths = rng.integers(0, 3, n)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    prob = rng.choice([0.5, 0.25], offsets[-1])
    return group, time, punctuation, late, offsets, prob, rng.normal(size=(offsets[-1], 1))


def answers(rows, cuts, options, restart=False):
    group, time, punctuation, late, offsets, prob, values = rows
    window, found, awake = ExtentAggregate(30, 12, WANTED, **options), [], 0
    ends = [0, *cuts, len(group)]
    for low, high in pairwise(ends):
        part, flat = slice(low, high), slice(offsets[low], offsets[high])
        extents = window.process(
            group[part], time[part], punctuation[part], late[part],
            offsets[low : high + 1] - offsets[low], prob[flat], values[flat],
        )  # fmt: skip
        found += listed(extents)
        awake = max(awake, window.counters["held"] - window._held._resting.size)
        if restart:
            window = ExtentAggregate.restore(window.snapshot())
    return found + listed(window.flush()), window, awake


def listed(extents):
    out = []
    for i in range(len(extents)):
        row = [extents.end[i], extents.group[i], extents.held[i], extents.late[i]]
        row += [extents.punctuation[i]]
        for result in extents.results:
            row += [result.mean[i], result.stddev[i], result.existence[i]]
        if extents.members is not None:
            row += extents.members[extents.offsets[i] : extents.offsets[i + 1]].tolist()
        out.append(tuple(str(value) for value in row))
    return sorted(out)


@pytest.mark.parametrize("options", [{}, {"members": True}, {"empty": True}])
@pytest.mark.parametrize("seed", seeds(5, 2))
def test_answers_do_not_know_which_groups_rest(monkeypatch, seed, options):
    rows, rng = stream(seed), np.random.default_rng(seed)
    expected, _, _ = answers(rows, [], options)
    monkeypatch.setattr(extent_tuples, "MOST_AWAKE", 5)
    monkeypatch.setattr(extent_tuples, "MOST_RESTING", 8)
    for restart in (False, True):
        cuts = np.unique(rng.integers(1, 400, 60)).tolist()
        found, window, _ = answers(rows, cuts, options, restart)
        assert sorted(found) == sorted(expected)
        assert window.counters["held"] == 0


@pytest.mark.slow
def test_most_groups_rest_where_there_are_many():
    rows = list(stream(1, 40_000, groups=30_000))
    rows[3][:] = False
    rows[1] = np.arange(40_000) // 4_000
    rows[2] = rows[1] - 1
    _, window, awake = answers(rows, range(500, 40_000, 500), {})
    assert awake < 10_000
    assert window.counters["held"] == 0
