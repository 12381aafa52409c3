"""The similarity join against its definition, in three independent ways.

- brute force: every held tuple, every pair of samples, windows by the plain recursion, in any
  dimension, with ragged samples, existence below 1, keys, both outputs and every strategy;
- possible worlds: Pr(match) by enumeration, which brute force takes for granted;
- laws: any split into calls, snapshots anywhere, and strategies that agree bit for bit.
"""

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from join_cases import arrivals_of, random_stream
from join_reference import (
    SAME,
    as_changes,
    assert_cells_lose_nothing,
    assert_every_strategy,
    assert_same,
    brute_force,
    held,
    in_parts,
    join_of,
    near_on_paper,
    strategies_for,
)
from seeds import examples
from sfumato.kernels.joins.match_probability import distance_limit
from sfumato.operators.joins.similarity_join import ArrivalBatch, SimilarityJoin
from sfumato.operators.state.snapshot import SnapshotError, pack, unpack
from sfumato.windows import JoinWindow
from worlds import worlds

joins = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "n": st.integers(1, 110),
        "dimensions": st.integers(1, 3),
        "keys": st.integers(1, 4),
        "within": st.sampled_from([0.3, 1.0, 2.5]),
        "probability": st.sampled_from([0.03, 0.2, 0.5, 0.8, 0.95, 1.0]),
        "rows": st.integers(1, 25),
        "confidence": st.sampled_from([0.5, 0.9, 0.99]),
    }
)


@examples(50)
@given(joins, st.sampled_from(["append", "changes"]), st.data())
def test_every_strategy_equals_brute_force_in_any_split_and_across_snapshots(case, output, data):
    d = case["dimensions"]
    stream = random_stream(case["seed"], case["n"], d, case["keys"])
    criteria = [case[name] for name in ("within", "probability", "rows", "confidence")]
    expected = brute_force(stream, *criteria)
    assert_every_strategy(data, stream, expected, partial(join_of, d, *criteria), output)


@examples(50)
@given(
    joins,
    st.sampled_from(["append", "changes"]),
    st.sampled_from([0.55, 2.05, 4.05]),  # values are multiples of 0.1
    st.sampled_from([0.1, 0.5, 0.9]),
    st.sampled_from([None, 3]),
    st.data(),
)
def test_attribute_delta_windows_equal_brute_force_in_any_split_and_across_snapshots(
    case, output, delta, threshold, most, data
):
    d, on = case["dimensions"], case["seed"] % case["dimensions"]
    stream = random_stream(case["seed"], case["n"], d, case["keys"])
    criteria = case["within"], min(case["probability"], 0.95)  # 1 is too near its rounding
    expected = brute_force(stream, *criteria, None, 1.0, most, delta=(delta, on, threshold))
    window = JoinWindow(max_tuples=most, delta=delta, on=on, threshold=threshold)
    make = partial(SimilarityJoin, d, *criteria, window)
    assert_every_strategy(data, stream, expected, make, output)


@pytest.mark.parametrize(
    ("dimensions", "drift", "rows", "extent"),
    [(1, 0.0, 150, 400.0), (1, 5.0, 100, 30.0), (2, 0.0, 150, 40.0), (3, 0.05, 120, 6.0)],
)
def test_cells_and_windows_that_move_lose_no_answer(dimensions, drift, rows, extent):
    stream = random_stream(7, 900, dimensions, 2, most=3, extent=extent, drift=drift)
    make = partial(join_of, dimensions, 2.0, 0.3, rows, 0.9)
    nested, join = assert_cells_lose_nothing(stream, make)
    assert join.counters["pairs"] == nested.counters["pairs"]


def test_many_dimensions_are_searched_along_three_of_them():
    stream = random_stream(3, 400, 6, extent=8.0, noise=0.5)
    expected = as_changes(join_of(6, 3.0, 0.2, 120, 0.9, strategy="nested").process(stream))
    assert expected
    assert as_changes(join_of(6, 3.0, 0.2, 120, 0.9).process(stream)) == expected


