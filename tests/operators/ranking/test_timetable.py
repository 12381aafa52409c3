"""Timetables of shared runs: every bound holds, the optimum is reached, and queries can change."""

from fractions import Fraction
from functools import cache
from itertools import islice

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from seeds import examples
from sfumato import engine_free
from sfumato.operators.ranking.schedule import Schedule
from sfumato.operators.ranking.timetable import LONGEST_CYCLE, RUN_TIME

EXAMPLE_1 = [(3, 2), (4, 3), (5, 5)]
EXAMPLE_2 = [(2, 30), (3, 51), (4, 60)]
SIX = [(3, 2), (2, 2), (4, 3), (3, 5), (5, 5), (2, 7)]  # Q1 ... Q6 of D, in minutes
ALL_PLANS = ("dp", "time", "greedy", "inco", "in", "none")

queries = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 40)), min_size=1, max_size=8)
few = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 6)), min_size=1, max_size=4)


def check_bounds(table, cycles=3):
    """Replay `table` run by run, and check that no query waits longer than its bound."""
    horizon = min(cycles * table.cycle, 2_000)
    answered = dict.fromkeys(range(len(table.queries)), 0)
    for time, group in table.until(0, horizon):
        for query in table.answers(group):
            assert time - answered[query] <= table.queries[query][1]
            answered[query] = time
    for query, (_, every) in enumerate(table.queries):
        assert horizon - answered[query] <= every


def cost_by_replay(table):
    """Return the cost per unit, counted run by run over one cycle."""
    cost = Fraction(0)
    for _, group in table.runs:
        answered = table.answers(group)
        cost += max(table.queries[query][0] for query in answered)
    return cost / table.cycle


def optimum_by_search(given_queries, of_run=0):
    """Return the least cost per unit of any cycle in which a run answers everyone and ends it.

    of_run : cost of any run in addition to its k
    The state between two runs is how long each query waits; runs of every cost are tried.
    """
    ks = sorted({k for k, _ in given_queries})

    @cache
    def least(waits, left):
        if any(wait > every for wait, (_, every) in zip(waits, given_queries, strict=True)):
            return None
        if left == 0:
            return 0
        best = None
        for most in (0, *ks):
            if left == 1 and most != ks[-1]:
                continue  # the cycle ends with a run for all queries
            cost = most + of_run if most else 0
            after = tuple(
                1 if k <= most else wait + 1
                for wait, (k, _) in zip(waits, given_queries, strict=True)
            )
            rest = least(after, left - 1)
            if rest is not None and (best is None or cost + rest < best):
                best = cost + rest
        return best

    best = None
    for cycle in range(1, max(every for _, every in given_queries) + 1):
        cost = least((1,) * len(given_queries), cycle)
        if cost is not None and (best is None or Fraction(cost, cycle) < best):
            best = Fraction(cost, cycle)
    return best


@pytest.mark.parametrize(
    ("given_queries", "plans", "cost", "runs"),
    [
        (EXAMPLE_1, ("dp", "greedy", "GA"), Fraction(9, 4), ((2, 2), (4, 3))),
        (SIX, ("dp", "DP"), Fraction(9, 4), ((2, 2), (4, 3))),
        # According to D, greedy gives {(30, 1), (51, 3)}; its Algorithm 2 does not.
        (EXAMPLE_2, ("dp", "greedy"), Fraction(7, 60), ((30, 2), (60, 3))),
        ([(2, 1), (3, 2), (9, 3)], ("dp",), Fraction(14, 3), None),
        ([(2, 1), (3, 2), (9, 3)], ("greedy",), Fraction(11, 2), None),
        # Tables 5 and 6: DPcost(2, 3) = 4 and DPcost(2, 4) = 7, as part of cycles of 4 and 5.
        ([(3, 2), (4, 3), (100, 4)], ("dp",), Fraction(4 + 100, 4), None),
        ([(3, 2), (4, 3), (100, 5)], ("dp",), Fraction(7 + 100, 5), None),
        (SIX, ("none", "NS"), sum(Fraction(k, f) for k, f in SIX), None),
        (
            SIX,
            ("in", "IN"),
            Fraction(3, 2) + Fraction(4, 3) + Fraction(5, 5) + Fraction(2, 7),
            None,
        ),
        (SIX, ("inco", "INCO"), Fraction(3, 2) + Fraction(4, 3) + Fraction(5, 5), None),
    ],
)
def test_the_examples_of_d(given_queries, plans, cost, runs):
    for plan in plans:
        table = engine_free.timetable(given_queries, plan)
        assert table.cost == cost
        assert runs is None or table.runs == runs


