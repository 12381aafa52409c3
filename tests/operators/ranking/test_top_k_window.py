"""Multi-top-k over a stream: every answer is that of its window, taken from scratch."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seeds import examples
from sfumato import engine_free
from sfumato.operators.ranking.ranked_items import RuleMassError
from sfumato.operators.ranking.schedule import Schedule
from sfumato.operators.ranking.semantics import Semantics
from sfumato.operators.ranking.top_k_window import TopKWindow
from sfumato.operators.ranking.window_content import HeldTuples
from sfumato.operators.ranking.window_runs import MOST_ITEMS, arrived, moved_together
from sfumato.operators.state.snapshot import SnapshotError

QUERIES = {"a": (1, 6), "b": (3, 10), "c": (2, 25)}
NONE = np.iinfo(np.int64).min


def stream(seed, n=60, alternatives=False, rules=False, late=0.0, pace=4):
    """Arrivals as a dict of lists: one entry a tuple, alternatives as lists."""
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


def extend(window, tuples):
    counts = [len(scores) for _, scores, *_ in tuples]
    return window.extend(
        np.array([time for time, *_ in tuples], dtype=np.int64),
        scores=np.concatenate([[], *(scores for _, scores, *_ in tuples)]),
        prob=np.concatenate([[], *(prob for _, _, prob, *_ in tuples)]),
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        exclusive=np.array([rule for *_, rule, _ in tuples], dtype=np.int64),
        group=np.array([number for *_, number in tuples], dtype=np.int64),
    )


def table(answers):
    """Rows of answers as tuples, queries by name."""
    columns = [column.tolist() for column in answers[1:-1]]
    names = [answers.names[query] for query in columns[0]]
    return list(zip(names, *columns[1:], strict=True))


def from_scratch(tuples, queries, *, length=None, rows=None, plan="dp", advance=None, k_of=None):
    """Answers by Pk-topk, instant by instant, straight from the definition of the windows."""
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
                answers += answer(name, queries[name][0], due.time, newest, tuples, inside)
    return answers


def answer(name, k, time, answered, tuples, inside):
    scores = np.concatenate([[], *(tuples[j][1] for j in inside)])
    prob = np.concatenate([[], *(tuples[j][2] for j in inside)])
    owner = [place for place, j in enumerate(inside) for _ in tuples[j][1]]
    rules = [tuples[inside[place]][3] for place in owner]
    owner, rules = np.array(owner, dtype=np.int64), np.array(rules, dtype=np.int64)
    found = engine_free.pk_topk(scores, prob, rules, tuples=owner, k=k)
    rows = []
    for rank, (place, chance) in enumerate(zip(*found, strict=True), start=1):
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
)
def test_answers_over_a_range_are_those_of_its_tuples(
    seed, alternatives, rules, late, plan, length, pace
):
    tuples = stream(seed, 40, alternatives, rules, late, pace)
    window = TopKWindow(QUERIES, length=length, plan=plan)
    got = table(extend(window, tuples))
    end = tuples[-1][0] + 100
    got += table(window.advance(end))
    same(got, from_scratch(tuples, QUERIES, length=length, plan=plan, advance=end))


@examples(40)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.0, 0.2]), st.integers(1, 50))
def test_answers_over_the_newest_rows_are_those_of_these(seed, alternatives, late, rows):
    tuples = stream(seed, 40, alternatives, late=late)
    window = TopKWindow(QUERIES, rows=rows)
    got = table(extend(window, tuples))
    end = tuples[-1][0] + 30
    got += table(window.advance(end))
    same(got, from_scratch(tuples, QUERIES, rows=rows, advance=end))


def in_pieces(window, tuples, cuts, restore, steps):
    """Feed tuples cut at some places; changes of queries happen at given numbers of arrivals."""
    rows, rejected, done = [], [], 0
    for cut in sorted({*cuts, *steps, len(tuples)}):
        answers = extend(window, tuples[done:cut])
        rows += table(answers)
        rejected += answers.rejected.tolist()
        done = cut
        if cut in steps:
            steps[cut](window)
        if restore:
            window = TopKWindow.restore(window.snapshot())
    answers = window.advance(tuples[-1][0] + 50)
    rows += table(answers)
    state = (window.arrived, window.out_of_order, window.rejected, window.executions, window.cost)
    return rows, rejected + answers.rejected.tolist(), state, window.held.tolist(), window.queries


@examples(80)
@given(
    st.integers(0, 10**6),
    st.sampled_from([{"length": 7}, {"length": 40}, {"rows": 5}, {"rows": 30}]),
    st.sampled_from(["pk_topk", "streams", "overfull", "changes"]),
    st.lists(st.integers(0, 60), max_size=8),
    st.booleans(),
)
def test_neither_batches_nor_restarts_change_anything(seed, extent, kind, cuts, restore):
    tuples = stream(seed, 60, True, kind == "overfull", late=0.1)
    if kind == "overfull":
        tuples = [(time, s, np.minimum(p * 9, 0.9 / len(p)), r, n) for time, s, p, r, n in tuples]
    settings_ = {**extent, "streams": kind == "streams"}
    steps = {}
    if kind == "changes":
        steps = {
            13: lambda window: window.add("d", 5, 4),
            20: lambda window: window.remove("b"),
            33: lambda window: window.add("e", 2, 50),
        }
    whole = in_pieces(TopKWindow(QUERIES, **settings_), tuples, [], False, steps)
    pieces = in_pieces(TopKWindow(QUERIES, **settings_), tuples, cuts, restore, steps)
    assert whole == pieces


@examples(80)
@given(
    st.integers(0, 10**6),
    st.sampled_from([{"length": 7}, {"length": 40}, {"rows": 5}, {"rows": 4, "confidence": 0.8}]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.0, 0.2]),
    st.booleans(),
    st.integers(1, 59),
    st.sampled_from([4, 40]),
)
def test_windows_ranked_together_are_those_ranked_one_by_one(
    seed, extent, alternatives, rules, late, ascending, cut, pace
):
    tuples = stream(seed, 60, alternatives, rules, late, pace)
    together, one_by_one = (TopKWindow(QUERIES, **extent, ascending=ascending) for _ in range(2))

    def alone(fresh, until):
        of = arrived([one_by_one], fresh, np.array([fresh.size]), np.array([until]))
        return one_by_one.answered(of.fresh, of.reach, until)

    one_by_one._moved = alone
    for window in (together, one_by_one):
        window.found = [extend(window, tuples[:cut]), extend(window, tuples[cut:])]
        window.found.append(window.advance(tuples[-1][0] + 50))
    for first, second in zip(together.found, one_by_one.found, strict=True):
        assert table(first) == table(second)
        assert sorted(first.names) == sorted(second.names)
    assert (together.executions, together.cost) == (one_by_one.executions, one_by_one.cost)
    assert together.snapshot() == one_by_one.snapshot()


@pytest.mark.parametrize("case", ["few", "a rule too full", "a long gap", "many alternatives"])
def test_which_windows_are_ranked_together(case):
    window = TopKWindow({"a": (1, 10)}, length=20)
    n = 2 * MOST_ITEMS if case == "many alternatives" else 4
    prob = np.full(n, 0.9 if case == "a rule too full" else 0.2)
    time = np.arange(n) // n
    rules = np.zeros(n, np.int64) if case == "a rule too full" else None
    window.extend(time, scores=np.arange(n), prob=prob, exclusive=rules)
    end = 10**12 if case == "a long gap" else 10
    probed = TopKWindow.restore(window.snapshot())
    of = arrived([probed], HeldTuples.none(), np.array([0]), np.array([end]))
    able, moved = moved_together(of)
    assert able.tolist() == [case == "few"]
    assert (moved is not None) == (case == "few")
    answers = window.advance(end)
    assert answers.time[0] == 10
    assert answers.row[0] == (n - 1 if case != "a rule too full" else 0)
    assert window.executions == 1 + (case == "a long gap")
    assert answers.rejected.size == (3 if case == "a rule too full" else 0)


def test_a_window_is_half_open():
    #        0    10   20   30      instants 10, 20, 30; windows [t - 10, t)
    # tuples 0,9 | 10,19 | 20
    window = TopKWindow({"q": (9, 10)}, length=10)
    answers = window.extend([0, 9, 10, 19, 20], scores=[1, 2, 3, 4, 5], prob=[1, 1, 1, 1, 1])
    assert list(zip(answers.time, answers.row, strict=True)) == [(10, 1), (10, 0), (20, 3), (20, 2)]
    answers = window.advance(30)
    assert list(zip(answers.time, answers.row, strict=True)) == [(30, 4)]


def test_answers_come_though_no_tuple_arrives():
    window = TopKWindow({"q": (1, 10)}, rows=5)
    window.extend([3], scores=[1.0], prob=[0.5])
    assert window.next_due == 10
    assert window.advance(9).time.size == 0
    assert window.advance(35).time.tolist() == [10, 20, 30]
    assert window.next_due == 40


def test_a_long_silence_costs_nothing():
    window = TopKWindow({"q": (1, 10)}, length=20)
    window.extend([3], scores=[1.0], prob=[0.5])
    answers = window.extend([3 + 10**15], scores=[1.0], prob=[0.5])
    assert answers.time.tolist() == [10, 20]
    assert window.executions == 2
    assert window.next_due == 10**15 + 10


def test_one_run_answers_all_queries_that_are_due():
    window = TopKWindow({"a": (3, 2), "b": (4, 3), "c": (5, 5)}, length=100, start=0)
    answers = window.extend(np.arange(9), scores=np.arange(9.0), prob=np.full(9, 0.5))
    assert window.executions == 4  # at 2, 4, 6 and 8: plan {(2, G2), (4, G3)} of D
    assert window.cost == 4 + 5 + 4 + 5
    pairs = zip(answers.time.tolist(), answers.query.tolist(), strict=True)
    due = sorted({(time, answers.names[query]) for time, query in pairs})
    assert due[:5] == [(2, "a"), (2, "b"), (4, "a"), (4, "b"), (4, "c")]
    assert due[5:] == [(time + 4, name) for time, name in due[:5]]


def test_only_one_window_is_kept():
    window = TopKWindow(QUERIES, length=50)
    for seed in range(20):
        tuples = [(time + 200 * seed, *rest) for time, *rest in stream(seed)]
        extend(window, tuples)
        assert window.held.size <= 61
        assert len(window.snapshot()) < 12_000


def test_a_tuple_that_overfills_its_rule_is_left_out_and_named():
    window = TopKWindow({"q": (2, 10)}, length=100)
    answers = window.extend(
        [0, 1, 2, 3], scores=[4, 3, 2, 1], prob=[0.6] * 4, exclusive=[7, 7, 7, -1]
    )
    assert answers.rejected.size == 0
    answers = window.advance(20)
    assert answers.rejected.tolist() == [1, 2]  # once, though two instants passed
    assert answers.row.tolist() == [0, 3, 0, 3]
    assert window.rejected == 2


def test_tuples_left_out_count_among_the_newest_rows_in_any_calls():
    time, rules = np.array([0, 1, 2, 3, 4, 35]), np.array([-1, -1, 7, 7, 7, -1])

    def rows_of(calls):
        window, rows, rejected = TopKWindow({"q": (2, 10)}, rows=3), [], []
        for some in calls:
            prob = np.full(len(some), 0.6)
            answers = window.extend(
                time[some], scores=6.0 - time[some], prob=prob, exclusive=rules[some]
            )
            rows += answers.row.tolist()
            rejected += answers.rejected.tolist()
        assert rejected == [3, 4]
        return rows

    assert rows_of([list(range(6))]) == [2, 2, 2]  # 3 and 4 are left out, 0 and 1 stay out
    assert rows_of([[i] for i in range(6)]) == [2, 2, 2]


def test_strict_windows_raise_where_a_rule_is_overfull():
    window = TopKWindow({"q": (2, 10)}, length=100, strict=True)
    with pytest.raises(RuleMassError, match="rule 7 exclude each other"):
        window.extend([0, 1, 20], scores=[4, 3, 2], prob=[0.6] * 3, exclusive=[7, 7, -1])


def test_members_of_a_rule_that_never_meet_do_not_overfill_it():
    window = TopKWindow({"q": (2, 10)}, length=10)
    answers = window.extend([0, 10, 20], scores=[1, 1, 1], prob=[0.9] * 3, exclusive=[7, 7, 7])
    assert answers.row.tolist() == [0, 1]
    assert window.rejected == 0


def test_streams_are_ranked_by_the_sum_over_their_tuples():
    scores, prob, streams = [9, 8, 7, 6, 5], [0.5, 0.5, 0.5, 0.5, 1.0], [2, 0, 2, 1, 0]
    single = engine_free.top_k_probabilities(scores, prob, k=2)
    sums = [single[1] + single[4], single[3], single[0] + single[2]]
    best = engine_free.top_k_streams(scores, prob, streams, k=2)
    assert best.indices.tolist() == [2, 0]
    np.testing.assert_allclose(best.probability, [sums[2], sums[0]], atol=1e-12)

    window = TopKWindow({"q": (2, 10)}, length=10, streams=True)
    window.extend(np.arange(5), scores=scores, prob=prob, group=streams)
    answers = window.advance(10)
    assert answers.stream.tolist() == [2, 0]
    assert answers.row.tolist() == [0, int(np.argmax([0, single[1], 0, 0, single[4]]))]
    np.testing.assert_allclose(answers.probability, [sums[2], sums[0]], atol=1e-12)


@pytest.mark.parametrize(
    "semantics",
    [
        Semantics("pt_k", probability=0.3),
        Semantics("u_topk"),
        Semantics("u_kranks"),
        Semantics("expected_rank"),
        Semantics("prf", weights=(3, 2.5, 1)),
        Semantics("prfe", alpha=0.9),
    ],
)
def test_every_semantics_answers_all_k_as_each_k_alone(semantics):
    tuples = [(time, s, p, -1, n) for time, s, p, _, n in stream(5, 80, alternatives=True)]
    # Orders of all tuples of a window are too many for the search of U-Topk.
    many = 6 if semantics.name == "u_topk" else 500
    queries = {"one": (1, 10), "four": (4, 10), "many": (many, 10)}
    window = TopKWindow(queries, length=30, semantics=semantics)
    window = TopKWindow.restore(window.snapshot())
    got = table(extend(window, tuples))
    assert {row[0] for row in got} == set(queries)
    for name, query in queries.items():
        alone = TopKWindow({name: query}, length=30, semantics=semantics)
        same([row for row in got if row[0] == name], table(extend(alone, tuples)))


def test_semantics_over_a_window_are_the_functions_over_arrays():
    scores, prob = np.array([5.0, 4, 3, 2, 1]), np.array([0.5, 0.6, 0.7, 0.8, 0.9])

    def rows(semantics):
        window = TopKWindow({"q": (3, 10)}, length=10, semantics=semantics)
        window.extend(np.arange(5), scores=scores, prob=prob)
        return window.advance(10)

    expected = engine_free.expected_ranks(scores, prob)
    assert rows("expected_rank").row.tolist() == np.argsort(expected, kind="stable")[:3].tolist()
    vector = engine_free.u_topk(scores, prob, k=3)
    assert rows("u_topk").row.tolist() == vector.indices.tolist()
    assert rows("u_topk").probability.tolist() == [vector.probability] * 3
    assert rows("u_kranks").row.tolist() == engine_free.u_kranks(scores, prob, k=3).indices.tolist()
    enough = engine_free.pt_k(scores, prob, k=3, probability=0.5)
    assert rows(Semantics("pt_k", probability=0.5)).row.tolist() == enough.indices.tolist()


def test_least_scores_first_on_request():
    window = TopKWindow({"q": (1, 10)}, length=10, ascending=True)
    window.extend([0, 1], scores=[5.0, 3.0], prob=[1.0, 1.0])
    assert window.advance(10).row.tolist() == [1]


def test_icebergs_agree_with_every_window_from_scratch(data_folder):
    import pyarrow.parquet as pq

    bergs = pq.read_table(data_folder / "iip_sightings_2014_2021.parquet").slice(0, 3000)
    time = bergs["ts"].cast("int64").to_numpy()
    if bergs["ts"].type.unit != "us":
        time = time * {"s": 10**6, "ms": 10**3}[bergs["ts"].type.unit]
    order = np.argsort(time, kind="stable")
    method = bergs["method"].to_pylist()
    chance = {"R/V": 0.8, "VIS": 0.7, "RAD": 0.5, "SAT-HIGH": 0.4, "SAT-MED": 0.3, "SAT-LOW": 0.2}
    prob = np.array([chance.get(name, 0.6) for name in method])[order]
    south, time = -bergs["latitude"].to_numpy()[order], time[order]
    rules = np.arange(time.size)
    pairs = np.flatnonzero(prob[:-1] + prob[1:] <= 1.0)[::5]
    rules[pairs + 1] = rules[pairs]
    day = 86_400_000_000
    window = TopKWindow({"top 5": (5, day), "top 20": (20, 7 * day)}, length=30 * day)
    answers = window.extend(time, scores=south, prob=prob, exclusive=rules)
    assert answers.time.size > 100
    for instant in np.unique(answers.time)[::9]:
        inside = np.flatnonzero((time >= instant - 30 * day) & (time < instant))
        here = (answers.time == instant) & (answers.k == 5)
        best = engine_free.pk_topk(south[inside], prob[inside], rules[inside], k=5)
        np.testing.assert_array_equal(answers.row[here], inside[best.indices])
        np.testing.assert_array_equal(answers.probability[here], best.probability)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"time": [0.5]}, "`time` must be whole numbers"),
        ({"time": [1, 2]}, "`time` must"),
        ({"scores": [float("nan")]}, "`scores` must be finite"),
        ({"prob": [0.0]}, "`prob` must hold probabilities"),
        ({"prob": [0.5, 0.5]}, "`prob` must be as long"),
        ({"offsets": [0, 2]}, "`offsets` must rise from 0"),
        ({"offsets": [0, 2], "scores": [1, 2], "prob": [0.6, 0.6]}, "alternatives of a tuple"),
        ({"exclusive": [1, 2]}, "`exclusive` must"),
    ],
)
def test_wrong_arrivals_are_refused_and_nothing_is_taken(change, words):
    window = TopKWindow({"q": (1, 10)}, length=10)
    before = window.snapshot()
    with pytest.raises(ValueError, match=words):
        window.extend(**{"time": [1], "scores": [1.0], "prob": [0.5], **change})
    assert window.snapshot() == before


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="either `length` in microseconds or `rows`"):
        TopKWindow(QUERIES)
    with pytest.raises(ValueError, match="`length` must be a whole number"):
        TopKWindow(QUERIES, length=0)
    with pytest.raises(ValueError, match="`queries` must be pairs"):
        TopKWindow({"a": (0, 1)}, length=1)
    with pytest.raises(ValueError, match='`semantics` must be one of "pk_topk"'):
        TopKWindow(QUERIES, length=1, semantics="best")
    with pytest.raises(ValueError, match="`probability` must be a number"):
        TopKWindow(QUERIES, length=1, semantics="pt_k")
    with pytest.raises(ValueError, match="`weights` must be a list of finite numbers"):
        Semantics("prf")
    with pytest.raises(ValueError, match="`alpha` belongs to"):
        Semantics("pk_topk", alpha=0.5)
    with pytest.raises(ValueError, match="streams are ranked by"):
        TopKWindow(QUERIES, length=1, semantics="u_topk", streams=True)
    window = TopKWindow(QUERIES, length=1, streams=True)
    with pytest.raises(ValueError, match="`group` must say"):
        window.extend([1], scores=[1.0], prob=[1.0])
    with pytest.raises(ValueError, match="`group` must be 1 whole numbers"):
        engine_free.top_k_streams([1], [1], [0.5], k=1)
    with pytest.raises(SnapshotError):
        TopKWindow.restore(Schedule(QUERIES, 0).snapshot())
    window = TopKWindow({}, length=10)
    window.add("a", 1, 5)
    with pytest.raises(ValueError, match="'a' is running"):
        window.add("a", 1, 5)
    window.remove("a")
    assert window.queries == {}


def test_help_lists_every_argument():
    given = set(vars(TopKWindow(QUERIES, length=1).config))
    assert given == set(inspect.signature(TopKWindow).parameters)
