"""Groups move together or continue from kept state: answers and snapshots do not depend on it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.count import count_window_aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate

ASKED = [
    *(Aggregate(of, i) for of in ("sum", "avg", "count", "max", "boundary_sum") for i in (0, 1)),
    *(Aggregate("count"), Aggregate("min", 0), Aggregate("quantile", 0, 0.5), Aggregate("var", 1)),
]
LAWS = [{}, {}, {"quantiles": (0.1, 0.6), "distribution": 3, "samples": 20}]
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
    """Return (codes, offsets, prob, values) of n tuples."""
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
    """Return the bytes of all answers, with the overflow and the snapshot after each batch."""
    found = []
    for number, batch in enumerate(batches):
        if number == restart:
            window = window.restore(window.snapshot())
        if number == forgotten:
            window.forget([1, 2, 99])
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
    asked=st.lists(st.sampled_from(ASKED), min_size=1, max_size=4),
    laws=st.sampled_from(LAWS),
    values=st.sampled_from(list(VALUES)),
    existences=st.sampled_from(list(EXISTENCES)),
    stops=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    kept=st.sampled_from([0, 300_000, 10**9]),
    most=st.sampled_from([0, 3, 40]),
)
def test_answers_and_snapshots_do_not_depend_on_cached_groups(
    seed, sizes, groups, rows, confidence, max_tuples, asked, laws, values, existences, stops,
    kept, most,
):  # fmt: skip
    if existences == "low" and (rows > 7 or laws):
        rows, laws = min(rows, 7), {}  # windows of hundreds of tuples are slow
    rng = np.random.default_rng(seed)
    batches = [
        arrivals(rng, size, groups, VALUES[values], EXISTENCES[existences]) for size in sizes
    ]
    found = []
    for short_held, most_bytes, restart in ((10**9, 10**9, 99), (most, kept, stops[1])):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(count_window_aggregate, "SHORT_HELD", short_held)
            patched.setattr(count_window_aggregate, "MAX_CACHE_BYTES", most_bytes)
            window = CountWindowAggregate(rows, confidence, asked, max_tuples=max_tuples, **laws)
            found.append(answers(window, batches, stops[0], restart))
            if short_held and not most_bytes:
                assert len(window._caches) <= 1
    assert found[0] == found[1]


def test_memory_shrinks_with_the_groups():
    window = CountWindowAggregate(3, 0.9, [Aggregate("sum", 0)])
    codes = np.arange(20_000)
    window.process(codes, np.arange(20_001), np.ones(20_000), np.ones((20_000, 1)))
    most = window.nbytes
    window.forget(codes[10:])
    assert window.nbytes < most / 10
    assert window.store.codes == list(range(10))
