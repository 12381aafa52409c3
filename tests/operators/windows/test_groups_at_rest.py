"""Of many groups of windows only some are ready for arrivals: no answer tells which."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.operators.laws.aggregate import Aggregate
from sfumato.operators.windows import grouped_windows
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from sfumato.operators.windows.delta_window_aggregate import DeltaWindowAggregate
from sfumato.operators.windows.grouped_windows import RestingGroup

MANY = 10**6
ALL = [
    *(Aggregate(of, 0) for of in ("sum", "avg", "min", "max", "boundary_sum")),
    *(Aggregate("count"), Aggregate("count", 0), Aggregate("quantile", 0, 0.5)),
]


LAWS = {"quantiles": (0.1, 0.6), "distribution": 3}


def of_rows(asked=ALL):
    return CountWindowAggregate(5, 0.9, asked, samples=20, **LAWS)


def of_change():
    return DeltaWindowAggregate(1.5, 0, ALL, max_tuples=6, **LAWS)


MAKE = {
    "rows": of_rows,
    "rows, no value": lambda: of_rows([Aggregate("count")]),
    "rows, no law": lambda: CountWindowAggregate(5, 0.9, ALL[:4]),
    "change": of_change,
    "change, no law": lambda: DeltaWindowAggregate(1.5, 0, ALL[:4]),
}


def arrivals(rng, n, groups):
    """codes, offsets, prob, values of n tuples; some values are missing."""
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 3, n))])
    prob = rng.choice([0.3, 0.5, 0.45], offsets[-1])
    values = np.round(rng.normal(0, 2, (offsets[-1], 1)), 1)
    values[rng.random(offsets[-1]) < 0.1] = math.nan
    return rng.integers(0, groups, n), offsets, prob, values


def answers(make, awake, batches, restart):
    """Bytes of all answers, the last snapshot, and how many groups were ready at the end."""
    grouped_windows.AWAKE = awake
    window, found = make(), []
    for number, batch in enumerate(batches):
        if number == restart:
            window = window.restore(window.snapshot())
        out = window.process(*batch)
        parts = [out.held]
        for measured in out.results:
            parts += [measured.mean, measured.stddev, measured.existence, measured.quantiles]
        found.append([np.ascontiguousarray(part).tobytes() for part in parts])
    ready = sum(isinstance(group, RestingGroup) for group in window._groups.values())
    return found, window.snapshot(), ready


@examples(100)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.integers(1, 20), min_size=1, max_size=8),
    awake=st.integers(1, 3),
    restart=st.integers(0, 8),
    kind=st.sampled_from(list(MAKE)),
)
def test_groups_at_rest_answer_and_are_saved_as_those_that_are_ready(
    seed, sizes, awake, restart, kind
):
    rng = np.random.default_rng(seed)
    batches = [arrivals(rng, size, 5) for size in sizes]
    usual = grouped_windows.AWAKE
    try:
        expected, saved, _ = answers(MAKE[kind], MANY, batches, None)
        got, again, ready = answers(MAKE[kind], awake, batches, restart)
    finally:
        grouped_windows.AWAKE = usual
    assert got == expected
    assert again == saved
    assert ready <= awake


@pytest.mark.parametrize("make", [of_rows, of_change])
def test_a_group_at_rest_that_is_forgotten_begins_anew(monkeypatch, make):
    monkeypatch.setattr(grouped_windows, "AWAKE", 1)
    window, alone = make(), make()
    one = (np.arange(2), np.array([1.0]), np.array([[3.0]]))
    for code in (0, 1, 0, 2):
        window.process([code], *one)
    window.forget([1, 0, 7])
    (fresh,) = alone.process([0], *one).held
    for code in (1, 0):
        assert window.process([code], *one).held[0] == fresh == 1
    assert sum(isinstance(group, RestingGroup) for group in window._groups.values()) == 1
