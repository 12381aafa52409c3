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
    at_least,
    brute_force,
    held,
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


def crowded_out(stream, window, span, probability):
    """Return how many tuples leave one key's windows only because of `max_tuples`."""
    windows, out = ([], []), 0
    for i, (side, now) in enumerate(zip(stream.side.tolist(), stream.time.tolist(), strict=True)):
        for each in windows:
            each[:] = [(time, exists) for time, exists in each if time > now - span]
        own = windows[side]
        own.append((now, held(stream, i)[1]))
        rows, evict_at = window.rows or len(own), min(window.confidence, 1 - probability)
        while len(own) > rows and at_least([exists for _, exists in own[1:]], rows) >= evict_at:
            del own[0]
        if len(own) > window.max_tuples:
            del own[0]
            out += 1
    return out


@pytest.mark.parametrize(("rows", "most"), [(None, 5), (10, 12), (10, 7)])
@pytest.mark.parametrize("span", [20, 60])
def test_overflow_counts_only_tuples_within_the_time_window(rows, most, span):
    stream = random_stream(most, 400, 1)
    time = np.cumsum(np.random.default_rng(span).integers(0, 5, 400))
    stream = replace(stream, time=time)
    window = JoinWindow(rows, 0.95, most, f"{span} us")
    expected = crowded_out(stream, window, span, 0.1)
    assert expected > 0
    for cuts, saved in ((), False), (range(0, 400, 7), False), (range(0, 400, 7), True):
        _, join = in_parts(SimilarityJoin(1, 1.0, 0.1, window), stream, cuts, saved)
        assert join.overflow == expected


def test_max_tuples_of_certain_tuples_equals_rows():
    stream = random_stream(2, 300, 1)
    total = np.repeat(np.add.reduceat(stream.prob, stream.offsets[:-1]), np.diff(stream.offsets))
    stream = replace(stream, prob=stream.prob / total, time=np.arange(300))
    bounded, plain = (
        SimilarityJoin(1, 1.0, 0.1, JoinWindow(**of), output="changes")
        for of in ({"max_tuples": 7, "span": "90 us"}, {"rows": 7, "span": "90 us"})
    )
    assert_same(in_parts(bounded, stream, [50])[0], in_parts(plain, stream, [50])[0])


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
