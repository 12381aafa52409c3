"""A top-k window and its timetable: what it answers, one instant after the other."""

from __future__ import annotations

import math

import numpy as np

from sfumato.kernels.ranking.ranked_windows import Asked
from sfumato.operators.arrays import Ints
from sfumato.operators.ranking.ranked_items import RuleMassError
from sfumato.operators.ranking.ranked_windows import asked_for
from sfumato.operators.ranking.schedule import Due, Schedule
from sfumato.operators.ranking.semantics import rankings, stream_rankings
from sfumato.operators.ranking.timetable import Query
from sfumato.operators.ranking.top_k_config import TopKWindowConfig
from sfumato.operators.ranking.window_answers import CollectedAnswers, TopKAnswers
from sfumato.operators.ranking.window_content import WindowContent
from sfumato.operators.ranking.window_tuples import HeldTuples, accepted_by_rules
from sfumato.operators.state.declared import Optional, Part, Value


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

    def _asked(self, due: Due) -> Asked:
        """What a run is asked for."""
        assert self.schedule is not None
        return asked_for((due.queries,), tuple(self.schedule.queries.items()))[1]

    def _without_overfull(self, window: Ints, out: CollectedAnswers) -> Ints:
        fine = accepted_by_rules(self.held_tuples, window)
        out.rejected.append(self.held_tuples.row[window[~fine]])
        self.held_tuples.valid[window[~fine]] = False
        self.rejected += int(np.count_nonzero(~fine))
        return window[fine]