def test_the_six_queries_of_d_reduce_to_example_1():
    table = engine_free.timetable(SIX)
    assert (table.ks, table.bounds) == ((3, 4, 5), (2, 3, 5))
    assert table.groups == ((0, 1), (2,), (3, 4, 5))
    assert table.answers(2) == (0, 1, 2)


def test_a_query_of_lower_or_equal_k_joins_a_more_frequent_one():
    for k in (2, 3):
        table = engine_free.timetable([(3, 2), (k, 5)], "inco")
        assert (table.groups, table.ks, table.bounds) == (((0, 1),), (3,), (2,))
    assert engine_free.timetable([(3, 2), (4, 5)], "inco").groups == ((0,), (1,))
    assert engine_free.timetable([(3, 2), (3, 5)], "in").groups == ((0,), (1,))


@given(queries, st.sampled_from(ALL_PLANS))
def test_no_bound_is_missed_within_a_cycle_or_across_its_end(given_queries, plan):
    check_bounds(engine_free.timetable(given_queries, plan))


@given(queries, st.sampled_from(ALL_PLANS))
def test_the_cost_is_that_of_the_runs(given_queries, plan):
    table = engine_free.timetable(given_queries, plan)
    assume(table.cycle < 50_000)
    assert cost_by_replay(table) == table.cost
    assert all(0 < time <= table.cycle for time, _ in table.runs)


@examples(150)
@given(few)
def test_dp_is_as_cheap_as_the_best_of_all_timetables(given_queries):
    assert engine_free.timetable(given_queries).cost == optimum_by_search(tuple(given_queries))


@examples(60)
@given(few)
def test_the_plan_of_least_time_is_the_best_where_runs_cost_time(given_queries):
    table = engine_free.timetable(given_queries, "time")
    least = optimum_by_search(tuple(given_queries), RUN_TIME)
    assert table.cost + Fraction(RUN_TIME * len(table.runs), table.cycle) == least


def algorithm_1(f, k):
    """Return the cost by D's dynamic program as printed, over groups of rising bounds and costs."""
    cost = np.arange(f[-1]) // f[0] * k[0]
    for bound, own in zip(f[1:], k[1:], strict=True):
        for t in range(bound, f[-1]):
            at = np.arange(t - bound + 1, t + 1)
            cost[t] = (cost[at - 1] + own + cost[t - at]).min()
    return min(Fraction(int(cost[t - 1] + k[-1]), t) for t in range(1, f[-1] + 1))


@given(
    st.lists(st.integers(1, 250), min_size=2, max_size=6, unique=True),
    st.lists(st.integers(1, 12), min_size=6, max_size=6, unique=True),
)
def test_long_bounds_are_planned_as_by_the_dynamic_program_as_printed(bounds, costs):
    f, k = sorted(bounds), sorted(costs[: len(bounds)])
    assert engine_free.timetable(list(zip(k, f, strict=True))).cost == algorithm_1(f, k)


@examples(400)
@given(queries)
def test_more_sharing_never_costs_more_and_greedy_at_most_twice_the_optimum(given_queries):
    dp, time, greedy, inco, in_, none = (
        engine_free.timetable(given_queries, plan).cost for plan in ALL_PLANS
    )
    assert dp <= time
    assert dp <= inco <= in_ <= none
    assert dp <= greedy <= 2 * dp


