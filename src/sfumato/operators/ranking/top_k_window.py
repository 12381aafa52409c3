"""Many top-k queries over one window of a stream, answered together when they are due."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.ranking.ranked_windows import Asked, Windows
from sfumato.operators.arrays import Ints
from sfumato.operators.ranking.ranked_items import RuleMassError
from sfumato.operators.ranking.ranked_windows import asked_for, dense_rules, ranked_windows, small
from sfumato.operators.ranking.schedule import Due, Schedule
from sfumato.operators.ranking.semantics import Semantics, rankings, stream_rankings
from sfumato.operators.ranking.timetable import Query, checked_query
from sfumato.operators.ranking.top_k_config import PK_TOPK, TopKWindowConfig
from sfumato.operators.ranking.window_answers import CollectedAnswers, TopKAnswers
from sfumato.operators.ranking.window_content import WindowContent
from sfumato.operators.ranking.window_tuples import HeldTuples, accepted_by_rules, check_restored
from sfumato.operators.state.declared import Optional, Part, Value
from sfumato.operators.state.stateful import Operator

MANY_RUNS = 16  # a tuple: of more most find nothing, and are skipped one gap after the other


class TopKWindow(WindowContent, Operator):
    """Multi-top-k over a sliding window, one ranking at each instant of the timetable.

    queries : name -> (k, every), `every` in microseconds
    length : int microseconds: at instant t the window holds the tuples with t - length <= time < t
    rows : int, instead of `length`: the window holds the newest `rows` tuples before t (of which
        some may be left out, see `strict`), or, with a `confidence`, the uncertain window of
        `rows` existing tuples before t (UncertainWindow, which takes tuples as independent also
        where rules bind them)
    confidence : float in (0, 1], with `rows` only;  max_tuples : int or None, with it only
    semantics : a Semantics, or its name
    plan : "dp", "greedy", or another name that `timetable` knows
    start : int microseconds, the instant from which `every` counts; by default the first tuple's
        time, rounded down to a multiple of the greatest common divisor of all `every`
    ascending : whether the least score ranks first
    streams : whether streams are ranked, by the sum over their tuples (pk_topk only)
    strict : raise RuleMassError where the members of a rule in one window have more than
        probability 1 (go on from a snapshot then). Otherwise the latest arrivals that overfill it
        are left out for good, and listed in `rejected`

    Time is what the tuples say. An instant t is past once a tuple of time >= t arrives, or
    `advance(t)` says so; it is answered from what arrived before. A tuple older than the newest
    one before it is taken as it comes, in the windows it still belongs to, and counted.
    Answers do not depend on how arrivals are split into calls, nor on snapshot and restore.
    Cost: one ranking for the greatest k, for each instant; memory: one window. Under Pk-topk small
    windows whose rules fit together are ranked in one kernel run a call.

    Raises ValueError for arguments out of range.
    Source: D, sections 3-8; windows are half open as extents are.

    >>> window = TopKWindow({"best": (1, 10)}, length=20)
    >>> answers = window.extend([0, 4, 11], scores=[5.0, 7.0, 9.0], prob=[0.9, 0.4, 0.5])
    >>> answers.time.tolist(), answers.row.tolist(), answers.probability.round(2).tolist()
    ([10], [0], [0.54])
    """

    kind, version = "top_k_window", 3
    config: TopKWindowConfig
    state = {
        "unstarted": Value(dict),
        "schedule": Optional(Part("_new_schedule")),
        "arrived": Value(low=0),
        **dict.fromkeys(("out_of_order", "rejected", "executions", "cost"), Value(low=0)),
    }

    def __init__(
        self,
        queries: Mapping[str, Sequence[int]],
        *,
        length: int | None = None,
        rows: int | None = None,
        confidence: float | None = None,
        max_tuples: int | None = None,
        semantics: Semantics | str = PK_TOPK,
        plan: str = "dp",
        start: int | None = None,
        ascending: bool = False,
        streams: bool = False,
        strict: bool = False,
    ) -> None:
        if not isinstance(semantics, Semantics):
            semantics = Semantics(semantics)
        config = TopKWindowConfig(
            tuple((name, *query) for name, query in queries.items()),  # type: ignore[misc]
            length, rows, confidence, max_tuples, semantics, plan, start, ascending, streams,
            strict,
        )  # fmt: skip
        super().__init__(config)
        self.schedule: Schedule | None = None
        self.unstarted = {name: (k, every) for name, k, every in config.queries}
        if config.start is not None:
            self._begin(config.start)
        self.arrived, self.out_of_order, self.rejected = 0, 0, 0
        self.executions, self.cost = 0, 0

    @classmethod
    def of(cls, config: TopKWindowConfig, **_: Any) -> TopKWindow:
        queries = {name: (k, every) for name, k, every in config.queries}
        return cls(**{**vars(config), "queries": queries})

    def extend(
        self,
        time: npt.ArrayLike,
        *,
        scores: npt.ArrayLike,
        prob: npt.ArrayLike,
        offsets: npt.ArrayLike | None = None,
        rules: npt.ArrayLike | None = None,
        streams: npt.ArrayLike | None = None,
    ) -> TopKAnswers:
        """Take arrivals, and answer at every instant that they show to be past.

        time : int64[n] microseconds, in order of arrival
        scores, prob : float64[m] of the items, with m = n, or with `offsets` int64[n + 1] tuple
            i's alternatives at offsets[i] ... offsets[i + 1] - 1
        rules : int64[n] or None, negative for no rule;  streams : int64[n], if streams are ranked
        Raises ValueError, with nothing taken, for arrays that RankedItems would refuse but for
        rules, which only meet in a window (see `strict`).
        """
        fresh = HeldTuples.of_arrivals(self.arrived, time, scores, prob, offsets, rules, streams)
        if self.config.streams and streams is None:
            raise ValueError("`streams` must say each tuple's stream, for streams are ranked")
        if fresh.size == 0:
            return CollectedAnswers().answers()
        self._begin_with(int(fresh.time[0]))
        before = self.held_tuples.size
        self.enter(fresh)
        self.arrived += fresh.size
        newest = np.maximum.accumulate(np.maximum(fresh.time, self.latest))
        older = np.concatenate([[self.latest], newest[:-1]])
        self.out_of_order += int(np.count_nonzero(fresh.time < older))
        return self._answer_until(before, newest)

    def advance(self, to: int) -> TopKAnswers:
        """Answer at every instant up to `to`: no tuple of an earlier time is to be awaited."""
        to = operator.index(to)
        if self.schedule is None or to <= self.latest:
            return CollectedAnswers().answers()
        self.stay()
        return self._answer_until(self.held_tuples.size, np.array([to]))

    def add(self, name: str, k: int, every: int) -> None:
        """Register another query as of now, the newest time known (see Schedule.add)."""
        if self.schedule is not None:
            self.schedule.add(name, k, every, self.schedule.clock)
        elif name in self.unstarted:
            raise ValueError(
                f"a query named {name!r} is running: remove it, or choose another name"
            )
        else:
            self.unstarted[name] = checked_query((k, every))

    def remove(self, name: str) -> None:
        """Answer a query no more (see Schedule.remove). Raises KeyError for an unknown name."""
        if self.schedule is not None:
            self.schedule.remove(name, self.schedule.clock)
        else:
            del self.unstarted[name]

    @property
    def queries(self) -> dict[str, Query]:
        """The queries that are registered, name -> (k, every)."""
        if self.schedule is None:
            return dict(self.unstarted)
        return {**self.schedule.queries, **self.schedule.waiting}

    @property
    def overflow(self) -> int:
        """Tuples that `max_tuples` evicted."""
        return 0 if self.count is None else self.count.overflow

    @property
    def next_due(self) -> int | None:
        """The next instant with a run, in microseconds; None before the first tuple."""
        return None if self.schedule is None else self.schedule.next()

    def upcoming(self, number: int) -> list[Due]:
        """The next runs, at most `number`; none before the first tuple."""
        return [] if self.schedule is None else self.schedule.upcoming(number)

    @property
    def held(self) -> Ints:
        """Arrival numbers of the tuples that can still be in an answer, ascending: a copy."""
        return self.held_tuples.row.copy()

    # ---- what is saved

    def _new_schedule(self) -> Schedule:
        return Schedule({}, 0, self.config.plan)

    def after_loading(self) -> None:
        super().after_loading()
        self.unstarted = {name: checked_query(query) for name, query in self.unstarted.items()}
        check_restored(self.held_tuples, self.arrived)

    def _begin(self, start: int) -> None:
        self.schedule = Schedule(self.unstarted, start, self.config.plan)

    def _begin_with(self, first: int) -> None:
        """The clock starts with the first tuple, at a round time."""
        if self.schedule is None:
            unit = math.gcd(*(every for _, every in self.unstarted.values())) or 1
            self._begin(first // unit * unit)

    def _answer_until(self, before: int, newest: Ints) -> TopKAnswers:
        """Answer the instants up to newest[-1]; of the tuples from place `before` on, the i-th
        arrives when time newest[i] is reached."""
        assert self.schedule is not None
        answers = self._answered_together(before, newest) or self._answered(before, newest)
        last = int(newest[-1])
        self.schedule.skip(last)
        self.latest = max(self.latest, last)
        self.forget()
        return answers

    def _answered_together(self, before: int, newest: Ints) -> TopKAnswers | None:
        """Those answers, of all instants in one call; None where they need each other, or more."""
        assert self.schedule is not None
        held, config = self.held_tuples, self.config
        if config.semantics != PK_TOPK or config.streams:
            return None
        runs = self.schedule.runs_until(int(newest[-1]), MANY_RUNS * (newest.size + 16))
        rules = dense_rules(held)
        if runs is None or rules is None:
            return None
        if not runs.time.size:
            return CollectedAnswers().answers()
        reached = np.searchsorted(newest, runs.time)  # these tuples show they are past
        spans = self.spans(runs.time, before, reached)
        windows = Windows(runs.time, newest[reached], runs.place, *spans)
        if not small(held, windows):
            return None
        asked = self._asked(*(due.queries for due in runs.dues))
        skips = config.length is not None
        found = ranked_windows(held, rules, windows, asked, config.ascending, skips)
        self.executions += found.executions
        self.cost += found.cost
        return found.answers

    def _answered(self, before: int, newest: Ints) -> TopKAnswers:
        """Those answers, one instant after the other."""
        assert self.schedule is not None
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
        return out.answers()

    def _run(self, due: Due, now: int, window: Ints, out: CollectedAnswers) -> Ints:
        """Answer the queries of one run, the time being `now`; the window without the tuples that
        overfill their rule."""
        assert self.schedule is not None
        self.executions += 1
        self.cost += due.k
        try:
            items = self.held_tuples.ranked(window, self.config.ascending)
        except RuleMassError:
            if self.config.strict:
                raise
            window = self._without_overfull(window, out)
            items = self.held_tuples.ranked(window, self.config.ascending)
        _, asked = self._asked(due.queries)
        if self.config.streams:
            found = stream_rankings(items, self.held_tuples.stream[window], asked.ks)
        else:
            found = rankings(items, asked.ks, self.config.semantics)
        out.add(due, now, asked.k, asked.ranking, found, self.held_tuples.row[window])
        return window

    def _asked(self, *runs: tuple[str, ...]) -> tuple[tuple[str, ...], Asked]:
        """What runs are asked for that answer these queries each."""
        assert self.schedule is not None
        return asked_for(runs, tuple(self.schedule.queries.items()))

    def _without_overfull(self, window: Ints, out: CollectedAnswers) -> Ints:
        fine = accepted_by_rules(self.held_tuples, window)
        out.rejected.append(self.held_tuples.row[window[~fine]])
        self.held_tuples.valid[window[~fine]] = False
        self.rejected += int(np.count_nonzero(~fine))
        return window[fine]
