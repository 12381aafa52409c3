"""Of many groups of a count window only some are ready for arrivals: no answer tells which."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.operators.laws.aggregate import Aggregate
from sfumato.operators.windows.count import count_window_aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate

MANY = 10**6
ALL = [
    *(Aggregate(of, 0) for of in ("sum", "avg", "min", "max", "boundary_sum")),
    *(Aggregate("count"), Aggregate("count", 0), Aggregate("quantile", 0, 0.5)),
]


def operator():
    return CountWindowAggregate(5, 0.9, ALL, quantiles=(0.1, 0.6), distribution=3, samples=20)


def arrivals(rng, n, groups):
    """codes, offsets, prob, values of n tuples; some values are missing."""
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 3, n))])
    prob = rng.choice([0.3, 0.5, 0.45], offsets[-1])
    values = np.round(rng.normal(0, 2, (offsets[-1], 1)), 1)
    values[rng.random(offsets[-1]) < 0.1] = math.nan
    return rng.integers(0, groups, n), offsets, prob, values


def answers(awake, batches, restart):
    """Bytes of all answers, the last snapshot, and how many groups were ready at the end."""
    count_window_aggregate.AWAKE = awake
    window, found = operator(), []
    for number, batch in enumerate(batches):
        if number == restart:
            window = window.restore(window.snapshot())
        out = window.process(*batch)
        parts = [out.held]
        for measured in out.results:
            parts += [measured.mean, measured.stddev, measured.existence, measured.quantiles]
        found.append([np.ascontiguousarray(part).tobytes() for part in parts])
    ready = sum(group.moving is not None for group in window.groups)
    return found, window.snapshot(), ready


@examples(40)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=8),
    awake=st.integers(1, 3),
    restart=st.integers(0, 8),
)
def test_groups_at_rest_answer_and_are_saved_as_those_that_are_ready(seed, sizes, awake, restart):
    rng = np.random.default_rng(seed)
    batches = [arrivals(rng, size, 5) for size in sizes]
    usual = count_window_aggregate.AWAKE
    try:
        expected, saved, _ = answers(MANY, batches, None)
        got, again, ready = answers(awake, batches, restart)
    finally:
        count_window_aggregate.AWAKE = usual
    assert got == expected
    assert again == saved
    assert ready <= awake


def test_a_group_at_rest_that_is_forgotten_begins_anew(monkeypatch):
    monkeypatch.setattr(count_window_aggregate, "AWAKE", 1)
    window, alone = operator(), operator()
    one = (np.arange(2), np.array([1.0]), np.array([[3.0]]))
    for code in (0, 1, 0, 2):
        window.process([code], *one)
    window.forget([1, 0, 7])
    (fresh,) = alone.process([0], *one).held
    for code in (1, 0):
        assert window.process([code], *one).held[0] == fresh == 1
    assert sum(group.moving is not None for group in window.groups) == 1
