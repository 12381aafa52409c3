"""Multi-top-k over a stream: every answer equals its window's, computed from scratch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from operator_subjects import SEMANTICS
from seeds import examples
from sfumato import engine_free
from sfumato.operators.ranking.ranked_items import checked_items
from sfumato.operators.ranking.schedule import Schedule
from sfumato.operators.ranking.semantics import Semantics
from sfumato.operators.ranking.top_k_windows import TopKWindows, renamed_queries
from sfumato.operators.state.snapshot import SnapshotError

QUERIES = {"a": (1, 6), "b": (3, 10), "c": (2, 25)}
NONE = np.iinfo(np.int64).min


def stream(seed, n=60, alternatives=False, rules=False, late=0.0, pace=4):
    """Return random arrivals: (time, scores, probabilities, rule or -1, group) per tuple."""
    rng = np.random.default_rng(seed)
    time = np.cumsum(rng.integers(0, pace, n)) + 1_000
    time = np.where(rng.random(n) < late, time - rng.integers(1, 30, n), time)
    tuples = []
    for i in range(n):
        count = int(rng.integers(1, 4)) if alternatives else 1
        prob = rng.random(count) * 0.9 / count + 0.01
        rule = int(rng.integers(0, 8)) if rules and rng.random() < 0.5 else -1
        if rule >= 0:
            prob = prob / 4
        scores = rng.integers(0, 9, count).astype(float)
        tuples.append((int(time[i]), scores, prob, rule, int(rng.integers(0, 4))))
    return tuples


def extend(window, tuples, keys=None):
    counts = [len(scores) for _, scores, *_ in tuples]
    return window.extend(
        np.array([time for time, *_ in tuples], dtype=np.int64),
        scores=np.concatenate([[], *(scores for _, scores, *_ in tuples)]),
        prob=np.concatenate([[], *(prob for _, _, prob, *_ in tuples)]),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        exclusive=np.array([rule for *_, rule, _ in tuples], dtype=np.int64),
        group=np.array([number for *_, number in tuples], dtype=np.int64),
        key=keys,
    )


def table(answers, which=slice(None)):
    """Return rows of answers as tuples, with the names of queries."""
    columns = [column[which].tolist() for column in answers[2:-2]]
    names = [answers.names[query] for query in columns[0]]
    return list(zip(names, *columns[1:], strict=True))


def from_scratch(
    tuples, queries, semantics=SEMANTICS[0], *, length=None, rows=None, plan="dp", advance=None
):
    """Return answers, one query and instant at a time, from the definition of the windows."""
    unit = int(np.gcd.reduce([every for _, every in queries.values()]))
    schedule = Schedule(queries, tuples[0][0] // unit * unit, plan)
    answers, newest = [], NONE
    for i in range(len(tuples) + 1):
        if i < len(tuples):
            newest = max(newest, tuples[i][0])
        elif advance is not None:
            newest = max(newest, advance)
        for due in schedule.take(newest):
            inside = [
                j for j in range(i) if length is None or 0 < due.time - tuples[j][0] <= length
            ]
            inside = inside if rows is None else inside[-rows:]
            for name in due.queries:
                about = name, queries[name][0], due.time, newest
                answers += answer(semantics, *about, tuples, inside)
    return answers


def answer(semantics, name, k, time, answered, tuples, inside):
    scores = np.concatenate([[], *(tuples[j][1] for j in inside)])
    prob = np.concatenate([[], *(tuples[j][2] for j in inside)])
    owner = [place for place, j in enumerate(inside) for _ in tuples[j][1]]
    rules = [tuples[inside[place]][3] for place in owner]
    owner, rules = np.array(owner, dtype=np.int64), np.array(rules, dtype=np.int64)
    found = semantics.rank(checked_items(scores, prob, rules, owner), np.array([k]))
    rows = []
    for rank, (place, chance) in enumerate(zip(found.tuples, found.value, strict=True), start=1):
        if place < 0:
            continue
        _, own, weights, *_ = tuples[inside[place]]
        score = own[np.argmax(weights)]
        rows.append((name, k, time, answered, rank, inside[place], -1, score, chance))
    return rows


def same(got, expected):
    assert [row[:-1] for row in got] == [row[:-1] for row in expected]
    np.testing.assert_allclose([row[-1] for row in got], [row[-1] for row in expected], atol=1e-12)


@examples(60)
@given(
    st.integers(0, 10**6),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.0, 0.2]),
    st.sampled_from(["dp", "greedy", "none"]),
    st.integers(1, 50),
    st.sampled_from([2, 4, 40]),
    st.sampled_from(SEMANTICS),
)
def test_answers_over_a_range_are_those_of_its_tuples(
    seed, alternatives, rules, late, plan, length, pace, semantics
):
    tuples = stream(seed, 40, alternatives, rules, late, pace)
    queries = QUERIES | {"all": (3 if semantics.name == "u_topk" else 50, 50)}
    window = TopKWindows(queries, length=length, plan=plan, semantics=semantics)
    got = table(extend(window, tuples))
    end = tuples[-1][0] + 100
    got += table(window.advance(end))
    expected = from_scratch(tuples, queries, semantics, length=length, plan=plan, advance=end)
    same(got, expected)


@examples(40)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.0, 0.2]), st.integers(1, 50))
def test_answers_over_the_newest_rows_are_those_of_these_rows(seed, alternatives, late, rows):
    tuples = stream(seed, 40, alternatives, late=late)
    window = TopKWindows(QUERIES, rows=rows)
    got = table(extend(window, tuples))
    end = tuples[-1][0] + 30
    got += table(window.advance(end))
    same(got, from_scratch(tuples, QUERIES, rows=rows, advance=end))


def test_time_that_advances_without_tuples_gives_answers():
    window = TopKWindows({"q": (1, 10)}, rows=5)
    window.extend([3], scores=[1.0], prob=[0.5])
    assert window.due.tolist() == [10]
    assert window.advance(9).time.size == 0
    assert window.advance(35).time.tolist() == [10, 20, 30]
    assert window.due.tolist() == [40]


def test_a_long_silence_costs_nothing():
    window = TopKWindows({"q": (1, 10)}, length=20)
    window.extend([3], scores=[1.0], prob=[0.5])
    answers = window.extend([3 + 10**15], scores=[1.0], prob=[0.5])
    assert answers.time.tolist() == [10, 20]
    assert window.executions == 2
    assert window.due.tolist() == [10**15 + 10]


def test_one_run_answers_all_queries_that_are_due():
    window = TopKWindows({"a": (3, 2), "b": (4, 3), "c": (5, 5)}, length=100, start=0)
    answers = window.extend(np.arange(9), scores=np.arange(9.0), prob=np.full(9, 0.5))
    assert window.executions == 4  # at 2, 4, 6 and 8: plan {(2, G2), (4, G3)} of D
    assert window.cost == 4 + 5 + 4 + 5
    pairs = zip(answers.time.tolist(), answers.query.tolist(), strict=True)
    due = sorted({(time, answers.names[query]) for time, query in pairs})
    assert due[:5] == [(2, "a"), (2, "b"), (4, "a"), (4, "b"), (4, "c")]
    assert due[5:] == [(time + 4, name) for time, name in due[:5]]


def test_only_one_window_is_kept():
    window = TopKWindows(QUERIES, length=50)
    for seed in range(20):
        tuples = [(time + 200 * seed, *rest) for time, *rest in stream(seed)]
        extend(window, tuples)
        assert window.held.size <= 61
        assert len(window.snapshot()) < 12_000


def test_a_tuple_that_overfills_its_rule_is_left_out_and_named():
    window = TopKWindows({"q": (2, 10)}, length=100)
    answers = window.extend(
        [0, 1, 2, 3], scores=[4, 3, 2, 1], prob=[0.6] * 4, exclusive=[7, 7, 7, -1]
    )
    assert answers.rejected.size == 0
    answers = window.advance(20)
    assert answers.rejected.tolist() == [1, 2]  # once, although two instants passed
    assert answers.id.tolist() == [0, 3, 0, 3]
    assert window.rejected == 2


def test_tuples_left_out_count_among_the_newest_rows_in_any_calls():
    time, rules = np.array([0, 1, 2, 3, 4, 35]), np.array([-1, -1, 7, 7, 7, -1])

    def rows_of(calls):
        window, rows, rejected = TopKWindows({"q": (2, 10)}, rows=3), [], []
        for some in calls:
            prob = np.full(len(some), 0.6)
            answers = window.extend(
                time[some], scores=6.0 - time[some], prob=prob, exclusive=rules[some]
            )
            rows += answers.id.tolist()
            rejected += answers.rejected.tolist()
        assert rejected == [3, 4]
        return rows

    assert rows_of([list(range(6))]) == [2, 2, 2]  # 3 and 4 are left out, and 0 and 1 do not return
    assert rows_of([[i] for i in range(6)]) == [2, 2, 2]


def test_streams_are_ranked_by_the_sum_over_their_tuples():
    scores, prob, streams = [9, 8, 7, 6, 5], [0.5, 0.5, 0.5, 0.5, 1.0], [2, 0, 2, 1, 0]
    single = engine_free.top_k_probabilities(scores, prob, k=2)
    sums = [single[1] + single[4], single[3], single[0] + single[2]]
    best = engine_free.top_k_streams(scores, prob, streams, k=2)
    assert best.indices.tolist() == [2, 0]
    np.testing.assert_allclose(best.probability, [sums[2], sums[0]], atol=1e-12)

    window = TopKWindows({"q": (2, 10)}, length=10, streams=True)
    window.extend(np.arange(5), scores=scores, prob=prob, group=streams)
    assert window.advance(10).id.tolist() == [0, 1 if single[1] > single[4] else 4]


def test_queries_with_a_probability_answer_next_to_others_as_alone():
    tuples = stream(7, 80, alternatives=True, rules=True)
    queries = {"best": (3, 10), "sure": (3, 10), "wide": (9, 10), "likely": (9, 10), "few": (3, 10)}
    least = {"sure": 0.6, "likely": 0.2, "few": 0.6}
    window = TopKWindows(queries, length=30, least=least)
    window = TopKWindows.restore(window.snapshot())
    got = table(extend(window, tuples))
    for name, query in queries.items():
        asked = Semantics("pt_k", probability=least[name]) if name in least else Semantics()
        alone = TopKWindows({name: query}, length=30, semantics=asked)
        same([row for row in got if row[0] == name], table(extend(alone, tuples)))
    of_pt_k = TopKWindows({"all": (3, 10), "sure": (3, 10)}, length=30, least={"sure": 0.6},
                          semantics=Semantics("pt_k", probability=0.3))  # fmt: skip
    both = table(extend(of_pt_k, tuples))
    alone = TopKWindows({"all": (3, 10)}, length=30, semantics=Semantics("pt_k", probability=0.3))
    same([row for row in both if row[0] == "all"], table(extend(alone, tuples)))
    assert [row[1:] for row in both if row[0] == "sure"] == [
        row[1:] for row in got if row[0] == "sure"
    ]


def test_semantics_over_a_window_are_the_functions_over_arrays():
    scores, prob = np.array([5.0, 4, 3, 2, 1]), np.array([0.5, 0.6, 0.7, 0.8, 0.9])

    def rows(semantics):
        window = TopKWindows({"q": (3, 10)}, length=10, semantics=semantics)
        window.extend(np.arange(5), scores=scores, prob=prob)
        return window.advance(10)

    expected = engine_free.expected_ranks(scores, prob)
    assert rows("expected_rank").id.tolist() == np.argsort(expected, kind="stable")[:3].tolist()
    vector = engine_free.u_topk(scores, prob, k=3)
    assert rows("u_topk").id.tolist() == vector.indices.tolist()
    assert rows("u_topk").probability.tolist() == [vector.probability] * 3
    assert rows("u_kranks").id.tolist() == engine_free.u_kranks(scores, prob, k=3).indices.tolist()
    enough = engine_free.pt_k(scores, prob, k=3, probability=0.5)
    assert rows(Semantics("pt_k", probability=0.5)).id.tolist() == enough.indices.tolist()


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="`queries` must be pairs"):
        TopKWindows({"a": (0, 1)}, length=1)
    with pytest.raises(ValueError, match='`semantics` must be one of "pk_topk"'):
        TopKWindows(QUERIES, length=1, semantics="best")
    with pytest.raises(ValueError, match='only with the semantics "pk_topk" and "pt_k"'):
        TopKWindows({"a": (1, 1)}, length=1, least={"a": 0.5}, semantics="u_topk")
    with pytest.raises(ValueError, match='"pt_k" needs `probability`'):
        TopKWindows(QUERIES, length=1, semantics="pt_k")
    with pytest.raises(ValueError, match='"prf" needs `weights`'):
        Semantics("prf")
    with pytest.raises(ValueError, match="`alpha` is allowed only with"):
        Semantics("pk_topk", alpha=0.5)
    with pytest.raises(ValueError, match="streams can be ranked only by"):
        TopKWindows(QUERIES, length=1, semantics="u_topk", streams=True)
    with pytest.raises(ValueError, match="`group` must be 1 integers"):
        engine_free.top_k_streams([1], [1], [0.5], k=1)
    with pytest.raises(SnapshotError):
        TopKWindows.restore(b"no snapshot")


def test_a_query_that_asks_the_same_under_another_name_is_the_same():
    known = {"top_3": (3, 2), "top_2": (2, 5)}
    assert renamed_queries(known, {"best": (3, 2), "top_2": (2, 5)}) == {"top_3": "best"}
    assert renamed_queries(known, {"best": (3, 4), "top_2": (2, 5)}) == {}
    assert renamed_queries({"top_3": (3, 2)}, {"top_3": (3, 2), "best": (3, 2)}) == {}
    assert renamed_queries({"a": (3, 2), "b": (3, 2)}, {"c": (3, 2)}) == {"a": "c"}
