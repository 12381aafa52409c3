"""Short windows of many groups are moved together: no answer, and nothing saved, tells."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.operators.laws.aggregate import Aggregate
from sfumato.operators.windows.count import short_windows
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate

MOVED = [
    *(
        Aggregate(function, attribute)
        for function in ("sum", "avg", "count")
        for attribute in (0, 1)
    ),
    Aggregate("count"),
]
VALUES = {
    "few": [1.0, 2.0, 3.0],
    "missing": [-1.0, 4.0, math.nan],
    "close and large": [1e6 + 0.25, 1e6 + 0.5, 1e6 - 3.0],
    "outgrown": [1.0, 1.5, 50.0, 1e20],
    "none": [math.nan],
}
EXISTENCES = {
    "certain": [1.0],
    "ordinary": [0.25, 0.5, 0.9, 1.0],
    "low": [0.01, 0.05],
    "tiny": [1e-12, 2.0**-30, 1.0],
    "low, then certain": [0.02, 0.02, 0.02, 1.0],
}


def arrivals(rng, n, groups, values, existences):
    """codes, offsets, prob, values of n tuples."""
    offsets = np.concatenate([[0], np.cumsum(rng.integers(1, 4, n))])
    shares = rng.integers(1, 5, offsets[-1]).astype(float)
    shares /= np.repeat(np.add.reduceat(shares, offsets[:-1]), np.diff(offsets))
    existence = rng.choice(existences, n)
    return (
        rng.integers(0, groups, n),
        offsets,
        shares * np.repeat(existence, np.diff(offsets)),
        rng.choice(values, (offsets[-1], 2)),
    )


def answers(window, batches, forgotten, restart):
    """Bytes of all answers, what overflowed, and all snapshots."""
    found = []
    for number, batch in enumerate(batches):
        if number == restart:
            window = window.restore(window.snapshot())
        if number == forgotten:
            window.forget([1, 2])
        out = window.process(*batch)
        parts = [out.held]
        for of in out.results:
            parts += [of.mean, of.stddev, of.existence, of.quantiles, of.error]
        found.append([np.ascontiguousarray(part).tobytes() for part in parts])
        found.append([window.overflow, window.snapshot()])
    return found


@examples(300)
@given(
    seed=st.integers(0, 2**32 - 1),
    sizes=st.lists(st.sampled_from([1, 2, 5, 20, 150]), min_size=1, max_size=8),
    groups=st.integers(1, 6),
    rows=st.sampled_from([1, 2, 3, 7, 20, 60, 128]),
    confidence=st.sampled_from([0.05, 0.5, 0.9, 0.999, 1.0]),
    max_tuples=st.sampled_from([None, None, 1, 4, 30]),
    asked=st.lists(st.sampled_from(MOVED), min_size=1, max_size=4),
    values=st.sampled_from(list(VALUES)),
    existences=st.sampled_from(list(EXISTENCES)),
    stops=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    most=st.sampled_from([0, 3, 40, short_windows.MOST_HELD]),
)
def test_groups_moved_together_answer_and_are_saved_as_those_moved_alone(
    seed, sizes, groups, rows, confidence, max_tuples, asked, values, existences, stops, most
):
    rng = np.random.default_rng(seed)
    of = groups, VALUES[values], EXISTENCES[existences]
    batches = [arrivals(rng, size, *of) for size in sizes]
    found = []
    for together in (True, False):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(short_windows, "MOST_HELD", most)
            if not together:
                patched.setattr(short_windows, "MOST_ROWS", 0)
            window = CountWindowAggregate(rows, confidence, asked, max_tuples=max_tuples)
            assert (window._short is not None) == together
            found.append(answers(window, batches, *stops))
    assert found[0] == found[1]
