"""Runs of ranking queries over windows, one window or many at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from sfumato.kernels.ranking.generation_rules import rule_masses
from sfumato.kernels.ranking.windows import (
    AnswerRows,
    MovingWindows,
    RankedTuples,
    RankedWindows,
    RunQueries,
    newest_times,
    rank_windows,
    window_spans,
)
from sfumato.operators.arguments import EXCESS
from sfumato.operators.arrays import Bools, Ints, offsets_of, spans
from sfumato.operators.ranking.ranked_items import RuleMassError
from sfumato.operators.ranking.schedule import Due, Schedule
from sfumato.operators.ranking.semantics import rankings, stream_rankings
from sfumato.operators.ranking.timetable import Query
from sfumato.operators.ranking.window_answers import CollectedAnswers, TopKAnswers
from sfumato.operators.ranking.window_content import (
    NO_INSTANT,
    PK_TOPK,
    HeldTuples,
    TopKWindowConfig,
    WindowContent,
    accepted_by_rules,
)
from sfumato.operators.state.declared import Optional, Part, Value

MOST_ITEMS = 1024  # in a window: the best of more are found sooner than all are sorted


def dense_rules(held: HeldTuples, stream: Ints, streams: int) -> tuple[Ints, int, Bools]:
    """Each tuple's rule, numbered from 0 in each of some streams, or -1; how many there are in one
    at most; and in which the members of a rule have more than probability 1 in all: bool[streams].

    stream : int64[n], ascending, where each tuple belongs
    """
    overfull, bound = np.zeros(streams, np.bool_), np.flatnonzero(held.rule >= 0)
    if not bound.size:
        return held.rule, 0, overfull
    rules, code = np.unique(held.rule[bound], return_inverse=True)
    names, number = np.unique(stream[bound] * rules.size + code, return_inverse=True)
    owner, rule = names // rules.size, np.full(held.size, -1)
    rule[bound] = number
    masses = rule_masses(held.prob, np.repeat(rule, np.diff(held.begin)), names.size)
    overfull[owner[masses > 1.0 + 0.999 * EXCESS]] = True
    rule[bound] -= np.searchsorted(owner, stream[bound])
    return rule, int(np.bincount(owner).max()), overfull


@lru_cache(256)
def asked_for(
    runs: tuple[tuple[str, ...], ...], queries: tuple[tuple[str, Query], ...]
) -> tuple[tuple[str, ...], RunQueries]:
    """Names of queries, and what some runs are asked for.

    runs : the names that each of them answers    queries : (name, (k, every)) of all
    """
    k_of = {name: k for name, (k, _) in queries}
    names = tuple(dict.fromkeys(name for run in runs for name in run))
    number = {name: i for i, name in enumerate(names)}
    none = np.empty(0, np.int64)
    each = [np.array([k_of[name] for name in run], np.int64) for run in runs]
    some = [np.unique(k, return_inverse=True) for k in each]
    return names, RunQueries(
        begin=offsets_of([k.size for k in each]),
        query=np.array([number[name] for run in runs for name in run], np.int64),
        k=np.concatenate([none, *each]),
        ranking=np.concatenate([none, *(place for _, place in some)]),
        some_k=offsets_of([k.size for k, _ in some]),
        ks=np.concatenate([none, *(k for k, _ in some)]),
    )


def ranked_windows(
    held: HeldTuples,
    rules: tuple[Ints, int],
    windows: RankedWindows,
    asked: RunQueries,
    *,
    ascending: bool,
    skips: bool,
) -> tuple[AnswerRows, Ints]:
    """The answers of windows of at most MOST_ITEMS alternatives, one after the other, tuples by
    their place; and how many rows each has, int64[r], -1 of one that is left out.

    rules : each tuple's, from 0 or -1, and how many a window has at most
    ascending : whether the least score ranks first
    skips : whether windows without tuples are left out
    Cost: as `rank_windows`, and nothing more for each window.
    """  # fmt: skip
    rule, count = rules
    key, place = held.score if ascending else -held.score, np.arange(held.size)
    tuples = RankedTuples(
        place, held.time, held.valid, rule, count, held.begin, key, held.score, held.prob
    )
    found: tuple[AnswerRows, Ints] = rank_windows(tuples, windows, asked, skips)
    return found


class ScheduledWindow(WindowContent):
    """A window that answers its queries when they are due.

    unstarted : the queries while there is no schedule, which begins with the first tuple
    arrived : tuples so far    out_of_order : of these, ones older than the newest before them
    rejected : tuples left out, for they overfill their rule
    executions, cost : runs that ranked anything, and the sum of their greatest k
    """

    state = {
        "unstarted": Value(dict),
        "schedule": Optional(Part("_new_schedule")),
        "arrived": Value(low=0),
        **dict.fromkeys(("out_of_order", "rejected", "executions", "cost"), Value(low=0)),
    }

    def __init__(self, config: TopKWindowConfig) -> None:
        super().__init__(config)
        self.schedule: Schedule | None = None
        self.unstarted: dict[str, Query] = {name: (k, every) for name, k, every in config.queries}
        if config.start is not None:
            self._begin(config.start)
        self.arrived, self.out_of_order, self.rejected = 0, 0, 0
        self.executions, self.cost = 0, 0

    def begin_with(self, first: int) -> None:
        """The clock starts with the first tuple, at a round time."""
        if self.schedule is None:
            unit = math.gcd(*(every for _, every in self.unstarted.values())) or 1
            self._begin(first // unit * unit)

    def _begin(self, start: int) -> None:
        self.schedule = Schedule(self.unstarted, start, self.config.plan)

    def _new_schedule(self) -> Schedule:
        return Schedule({}, 0, self.config.plan)

    def answered(self, fresh: HeldTuples, reach: Ints, until: int) -> TopKAnswers:
        """Take arrivals, and answer at every instant that they, or `until`, show to be past.

        reach : see `reach_of`
        """
        assert self.schedule is not None
        before = self.held_tuples.size
        self.enter(fresh, reach)
        newest = np.maximum.accumulate(np.maximum(np.append(fresh.time, until), self.latest))
        older = np.concatenate([[self.latest], newest[:-1]])[: fresh.size]
        self.out_of_order += int(np.count_nonzero(fresh.time < older))
        out, last = CollectedAnswers(), int(newest[-1])
        while True:
            instant = self.schedule.next()
            if instant is None or instant > last:
                break
            reached = int(np.searchsorted(newest, instant))  # this tuple shows it is past
            window = self.at(instant, before, reached)
            if window.size == 0 and self.is_over(instant, before + reached):
                self.schedule.skip(int(newest[reached]))  # nothing to answer until it is in
                continue
            for due in self.schedule.take(instant):
                window = self._run(due, int(newest[reached]), window, out)
        self.schedule.skip(last)
        self.latest = max(self.latest, last)
        self.forget()
        return out.answers()

    def _run(self, due: Due, now: int, window: Ints, out: CollectedAnswers) -> Ints:
        """Answer the queries of one run, the time being `now`; the window without the tuples that
        overfill their rule."""
        self.executions += 1
        self.cost += due.k
        try:
            items = self.held_tuples.ranked(window, self.config.ascending)
        except RuleMassError:
            if self.config.strict:
                raise
            if not self.config.rescale:
                window = self._without_overfull(window, out)
            ascending, rescale = self.config.ascending, self.config.rescale
            items = self.held_tuples.ranked(window, ascending, rescale=rescale)
        asked = self._asked(due)
        if self.config.streams:
            found = stream_rankings(items, self.held_tuples.stream[window], asked.ks)
        else:
            found = rankings(items, asked.ks, self.config.semantics)
        out.add(due, now, asked.k, asked.ranking, found, self.held_tuples.row[window])
        return window

    def _asked(self, due: Due) -> RunQueries:
        """Return the requests of a run."""
        assert self.schedule is not None
        return asked_for((due.queries,), tuple(self.schedule.queries.items()))[1]

    def _without_overfull(self, window: Ints, out: CollectedAnswers) -> Ints:
        fine = accepted_by_rules(self.held_tuples, window)
        out.rejected.append(self.held_tuples.row[window[~fine]])
        self.held_tuples.valid[window[~fine]] = False
        self.rejected += int(np.count_nonzero(~fine))
        return window[fine]


FREQUENT_RUNS = (
    16  # runs an arrival: of more most find nothing, and are skipped one gap after the other
)


class Runs(NamedTuple):
    """r runs of w windows.

    begin : int64[w + 1], window j's are those at begin[j] ... begin[j + 1], in order of time
    owner, time : int64[r];  place : int64[r], which of `dues` it is, whatever time that has
    after : int64[w], when each window's next run comes behind these
    """

    begin: Ints
    owner: Ints
    time: Ints
    place: Ints
    after: Ints
    dues: list[Due]


def few(schedules: Sequence[Schedule], last: Ints, arrivals: Ints) -> Bools:
    """bool[w]: of which schedules, all alike, few runs come up to `last` (int64[w]), beside so many
    arrivals."""
    begin, end = _numbers(schedules, last)
    return end - begin <= FREQUENT_RUNS * (arrivals + 16)


def runs_of(schedules: Sequence[Schedule], last: Ints) -> Runs:
    """Their runs up to `last`, none of them taken yet, where schedules are alike."""
    table = schedules[0].table
    assert table is not None
    begin, end = _numbers(schedules, last)
    origin = np.array([schedule.origin for schedule in schedules])
    sizes = end - begin
    _, numbers = spans(begin, sizes)
    times, groups = table.runs_at(numbers)
    present = np.flatnonzero(np.bincount(groups))
    dues = [schedules[0].live_of(group) for group in present.tolist()]
    return Runs(
        begin=offsets_of(sizes),
        owner=np.repeat(np.arange(sizes.size), sizes),
        time=np.repeat(origin, sizes) + times,
        place=np.searchsorted(present, groups),
        after=origin + table.runs_at(end)[0],
        dues=[due for due in dues if due],  # all: a steady timetable has no run for nobody
    )


def _numbers(schedules: Sequence[Schedule], last: Ints) -> tuple[Ints, Ints]:
    table = schedules[0].table
    assert table is not None
    origin = np.array([schedule.origin for schedule in schedules])
    clock = np.array([schedule.clock for schedule in schedules])
    return table.count_until(clock - origin), table.count_until(np.maximum(last, clock) - origin)


SUMMABLE_TIME = 2**61  # times beyond are not added to


class Arrived(NamedTuple):
    """w windows and n arrivals of theirs, window by window, which have not entered.

    fresh : the arrivals    begin : int64[w + 1], where each window's begin
    reach : int64[n], see `WindowContent.reach_of`
    until : int64[w], what is known to be past beside the arrivals' times
    newest : int64[n], last, older : int64[w], see `newest_times`
    """

    windows: Sequence[ScheduledWindow]
    fresh: HeldTuples
    begin: Ints
    reach: Ints
    until: Ints
    newest: Ints
    last: Ints
    older: Ints

    @property
    def schedules(self) -> list[Schedule]:
        """Schedules of the windows that have one."""
        return [window.schedule for window in self.windows if window.schedule is not None]

    def some(self, which: Bools) -> Arrived:
        """Some windows, bool[w], and theirs."""
        if which.all():
            return self
        sizes = np.diff(self.begin)
        taken = np.flatnonzero(np.repeat(which, sizes))
        return Arrived(
            [self.windows[j] for j in np.flatnonzero(which).tolist()], self.fresh.take(taken),
            offsets_of(sizes[which]), self.reach[taken], self.until[which], self.newest[taken],
            self.last[which], self.older[which],
        )  # fmt: skip

    def part(self, j: int) -> Arrived:
        """Window j alone."""
        i, k = int(self.begin[j]), int(self.begin[j + 1])
        one, own = slice(j, j + 1), slice(i, k)
        return Arrived(
            self.windows[one], self.fresh.part(i, k), np.array([0, k - i]), self.reach[own],
            self.until[one], self.newest[own], self.last[one], self.older[one],
        )  # fmt: skip


class MovedWindows(NamedTuple):
    """Answers of windows that moved together, and the tuples that they still hold.

    Places are those among the tuples held before, window by window, and behind them the arrivals.

    answers : their `row` is a place;  window : int64[rows], whose each row is
    ranked : bool[w, names], which queries had a run that ranked something
    kept : int64[...], places of the tuples still held, window by window
    sizes : int64[w], how many these are;  after : int64[w], when each one's next run comes
    """

    answers: TopKAnswers
    window: Ints
    ranked: Bools
    kept: Ints
    sizes: Ints
    after: Ints


def arrived(
    windows: Sequence[ScheduledWindow], fresh: HeldTuples, sizes: Ints, until: Ints
) -> Arrived:
    """Arrivals, numbered and counted, of windows of one config, each once.

    fresh : window by window, so many as `sizes` (int64[w]) says;  until : see `Arrived`
    A window without a schedule has arrivals.
    """
    begin = offsets_of(sizes)
    before = np.array([window.arrived for window in windows])
    row = np.repeat(before - begin[:-1], sizes) + np.arange(fresh.size)
    fresh = replace(fresh, row=row)
    for window, at, size in zip(windows, begin.tolist(), sizes.tolist(), strict=False):
        if size:
            window.begin_with(int(fresh.time[at]))
            window.arrived += size
    if windows[0].count is None:
        reach = windows[0].reach_of(fresh)
    else:
        ends = zip(windows, begin.tolist(), begin[1:].tolist(), strict=False)
        reach = np.concatenate([window.reach_of(fresh.part(i, j)) for window, i, j in ends])
    latest = np.array([window.latest for window in windows])
    times = newest_times(fresh.time, begin, latest, until)
    return Arrived(windows, fresh, begin, reach, until, *times)


def moved_together(of: Arrived) -> tuple[Bools, MovedWindows | None]:
    """Let those windows move that can do so together: which, bool[w], and what they answer.

    All but those that rank by another semantics than Pk-topk, or streams; have other queries than
    the first, or are about to; have many runs for each arrival; might be too full for a rule; or
    have a run over more than MOST_ITEMS alternatives. These are as they were.
    """
    able = _alike(of)
    if able.any():
        some = of.some(able)
        able[able] = few(some.schedules, some.last, np.diff(some.begin))
    while able.any():
        together = _Together(of.some(able))
        if not together.unable.any():
            return able, together.move()
        able[able] = ~together.unable
    return able, None


def _alike(of: Arrived) -> Bools:
    config = of.windows[0].config
    if config.semantics != PK_TOPK or config.streams:
        return np.zeros(len(of.windows), np.bool_)
    schedules = [window.schedule for window in of.windows]
    first = next((one for one in schedules if one is not None and one.steady), None)
    able = [
        one is not None
        and first is not None
        and one.like(first)
        and abs(one.origin) < SUMMABLE_TIME
        for one in schedules
    ]
    return np.array(able) & (np.abs(of.last) < SUMMABLE_TIME)


class _Together:
    """Alike windows on their way; nothing has moved until `move`.

    unable : bool[w], which of them must go alone
    """

    def __init__(self, of: Arrived) -> None:
        self.of = of
        held = [window.held_tuples for window in of.windows]
        parts = np.array([each.size for each in held]), np.diff(of.begin)
        whose = np.concatenate([np.repeat(np.arange(len(held)), sizes) for sizes in parts])
        self.order = np.argsort(whose, kind="stable")  # window by window: those held, then arrivals
        self.owner = whose[self.order]
        self.tuples = HeldTuples.joined([*held, of.fresh]).take(self.order)
        self.windows = self._windows(offsets_of(sum(parts)), parts[0])
        rule, count, self.unable = dense_rules(self.tuples, self.owner, len(held))
        self.rules = rule, count
        self.runs = runs_of(of.schedules, of.last)
        self.ranked, self.ascending = self._ranked()
        begin, end = self.ranked.first, np.maximum(self.ranked.last, self.ranked.first)
        large = self.tuples.begin[end] - self.tuples.begin[begin] > MOST_ITEMS
        self.unable[self.runs.owner[large]] = True

    def _windows(self, begin: Ints, held: Ints) -> MovingWindows:
        of = self.of
        reach = np.concatenate([np.zeros(self.owner.size - of.reach.size, np.int64), of.reach])
        return MovingWindows(
            begin, begin[:-1] + held, self.tuples.row, self.tuples.time, reach[self.order],
            np.array([window.reach for window in of.windows]), of.windows[0].config.length or 0,
        )  # fmt: skip

    def _ranked(self) -> tuple[RankedWindows, Bools]:
        """Return the tuples that runs rank, and the windows whose times all ascend."""
        runs, length = self.runs, self.windows.length
        first, last, answered, ascending = window_spans(
            self.windows, self.of.newest, self.of.until, runs.time, runs.begin
        )
        since = runs.time - length if length else np.full(runs.time.size, NO_INSTANT)
        until = runs.time if length else np.full(runs.time.size, -NO_INSTANT)
        return (
            RankedWindows(runs.time, answered, runs.place, first, last, since, until),
            ascending,
        )

    def move(self) -> MovedWindows:
        """Rank what is to be answered, and let the windows come to where they hold what is left."""
        first, runs = self.of.windows[0], self.runs
        assert first.schedule is not None
        names, asked = asked_for(
            tuple(due.queries for due in runs.dues), tuple(first.schedule.queries.items())
        )
        rows, sizes = ranked_windows(
            self.tuples, self.rules, self.ranked, asked,
            ascending=first.config.ascending, skips=first.config.length is not None,
        )  # fmt: skip
        self._count(sizes >= 0, asked.ks[asked.some_k[1:] - 1])
        left, kept = self._left()
        self._come(self.tuples.take(left), offsets_of(kept))
        owner = np.repeat(runs.owner, np.maximum(sizes, 0))
        rows = rows._replace(row=self.order[rows.row])
        answers = TopKAnswers(names, *rows, np.empty(0, np.int64))
        return MovedWindows(
            answers, owner, self._answered(sizes >= 0, asked, len(names)), self.order[left], kept,
            runs.after,
        )  # fmt: skip

    def _count(self, ranked: Bools, greatest: Ints) -> None:
        """Runs (bool[r]) that ranked anything; the greatest k of each of the runs' `dues`."""
        owner, count = self.runs.owner, len(self.of.windows)
        executions = np.bincount(owner[ranked], minlength=count)
        cost = np.bincount(owner[ranked], greatest[self.runs.place[ranked]], count).astype(np.int64)
        for window, more, costs in zip(
            self.of.windows, executions.tolist(), cost.tolist(), strict=True
        ):
            window.executions += more
            window.cost += costs

    def _answered(self, ranked: Bools, asked: RunQueries, names: int) -> Bools:
        """Return the queries of each window with one of the runs (bool[r]) that ranked anything."""
        runs, count = self.runs, len(self.runs.dues)
        there = np.zeros((len(self.of.windows), count), np.bool_)
        there[runs.owner[ranked], runs.place[ranked]] = True
        queries = np.zeros((count, names), np.bool_)
        queries[np.repeat(np.arange(count), np.diff(asked.begin)), asked.query] = True
        answered: Bools = there @ queries
        return answered

    def _left(self) -> tuple[Ints, Ints]:
        """Places of the tuples that a later run can hold, and how many of each window they are."""
        windows, last = self.windows, self.of.last
        if windows.length:
            fits = self.tuples.time > (last - windows.length)[self.owner]
        else:
            fits = self.tuples.row >= self._reach()[self.owner]
        left = np.flatnonzero(self.tuples.valid & fits)
        return left, np.bincount(self.owner[left], minlength=last.size)

    def _reach(self) -> Ints:
        """Number of the oldest tuple that each window of rows holds behind all arrivals."""
        windows, arrivals = self.windows, np.diff(self.of.begin) > 0
        reach = windows.before.copy()
        reach[arrivals] = windows.since[windows.begin[1:][arrivals] - 1]
        return reach

    def _come(self, held: HeldTuples, ends: Ints) -> None:
        """Windows hold these tuples, and what was shown to be past is past."""
        of, end = self.of, ends.tolist()
        reach, ascending = self._reach().tolist(), self.ascending.tolist()
        for j, (window, last, older) in enumerate(
            zip(of.windows, of.last.tolist(), of.older.tolist(), strict=True)
        ):
            # A copy: a view would keep the tuples of all windows.
            part = held.part(end[j], end[j + 1], copy=True)
            window.moved_on(part, reach[j], ascending[j])
            window.out_of_order += older
            assert window.schedule is not None
            window.schedule.skip(last)
            window.latest = last
