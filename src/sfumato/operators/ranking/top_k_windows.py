"""Top-k queries over sliding windows, answered together when they are due."""

import math
import operator
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.ranking.windows import (
    NO_INSTANT,
    RankedWindowTuples,
    RunQueries,
    WindowRuns,
    closed_intervals,
    rank_windows,
)
from sfumato.operators.arguments import microseconds, whole
from sfumato.operators.arrays import Bools, Floats, Ints, by_code, grouped, offsets_of, pad
from sfumato.operators.ranking.schedule import (
    COURSE,
    MAX_TIME,
    NO_RUN,
    DueRun,
    Schedule,
    next_runs,
    queries_by_name,
    query_rows,
    runs_within,
)
from sfumato.operators.ranking.semantics import Semantics, TooManyVectorsError
from sfumato.operators.ranking.timetable import KAndFrequency, timetable
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array, Offsets, Record, Value
from sfumato.operators.state.stateful import Operator
from sfumato.operators.windows.uncertain_window import UncertainWindow

_INITIAL_VALUES = {"latest": NO_INSTANT, "due": NO_RUN, "reach": 0, "arrived": 0}
_COUNTS = ("out_of_order", "rejected", "overflow", "executions", "cost")
DEFAULT_SEMANTICS = Semantics()


@dataclass(frozen=True)
class TopKWindowConfig:
    """Arguments of `TopKWindows`, with queries as (name, k, every) and least as (name, Pr_k); both
    may be given as dictionaries, by name."""

    queries: tuple[tuple[str, int, int], ...]
    length: int | None = None
    rows: int | None = None
    confidence: float | None = None
    max_tuples: int | None = None
    semantics: Semantics = DEFAULT_SEMANTICS
    plan: str = "dp"
    start: int | None = None
    ascending: bool = False
    streams: bool = False
    rescale: bool = False
    least: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        rows, least = self.queries, self.least
        if isinstance(rows, Mapping):
            rows = tuple((name, *query) for name, query in rows.items())
        named = [(str(name), *timetable([query], self.plan).queries[0]) for name, *query in rows]
        object.__setattr__(self, "queries", tuple(named))
        if self.length is not None:
            microseconds("length", self.length)
        if self.rows is not None:
            whole("rows", self.rows)
        if isinstance(least, Mapping):
            object.__setattr__(self, "least", tuple(least.items()))
        if not isinstance(self.semantics, Semantics):
            object.__setattr__(self, "semantics", Semantics(self.semantics))
        if self.streams and (self.least or self.semantics.name != "pk_topk"):
            asked = "one `probability` per query" if self.least else f'"{self.semantics.name}"'
            raise ValueError(f'streams can be ranked only by "pk_topk"; got {asked}')
        if self.least and self.semantics.name not in ("pk_topk", "pt_k"):
            raise ValueError(
                'the `probability` of a query is allowed only with the semantics "pk_topk" and '
                f'"pt_k", as a minimum Pr_k; got "{self.semantics.name}"'
            )


