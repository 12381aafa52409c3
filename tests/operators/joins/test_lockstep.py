"""Joins in lockstep: all tuples of a time enter both windows before any are compared."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from join_cases import arrivals_of
from sfumato.operators.joins import similarity_join
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.windows import Rows
from worlds import at_least

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


def by_definition(tuples, within, probability, rows, confidence):
    """Return {(left, right): (place of the later tuple, probability)} of all pairs."""
    numbers, windows, found = [0, 0], {}, {}
    evict_at = min(Fraction(confidence), 1 - Fraction(probability))

    def reached(window):
        chance = at_least([existence for *_, existence in window], rows)
        return chance > 0 and chance >= evict_at

    for time in np.unique(tuples.time):
        fresh = np.flatnonzero(tuples.time == time)
        for i in fresh.tolist():
            side, part = int(tuples.side[i]), slice(*tuples.offsets[i : i + 2])
            samples = list(zip(tuples.prob[part], tuples.points[part, 0], strict=True))
            window = windows.setdefault((int(tuples.key[i]), side), [])
            window.append((i, numbers[side], samples, float(tuples.prob[part].sum())))
            numbers[side] += 1
        for window in windows.values():
            while reached(window[1:]):
                window.pop(0)
        for key in {key for key, _ in windows}:
            lefts, rights = (windows.get((key, side), []) for side in (0, 1))
            for a, (i, left, xs, _) in enumerate(lefts):
                for b, (j, right, ys, _) in enumerate(rights):
                    if i not in fresh and j not in fresh:
                        continue
                    chance = sum(
                        Fraction(p) * Fraction(q) for p, x in xs for q, y in ys
                        if abs(x - y) <= within
                    )  # fmt: skip
                    for place, window in ((a, lefts), (b, rights)):
                        chance *= 1 - at_least([e for *_, e in window[place + 1 :]], rows)
                    if chance >= Fraction(probability):
                        found[left, right] = max(i, j), float(chance)
    return found


def pairs_of(answers):
    columns = answers.left, answers.right, answers.arrival, answers.probability
    return {(a, b): (at, pytest.approx(p)) for a, b, at, p in zip(*columns, strict=True)}


@given(
    st.lists(STEPS, min_size=1, max_size=14), st.integers(1, 3), st.sampled_from([0.25, 0.5, 1.0]),
    st.sampled_from([0.75, 0.9, 1.0]), st.sampled_from(["nested", "index", "sort"]),
)  # fmt: skip
def test_pairs_are_those_of_windows_that_take_a_time_at_once(
    steps, rows, probability, confidence, strategy
):
    tuples = tuples_of(steps)
    window = Rows(rows, confidence, lockstep=True)
    expected = by_definition(tuples, 1.0, probability, rows, confidence)
    join = SimilarityJoin(1, 1.0, probability, window, strategy=strategy)
    assert pairs_of(join.process(tuples)) == expected
    join, found = SimilarityJoin(1, 1.0, probability, window, strategy=strategy), {}
    for time in np.unique(tuples.time):
        begin, end = np.searchsorted(tuples.time, [time, time + 1])
        part = pairs_of(join.process(tuples.part(begin, end)))
        found |= {pair: (at + begin, p) for pair, (at, p) in part.items()}
        join = SimilarityJoin.restore(join.snapshot())
    assert found == expected


@pytest.mark.parametrize("chunk", [2, 3, 7])
def test_large_calls_are_split_between_times(monkeypatch, chunk):
    rng = np.random.default_rng(1)
    steps = [
        (*row[:3], PROBS[row[3]], *row[4:]) for row in rng.integers(0, [2, 2, 3, 5, 4, 4], (60, 6))
    ]
    tuples, window = tuples_of(steps), Rows(2, lockstep=True)
    expected = pairs_of(SimilarityJoin(1, 1.0, 0.25, window).process(tuples))
    monkeypatch.setattr(similarity_join, "PAIR_CHUNK", chunk)
    assert pairs_of(SimilarityJoin(1, 1.0, 0.25, window).process(tuples)) == expected


@given(st.lists(STEPS, min_size=1, max_size=25), st.integers(1, 3))
def test_changes_leave_the_pairs_of_the_tuples_in_both_windows(steps, rows):
    tuples = tuples_of([(*step[:3], (1.0,), *step[4:]) for step in steps])
    window = Rows(rows, lockstep=True)
    join = SimilarityJoin(1, 1.0, 0.5, window, output="changes")
    current = set()
    for time in np.unique(tuples.time):
        begin, end = np.searchsorted(tuples.time, [time, time + 1])
        answers = join.process(tuples.part(begin, end))
        for left, right, change in zip(answers.left, answers.right, answers.change, strict=True):
            assert ((left, right) in current) == (change < 0)
            (current.add if change > 0 else current.remove)((left, right))
        newest = {}
        for side in (0, 1):
            of = np.flatnonzero(tuples.side[:end] == side)
            keys = tuples.key[of]
            for key in np.unique(keys):
                newest[key, side] = np.flatnonzero(keys == key)[-rows:], of
        expected = {
            (left, right)
            for key in np.unique(tuples.key)
            for left in newest.get((key, 0), ([], []))[0]
            for right in newest.get((key, 1), ([], []))[0]
            if abs(
                tuples.points[newest[key, 0][1][left], 0]
                - tuples.points[newest[key, 1][1][right], 0]
            )
            <= 1
        }
        assert current == expected
