"""Many top-k queries over one window of a stream, answered together when they are due."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Ints
from sfumato.operators.ranking.schedule import Due
from sfumato.operators.ranking.semantics import Semantics
from sfumato.operators.ranking.timetable import Query, checked_query
from sfumato.operators.ranking.window_answers import CollectedAnswers, TopKAnswers
from sfumato.operators.ranking.window_content import (
    NO_INSTANT,
    PK_TOPK,
    HeldTuples,
    TopKWindowConfig,
    check_restored,
)
from sfumato.operators.ranking.window_runs import ScheduledWindow, arrived, moved_together
from sfumato.operators.state.stateful import Operator


class TopKWindow(ScheduledWindow, Operator):
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
    rescale : scale the members of such a rule, in each window, by their sum; none is left out

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
        rescale: bool = False,
    ) -> None:
        if not isinstance(semantics, Semantics):
            semantics = Semantics(semantics)
        config = TopKWindowConfig(
            tuple((name, *query) for name, query in queries.items()),  # type: ignore[misc]
            length, rows, confidence, max_tuples, semantics, plan, start, ascending, streams,
            strict, rescale,
        )  # fmt: skip
        super().__init__(config)

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
        exclusive: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
    ) -> TopKAnswers:
        """Take arrivals, and answer at every instant that they show to be past.

        time : int64[n] microseconds, in order of arrival
        scores, prob : float64[m] of the items, with m = n, or with `offsets` int64[n + 1] tuple
            i's alternatives at offsets[i] ... offsets[i + 1] - 1
        exclusive : int64[n], the tuples' rules, negative for none, or None
        group : int64[n], the tuples' streams, if streams are ranked
        Raises ValueError, with nothing taken, for arrays that RankedItems would refuse but for
        rules, which only meet in a window (see `strict`).
        """
        fresh = HeldTuples.of_arrivals(time, scores, prob, offsets, exclusive, group)
        if self.config.streams and group is None:
            raise ValueError("`group` must say each tuple's stream, for streams are ranked")
        return self._moved(fresh, NO_INSTANT) if fresh.size else CollectedAnswers().answers()

    def advance(self, to: int) -> TopKAnswers:
        """Answer at every instant up to `to`: no tuple of an earlier time is to be awaited."""
        to = operator.index(to)
        if self.schedule is None or to <= self.latest:
            return CollectedAnswers().answers()
        return self._moved(HeldTuples.none(), to)

    def _moved(self, fresh: HeldTuples, until: int) -> TopKAnswers:
        of = arrived([self], fresh, np.array([fresh.size]), np.array([until]))
        before = self.held_tuples.row
        _, moved = moved_together(of)
        if moved is None:
            return self.answered(of.fresh, of.reach, until)
        row = np.concatenate([before, of.fresh.row])[moved.answers.row]
        answers = moved.answers._replace(row=row)
        if not moved.ranked.all():  # queries without a run that ranked anything were not answered
            there = np.flatnonzero(moved.ranked[0])
            names = tuple(answers.names[i] for i in there)
            answers = answers._replace(names=names, query=np.searchsorted(there, answers.query))
        return answers

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

    def rename(self, names: Mapping[str, str]) -> None:
        """Call queries by other names, old -> new (see Schedule.rename)."""
        if self.schedule is not None:
            self.schedule.rename(names)
        else:
            known = self.unstarted
            self.unstarted = {names.get(name, name): query for name, query in known.items()}

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

    def after_loading(self) -> None:
        super().after_loading()
        self.unstarted = {name: checked_query(query) for name, query in self.unstarted.items()}
        check_restored(self.held_tuples, self.arrived)
