"""Multi-top-k over Arrow tables, with one top-k window per key: the operator and its job.

A window refers to a tuple by its *row id*, the number of its row in the shared `RowStore`, or -1 if
the row is not needed. A *stream id*, see `StreamIds`, is -1 if streams are not ranked.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.limits import MAX_TIME_US, check_extents
from sfumato.operators.arguments import flag
from sfumato.operators.arrays import Bools, Ints, gather_lists, pad
from sfumato.operators.ranking.event_clocks import EventClocks
from sfumato.operators.ranking.schedule import NO_RUN
from sfumato.operators.ranking.semantics import Semantics
from sfumato.operators.ranking.top_k_windows import NO_INSTANT, TopKAnswers, TopKWindows
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Array, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.operators.windows.calendar import FIRST_US, LAST_US
from sfumato.queries import Top, intervals_by_name, probabilities_by_name, split_direction
from sfumato.tables.arrival_order import arrival_order
from sfumato.tables.arrow import NO_PUNCTUATION, SavedTable, as_numbers, as_times
from sfumato.tables.disorder.released import (
    ReleasedTableConfig,
    lateness_of,
    punctuations_of,
    release_order,
)
from sfumato.tables.keys import KeyIndex
from sfumato.tables.operator import ROW, SIZE_GAUGES, TIE, TableConfig, TableOperator, window_gauges
from sfumato.tables.reading.frame import CONTROLLER_COLUMNS, Frame, forget_after_of
from sfumato.tables.reading.job import Job
from sfumato.tables.reading.results import (
    Output,
    mark_repeated,
    mark_shared,
    passthrough_outputs,
    row_of,
)
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.row_store import RowStore
from sfumato.tables.windows.table_windows import ARROW_TIMES, alternatives_of
from sfumato.tables.windows.window_query import AggregateSpec, WindowQuery
from sfumato.windows import Range, Rows, window_of

TOP_K_COLUMNS = ("query", "k", "time", "rank", "score", "probability", "row", "answered")
TIMETABLE_RUNS = 6  # number of runs in the gauge `timetable`
ANSWER_COUNTERS = ("answers", "answered", "late_answers", "latency")
WINDOW_COUNTERS = ("out_of_order", "rejected", "overflow", "executions", "cost")
_KEY_STARTS = {"scope": 0, "newest": NO_INSTANT, "closed": NO_INSTANT}


@dataclass(frozen=True, kw_only=True)
class TopKTableConfig(ReleasedTableConfig):
    """Settings of a multi-top-k.

    queries : (name, k, every in microseconds) per query; may change at a restart
    least : (name, minimum Pr_k) of some queries; may change at a restart
    window : sf.Range (only its length and idle timeout are used) or sf.Rows
    semantics, plan, ascending, rescale : as for `TopKWindows`
    rules, streams : whether there are columns `rule` and `stream`
    time : the order's type: "timestamp", "timestamp_ntz" or "long"
    by : the score expression, used only to identify checkpoints of the same query
    processing_time : whether time advances with processing time after the idle timeout
    """

    queries: tuple[tuple[str, int, int], ...] = field(metadata=CHANGEABLE)
    least: tuple[tuple[str, float], ...] = field(default=(), metadata=CHANGEABLE)
    window: Range | Rows
    semantics: Semantics
    plan: str
    ascending: bool
    rules: bool
    streams: bool
    time: str
    rescale: bool = field(default=False, metadata=CHANGEABLE)
    by: str = ""
    processing_time: bool = field(default=False, metadata=CHANGEABLE)

    kind, version = "top-k table", 9
    counters = ("rows", "invalid", "late", *WINDOW_COUNTERS, *ANSWER_COUNTERS)
    gauges: ClassVar[Mapping[str, tuple[str, str]]] = {
        **TableConfig.gauges,
        **SIZE_GAUGES,
        "due": ("long", "min(due)"),
        "timetable": ("string", "min_by(timetable, due)"),
    }

    def __post_init__(self) -> None:
        span = self.length_us
        for *_, every in self.queries if span is not None else ():
            check_extents(span or 0, every, "every")
        if self.processing_time and getattr(self.window, "idle_timeout", None) is None:
            raise ValueError(
                "`processing_time` needs a time window with `idle_timeout`, the silence after "
                'which time advances by the system clock: window=sf.Range("5 minutes", '
                f'idle_timeout="30 seconds"); got {self.window}'
            )
        if (
            self.forget_after is not None
            and self.shared
            and (span or MAX_TIME_US) > self.forget_after
        ):
            raise ValueError(
                "`forget_after` of a ranking whose keys share a controller must be at least the "
                f"length of its sf.Range, {span} microseconds"
                if span is not None
                else "`forget_after` of a ranking by sf.Rows whose keys share a controller would "
                "depend on the rows of the other keys: reorder by the same `key`, or leave "
                "`forget_after` out"
            )

    @property
    def length_us(self) -> int | None:
        return self.window.length_us if isinstance(self.window, Range) else None

    def windows(self) -> TopKWindows:
        held: dict[str, Any] = {"length": self.length_us}
        if isinstance(self.window, Rows):
            shape = ("rows", "confidence", "max_tuples")
            held = {name: getattr(self.window, name) for name in shape}
        names = ("semantics", "plan", "ascending", "streams", "rescale")
        same = {name: getattr(self, name) for name in names}
        return TopKWindows(self.queries, least=self.least, **held, **same)

    @property
    def named(self) -> dict[str, tuple[int, int]]:
        return {name: (k, every) for name, k, every in self.queries}


class ScopeClocks(EventClocks):
    """The clocks of scopes, by code."""

    state = {"index": Part()}

    def __init__(self) -> None:
        super().__init__()
        self.index = KeyIndex()


class StreamIds(Stateful):
    """The ids of ranked streams, each of which belongs to one key.

    Ids ascend in order of first appearance and are not reused, because they break ties between
    streams; the codes of `index` are reused. key, id : int64[codes], -1 for a free code
    """

    state = {
        "index": Part(),
        "values": Part(),
        **dict.fromkeys(("key", "id"), Array(int, "codes", low=-1)),
    }

    def __init__(self) -> None:
        self.index, self.values = KeyIndex(), RowStore(lambda: self.id[self.id >= 0])
        self.key = self.id = np.empty(0, np.int64)

    def encode(self, key: Ints, stream: pa.ChunkedArray) -> Ints:
        """Return int64[n]: the ids of streams. key : int64[n], the key of each stream"""
        codes = self.index.encode(pa.table({"key": key, "stream": stream}))
        self.key = pad(self.key, self.index.size, -1)
        self.id = pad(self.id, self.index.size, -1)
        first = np.sort(np.unique(codes, return_index=True)[1])
        first = first[self.id[codes[first]] < 0]
        if len(first):
            fresh = pa.table({"stream": stream.take(pa.array(first))})
            self.key[codes[first]] = key[first]
            self.id[codes[first]] = self.values.append(fresh)
        return self.id[codes]

    def forget(self, keys: Ints) -> None:
        codes = np.flatnonzero(np.isin(self.key, keys))
        if len(codes):
            self.index.forget(codes)
            self.key[codes] = self.id[codes] = -1
            self.values.drop_unneeded(len(self.index))

    def after_loading(self) -> None:
        free = np.flatnonzero(self.key < 0)
        known = np.sort(self.id[self.key >= 0])
        if (
            len(self.key) != self.index.size
            or not np.array_equal(free, np.sort(self.index.free))
            or not np.array_equal(known, self.values.numbers)
        ):
            raise ValueError("every stream must have a number and belong to a key")


class TableTopK(TableOperator):
    """Top-k windows over Arrow tables, for the keys of one bucket.

    Rows also have prob and value0 (lists of a tuple's probabilities and scores), with rules `rule`,
    with streams `stream`, and with a scope `late` and `punctuation`. Answers have key0.., query, k,
    time, rank, score, probability, row, answered, and with streams `stream`.

    With a scope, `ScopeClocks` determine which instants of a key are past. Without a scope, an
    instant is past once the key has a row with that time or a later time. Rows that are flagged
    late or precede past instants of their scope are left out.
    """

    config: TopKTableConfig
    state = {
        **dict.fromkeys(("scopes", "streams", "rows", "rules", "windows"), Part()),
        **dict.fromkeys(_KEY_STARTS, Array(int, "codes")),
        "like": SavedTable(),
    }

    def __init__(self, config: TopKTableConfig) -> None:
        super().__init__(config)
        self.scopes, self.streams = ScopeClocks(), StreamIds()
        self.rules, self.windows = KeyIndex(), config.windows()
        self.rows = RowStore(lambda: self.windows.held.id)
        # Per key: its scope, its newest tuple's time, and the time before which tuples are late.
        self.scope = self.newest = self.closed = np.empty(0, np.int64)
        self.every = np.array([every for *_, every in config.queries], np.int64)
        # Longest time between a tuple and the instants of the answers that it triggers.
        self._length = config.length_us or 0
        self._idle_timeout: int = getattr(config.window, "idle_timeout_us", None) or 0
        self._answer_horizon = min(MAX_TIME_US, self._length + int(self.every.max(initial=0)))
        self.like: pa.Table | None = None  # an empty table with the rows' schema

    def begin(self) -> None:
        super().begin()
        self.windows.largest = 0

    def gauges(self) -> dict[str, Any]:
        """Return the gauges. `timetable` is JSON: [[time, [query name, ...]], ...] of one key."""
        runs = self.windows.upcoming(TIMETABLE_RUNS)
        return {
            **super().gauges(),
            **window_gauges(self.windows.largest, [self.config.window]),
            "due": runs[0].time if runs else None,
            "timetable": json.dumps([[run.time, run.queries] for run in runs]) if runs else None,
        }

    def is_usable(self, rows: pa.Table) -> np.ndarray:
        """Return bool[n]: whether times are within 2**60 microseconds of 1970, and whether
        timestamps and the instants of their answers are from FIRST_US to LAST_US."""
        time, low, high = punctuations_of(rows, "order0"), -MAX_TIME_US, MAX_TIME_US
        if self.config.time != "long":
            low, high = FIRST_US, LAST_US - self._answer_horizon
        return (time >= low) & (time <= high)

    def arrange(self, rows: pa.Table) -> np.ndarray:
        if self.config.scope is not None:
            return release_order(rows)
        return arrival_order([as_numbers(rows.column("order0"))], [as_numbers(rows.column(TIE))])

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        controlled = self.config.scope is not None
        self.like = rows.select([ROW]).slice(0, 0)
        late = lateness_of(rows) if controlled else np.zeros(rows.num_rows, bool)
        key, scope = self._encode(rows, late)
        self.scopes.seen[scope] = now
        time = as_numbers(rows.column("order0"))
        late |= time < self.closed[key]
        if controlled:
            known, late = late, self.scopes.select_late(scope, time, late, punctuations_of(rows))
            behind = int(np.count_nonzero(late & ~known))
            self.require_one_controller(behind)
            self.windows.out_of_order += behind
        self.counts["late"] += int(np.count_nonzero(late))
        found = self._add_rows(rows, key, time, np.flatnonzero(~late))
        if controlled:
            clock = self.scopes.clock[self.scope]
            due = np.flatnonzero(self.windows.due <= clock)
            if due.size:
                found.append(self._with_answered(self.windows.advance(clock[due], due)))
        over = self._take_expired()
        if not self.config.shared:
            found += self._close(over)
        tables = self._tables(found)
        self.windows.reset(over)
        for name, start in _KEY_STARTS.items():
            getattr(self, name)[over] = start
        if self.config.streams and len(over):
            self.streams.forget(over)
        if not self.config.shared:
            self.scopes.forget(over)
        self.index.forget(over)
        return tables

    def _encode(self, rows: pa.Table, late: Bools) -> tuple[Ints, Ints]:
        """Return (keys, scopes), int64[n] each; late rows in shared scopes have key 0."""
        if not self.config.shared:
            key = scope = self.codes(rows)
        else:
            scope = self.scopes.index.encode(rows.select(self.config.scope_columns))
            key = np.zeros(len(scope), np.int64)
            key[~late] = self.codes(rows.filter(pa.array(~late)))
        self.windows.grow(max(self.index.size, 1))
        for name, start in _KEY_STARTS.items():
            setattr(self, name, pad(getattr(self, name), max(self.index.size, 1), start))
        self.scopes.grow(int(scope.max()) + 1)
        self.scope[key[~late]] = scope[~late]
        return key, scope

    def _take_expired(self) -> Ints:
        """Return int64[]: expired keys; in a shared scope, only if later windows are empty."""
        over = self.index.take_expired()
        if not self.config.shared or not len(over):
            return over
        return over[self.scopes.clock[self.scope[over]] >= self.newest[over] + self._length]

    def _add_rows(self, rows: pa.Table, key: Ints, time: Ints, taken: Ints) -> list[TopKAnswers]:
        offsets, prob, values = alternatives_of(rows, 1)
        rule = stream = row_id = None
        if self.config.rules:
            codes = self.rules.encode(rows.select(["rule"]))
            rule = np.where(rows.column("rule").is_valid().to_numpy(), codes, -1)[taken]
        if self.config.streams:
            of_taken = rows.column("stream").take(pa.array(taken))
            row_id, stream = np.full(taken.size, -1), self.streams.encode(key[taken], of_taken)
        else:
            row_id = self.rows.append(rows.select([ROW]).take(pa.array(taken)))
        if not taken.size:
            return []
        begin, flat = gather_lists(offsets, taken)
        np.maximum.at(self.newest, key[taken], time[taken])
        found = self.windows.extend(
            time[taken], scores=values[flat, 0], prob=prob[flat], offsets=begin, exclusive=rule,
            group=stream, key=key[taken], id=row_id,
        )  # fmt: skip
        return [self._with_answered(found)]

    def _with_answered(self, found: TopKAnswers) -> TopKAnswers:
        """Return answers with the times at which the clocks of scopes, if any, reached them."""
        if self.config.scope is None:
            return found
        scope = self.scope[found.window]
        return found._replace(answered=self.scopes.first_reached(scope, found.time, found.answered))

    def set_clock(self, now: int) -> None:
        if self._idle_timeout:
            np.minimum(self.scopes.seen, max(now, 0), out=self.scopes.seen)

    def resume(self, now: int) -> None:
        if not self.config.processing_time:  # otherwise, event time follows the clock meanwhile
            self.scopes.seen[:] = now

    def idle(self, now: int) -> list[pa.Table]:
        self.set_clock(now)
        quiet = self.scopes.seen <= now - self._idle_timeout // 1000
        keys = np.flatnonzero(quiet[self.scope])
        if not self.config.processing_time:
            return self._tables(self._close(keys))
        keys = keys[self.windows.due[keys] != NO_RUN]
        reached = self._newest_times(keys) + 1000 * (now - self.scopes.seen[self.scope[keys]])
        emptied = self.newest[keys] + self._length
        return self._tables(self._answer(keys, np.minimum(reached, emptied)))

    def next_timeout(self) -> int | None:
        due = self.windows.due
        if not self.config.processing_time or not self.scope.size:
            return None
        keys = np.flatnonzero(due != NO_RUN)
        keys = keys[due[keys] <= self.newest[keys] + self._length]  # later windows are empty
        silent = np.maximum(due[keys] - self._newest_times(keys), self._idle_timeout)
        next_timeout = self.scopes.seen[self.scope[keys]] - -silent // 1000
        return int(next_timeout.min()) if keys.size else None

    def flush(self) -> list[pa.Table]:
        return self._tables(self._close(np.arange(self.scope.size)))

    def _newest_times(self, keys: Ints) -> Ints:
        """Return int64[k]: the latest known time of each key."""
        if self.config.scope is None:
            return self.newest[keys]
        return np.maximum(self.newest[keys], self.scopes.clock[self.scope[keys]])

    def _close(self, keys: Ints) -> list[TopKAnswers]:
        """Emit each query's first answer after the newest row of each key, once per newest row."""
        newest = self.newest[keys]
        keys = np.sort(keys[(newest > NO_INSTANT) & (newest >= self.closed[keys])])
        return self._answer(
            keys, self._newest_times(keys) + int(self.every.max(initial=0)), once=True
        )

    def _answer(self, keys: Ints, limit: Ints, once: bool = False) -> list[TopKAnswers]:
        """Emit the answers of keys (ascending) up to `limit`. once : only the first per query"""
        due, found = np.maximum(self._newest_times(keys), self.closed[keys]), []
        last = due
        waiting = np.ones((keys.size, self.every.size), np.bool_)
        while keys.size:
            answers = self.windows.advance(due, keys)
            # `answered` is unknown, because no clock has reached these answers.
            wanted = waiting[np.searchsorted(keys, answers.window), answers.query]
            unknown = np.full_like(answers.time, NO_PUNCTUATION)
            found.append(_select(answers._replace(answered=unknown), wanted))
            if due is not last:
                waiting &= ~(answers.ranked & once)
                self.closed[keys] = due
            next_due = self.windows.runs_next(keys)
            there = waiting.any(axis=1) & (next_due <= limit)
            keys, due, limit, waiting = keys[there], next_due[there], limit[there], waiting[there]
        return found

    def _tables(self, found: list[TopKAnswers]) -> list[pa.Table]:
        for name in WINDOW_COUNTERS:
            self.counts[name] = getattr(self.windows, name)
        found = [answers for answers in found if answers.id.size]
        tables = [self._table(found)] if found else []
        self.rows.drop_unneeded(self.windows.held.size)
        self.rules.drop_unneeded(lambda: self.windows.held.rule)
        return tables

    def _table(self, found: list[TopKAnswers]) -> pa.Table:
        columns = map(np.concatenate, list(zip(*found, strict=True))[1:-1])
        of = TopKAnswers._make([found[0].names, *columns, found[0].ranked])
        of = _select(of, np.lexsort((of.rank, of.query, of.window, of.time)))
        self._count(of)
        kind = ARROW_TIMES[self.config.time]
        table: dict[str, Any] = self.index.columns(of.window) | {
            "query": pa.array(list(of.names)).take(pa.array(of.query)),
            "k": pa.array(of.k),
            "time": as_times(of.time, kind),
            "rank": pa.array(of.rank),
            "score": pa.array(of.score),
            "probability": pa.array(of.probability),
            "answered": as_times(of.answered, kind),
        }
        if self.config.streams:
            assert self.like is not None
            table[ROW] = pa.nulls(len(of.id), self.like.schema.field(ROW).type)
            table["stream"] = self.streams.values.take(of.stream).column("stream")
        else:
            table[ROW] = self.rows.take(of.id).column(ROW)
        return pa.table(table)

    def _count(self, of: TopKAnswers) -> None:
        """Count answer rows, answers, late answers (later than their `every`), and latencies."""
        changes = np.ones(of.id.size, np.bool_)
        changes[1:] = np.diff(np.stack([of.window, of.query, of.time])).any(axis=0)
        known = of.answered[changes] != NO_PUNCTUATION
        latency = np.where(known, of.answered[changes] - of.time[changes], 0)
        late = latency > self.every[of.query[changes]]
        counted = changes.size, changes.sum(), late.sum(), np.maximum(latency, 0).sum()
        for name, count in zip(ANSWER_COUNTERS, counted, strict=True):
            self.counts[name] += int(count)

    def after_loading(self) -> None:
        super().after_loading()
        keys, windows, ids = self.scope.size, self.windows, self.windows.held.id
        if keys and (self.scope.min() < 0 or self.scope.max() >= self.scopes.clock.size):
            raise ValueError("every key must belong to a known scope")
        if windows.latest.size != keys or (self.config.keys and keys > max(self.index.size, 1)):
            raise ValueError("every window must belong to a known key")
        times = np.concatenate([self.newest, self.closed])
        if (abs(times[times != NO_INSTANT]) > MAX_TIME_US).any():
            raise ValueError("times of windows must lie within their range")
        if not self.config.streams and not np.isin(ids, self.rows.numbers).all():
            raise ValueError("every window must have all of its rows")
        streams = self.streams.values.numbers
        if self.config.streams and not np.isin(windows.held.stream, streams).all():
            raise ValueError("every window must have only known streams")
        windows.register(self.config.named)


def _select(answers: TopKAnswers, which: Any) -> TopKAnswers:
    rows = (column[which] for column in answers[1:-2])
    return TopKAnswers._make([answers.names, *rows, answers.rejected, answers.ranked])


@dataclass(eq=False)
class RankingQuery(WindowQuery):
    """The validated arguments of `top_k` that name columns, and the window."""

    function_name: ClassVar[str] = "top_k"
    scored: ClassVar[bool] = True
    ties_by_arrival: ClassVar[bool] = False

    exclusive: str | None
    group: str | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.orders) != 1 or not self.frame.is_time(self.orders[0]):
            raise TypeError(
                "`order` must be one event-time column, a timestamp or whole microseconds; got "
                f"{self.orders} ({self.frame.type_name(self.orders[0])})"
            )
        self.frame.warn_of_time_unit("order", self.orders[0])
        group = self.unchanged_columns.get("stream")  # raises for missing columns
        for argument, name in [*(("key", key) for key in self.keys), ("group", group)]:
            if name in TOP_K_COLUMNS or (argument == "group" and name in self.keys):
                raise ValueError(
                    f"`{argument}` names a column `{name}`, but the answer already has a column "
                    "with this name: rename the column, or choose a different one"
                )

    @cached_property
    def controlled(self) -> bool:
        """Return whether instants follow a controller's punctuations, even for sf.Rows."""
        if isinstance(self.window, Range):
            return self.frame.has_punctuations
        return self.frame.marks_late(self.orders)

    @cached_property
    def unchanged_columns(self) -> dict[str, str]:
        named = {"rule": ("exclusive", self.exclusive), "stream": ("group", self.group)}
        return {
            column: self.frame.single_column(argument, name)
            for column, (argument, name) in named.items()
            if name is not None
        }

    @property
    def emits_rows(self) -> bool:
        return True

    @property
    def row_columns(self) -> list[str]:
        added = CONTROLLER_COLUMNS if self.controlled else ()
        return [name for name in self.frame.columns if name not in {ALTERNATIVES, *added}]

    @property
    def outputs(self) -> list[Output]:
        kinds = {
            "query": pa.string(), "k": pa.int64(), "time": self.time_type, "rank": pa.int64(),
            "score": pa.float64(), "probability": pa.float64(), "answered": self.time_type,
            "row": row_of(self.frame, self.row_columns),
        }  # fmt: skip
        found = passthrough_outputs(self.frame, self.keys, prefix="key")
        found += [Output(name, (name,), kinds[name]) for name in TOP_K_COLUMNS]
        if self.group is not None:
            group = self.unchanged_columns["stream"]
            found.append(Output(group, ("stream",), self.frame.type(group)))
        rows = "answers of a ranking"
        return mark_repeated(found, rows, self.keys) if self.certain else mark_shared(found, rows)


