"""Top-k windows that move together: one compiled call ranks all that they are to answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sfumato.kernels.ranking.moving_windows import MovingWindows, newest_times, window_spans
from sfumato.kernels.ranking.ranked_windows import Asked, Windows
from sfumato.operators.arrays import Bools, Ints, offsets_of
from sfumato.operators.ranking.ranked_windows import (
    MOST_ITEMS,
    asked_for,
    dense_rules,
    ranked_windows,
)
from sfumato.operators.ranking.runs_of_windows import few, runs_of
from sfumato.operators.ranking.schedule import Schedule
from sfumato.operators.ranking.scheduled_window import ScheduledWindow
from sfumato.operators.ranking.top_k_config import PK_TOPK
from sfumato.operators.ranking.window_answers import TopKAnswers
from sfumato.operators.ranking.window_content import NEVER
from sfumato.operators.ranking.window_tuples import HeldTuples

FARTHEST = 2**61  # times beyond are not added to


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
        """Of those windows that have one."""
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


class Moved(NamedTuple):
    """What windows answer that moved together, and what they still hold.

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


def moved_together(of: Arrived) -> tuple[Bools, Moved | None]:
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
        one is not None and first is not None and one.like(first) and abs(one.origin) < FARTHEST
        for one in schedules
    ]
    return np.array(able) & (np.abs(of.last) < FARTHEST)


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

    def _ranked(self) -> tuple[Windows, Bools]:
        """What the runs rank, and where all times of a window ascend."""
        runs, length = self.runs, self.windows.length
        first, last, answered, ascending = window_spans(
            self.windows, self.of.newest, self.of.until, runs.time, runs.begin
        )
        since = runs.time - length if length else np.full(runs.time.size, NEVER)
        until = runs.time if length else np.full(runs.time.size, -NEVER)
        return (
            Windows(runs.time, answered, runs.place, first, last, since, until),
            ascending,
        )

    def move(self) -> Moved:
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
        return Moved(
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

    def _answered(self, ranked: Bools, asked: Asked, names: int) -> Bools:
        """Which queries of each window have had one of the runs (bool[r]) that ranked anything."""
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
