"""Joins in lockstep: all tuples of a time enter both windows before any are compared."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from join_cases import arrivals_of
from join_reference import as_changes, assert_same, brute_force, in_parts
from sfumato.operators.joins import similarity_join
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.windows import Rows

PROBS = [(1.0,), (0.5, 0.5), (0.75,), (0.25, 0.5), (0.5,)]
STEPS = st.tuples(
    st.integers(0, 1), st.integers(0, 1), st.integers(0, 2), st.sampled_from(PROBS),
    st.integers(0, 3), st.integers(0, 3),
)  # fmt: skip


def tuples_of(steps):
    """Return tuples of two sides and two keys, several at the same time."""
    side, key, later, probs, x, y = zip(*steps, strict=True)
    tuples = [list(zip(p, ([x], [y]), strict=False)) for p, x, y in zip(probs, x, y, strict=True)]
    time = np.cumsum([step // 2 for step in later])
    return replace(arrivals_of(side, key, tuples, 1), time=time)


@given(
    st.lists(STEPS, min_size=1, max_size=20), st.integers(1, 3), st.sampled_from([0.25, 0.5, 1.0]),
    st.sampled_from([0.75, 0.9, 1.0]), st.sampled_from(["nested", "index", "sort"]),
)  # fmt: skip
def test_changes_are_those_of_windows_that_take_a_time_at_once(
    steps, rows, probability, confidence, strategy
):
    tuples = tuples_of(steps)
    window = Rows(rows, confidence, lockstep=True)
    expected = brute_force(tuples, 1.0, probability, rows, confidence, lockstep=True)
    between = (np.flatnonzero(np.diff(tuples.time)) + 1).tolist()
    for cuts, saved in ([], False), (between, True):
        join = SimilarityJoin(1, 1.0, probability, window, strategy=strategy, output="changes")
        found = in_parts(join, tuples, cuts, saved)[0]
        assert_same(in_order(found), in_order(expected))


def in_order(changes):
    """Sort the changes of each arrival: added pairs, then removed ones."""
    return sorted(changes, key=lambda change: (change[0], -change[1], *change[2:4]))


@pytest.mark.parametrize("chunk", [2, 3, 7])
def test_large_calls_are_split_between_times(monkeypatch, chunk):
    rng = np.random.default_rng(1)
    steps = [
        (*row[:3], PROBS[row[3]], *row[4:]) for row in rng.integers(0, [2, 2, 3, 5, 4, 4], (60, 6))
    ]
    tuples, window = tuples_of(steps), Rows(2, lockstep=True)
    expected = as_changes(SimilarityJoin(1, 1.0, 0.25, window).process(tuples))
    monkeypatch.setattr(similarity_join, "PAIR_CHUNK", chunk)
    assert as_changes(SimilarityJoin(1, 1.0, 0.25, window).process(tuples)) == expected
