"""A timetable at run time: its next instants, and changes to the queries."""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np

from sfumato.operators.arrays import Bools, Ints, ranges_of
from sfumato.operators.ranking.timetable import KAndFrequency, Timetable, checked_query, timetable

NO_RUN = 2**62  # no instant is due
MAX_TIME = 2**61  # sums of times fit in int64
COURSE = ("clock", "origin", "early end")  # the times that describe a schedule


class DueRun(NamedTuple):
    """A run at `time` (microseconds), which answers `queries`."""

    time: int
    queries: tuple[str, ...]


class Schedule:
    """Instants, starting at `start`, at which named queries are due.

    queries : name -> (k, every), `every` in microseconds;  start : int, microseconds
    plan : as in `timetable`

    Bound: after `start` or its registration, no query waits longer than `every` for an answer.

    An added query joins at the end of the running cycle. If that end is too late for the query, the
    cycle ends at the last run that is early enough, and this run answers all queries. If there is
    no such run, the cycle ends `every` after the query was added. A removed query is no longer
    answered; a timetable without it starts at the end of the cycle. Bounds hold because all queries
    are answered when a timetable starts. Results do not depend on how instants are split into
    calls, nor on snapshot and restore.

    Raises ValueError for queries or a plan that `timetable` rejects.
    Source: Chen et al. (2013), sections 6-8; changes at run time are not in the paper.

    >>> schedule = Schedule({"a": (3, 2), "b": (4, 3), "c": (5, 5)}, start=100)
    >>> [(due.time, due.queries) for due in schedule.take(104)]
    [(102, ('a', 'b')), (104, ('a', 'b', 'c'))]
    """

    def __init__(self, queries: Mapping[str, Sequence[int]], start: int, plan: str = "dp") -> None:
        self.plan = plan
        self.queries = queries_by_name((name, *query) for name, query in queries.items())
        self.waiting: dict[str, KAndFrequency] = {}  # included in the next timetable
        self.clock = self.origin = operator.index(start)  # all runs up to the clock were taken
        self._switch: int | None = None
        self._planned: dict[str, KAndFrequency] = {}  # queries of the timetable
        self.table: Timetable | None = None  # current timetable; None without queries
        self._live: dict[int, tuple[str, ...]] = {}  # cache by group, cleared by changes
        self._replan(self.origin)

    def next(self) -> int | None:
        """Return the next instant at which a query is due; None without queries."""
        return next((due.time for due in self._runs(self._switch)), self._switch)

    def upcoming(self, number: int) -> list[DueRun]:
        """Return at most `number` next runs, assuming that queries do not change."""
        return list(islice(self._runs(self._switch), number))

    def take(self, until: int) -> list[DueRun]:
        """Return all runs up to and including `until` that were not yet taken, in order of time.

        Plans without sharing return one run per group, even at the same instant.
        """
        taken: list[DueRun] = []
        while self._switch is not None and self._switch <= until:
            taken += self._runs(self._switch)
            taken += self._answer_all(self._switch)
            self._start_timetable(self._switch)
        taken += self._runs(until + 1)
        self.clock = max(self.clock, until)
        return taken

    @property
    def is_steady(self) -> bool:
        """Return whether the timetable is shared and continues unless queries change."""
        return self._switch is None and self.table is not None and self.table.shared

    def live_queries(self, group: int) -> tuple[str, ...]:
        """Return the current queries that a run of this group answers."""
        assert self.table is not None
        if group not in self._live:
            names = [tuple(self._planned)[i] for i in self.table.answers(group)]
            self._live[group] = tuple(name for name in names if name in self.queries)
        return self._live[group]

    def skip(self, until: int) -> None:
        """Discard all runs up to `until`; the cost does not depend on the time span."""
        while self._switch is not None and self._switch <= until:
            self._start_timetable(self._switch)
        self.clock = max(self.clock, until)

    def add(self, name: str, k: int, every: int) -> None:
        """Register a query with a new name; its first answer is due by clock + every."""
        if not self.queries and not self.waiting:
            self.queries[name] = k, every
            self._replan(self.clock)
            return
        self.waiting[name] = k, every
        self._switch = self._cycle_end_by(self.clock + every)

    def remove(self, name: str) -> None:
        """Remove a query; the schedule no longer answers it."""
        self._live.clear()
        self.queries.pop(name, None)
        self.waiting.pop(name, None)
        if not self.queries and not self.waiting:
            self._replan(self.clock)
        elif self._switch is None:
            self._switch = self._cycle_end

    def rename(self, names: Mapping[str, str]) -> None:
        """Rename queries, old name -> new name, except to names that are in use."""
        taken = {*self.queries, *self.waiting, *self._planned}
        names = {old: new for old, new in names.items() if new not in taken}
        for known in (self.queries, self.waiting, self._planned):
            renamed = {names.get(name, name): query for name, query in known.items()}
            known.clear()
            known.update(renamed)
        self._live.clear()

    @property
    def plans(self) -> tuple[tuple[tuple[str, int, int], ...], ...]:
        """The queries, the waiting queries, and the queries of the timetable."""
        return tuple(query_rows(of) for of in (self.queries, self.waiting, self._planned))

    @property
    def course(self) -> tuple[int, int, int]:
        """The times named in COURSE; the early end is NO_RUN if the timetable has none."""
        return self.clock, self.origin, NO_RUN if self._switch is None else self._switch

    @classmethod
    def resumed(cls, plans: Sequence[Iterable[Any]], course: Sequence[int], plan: str) -> Self:
        """Return the schedule with these `plans` and `course`. Raises ValueError."""
        queries, waiting, planned = map(queries_by_name, plans)
        clock, origin, switch = course
        found = cls({}, origin, plan)
        found.queries = planned
        found._replan(origin)
        found.queries, found.waiting, found.clock = queries, waiting, clock
        found._switch = None if switch == NO_RUN else switch
        possible = clock >= origin and queries.keys() <= planned.keys()
        times = clock, origin, found._switch or 0
        if not possible or any(abs(time) > MAX_TIME for time in times):
            raise ValueError(f"a schedule cannot have reached the state {plans}, {course}")
        return found

    def _runs(self, end: int | None) -> Iterator[DueRun]:
        """Yield the runs after the clock and before `end` that answer at least one query."""
        if self.table is None or not self.queries:
            return
        for time, group in self.table.after(self.clock - self.origin):
            if end is not None and self.origin + time >= end:
                return
            if live := self.live_queries(group):
                yield DueRun(self.origin + time, live)

    def _answer_all(self, time: int) -> list[DueRun]:
        """Return the runs that answer all queries at `time`, when a change ends a cycle."""
        everyone = {**self.queries, **self.waiting}
        names = tuple(everyone)
        table = timetable(everyone.values(), self.plan)
        last = len(table.groups)
        groups = [last] if table.shared else range(1, last + 1)
        return [DueRun(time, tuple(names[i] for i in table.answers(g))) for g in groups]

    @property
    def _cycle_end(self) -> int:
        """The end of the running cycle, after the clock."""
        assert self.table is not None
        cycle = self.table.cycle
        return self.origin + ((self.clock - self.origin) // cycle + 1) * cycle

    def _cycle_end_by(self, deadline: int) -> int:
        """Return the instant, at most `deadline`, at which to end the running cycle."""
        assert self.table is not None
        if self._switch is not None and self._switch <= deadline:
            return self._switch
        limit = min(deadline, self._cycle_end) if self.table.shared else deadline
        run = self.table.last_before(self.clock - self.origin, limit - self.origin)
        return limit if run is None else self.origin + run

    def _start_timetable(self, instant: int) -> None:
        """Start a timetable with all queries, which were answered at `instant`."""
        self.queries.update(self.waiting)
        self.waiting.clear()
        self._replan(instant)

    def _replan(self, origin: int) -> None:
        self._switch, self.origin, self._planned = None, origin, dict(self.queries)
        self.clock = max(self.clock, origin)
        self._live.clear()
        self.table = timetable(self.queries.values(), self.plan) if self.queries else None


def queries_by_name(rows: Iterable[Sequence[Any]]) -> dict[str, KAndFrequency]:
    return {str(name): checked_query((k, every)) for name, k, every in rows}


def query_rows(queries: Mapping[str, KAndFrequency]) -> tuple[tuple[str, int, int], ...]:
    return tuple((name, k, every) for name, (k, every) in queries.items())


def _find_steady(schedules: Sequence[Schedule]) -> tuple[Schedule | None, Bools, Ints, Ints]:
    """Return a steady schedule, the mask of schedules equal to it, and all origins and clocks."""
    first = next((each for each in schedules if each.is_steady), None)
    alike = [
        first is not None
        and each.table is first.table
        and each.is_steady
        and each.queries == first.queries
        for each in schedules
    ]
    times = np.array([(each.origin, each.clock) for each in schedules], np.int64).reshape(-1, 2)
    return first, np.array(alike, np.bool_), times[:, 0], times[:, 1]


def next_runs(schedules: Sequence[Schedule]) -> Ints:
    """Return int64[w]: the instant of each schedule's next run, or NO_RUN."""
    first, alike, origin, clock = _find_steady(schedules)
    found = np.full(len(schedules), NO_RUN)
    if first is not None and first.table is not None:
        number = first.table.count_until((clock - origin)[alike])
        found[alike] = origin[alike] + first.table.runs_at(number)[0]
    for j in np.flatnonzero(~alike).tolist():
        due = schedules[j].next()
        found[j] = NO_RUN if due is None else due
    return found


def runs_within(
    schedules: Sequence[Schedule], window: Ints, after: Ints, upto: Ints
) -> tuple[Ints, tuple[tuple[str, ...], ...]]:
    """Return the runs of schedule window[i] in the interval (after[i], upto[i]], for each i.

    window, after, upto : int64[i]
    Returns int64[3, r], each run's interval, time and kind, in this order; and each kind's queries.
    The clocks of steady schedules are not advanced.
    """
    first, alike, origin, clock = _find_steady(schedules)
    kinds: dict[tuple[str, ...], int] = {}
    found = [np.empty((3, 0), np.int64)]
    some = np.flatnonzero(alike[window])
    if some.size and first is not None and first.table is not None:
        own, table = window[some], first.table
        ends = (np.maximum(times[some], clock[own]) - origin[own] for times in (after, upto))
        begin, end = (table.count_until(times) for times in ends)
        time, group = table.runs_at(ranges_of(begin, end - begin)[1])
        kind = np.empty(len(table.groups) + 1, np.int64)
        for each in np.flatnonzero(np.bincount(group)).tolist():
            kind[each] = kinds.setdefault(first.live_queries(each), len(kinds))
        times = np.repeat(origin[own], end - begin) + time
        found.append(np.stack([np.repeat(some, end - begin), times, kind[group]]))
    for i in np.flatnonzero(~alike[window]).tolist():
        schedule = schedules[window[i]]
        schedule.skip(int(after[i]))
        for due in schedule.take(int(upto[i])):
            number = kinds.setdefault(due.queries, len(kinds))
            found.append(np.array([[i], [due.time], [number]], np.int64))
    runs = np.concatenate(found, axis=1)
    return runs[:, np.argsort(runs[0], kind="stable")], tuple(kinds)