@dataclass(frozen=True)
class RankingTuples(Columns, flat=("score", "prob"), begins="begin"):
    """Batch of n tuples with m alternatives; only `valid` is mutable.

    window : int64[n], code of the window;  number : int64[n], arrival number in the window
    id : int64[n], given by the caller
    time : int64[n] microseconds;  rule, stream : int64[n], -1 if there is none
    valid : bool[n], False for a tuple that overfilled its rule
    begin : int64[n + 1], tuple i has the alternatives begin[i] ... begin[i + 1] - 1
    score, prob : float64[m], per alternative
    """

    window: Annotated[Ints, Array(int, "held", low=0, high="keys")]
    number: Annotated[Ints, Array(int, "held", low=0)]
    id: Annotated[Ints, Array(int, "held")]
    time: Annotated[Ints, Array(int, "held")]
    rule: Annotated[Ints, Array(int, "held")]
    stream: Annotated[Ints, Array(int, "held")]
    valid: Annotated[Bools, Array(bool, "held")]
    begin: Annotated[Ints, Offsets("held", "items")]
    score: Annotated[Floats, Array(float, "items")]
    prob: Annotated[Floats, Array(float, "items")]

    @property
    def size(self) -> int:
        return self.number.size

    @property
    def existence(self) -> Floats:
        """Each tuple's probability of existence: float64[n]."""
        sums = np.add.reduceat(self.prob, self.begin[:-1]) if self.size else np.empty(0)
        return np.minimum(sums, 1.0)

    def check_restored(self, arrived: Ints) -> None:
        """Raise ValueError if windows with arrived[w] arrivals cannot contain these tuples."""
        prob, order = self.prob, np.argsort(self.window, kind="stable")
        window, number = self.window[order], self.number[order]
        rises = (np.diff(number) > 0) | (np.diff(window) > 0)
        if not (rises.all() and (number < arrived[window]).all()):
            raise ValueError("the tuples of a window must be numbered in order of arrival")
        if (np.diff(self.begin) < 1).any() or (self.rule < -1).any():
            raise ValueError("tuples must have alternatives, and rules must be numbered from 0")
        if not (np.isfinite(self.score).all() and (prob > 0.0).all() and (prob <= 1.0).all()):
            raise ValueError("scores must be finite, and probabilities must be in (0, 1]")


class TopKAnswers(NamedTuple):
    """Answer rows as parallel arrays, by window, then due time, query and rank.

    names : query names;  window : int64, window code
    query : int64, place in `names`;  k : int64;  time : int64 microseconds, the due instant
    answered : int64 microseconds, the time of the first tuple or call of `advance` that closed the
        instant; answered - time is the latency of the answer
    rank : int64, from 1;  id : int64, tuple id
    stream : int64, -1 unless streams are ranked
    score, probability : float64, as `score` and `value` of `Rankings`
    rejected : int64, ids of tuples excluded because they overfill their rule
    ranked : bool[w, queries], queries for which each window of the call was ranked
    """

    names: tuple[str, ...]
    window: Ints
    query: Ints
    k: Ints
    time: Ints
    answered: Ints
    rank: Ints
    id: Ints
    stream: Ints
    score: Floats
    probability: Floats
    rejected: Ints
    ranked: Bools


