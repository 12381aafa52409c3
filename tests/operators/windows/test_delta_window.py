"""Attribute-delta windows: evictions by definition in rationals, aggregates by possible worlds."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples, seeds
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.state.snapshot import SnapshotError
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from window_cases import ALL, arrays, check, column, random_tuples
from window_reference import broken_by_definition
from worlds import aggregate_laws


def windows_by_definition(tuples, groups, delta, on, threshold, most=None):
    """Return the tuples that each arrival's group holds after it."""
    held, result = {}, []
    for i, (group, entry) in enumerate(zip(groups, tuples, strict=True)):
        window = held.setdefault(group, [])
        if entry:
            window.append(i)
        while window:
            others = [tuples[j] for j in window[1:]]
            far = broken_by_definition(tuples[window[0]], others, delta, on) >= threshold
            if not (far and others) and not (most and len(window) > most):
                break
            window.pop(0)
        result.append(list(window))
    return result


@pytest.mark.parametrize("seed", seeds(6, 2))
def test_windows_and_aggregates_are_their_definitions(seed):
    rng = np.random.default_rng(seed)
    shares = (0.25, 0.5, 0.875)
    for _ in range(8):
        delta, on = float(rng.choice([0, 0.5, 1, 3])), int(rng.integers(2))
        threshold = float(rng.choice([0.25, 0.5, 0.75, 1.0]))
        tuples = random_tuples(rng, 14, attributes=2, most=2)
        for entry in tuples:
            if rng.random() < 0.1:
                entry.clear()
        groups = rng.integers(0, 2, len(tuples))
        expected = windows_by_definition(tuples, groups, delta, on, threshold, most=6)
        operator = DeltaWindowAggregate(
            delta, on, ALL, threshold=threshold, max_tuples=6, quantiles=shares, distribution=5
        )
        answers = operator.process(groups, *arrays(tuples, 2))
        assert answers.held.tolist() == [len(window) for window in expected]
        for row, window in enumerate(expected):
            inside = [tuples[j] for j in window]
            for attribute in (None, 0, 1):
                which = [r for r, a in enumerate(ALL) if a.attribute == attribute]
                requests = [(ALL[r].function, ALL[r].argument) for r in which]
                laws = aggregate_laws(requests, column(inside, attribute))
                for r, law in zip(which, laws, strict=True):
                    check(answers.results[r], row, law, shares, 5)


@examples(60)
@given(
    values=st.lists(st.integers(0, 6), min_size=1, max_size=60),
    delta=st.integers(0, 6),
)
def test_certain_values_are_held_from_the_last_distant_one_on(values, delta):
    operator = DeltaWindowAggregate(delta, 0, [Aggregate("sum", 0), Aggregate("max", 0)])
    n = len(values)
    answers = operator.process(
        np.zeros(n, int), np.arange(n + 1), np.ones(n), np.array(values, float)[:, None]
    )
    window = []
    for i, value in enumerate(values):
        window.append(value)
        while any(abs(value - window[0]) > delta for value in window):
            window.pop(0)
        assert answers.held[i] == len(window)
        assert answers.results[0].mean[i] == sum(window)
        assert answers.results[1].mean[i] == max(window)
    assert (answers.results[0].stddev == 0.0).all()


@pytest.mark.parametrize("seed", seeds(6))
def test_hundreds_of_alternatives_evict_by_definition(seed):
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 33, 200], 12)
    offsets, place = np.concatenate([[0], np.cumsum(sizes)]), np.repeat(np.arange(12), sizes)
    prob = rng.random(place.size)
    prob *= (rng.choice([0.6, 1.0], 12) / np.add.reduceat(prob, offsets[:-1]))[place]
    values = np.round(rng.normal(size=(place.size, 1)), 1)
    values[rng.random(place.size) < 0.05] = np.nan
    pairs = list(zip(prob.tolist(), values.tolist(), strict=True))
    tuples = [pairs[a:b] for a, b in pairwise(offsets)]
    expected = windows_by_definition(tuples, [0] * 12, 2.05, 0, 0.4)
    operator = DeltaWindowAggregate(2.05, 0, [Aggregate("count")], threshold=0.4)
    answers = operator.process(np.zeros(12, int), offsets, np.minimum(prob, 1.0), values)
    assert answers.held.tolist() == [len(window) for window in expected]


def test_state_is_bounded_by_the_held_tuples():
    rng = np.random.default_rng(5)
    n = 20_000
    x = np.cumsum(rng.normal(0, 1, n))[:, None]
    operator = DeltaWindowAggregate(5.0, 0, [Aggregate("avg", 0)])
    held = operator.process(np.zeros(n, int), np.arange(n + 1), rng.random(n), x).held
    assert len(operator.snapshot()) < 64 * held[-1] + 3000


def test_other_arguments_are_refused():
    one = [Aggregate("count")]
    with pytest.raises(ValueError, match="`delta` must be a finite distance"):
        DeltaWindowAggregate(-1.0, 0, one)
    with pytest.raises(ValueError, match=r"`threshold` must lie in \(0, 1\]"):
        DeltaWindowAggregate(1.0, 0, one, threshold=0.0)
    with pytest.raises(ValueError, match="at least one aggregate"):
        DeltaWindowAggregate(1.0, 0, [])
    operator = DeltaWindowAggregate(1.0, 0, one)
    with pytest.raises(ValueError, match="`prob` must have probabilities"):
        operator.process(np.zeros(1, int), np.array([0, 1]), np.array([0.0]), np.ones((1, 1)))
    with pytest.raises(SnapshotError):
        DeltaWindowAggregate.restore(b"nothing")


@pytest.mark.parametrize("n", [3, 7, 10, 49])
def test_a_threshold_of_one_evicts_what_is_too_far_in_every_world(n):
    """The masses of n equally probable alternatives do not sum to 1 in floats."""
    rng = np.random.default_rng(n)
    for threshold, rare, held in ((1.0, 0.0, [1]), (1.0, 1e-9, [0, 1]), (0.999, 0.0, [1])):
        weights = rng.dirichlet(np.ones(n))
        tuples = [
            [(w / weights.sum(), (float(k),)) for k, w in enumerate(weights)],
            [(float((1 - rare) / n), (100.0 + k,)) for k in range(n)],
        ]
        operator = DeltaWindowAggregate(5.0, 0, [Aggregate("count", 0)], threshold=threshold)
        prob = np.array([p for t in tuples for p, _ in t])
        values = np.array([v for t in tuples for _, v in t])
        result = operator.process(np.zeros(2, np.int64), n * np.arange(3), prob, values)
        assert result.held.tolist()[-1] == len(held), (threshold, rare)
