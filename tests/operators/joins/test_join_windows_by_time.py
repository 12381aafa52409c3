"""The similarity join over time windows, against brute force."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from join_cases import random_stream
from join_reference import (
    assert_every_strategy,
    assert_same,
    brute_force,
    in_parts,
)
from seeds import examples
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.windows import JoinWindow, Range


@examples(40)
@given(
    st.integers(0, 10**6),
    st.integers(1, 3),
    st.tuples(*[st.tuples(*[st.none() | st.integers(1, 30) for _ in range(2)]) for _ in range(2)]),
    st.sampled_from(["append", "changes"]),
    st.sampled_from([0.05, 0.3, 0.8]),
    st.data(),
)
def test_windows_by_time_equal_brute_force_under_every_strategy(
    seed, d, windows, output, probability, data
):
    rng = np.random.default_rng(seed)
    stream = random_stream(seed, 90, d, 2)
    total = np.repeat(np.add.reduceat(stream.prob, stream.offsets[:-1]), np.diff(stream.offsets))
    time = np.cumsum(rng.integers(0, 4, 90)) - rng.integers(0, 6, 90) * (rng.random(90) < 0.1)
    stream = replace(stream, prob=stream.prob / total, time=time)
    rows, spans = zip(*windows, strict=True)
    expected = brute_force(stream, 1.5, probability, rows, 0.9, spans=spans)
    chosen = [
        Range(f"{span} us")
        if count is None and span is not None
        else JoinWindow(rows=count, span=span and f"{span} us")
        for count, span in windows
    ]
    make = partial(SimilarityJoin, d, 1.5, probability, chosen)
    assert_every_strategy(data, stream, expected, make, output)


@pytest.mark.parametrize(("rows", "most"), [(None, 5), (10, 12), (10, 7)])
@pytest.mark.parametrize("span", [20, 60])
def test_overflow_counts_only_tuples_within_the_time_window(rows, most, span):
    stream = random_stream(most, 400, 1)
    time = np.cumsum(np.random.default_rng(span).integers(0, 5, 400))
    stream = replace(stream, time=time)
    window = JoinWindow(rows, 0.95, most, f"{span} us")
    crowded = []
    expected = brute_force(stream, 1.0, 0.1, rows, 0.95, most, spans=(span, span), crowded=crowded)
    assert crowded
    for cuts, saved in ((), False), (range(0, 400, 7), False), (range(0, 400, 7), True):
        join = SimilarityJoin(1, 1.0, 0.1, window, output="changes")
        found, join = in_parts(join, stream, cuts, saved)
        assert_same(found, expected)
        assert join.overflow == len(crowded)


def test_windows_by_time_stay_small_and_need_times():
    stream = replace(random_stream(3, 3000, 2), time=np.arange(3000))
    join = SimilarityJoin(2, 1.0, 0.5, Range("50 us"), output="changes")
    join.process(stream)
    assert join.counters["held"] < 51
    assert len(join.snapshot()) < 40_000
    with pytest.raises(ValueError, match="time windows need `time`"):
        join.process(replace(stream, time=None))
    with pytest.raises(ValueError, match="with only a length"):
        SimilarityJoin(2, 1.0, 0.5, Range("50 us", slide="10 us"))
    with pytest.raises(TypeError, match=r"must be sf.Rows\(500\), .* or a pair of them"):
        SimilarityJoin(2, 1.0, 0.5, 50)