# Possible worlds: an arrival u = (1/2: 0, 1/4: 4) against v_0, v_1, v_2 with these samples, w = 1.
WORLDS = [
    [(0.5, [0.0]), (0.5, [9.0])],
    [(0.25, [1.0]), (0.25, [5.0])],
    [(0.5, [0.5])],
]
ARRIVAL = [(0.5, [0.0]), (0.25, [4.0])]


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_match_probabilities_are_shares_of_possible_worlds(rows):
    share = dict.fromkeys(range(3), 0.0)
    held = [[(p, (j, x)) for p, (x,) in samples] for j, samples in enumerate(WORLDS)]
    for weight, there in worlds(held, rows):
        for chance, (arrived,) in ((p, u) for p, u in worlds([ARRIVAL]) if u):
            for j, x in there:
                if abs(arrived[0] - x) <= 1.0:
                    share[j] += float(weight * chance)
    stream = arrivals_of([1, 1, 1, 0], [0] * 4, [*WORLDS, ARRIVAL], 1)
    # A confidence of 0.99 holds all of them, because only the oldest is certain to exist.
    answers = join_of(1, 1.0, 1e-9, rows, 0.99).process(stream)
    got = dict(zip(answers.right.tolist(), answers.probability.tolist(), strict=True))
    assert got == pytest.approx({j: p for j, p in share.items() if p > 0}, abs=SAME)


def test_distance_and_probability_are_inclusive_although_sums_round():
    ten = [(0.1, [float(i)]) for i in range(10)]
    one = [(1.0, [4.0])]
    for strategy in strategies_for(1):
        join = join_of(1, 2.0, 0.5, 5, 0.9, strategy=strategy)
        answers = join.process(arrivals_of([0, 1], [0, 0], [ten, one], 1))
        assert answers.probability.tolist() == [0.5]  # samples 2, 3, 4, 5 and 6
    # A sum that misses the threshold by a share of 1e-12 reaches it, in any order of the terms.
    rng = np.random.default_rng(0)
    for count in (3, 5, 7, 10):
        for _ in range(40):
            u, v = (np.round(rng.normal(0, 1, count), 2) for _ in range(2))
            plain, p = 0.0, 1 / count
            for x in v:
                for y in u:
                    if near_on_paper([x], [y], 1.0):
                        plain += p * p
            if not 0 < plain <= 1:
                continue
            stream = arrivals_of([0, 1], [0, 0], [[(p, [x]) for x in t] for t in (u, v)], 1)
            tie, above = plain * (1 + 0.9e-12), plain * (1 + 1.1e-12)
            for threshold, found in ((plain, 1), (min(1.0, tie), 1), (min(1.0, above), plain == 1)):
                for strategy in ("nested", "index", "sort"):
                    join = join_of(1, 1.0, threshold, 5, 0.9, strategy=strategy)
                    assert len(join.process(stream)) == found


@given(st.floats(1e-150, 1e150), st.integers(2, 5))
def test_the_squared_limit_is_the_rooted_comparison(within, dimensions):
    limit = distance_limit(within, dimensions)
    assert math.sqrt(limit) <= within
    assert limit == np.finfo(float).max or math.sqrt(math.nextafter(limit, math.inf)) > within
    assert distance_limit(within, 1) == within


def test_current_answers_are_the_sum_of_the_changes():
    stream = random_stream(2, 300, 2, 3)
    join = join_of(2, 2.0, 0.3, 8, 0.9, output="changes")
    current = {}
    for begin in range(0, 300, 30):
        changes = as_changes(join.process(stream.part(begin, begin + 30)))
        for _, change, left, right, *contents in changes:
            if change > 0:
                assert (left, right) not in current
                current[left, right] = contents
            else:
                assert current.pop((left, right)) == contents  # the same contents are removed
        now = as_changes(join.current)
        assert {(left, right): [*rest] for _, _, left, right, *rest in now} == current
        assert {left for left, _ in current} <= set(join.live_numbers(0).tolist())
        assert {right for _, right in current} <= set(join.live_numbers(1).tolist())
    assert len(join.live_numbers(0)) + len(join.live_numbers(1)) == join.counters["held"] < 200


def test_a_window_becomes_uncertain_with_the_first_uncertain_tuple():
    stream = random_stream(9, 200, 1, most=3)
    existence = np.repeat([held(stream, i)[1] for i in range(200)], np.diff(stream.offsets))
    early = np.arange(stream.prob.size) < stream.offsets[80]
    prob = np.where(early, stream.prob / existence, stream.prob)
    stream = ArrivalBatch(stream.side, stream.key, stream.offsets, prob, stream.points)
    criteria = (1.0, 0.2, 15, 0.95)
    expected = brute_force(stream, *criteria)
    for saved in (False, True):
        join = join_of(1, *criteria, output="changes")
        assert_same(in_parts(join, stream, [40, 79, 80, 81, 150], saved)[0], expected)


def test_a_tuple_without_samples_has_a_number_but_never_enters():
    stream = arrivals_of([0, 0, 1, 1], [0] * 4, [[], [(1.0, [1.0])], [], [(1.0, [1.0])]], 1)
    join = join_of(1, 1.0, 0.5, 1, 0.9)
    answers = join.process(stream)
    assert [*answers.arrival, *answers.left, *answers.right] == [3, 1, 1]
    assert join.counters["tuples"] == 4