@given(queries, st.integers(1, 10**9))
def test_the_unit_of_time_does_not_matter(given_queries, unit):
    table = engine_free.timetable(given_queries)
    scaled = engine_free.timetable([(k, every * unit) for k, every in given_queries])
    assert scaled.runs == tuple((time * unit, group) for time, group in table.runs)
    assert scaled.cost * unit == table.cost


@examples(30)
@given(
    st.lists(st.tuples(st.integers(1, 99), st.integers(10**5, 10**11)), min_size=2, max_size=6),
    st.sampled_from(["dp", "greedy"]),
)
def test_bounds_of_any_size_hold_at_a_cost_near_the_optimum(given_queries, plan):
    table = engine_free.timetable(given_queries, plan)
    assert table.cycle <= LONGEST_CYCLE * max(f for _, f in given_queries)
    answered = dict.fromkeys(range(len(given_queries)), 0)
    for time, group in islice(table.after(0), 3_000):
        for query in table.answers(group):
            assert time - answered[query] <= given_queries[query][1]
            answered[query] = time
    cheapest = max(Fraction(k, every) for k, every in given_queries)
    assert table.cost >= cheapest


def test_rounding_of_long_bounds_costs_little():
    minute, day = 60_000_000, 86_400_000_000
    table = engine_free.timetable([(10, minute + 1), (100, day)])
    exact = Fraction(10, minute) + Fraction(90, day)
    assert 1 <= table.cost / exact < 1.02


@given(queries, st.sampled_from(ALL_PLANS), st.integers(0, 500), st.integers(0, 200))
def test_runs_after_an_instant_are_those_of_the_cycles(given_queries, plan, instant, span):
    table = engine_free.timetable(given_queries, plan)
    whole = [run for run in table.until(0, instant + span) if run[0] > instant]
    assert list(table.until(instant, instant + span)) == whole
    last = table.last_before(instant, instant + span)
    assert last == (whole[-1][0] if whole else None)


def test_a_cycle_too_long_to_list_is_taken_in_pieces():
    table = engine_free.timetable([(1, 10_007), (1, 10_009), (1, 10_037)], "none")
    with pytest.raises(ValueError, match="too many runs to list"):
        table.runs  # noqa: B018
    assert list(islice(table.after(0), 2)) == [(10_007, 1), (10_009, 2)]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([], "at least one"),
        ([(0, 5)], r"pairs \(k, every\) .* got \(0, 5\)"),
        ([(3, 0)], "pairs"),
        ([(3, 2.5)], "pairs"),
        ([(3,)], "pairs"),
        ([3], "pairs"),
    ],
)
def test_wrong_queries_are_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        engine_free.timetable(wrong)


def test_an_unknown_plan_is_refused():
    with pytest.raises(
        ValueError, match='`plan` must be "dp", "time", "greedy" or "none"; got \'best\''
    ):
        engine_free.timetable(SIX, "best")
    with pytest.raises(TypeError, match=r"`queries` must be a list of pairs .*; got 3"):
        engine_free.timetable(3)


class Watch:
    """Checks a schedule from outside: when each query was answered, and how long it waits."""

    def __init__(self, schedule, start):
        self.schedule = schedule
        self.since = dict.fromkeys(schedule.queries, start)
        self.every = {name: every for name, (_, every) in schedule.queries.items()}
        self.dues = []

    def take(self, until, jump=False):
        if jump:
            self.schedule.skip(until)
            return
        before = self.schedule.next()
        dues = self.schedule.take(until)
        if dues:
            assert dues[0].time == before
        self.dues += dues
        for due in dues:
            assert due.queries
            for name in due.queries:
                assert due.time - self.since[name] <= self.every[name]
                self.since[name] = due.time
        for name, since in self.since.items():
            assert until - since <= self.every[name]

    def add(self, name, k, every, now):
        self.schedule.add(name, k, every)
        self.since[name], self.every[name] = now, every

    def remove(self, name):
        self.schedule.remove(name)
        del self.since[name]


