"""A timetable at run time: the next instant, and queries that come and go."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from sfumato.operators.ranking.timetable import PLANS, Query, Timetable, checked_query, timetable
from sfumato.operators.state.declared import Value
from sfumato.operators.state.stateful import Operator


class Due(NamedTuple):
    """One run: at `time` (microseconds) these queries are answered, the greatest k being `k`."""

    time: int
    k: int
    queries: tuple[str, ...]


@dataclass(frozen=True)
class ScheduleConfig:
    """Settings of a schedule: (name, k, every) of its queries, start and plan."""

    queries: tuple[tuple[str, int, int], ...]
    start: int
    plan: str = "dp"


class Schedule(Operator):
    """Instants at which named queries are due, from a start on.

    queries : name -> (k, every), `every` in microseconds;  start : int, microseconds
    plan : as in `timetable`

    Bound: from `start`, or its registration, on no query waits longer than its `every`.

    A query added at `now` enters where the running cycle ends. If that were too late for it, the
    cycle ends early: at the last run that is soon enough, which then answers all queries, or at
    now + every if there is none. A removed query is not answered any more; the timetable without
    it begins where the cycle ends. So no bound is missed: wherever a timetable begins, all
    queries were just answered.
    Which instants are taken together, and snapshot and restore, do not matter.

    Raises ValueError for queries or a plan that `timetable` does not take.
    Source: D, sections 6-8 (timetables); the change at run time is ours.

    >>> schedule = Schedule({"a": (3, 2), "b": (4, 3), "c": (5, 5)}, start=100)
    >>> [(due.time, due.queries) for due in schedule.take(104)]
    [(102, ('a', 'b')), (104, ('a', 'b', 'c'))]
    """

    kind, version = "schedule", 2
    config: ScheduleConfig
    state = {"course": Value(dict)}

    def __init__(self, queries: Mapping[str, Sequence[int]], start: int, plan: str = "dp") -> None:
        checked = {str(name): checked_query(query) for name, query in queries.items()}
        self.config = ScheduleConfig(tuple(_listed(checked)), operator.index(start), plan)
        self.plan = plan
        self.queries: dict[str, Query] = {}  # answered now
        self.waiting: dict[str, Query] = {}  # from the next timetable on
        self.clock = self.origin = operator.index(start)  # every instant up to the clock was taken
        self._switch: int | None = None
        self._planned: dict[str, Query] = {}  # what the timetable was made for
        self.table: Timetable | None = None  # in force; None while there is no query
        self._live: dict[int, Due | None] = {}  # by group, until something changes
        if str(plan).lower() not in PLANS:
            timetable([(1, 1)], plan)  # says what is wrong
        self.queries |= checked
        self._replan(self.origin)

    @classmethod
    def of(cls, config: ScheduleConfig, **_: Any) -> Schedule:
        return cls(_named(config.queries), config.start, config.plan)

    def next(self) -> int | None:
        """The next instant at which a query is due; None while there is no query."""
        for due in self._runs(self._switch):
            return due.time
        return self._switch

    def upcoming(self, number: int) -> list[Due]:
        """The next runs, at most `number`, as things stand."""
        return list(islice(self._runs(self._switch), number))

    def take(self, until: int) -> list[Due]:
        """All runs after those taken before, up to and with `until`, in order of time.

        Runs at one instant under a plan without sharing are listed one by one.
        """
        taken: list[Due] = []
        while self._switch is not None and self._switch <= until:
            taken += self._runs(self._switch)
            taken += self._answer_all(self._switch)
            self._begin(self._switch)
        taken += self._runs(until + 1)
        self.clock = max(self.clock, until)
        return taken

    @property
    def steady(self) -> bool:
        """True if its timetable is shared, and goes on as it is until a query comes or goes."""
        return self._switch is None and self.table is not None and self.table.shared

    def like(self, other: Schedule) -> bool:
        """True if both are steady, with the same queries and timetable."""
        same = self.table is other.table and self.steady and other.steady
        return same and list(self.queries.items()) == list(other.queries.items())

    def live_of(self, group: int) -> Due | None:
        """Return the run of this group with the present queries; None if it answers none."""
        assert self.table is not None
        if group not in self._live:
            names = tuple(self._planned)
            live = [names[i] for i in self.table.answers(group) if names[i] in self.queries]
            self._live[group] = _due(0, live, self.queries) if live else None
        return self._live[group]

    def skip(self, until: int) -> None:
        """As `take`, without listing the runs: cheap over any span of time."""
        while self._switch is not None and self._switch <= until:
            self._begin(self._switch)
        self.clock = max(self.clock, until)

    def add(self, name: str, k: int, every: int, now: int) -> None:
        """Register a query at `now`: it is first answered by now + every.

        Raises ValueError for a name in use, numbers out of range, or runs up to `now` not taken.
        """
        query = checked_query((k, every))
        if name in self.queries or name in self.waiting:
            raise ValueError(
                f"a query named {name!r} is running: remove it, or choose another name"
            )
        self._check_taken(now)
        if not self.queries and not self.waiting:
            self.queries[name] = query
            self._replan(now)
            return
        self.waiting[name] = query
        self._switch = self._soon_enough(now, now + query[1])

    def remove(self, name: str, now: int) -> None:
        """Answer a query no more after `now`.

        Raises KeyError for an unknown name, ValueError for runs up to `now` not taken.
        """
        self._check_taken(now)
        if name not in self.queries and name not in self.waiting:
            raise KeyError(f"no query is named {name!r}")
        self._live.clear()
        self.queries.pop(name, None)
        self.waiting.pop(name, None)
        if not self.queries and not self.waiting:
            self._replan(now)
        elif self._switch is None:
            assert self.table is not None
            cycle = self.table.cycle
            self._switch = self.origin + ((now - self.origin) // cycle + 1) * cycle

    def rename(self, names: Mapping[str, str]) -> None:
        """Call queries by other names; when each is answered stays.

        names : old name -> new name. A name that the running timetable knows already stays free for
        the query that it means there: the one to be called so keeps its own.
        """
        taken = {*self.queries, *self.waiting, *self._planned}
        names = {old: new for old, new in names.items() if new not in taken}
        for known in (self.queries, self.waiting, self._planned):
            renamed = {names.get(name, name): query for name, query in known.items()}
            known.clear()
            known.update(renamed)
        self._live.clear()

    @property
    def course(self) -> dict[str, Any]:
        """State to save: the queries, where their timetable began, and how far it was taken."""
        return {
            "queries": _listed(self.queries),
            "waiting": _listed(self.waiting),
            "planned": _listed(self._planned),
            "clock": self.clock,
            "origin": self.origin,
            "switch": self._switch,
        }

    @course.setter
    def course(self, course: Mapping[str, Any]) -> None:
        self.waiting = _named(course["waiting"])
        self.queries = _named(course["planned"])
        self._replan(operator.index(course["origin"]))
        self.queries = _named(course["queries"])
        self.clock, self._switch = operator.index(course["clock"]), course["switch"]
        possible = self.clock >= self.origin and self.queries.keys() <= self._planned.keys()
        if not possible or not isinstance(self._switch, int | None):
            raise ValueError(f"a schedule cannot have come to {course}")

    def _runs(self, end: int | None) -> Iterator[Due]:
        """Runs of this timetable after the clock and before `end`, if they answer any query."""
        if self.table is None or not self.queries:
            return
        for time, group in self.table.after(self.clock - self.origin):
            if end is not None and self.origin + time >= end:
                return
            live = self.live_of(group)
            if live is not None:
                yield live._replace(time=self.origin + time)

    def _answer_all(self, time: int) -> list[Due]:
        """The runs at the end of a cycle that was set by a change."""
        everyone = {**self.queries, **self.waiting}
        names = tuple(everyone)
        table = timetable(everyone.values(), self.plan)
        last = len(table.groups)
        groups = [last] if table.shared else range(1, last + 1)
        return [_due(time, [names[i] for i in table.answers(each)], everyone) for each in groups]

    def _soon_enough(self, now: int, deadline: int) -> int:
        """Where to end the cycle so that all queries can be answered there by `deadline`."""
        assert self.table is not None
        if self._switch is not None and self._switch <= deadline:
            return self._switch
        origin, cycle, limit = self.origin, self.table.cycle, deadline
        if self.table.shared:
            limit = min(limit, origin + ((now - origin) // cycle + 1) * cycle)
        run = self.table.last_before(now - origin, limit - origin)
        return limit if run is None else origin + run

    def _begin(self, instant: int) -> None:
        """All queries, the waiting ones too, were just answered: a new timetable begins."""
        self.queries.update(self.waiting)
        self.waiting.clear()
        self._replan(instant)

    def _replan(self, origin: int) -> None:
        self._switch, self.origin, self._planned = None, origin, dict(self.queries)
        self.clock = max(self.clock, origin)
        self._live.clear()
        self.table = timetable(self.queries.values(), self.plan) if self.queries else None

    def _check_taken(self, now: int) -> None:
        first = self.next()
        if now < self.clock or (first is not None and first <= now):
            raise ValueError(
                f"`now` must not lie before the clock, {self.clock}, and runs up to it must have "
                f"been taken; got {now}, and the next run is at {first}: call take({now}) first"
            )


def _due(time: int, names: Sequence[str], queries: Mapping[str, Query]) -> Due:
    return Due(time, max(queries[name][0] for name in names), tuple(names))


def _named(rows: Iterable[Sequence[Any]]) -> dict[str, Query]:
    return {str(name): checked_query((k, every)) for name, k, every in rows}


def _listed(queries: Mapping[str, Query]) -> list[tuple[str, int, int]]:
    return [(name, k, every) for name, (k, every) in queries.items()]