def top_k_job(
    frame: Frame,
    queries: Top | int | Sequence[Top | int],
    by: str,
    ascending: bool | None,
    window: Any,
    semantics: Semantics,
    plan: str,
    forget_after: str | timedelta | float | None,
    rescale: bool,
    processing_time: bool,
    name: str | None,
    **columns: Any,
) -> Job:
    """Return the job of `top_k`. columns : the arguments that name columns, except `by`"""
    window = window_of(window)
    if not isinstance(window, Range | Rows):
        raise TypeError(f"`window` must be sf.Range or sf.Rows; got {window!r}")
    if isinstance(window, Range) and (window.empty or window.offset is not None):
        argument = "empty" if window.empty else "offset"
        raise ValueError(
            f"`{argument}` of sf.Range is allowed only for aggregates, because a ranking is "
            f"answered at the times of its queries even without tuples; got {window!r}. Leave "
            f"`{argument}` out"
        )
    if isinstance(window, Rows) and window.slide is not None:
        raise ValueError(
            "`slide` of sf.Rows is allowed only for aggregates; a ranking needs the `every` "
            f"of its queries instead; got {window!r}. Leave `slide` out"
        )
    by, ascending = split_direction(by, ascending)
    named = intervals_by_name(queries, window.slide_us if isinstance(window, Range) else None)
    asked = RankingQuery(
        frame, [AggregateSpec("", "sum", by)], window, distribution=None, **columns
    )
    if flag("rescale", rescale) and asked.exclusive is None:
        raise ValueError(
            "`rescale` needs `exclusive`, the column that identifies rows that exclude each other"
        )
    config = TopKTableConfig(
        queries=tuple((query, k, every) for query, (k, every) in named.items()),
        least=tuple(probabilities_by_name(queries).items()),
        window=window,
        semantics=semantics,
        plan=plan,
        ascending=ascending,
        rules=asked.exclusive is not None,
        rescale=rescale,
        streams=asked.group is not None,
        keys=len(asked.keys),
        scope=asked.scope,
        time=asked.time,
        one_controller=asked.one_controller,
        forget_after=forget_after_of(frame, asked.orders[0], asked.keys, forget_after),
        by=str(asked.specs[0].expression),
        processing_time=flag("processing_time", processing_time),
    )
    idle = asked.idle_timeout_us
    return Job("top_k", "top_k", name, [asked.input], config, asked.outputs, idle)