def test_rounded_probabilities_of_a_certain_tuple_make_a_certain_tuple():
    third = [(1 / 49, [float(i)]) for i in range(49)]  # the sum in floats is below 1
    stream = arrivals_of([0] * 6, [0] * 6, [third] * 6, 1)
    join = join_of(1, 1.0, 0.5, 2, 1.0)
    join.process(stream)
    assert join.live_numbers(0).tolist() == [4, 5]


def test_a_probability_of_one_asks_for_certain_pairs():
    sure, unsure = [(1.0, [0.0])], [(0.9, [0.0])]
    # The tuple before the uncertain one is certainly among the newest two; the first one is not.
    stream = arrivals_of([0, 0, 0, 1], [0] * 4, [sure, sure, unsure, sure], 1)
    answers = join_of(1, 1.0, 1.0, 2, 0.95).process(stream)
    assert answers.left.tolist() == [1]


def test_more_arrivals_than_a_chunk_are_one_batch():
    rng = np.random.default_rng(8)
    n = 20_000
    stream = ArrivalBatch(
        side=rng.integers(0, 2, n).astype(np.uint8),
        key=rng.integers(0, 50, n),
        offsets=np.arange(n + 1),
        prob=np.ones(n),
        points=rng.uniform(0, 100, (n, 1)),
    )
    whole = join_of(1, 1.0, 0.5, 30, 0.9).process(stream)
    nested = join_of(1, 1.0, 0.5, 30, 0.9, strategy="nested")
    changes, _ = in_parts(nested, stream, [3000, 9000, 15_000])
    assert as_changes(whole) == changes


def test_a_pruned_search_visits_few_of_the_pairs():
    stream = random_stream(1, 3000, 1, extent=3000.0)
    join = join_of(1, 1.0, 0.3, 500, 0.9)
    join.process(stream)
    counters = join.counters
    assert counters["answers"] <= counters["candidates"] <= counters["visited"]
    assert counters["visited"] < 0.05 * counters["pairs"]


GOOD = {"dimensions": 1, "within": 1.0, "probability": 0.5, "rows": 5, "confidence": 0.9}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"within": 0.0}, "`within` must be a positive"),
        ({"within": math.nan}, "`within` must be a positive"),
        ({"probability": 0.0}, "`probability` must be a probability"),
        ({"probability": 1.5}, "`probability` must be a probability"),
        ({"confidence": -0.1}, r"`confidence` must lie in \(0, 1\]"),
        ({"rows": 0}, "`rows` must be an integer"),
        ({"rows": 2.5}, "`rows` must be an integer"),
        ({"dimensions": 0}, "`dimensions` must be an integer"),
        ({"max_tuples": 0}, "`max_tuples` must be None or an integer"),
        ({"strategy": "hash"}, "`strategy` must be one of auto, nested, index, sort"),
        ({"output": "all"}, "`output` must be one of append, changes"),
        ({"dimensions": 2, "strategy": "sort"}, 'Use "index"'),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(wrong, message):
    with pytest.raises(ValueError, match=message):
        join_of(**(GOOD | wrong))


def test_attribute_delta_windows_have_one_task():
    with pytest.raises(ValueError, match=r"`tasks` must be 1 for windows of sf.Delta; got 2"):
        SimilarityJoin(1, 1.0, 0.5, JoinWindow(delta=1.0), task=0, tasks=2)


def test_event_times_far_from_1970_are_refused_and_nothing_is_taken():
    arrivals = ArrivalBatch(
        np.array([0, 1], np.uint8), np.zeros(2, np.int64), np.arange(3), np.ones(2),
        np.zeros((2, 1)), time=np.array([0, 2**60 + 1]),
    )  # fmt: skip
    join = SimilarityJoin(1, 1.0, 0.5, JoinWindow(span="9 us"))
    with pytest.raises(ValueError, match=r"`time` must lie within 2\*\*60 microseconds of 1970"):
        join.process(arrivals)
    assert join.counters["tuples"] == 0
    arrivals.time[1] = 1
    assert len(join.process(arrivals)) == 1


def test_a_damaged_key_does_not_ask_for_the_memory_of_a_billion_windows():
    join = join_of(**GOOD)
    join.process(random_stream(3, 30, 1, 2))
    saved = unpack(join.snapshot(), "similarity_join", SimilarityJoin.version)
    saved.arrays["tuples.code"][-1] = 2**31
    damaged = pack("similarity_join", SimilarityJoin.version, saved)
    with pytest.raises(SnapshotError, match="far above the number of tuples"):
        SimilarityJoin.restore(damaged)