class TopKWindows(Operator):
    """Several top-k queries over sliding windows, with one ranking per instant of the timetable.

    queries : name -> (k, every), `every` in microseconds
    length : int microseconds: at instant t a window contains the tuples with t - length <= time < t
    rows : int, instead of `length`: a window contains the newest `rows` tuples before t, except
        excluded tuples (see `rescale`). With a `confidence`, the window is an UncertainWindow of
        `rows` existing tuples before t, and tuples are independent even if they share a rule
    confidence, max_tuples : as for `UncertainWindow`, only with `rows`
    least : name -> p, for queries that return all tuples with Pr_k >= p, as "pt_k" does; they share
        the computation with the other queries. Only with the semantics "pk_topk" and "pt_k"
    start : int microseconds, the instant from which `every` is counted; by default the time of a
        window's first tuple, rounded down to a multiple of the greatest common divisor of all
        `every`
    streams : rank streams, by the sum of Pr_k over their tuples (pk_topk only)
    rescale : if the total probability of a rule's tuples in a window exceeds 1, divide their
        probabilities by the total. By default, the latest arrivals that overfill the rule are
        excluded permanently and listed in `rejected`

    Time advances with the tuples. An instant t of a window is closed once a tuple of time >= t
    arrives or `advance` reaches t. The instant is then answered from earlier arrivals. A tuple
    older than its predecessor enters the windows to which it still belongs; such tuples are counted
    in `out_of_order`.
    Answers do not depend on how arrivals are split into calls, nor on snapshot and restore.
    Cost per instant: one ranking for the largest k. Memory: one window's tuples per key.
    Source: Chen et al. (2013), sections 3-8.

    >>> window = TopKWindows({"best": (1, 10)}, length=20)
    >>> answers = window.extend([0, 4, 11], scores=[5.0, 7.0, 9.0], prob=[0.9, 0.4, 0.5])
    >>> answers.time.tolist(), answers.id.tolist(), answers.probability.round(2).tolist()
    ([10], [0], [0.54])
    """

    kind, version = "top_k_windows", 3
    config: TopKWindowConfig
    state = {
        "registered": Value(list),
        "latest": Array(int, "keys", low=NO_INSTANT, high=MAX_TIME + 1),
        "due": Array(int, "keys"),
        **dict.fromkeys(("reach", "arrived"), Array(int, "keys", low=0)),
        "plans": Value(list),
        "courses": Array(int, "keys", len(COURSE) + 1),
        "held": Record(RankingTuples),
        **dict.fromkeys(_COUNTS, Value(low=0)),
    }

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.queries = queries_by_name(self.config.queries)
        self.latest = self.due = self.reach = self.arrived = np.empty(0, np.int64)
        self.schedules: list[Schedule | None] = []
        # Only with a confidence; not saved, because they depend only on the held tuples.
        self.counts: list[UncertainWindow] = []
        self.held = RankingTuples.empty()
        self.largest = 0  # tuples in the largest window since this was set to 0
        self.out_of_order = self.rejected = self.overflow = self.executions = self.cost = 0

    def grow(self, keys: int) -> None:
        """Add empty windows until there are `keys` windows."""
        for name, start in _INITIAL_VALUES.items():
            setattr(self, name, pad(getattr(self, name), keys, start))
        for _ in range(len(self.schedules), keys):
            self.schedules.append(self._first_schedule())
            if self.config.confidence is not None:
                self.counts.append(self._new_count())

    def reset(self, keys: Ints) -> None:
        """Reset these windows."""
        if not len(keys):
            return
        self.held = self.held.take(~np.isin(self.held.window, keys))
        for key in keys.tolist():
            self.schedules[key] = self._first_schedule()
            if self.counts:
                self.counts[key] = self._new_count()
        for name, start in _INITIAL_VALUES.items():
            getattr(self, name)[keys] = start

    def _first_schedule(self) -> Schedule | None:
        return None if self.config.start is None else self._build_schedule(self.config.start)

    def extend(
        self,
        time: npt.ArrayLike,
        *,
        scores: npt.ArrayLike,
        prob: npt.ArrayLike,
        offsets: npt.ArrayLike | None = None,
        exclusive: npt.ArrayLike | None = None,
        group: npt.ArrayLike | None = None,
        key: npt.ArrayLike | None = None,
        id: npt.ArrayLike | None = None,
    ) -> TopKAnswers:
        """Process arrivals, and answer at every instant that they close.

        time : int64[n] microseconds, in order of arrival
        scores, prob : float64[n]; or, with `offsets` int64[n + 1], float64[m], where tuple i has
            the alternatives offsets[i] ... offsets[i + 1] - 1
        exclusive : int64[n], the tuples' rules, negative without a rule; or None
        group : int64[n], the tuples' streams, if streams are ranked
        key : int64[n], code of each tuple's window; None if all enter window 0
        id : int64[n], ids of the tuples in answers; by default their arrival numbers in the window
        The caller guarantees finite scores, probabilities in (0, 1] with a sum of at most 1 per
        tuple (both up to 1 + 1e-9), and times between -MAX_TIME and MAX_TIME.
        """
        n = np.size(time)
        number, none = np.arange(n), np.full(n, -1)
        window = np.zeros(n, np.int64) if key is None else np.asarray(key, np.int64)
        fresh = RankingTuples(
            window, number, number if id is None else np.asarray(id, np.int64),
            np.asarray(time, np.int64),
            none if exclusive is None else np.maximum(np.asarray(exclusive, np.int64), -1),
            none if group is None else np.asarray(group, np.int64),
            np.ones(n, np.bool_),
            np.arange(n + 1) if offsets is None else np.asarray(offsets, np.int64),
            np.asarray(scores, np.float64), np.minimum(np.asarray(prob, np.float64), 1.0),
        )  # fmt: skip
        order, starts, keys = grouped(window)
        fresh = fresh if key is None else fresh.take(order)
        self.grow(int(keys.max(initial=0)) + 1)
        sizes = np.diff(starts)[: keys.size]
        return self._move(keys, fresh, sizes, np.full(keys.size, NO_INSTANT), own_ids=id is None)

    def advance(self, to: Any, keys: Ints | None = None) -> TopKAnswers:
        """Answer at every instant up to `to`: int64[keys], for windows that have had tuples; or one
        number for all windows."""
        if keys is None:
            self.grow(1)
            keys = np.flatnonzero([schedule is not None for schedule in self.schedules])
            to = np.full(keys.size, operator.index(to))
        sizes = np.zeros(keys.size, np.int64)
        return self._move(keys, RankingTuples.empty(), sizes, np.minimum(to, MAX_TIME))

    def register(self, queries: Mapping[str, KAndFrequency]) -> None:
        """Replace the registered queries; all bounds hold (see `Schedule`).

        A query with a new name but unchanged settings continues.
        """
        renamed = renamed_queries(self.queries, queries)
        self.queries = dict(queries)
        for schedule in filter(None, self.schedules):
            schedule.rename(renamed)
            known = {**schedule.queries, **schedule.waiting}
            for name in [name for name in queries if name not in known]:
                schedule.add(name, *queries[name])
            for name in [name for name in known if queries.get(name) != known[name]]:
                schedule.remove(name)
                if name in queries:
                    schedule.add(name, *queries[name])
        keys = np.flatnonzero(self.due != NO_RUN)
        self.due[keys] = self.runs_next(keys)

    def upcoming(self, number: int) -> list[DueRun]:
        """Return at most `number` next runs of the window with the earliest next run."""
        if not self.due.size or self.due.min() == NO_RUN:
            return []
        schedule = self.schedules[int(self.due.argmin())]
        return [] if schedule is None else schedule.upcoming(number)

    def runs_next(self, keys: Ints) -> Ints:
        """Return int64[w]: the time of each window's next run, even if it is empty, or NO_RUN."""
        return next_runs(self._schedules_of(keys))

    def _schedules_of(self, keys: Ints) -> list[Schedule]:
        return [self.schedules[key] for key in keys.tolist()]

    # ---- one call

    def _move(
        self, keys: Ints, fresh: RankingTuples, sizes: Ints, until: Ints, own_ids: bool = False
    ) -> TopKAnswers:
        """Add `sizes` tuples to the windows of distinct keys, and advance time."""
        begin = offsets_of(sizes)
        number = np.repeat(self.arrived[keys] - begin[:-1], sizes) + np.arange(fresh.size)
        fresh = replace(fresh, number=number, id=number if own_ids else fresh.id)
        self.arrived[keys] += sizes
        for key, at, size in zip(keys.tolist(), begin.tolist(), sizes.tolist(), strict=False):
            if size and self.schedules[key] is None:
                unit = math.gcd(*(every for _, every in self.queries.values())) or 1
                self.schedules[key] = self._build_schedule(int(fresh.time[at]) // unit * unit)
        since, before = self._window_starts(keys, fresh, begin), self.reach[keys]
        held, owner, windows = self._join_held(keys, fresh, sizes)
        latest, length = self.latest[keys], self.config.length or 0
        own = np.zeros(held.size, np.int64)
        own[np.arange(held.size) >= windows.fresh[owner]] = since
        intervals, older = closed_intervals(windows, held.time, latest, until, own, before, length)
        runs, names = self._runs(keys, intervals, latest)
        queries, least = tuple(self.queries.items()), self.config.semantics.least
        whole, real, ranked, rejected, failed = rank_windows(
            windows, runs, _run_queries(names, queries, self.config.least, least),
            self.config.semantics.parameters, self.config.rescale, length > 0, self.config.streams,
        )  # fmt: skip
        if failed >= 0:
            raise TooManyVectorsError(max(k for k, _ in self.queries.values()), held.size)
        self.latest[keys] = latest
        self.out_of_order += older
        self.rejected += rejected.size
        self.executions += int(ranked.sum())
        greatest = np.array([max(self.queries[name][0] for name in run) for run in names], np.int64)
        self.cost += int(greatest[runs.query[ranked]].sum())
        answered = np.zeros((keys.size, len(names)), np.bool_)
        answered[runs.window[ranked], runs.query[ranked]] = True
        asked = np.array([[name in run for name in self.queries] for run in names], np.bool_)
        ends = windows.begin[1:][sizes > 0] - 1
        self.reach[keys[sizes > 0]] = own[ends]
        self._keep_needed(keys, replace(held, valid=windows.valid), owner)
        return TopKAnswers._make([
            tuple(self.queries), keys[whole[0]], *whole[1:6], held.id[whole[6]], whole[7], *real,
            held.id[rejected], answered @ asked.reshape(len(names), len(queries)),
        ])  # fmt: skip

    def _window_starts(self, keys: Ints, fresh: RankingTuples, begin: Ints) -> Ints:
        """Return int64[n]: after each arrival, the oldest tuple in its count window, by number."""
        if self.config.confidence is None:
            # Excluded tuples also have arrival numbers, so they count, even if they were dropped.
            return np.maximum(fresh.number + 1 - (self.config.rows or 0), 0)
        existence, since = fresh.existence, np.empty(fresh.size, np.int64)
        for j, key in enumerate(keys.tolist()):
            count, own = self.counts[key], slice(begin[j], begin[j + 1])
            before, first = count.overflow, self.arrived[key] - (own.stop - own.start)
            since[own] = first - count.arrived + count.extend(existence[own])
            self.overflow += count.overflow - before
        return since

    def _join_held(
        self, keys: Ints, fresh: RankingTuples, sizes: Ints
    ) -> tuple[RankingTuples, Ints, RankedWindowTuples]:
        """Return held and arriving tuples by window, each tuple's window, and the kernel input."""
        place = np.full(self.latest.size, -1)
        place[keys] = np.arange(keys.size)
        earlier = self.held.take(place[self.held.window] >= 0)
        counts = np.bincount(place[earlier.window], minlength=keys.size)
        held = RankingTuples.concat([earlier, fresh])
        owner = place[held.window]
        order = np.argsort(owner, kind="stable")
        held, owner = held.take(order), owner[order]
        rules, rule = 0, held.rule
        if rule.max(initial=-1) >= 0:
            names, rule = np.unique(np.append(rule, -1), return_inverse=True)
            rules, rule = names.size - 1, rule[:-1] - 1
        begin = offsets_of(counts + sizes)
        return held, owner, RankedWindowTuples(
            begin, begin[:-1] + counts, held.number if self.config.length is None else held.time,
            held.valid.copy(), rule, rules, held.stream, held.begin,
            held.score if self.config.ascending else -held.score, held.score, held.prob,
        )  # fmt: skip

    def _runs(
        self, keys: Ints, intervals: Ints, latest: Ints
    ) -> tuple[WindowRuns, tuple[tuple[str, ...], ...]]:
        """Return the runs within intervals (see `closed_intervals`), and each kind's queries."""
        window, after, upto, answered, visible, oldest = intervals
        schedules = self._schedules_of(keys)
        (interval, time, kind), kinds = runs_within(schedules, window, after, upto)
        for schedule, last in zip(schedules, latest.tolist(), strict=True):
            schedule.skip(last)
        length = self.config.length
        since = oldest[interval] if length is None else time - length
        runs_of = window[interval], time, kind, answered[interval], visible[interval], since
        return WindowRuns(*map(np.ascontiguousarray, runs_of)), kinds

    def _keep_needed(self, keys: Ints, held: RankingTuples, owner: Ints) -> None:
        """Keep the tuples that a later run can use, and record when that run is due."""
        if self.config.length is not None:
            fits = held.time > (self.latest[keys] - self.config.length)[owner]
        else:
            fits = held.number >= self.reach[keys][owner]
        kept = np.bincount(owner[held.valid & fits], minlength=keys.size)
        self.due[keys] = np.where(kept > 0, self.runs_next(keys), NO_RUN)
        self.largest = max(self.largest, int(kept.max(initial=0)))
        others = self.held.take(~np.isin(self.held.window, keys))
        # `counts` also count the excluded tuples.
        left = fits if self.counts else fits & held.valid
        self.held = RankingTuples.concat([others, held.take(left)])

    # ---- state

    def _build_schedule(self, start: int) -> Schedule:
        return Schedule(self.queries, start, self.config.plan)

    def _new_count(self) -> UncertainWindow:
        rows, confidence = self.config.rows or 0, self.config.confidence or 0.0
        return UncertainWindow(rows, confidence, max_tuples=self.config.max_tuples)

    def before_saving(self) -> None:
        self.registered = [*query_rows(self.queries)]
        plans: dict[Any, int] = {}
        self.courses = np.full((len(self.schedules), 1 + len(COURSE)), NO_RUN)
        for course, schedule in zip(self.courses, self.schedules, strict=True):
            if schedule is not None:
                course[0] = plans.setdefault(schedule.plans, len(plans))
                course[1:] = schedule.course
        self.plans = [*plans]

    def after_loading(self) -> None:
        self.queries = queries_by_name(self.registered)
        self.schedules = [
            None if plan == NO_RUN else Schedule.resumed(self.plans[plan], course, self.config.plan)
            for plan, *course in self.courses.tolist()
        ]
        for schedule, arrived in zip(self.schedules, self.arrived, strict=True):
            known = self.queries if schedule is None else {**schedule.queries, **schedule.waiting}
            if known != self.queries or (schedule is None and arrived):
                raise ValueError("every window must have a schedule of the registered queries")
        self.held.check_restored(self.arrived)
        if self.config.confidence is not None:
            self.counts = [self._new_count() for _ in self.schedules]
            for key, places in by_code(self.held.window):
                self.counts[key].extend(self.held.existence[places])
        if np.abs(self.held.time).max(initial=0) >= MAX_TIME:
            raise ValueError(f"times must lie within {MAX_TIME} microseconds of 1970")


@lru_cache(256)
def _run_queries(
    runs: tuple[tuple[str, ...], ...],
    queries: tuple[tuple[str, KAndFrequency], ...],
    least: tuple[tuple[str, float], ...],
    otherwise: float,
) -> RunQueries:
    """Build the requests of runs, given as query names; `otherwise` is the default minimum Pr_k."""
    k_of, least_of = {name: k for name, (k, _) in queries}, dict(least)
    number = {name: i for i, (name, _) in enumerate(queries)}
    ranking, answers = [np.empty(0, np.int64)], [np.empty((0, 2))]
    for run in runs:
        asked = np.array([(k_of[name], least_of.get(name, otherwise)) for name in run])
        distinct, place = np.unique(np.nan_to_num(asked), axis=0, return_inverse=True)
        ranking.append(place.ravel())
        answers.append(distinct)
    ks, leasts = np.concatenate(answers).T
    return RunQueries(
        begin=offsets_of([len(run) for run in runs]),
        query=np.array([number[name] for run in runs for name in run], np.int64),
        k=np.array([k_of[name] for run in runs for name in run], np.int64),
        ranking=np.concatenate(ranking),
        answers_begin=offsets_of([len(of_run) for of_run in answers[1:]]),
        ks=ks.astype(np.int64),
        least=np.where(leasts > 0.0, leasts, np.nan),
    )


def renamed_queries(
    known: Mapping[str, KAndFrequency], queries: Mapping[str, KAndFrequency]
) -> dict[str, str]:
    """Return old name -> new name for queries that differ only in their name."""
    fresh = [name for name in queries if name not in known]
    found = {}
    for old, query in known.items():
        same = next((name for name in fresh if queries[name] == query), None)
        if old not in queries and same is not None:
            found[old] = same
            fresh.remove(same)
    return found