steps = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "wait", "restore"]),
        st.integers(1, 9),
        st.integers(1, 25),
        st.integers(0, 30),
    ),
    max_size=15,
)


@examples(400)
@given(queries, st.integers(-100, 100), st.sampled_from(ALL_PLANS), steps)
def test_queries_come_and_go_without_any_bound_being_missed(some, start, plan, changes):
    named = {str(i): query for i, query in enumerate(some)}
    watch, now = Watch(Schedule(named, start, plan), start), start
    split, whole = [], Schedule(named, start, plan)
    for number, (what, k, every, wait) in enumerate(changes):
        now += wait
        watch.take(now)
        split += whole.take(now)
        if what == "add":
            watch.add(f"new {number}", k, every, now)
            whole.add(f"new {number}", k, every)
        elif what == "remove" and watch.since:
            name = sorted(watch.since)[k % len(watch.since)]
            watch.remove(name)
            whole.remove(name)
        elif what == "restore":
            watch.schedule = Schedule.resumed(watch.schedule.plans, watch.schedule.course, plan)
    watch.take(now + 100)
    assert watch.dues == split + whole.take(now + 100)
    assert set(watch.schedule.queries) == set(watch.since)  # all entered by their deadlines


@given(queries, st.sampled_from(["dp", "none"]), st.integers(0, 300), st.integers(0, 100))
def test_skipping_is_taking_without_reading_the_runs(some, plan, ahead, more):
    named = {str(i): query for i, query in enumerate(some)}
    one, other = Schedule(named, 0, plan), Schedule(named, 0, plan)
    one.take(5)
    other.take(5)
    for schedule in (one, other):
        schedule.add("late", 50, 20)
        schedule.remove("0")
    one.take(ahead)
    other.skip(ahead)
    assert one.take(ahead + more) == other.take(ahead + more)
    assert one.next() == other.next()


def test_a_query_that_can_wait_enters_where_the_cycle_ends():
    schedule = Schedule({"a": (3, 2), "b": (4, 3), "c": (5, 5)}, start=0)
    schedule.add("d", 9, 60)
    assert [due.queries for due in schedule.take(4)] == [("a", "b"), ("a", "b", "c", "d")]


def test_an_urgent_query_ends_the_cycle_at_the_last_run_before_its_deadline():
    schedule = Schedule({"a": (1, 10), "b": (9, 100)}, start=0)
    schedule.take(15)
    schedule.add("c", 2, 30)
    dues = schedule.take(45)
    assert [due.time for due in dues] == [20, 30, 40]
    assert dues[-1].queries == ("a", "b", "c")


def test_without_an_early_run_all_queries_are_answered_at_the_deadline():
    schedule = Schedule({"a": (1, 100)}, start=0)
    schedule.take(15)
    schedule.add("b", 2, 30)
    assert schedule.take(100)[0] == (45, ("a", "b"))


def test_a_removed_query_is_not_answered_and_its_runs_shrink():
    schedule = Schedule({"a": (1, 10), "b": (9, 20)}, start=0)
    schedule.take(3)
    schedule.remove("b")
    assert schedule.take(20) == [(10, ("a",)), (20, ("a",))]
    schedule.remove("a")
    assert schedule.next() is None
    assert schedule.take(1000) == []
    schedule.add("c", 5, 10)
    assert schedule.next() == 1010


def test_a_renamed_query_is_due_when_it_was_before():
    schedule = Schedule({"a": (3, 2), "b": (4, 3)}, start=100)
    expected = Schedule({"c": (3, 2), "b": (4, 3)}, start=100)
    assert schedule.take(102) != expected.take(102)
    schedule.rename({"a": "c"})
    assert schedule.take(130) == expected.take(130)
    assert (schedule.plans, schedule.course) == (expected.plans, expected.course)
    schedule.rename({"c": "b"})  # a name in use is not given twice
    assert schedule.queries == {"c": (3, 2), "b": (4, 3)}
