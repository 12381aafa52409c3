"""Multi-top-k over Arrow tables: a top-k window for each key.

Ids are explained in `key_windows`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.limits import check_extents
from sfumato.operators.arrays import Bools, Ints, chosen, grouped, longer
from sfumato.operators.ranking.semantics import Semantics
from sfumato.operators.ranking.top_k_window import TopKWindow
from sfumato.operators.ranking.window_answers import NO_STEPS, judged
from sfumato.operators.ranking.window_content import NO_INSTANT, HeldTuples
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Array, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.operators.state.tuple_batch import EXCESS
from sfumato.tables.arrival_order import arrival_order
from sfumato.tables.arrow import UNKNOWN, SavedTable, as_numbers
from sfumato.tables.disorder.released import (
    ReleasedTableConfig,
    lateness_of,
    punctuations_of,
    release_order,
)
from sfumato.tables.keys import KeyIndex
from sfumato.tables.operator import ROW, SIZE_GAUGES, TIE, TableConfig, TableOperator, window_gauges
from sfumato.tables.ranking.key_windows import AnswerCollector, KeyWindows
from sfumato.tables.row_store import RowStore
from sfumato.tables.windows.table_windows import ARROW_TIMES, EARLIEST, LATEST, alternatives_of
from sfumato.windows import LONGEST, Range, Rows

UPCOMING = 6  # runs of a timetable that are shown
OF_ANSWERS = ("answers", "answered", "late_answers", "latency")
_STARTS = {"clock": NO_INSTANT, "punctuation": UNKNOWN, "seen": 0}


@dataclass(frozen=True, kw_only=True)
class TopKTableConfig(ReleasedTableConfig):
    """Settings of a multi-top-k.

    queries : name, k and every (microseconds) of each; may change at a restart
    window : sf.Range (only its length and idle timeout count) or sf.Rows
    semantics, plan, ascending : as TopKWindow has them
    rules, streams : whether there are columns `rule` and `stream`
    rescale : whether rules of probability above 1 are scaled, see TopKWindow
    time : the order's type: "timestamp", "timestamp_ntz" or "long"
    by : the scores and rows, only to recognise a checkpoint of another query
    """

    queries: tuple[tuple[str, int, int], ...] = field(metadata=CHANGEABLE)
    window: Range | Rows
    semantics: Semantics
    plan: str
    ascending: bool
    rules: bool
    streams: bool
    time: str
    rescale: bool = field(default=False, metadata=CHANGEABLE)
    by: str = ""

    kind, version = "top-k table", 6
    counters: ClassVar[tuple[str, ...]] = (
        "rows", "invalid", "late", "out_of_order", "rejected", "overflow", "executions", "cost",
        *OF_ANSWERS,
    )  # fmt: skip
    gauges: ClassVar[Mapping[str, tuple[str, str]]] = {
        **TableConfig.gauges,
        **SIZE_GAUGES,
        "due": ("long", "min(due)"),
        "timetable": ("string", "min_by(timetable, due)"),
    }

    def __post_init__(self) -> None:
        span = self.window.length_us if isinstance(self.window, Range) else None
        for *_, every in self.queries if span is not None else ():
            if every > 0:  # else the window raises
                check_extents(span or 0, every, "every")
        if self.forget_after is not None and self.shared and (span or LONGEST) > self.forget_after:
            raise ValueError(
                "`forget_after` of a ranking whose keys share a controller must be at least the "
                f"length of its sf.Range, {span} microseconds: make it longer"
                if span is not None
                else "`forget_after` of a ranking by sf.Rows whose keys share a controller would "
                "depend on the rows of the other keys: reorder by the same `key`, or leave it out"
            )

    def make(self) -> TableTopK:
        self.one_window()  # raises for a wrong config
        return TableTopK(self)

    def one_window(self) -> TopKWindow:
        """Return the empty window of one key."""
        window = self.window
        if isinstance(window, Range):
            held: Any = {"length": window.length_us}
        else:
            held = {"rows": window.rows, "confidence": window.confidence}
            held["max_tuples"] = window.max_tuples
        return TopKWindow(
            self.named,
            **held,
            semantics=self.semantics,
            plan=self.plan,
            ascending=self.ascending,
            streams=self.streams,
            rescale=self.rescale,
        )

    @property
    def named(self) -> dict[str, tuple[int, int]]:
        """(k, every) of each query by its name."""
        return {name: (k, every) for name, k, every in self.queries}


class ScopeClocks(Stateful):
    """How far event time is known to have come in each scope, by code.

    clock : no instant up to here is open    punctuation : the greatest so far
    seen : when the last row came, in milliseconds
    An instant is past once a row that is not late comes of that time or a later one, or with a
    punctuation above one that had reached it. The punctuation of a late row is that of its source,
    which may be ahead of the others; it shows nothing.
    """

    state = {"index": Part(), **dict.fromkeys(_STARTS, Array(int, "scopes"))}

    def __init__(self) -> None:
        self.index = KeyIndex()
        self.clock = self.punctuation = self.seen = np.empty(0, np.int64)
        self.steps = NO_STEPS  # of the batch

    def grow(self, scopes: int) -> None:
        """Make room for so many scopes."""
        for name, start in _STARTS.items():
            setattr(self, name, longer(getattr(self, name), scopes, start))

    def forget(self, codes: Ints) -> None:
        """Reset these scopes; their codes may be given to others."""
        for name, start in _STARTS.items():
            getattr(self, name)[codes] = start

    def judge(self, scope: Ints, time: Ints, late: Bools, punctuation: Ints) -> Bools:
        """Move the clocks. Return bool[n]: rows that come too late, marked `late` or not."""
        clocks = self.clock, self.punctuation
        behind, self.steps = judged(scope, time, late, punctuation, clocks)
        return behind


class StreamIds(Stateful):
    """Ids of the streams that are ranked against each other, each a stream of one key.

    They only grow, in order of first appearance, since they decide between equal streams; the codes
    of `index` come again. key, id : int64[codes], of each stream, -1: a free code
    """

    state = {
        "index": Part(),
        "values": Part(),
        **dict.fromkeys(("key", "id"), Array(int, "codes", low=-1)),
    }

    def __init__(self) -> None:
        self.index, self.values = KeyIndex(), RowStore()
        self.key = self.id = np.empty(0, np.int64)

    def encode(self, key: Ints, stream: pa.ChunkedArray) -> Ints:
        """Return int64[n]: the ids of streams of these keys (int64[n])."""
        codes = self.index.encode(pa.table({"key": key, "stream": stream}))
        self.key = longer(self.key, self.index.size, -1)
        self.id = longer(self.id, self.index.size, -1)
        first = np.sort(np.unique(codes, return_index=True)[1])
        first = first[self.id[codes[first]] < 0]
        if len(first):
            fresh = pa.table({"stream": stream.take(pa.array(first))})
            self.key[codes[first]] = key[first]
            self.id[codes[first]] = self.values.append(fresh)
        return self.id[codes]

    def take(self, ids: Ints) -> pa.ChunkedArray:
        """Return the streams with these ids."""
        return self.values.take(ids).column("stream")

    def forget(self, keys: Ints) -> None:
        """Drop all streams of these keys."""
        codes = np.flatnonzero(np.isin(self.key, keys))
        if len(codes):
            self.index.forget(codes)
            self.key[codes] = self.id[codes] = -1
            self.values.forget(self.id[self.id >= 0])

    def before_saving(self) -> None:
        self.values.keep(self.id[self.id >= 0])

    def after_loading(self) -> None:
        free = np.flatnonzero(self.key < 0)
        known = np.sort(self.id[self.key >= 0])
        if (
            len(self.key) != self.index.size
            or not np.array_equal(free, np.sort(self.index.free))
            or not np.array_equal(known, self.values.numbers)
        ):
            raise ValueError("every stream has a number, and belongs to a key")


class TableTopK(TableOperator):
    """Top-k windows over Arrow tables, for the keys of one bucket.

    Tables have the base's columns, prob and value0 (a tuple's scores; lists of one length per row),
    with rules `rule`, with streams `stream`, and, with a scope, late and punctuation. Answers have
    key0.., query, k, time, rank, score, probability, row, answered, and with streams stream.

    An instant of a key is past when `ScopeClocks` says so; without a scope, once the key has a row
    of that time or a later one. Rows that are marked late, or before instants that are past for
    their scope, are left out.
    """

    config: TopKTableConfig
    state = {"scopes": Part(), "streams": Part(), "windows": Part(), "like": SavedTable()}

    def __init__(self, config: TopKTableConfig) -> None:
        super().__init__(config)
        self.scopes, self.streams = ScopeClocks(), StreamIds()
        self.windows = KeyWindows(config.one_window, self.counts, self._known)
        self.places = {name: i for i, (name, *_) in enumerate(config.queries)}
        self.every = np.array([every for *_, every in config.queries], np.int64)
        # The last answer that a tuple calls for is about an instant at most this much later.
        span = config.window.length_us if isinstance(config.window, Range) else 0
        self._stays = min(LONGEST, span + int(self.every.max(initial=0)))
        self.like: pa.Table | None = None  # no row, of the rows' type

    def begin(self) -> None:
        super().begin()
        self.windows.largest = 0

    def gauges(self) -> dict[str, Any]:
        """Return the gauges. `timetable` has the next runs of the key whose next run is first:
        [[time, [name of a query, ...]], ...] in JSON, times of timestamps in microseconds."""
        runs = self.windows.upcoming(UPCOMING)
        return {
            **super().gauges(),
            **window_gauges(self.windows.largest, [self.config.window]),
            "due": runs[0].time if runs else None,
            "timetable": json.dumps([[run.time, run.queries] for run in runs]) if runs else None,
        }

    def usable(self, rows: pa.Table) -> np.ndarray:
        """Return bool[n]: rows with a time within 2**60 microseconds of 1970, finite scores, and
        probabilities above 0 that sum to at most 1. Answers about rows with timestamps must be
        about instants of the calendar."""
        fine = super().usable(rows)
        time = np.zeros(rows.num_rows, np.int64)
        time[fine] = as_numbers(rows.column("order0").filter(pa.array(fine)))
        offsets, prob, values = alternatives_of(rows, 1)
        good = np.isfinite(values[:, 0]) & (prob > 0.0)
        owner = np.repeat(np.arange(rows.num_rows), np.diff(offsets))
        fine &= np.bincount(owner, good, rows.num_rows) == np.diff(offsets)
        existence = np.bincount(owner, np.where(good, prob, 0.0), rows.num_rows)
        fine &= (existence > 0.0) & (existence <= 1.0 + EXCESS)
        fine &= np.abs(time) <= LONGEST
        if self.config.time != "long":
            fine &= (time >= EARLIEST) & (time <= LATEST - self._stays)
        return fine

    def arrange(self, rows: pa.Table) -> np.ndarray:
        """Return the rows' places by time, or in the order of their release by a controller."""
        if self.config.scope is not None:
            return release_order(rows)
        return arrival_order([as_numbers(rows.column("order0"))], [as_numbers(rows.column(TIE))])

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        controlled = self.config.scope is not None
        self.like = rows.select([ROW]).slice(0, 0)
        late = lateness_of(rows) if controlled else np.zeros(rows.num_rows, bool)
        key, scope = self._coded(rows, late)
        self.scopes.seen[scope] = now
        time = as_numbers(rows.column("order0"))
        late |= time < self.windows.closed[key]
        if controlled:
            known, late = late, self.scopes.judge(scope, time, late, punctuations_of(rows))
            behind = int(np.count_nonzero(late & ~known))
            self.require_one_controller(behind)
            self.counts["out_of_order"] += behind
        self.counts["late"] += int(np.count_nonzero(late))
        out = AnswerCollector(self.places)
        self._enter(rows, key, time, np.flatnonzero(~late), out)
        if controlled:
            self.windows.advance(self.scopes.clock, out)
        over = self._expired()
        if not self.config.shared:
            self._close(over, out)
        tables = self._tables(out)
        self.windows.empty(over)
        if self.config.streams and len(over):
            self.streams.forget(over)
        if not self.config.shared:
            self.scopes.forget(over)
        self.index.forget(over)
        return tables

    def _coded(self, rows: pa.Table, late: Bools) -> tuple[Ints, Ints]:
        """Return (keys, scopes) of rows, int64[n] each, and make room for them.

        Where keys share a scope, late rows (bool[n]) do not show that a key begins again, since its
        tuples may still be answered. They have key 0, and are left out.
        """
        if not self.config.shared:
            key = scope = self.codes(rows)
        else:
            shared = [f"key{i}" for i in self.config.scope or ()]
            scope = self.scopes.index.encode(rows.select(shared))
            key = np.zeros(len(scope), np.int64)
            key[~late] = self.codes(rows.filter(pa.array(~late)))
        self.windows.grow(max(self.index.size, 1))
        self.scopes.grow(int(scope.max()) + 1)
        self.windows.scope[key[~late]] = scope[~late]
        return key, scope

    def _expired(self) -> Ints:
        """Return int64[]: keys that are over. Where they share a scope, it must have passed what
        they hold: no answer changes."""
        over = self.index.expired()
        if not self.config.shared or not len(over):
            return over
        assert isinstance(self.config.window, Range)
        clock = self.scopes.clock[self.windows.scope[over]]
        return over[clock >= self.windows.newest[over] + self.config.window.length_us]

    def _enter(
        self, rows: pa.Table, key: Ints, time: Ints, taken: Ints, out: AnswerCollector
    ) -> None:
        """Let the rows at `taken` enter the windows of their keys, and collect the answers."""
        offsets, prob, values = alternatives_of(rows, 1)
        rule, stream = None, None
        if self.config.rules:
            codes = self.windows.rules.encode(rows.select(["rule"]))
            rule = np.where(rows.column("rule").is_valid().to_numpy(), codes, -1)
        row_id = np.full(len(key), -1)
        if self.config.streams:
            stream = np.full(len(key), -1)
            of_taken = rows.column("stream").take(pa.array(taken))
            stream[taken] = self.streams.encode(key[taken], of_taken)
        else:
            row_id[taken] = self.windows.rows.append(rows.select([ROW]).take(pa.array(taken)))
        if not taken.size:
            return
        order, starts, keys = grouped(key[taken])
        of = taken[order]
        begin, flat = chosen(offsets, of)
        fresh = HeldTuples.of_arrivals(
            time[of], values[flat, 0], prob[flat], begin,
            None if rule is None else rule[of], None if stream is None else stream[of],
        )  # fmt: skip
        self.windows.take(keys, fresh, np.diff(starts), row_id[of], out)

    def _known(self, scope: Ints, time: Ints, answered: Ints) -> Ints:
        """Return when times were known to be past: by their scope's clock, if there are scopes."""
        if self.config.scope is None:
            return answered
        return self.scopes.steps.known(scope, time, answered)

    def set_clock(self, now: int) -> None:
        window = self.config.window
        if isinstance(window, Range) and window.idle_timeout_us is not None:
            np.minimum(self.scopes.seen, max(now, 0), out=self.scopes.seen)

    def idle(self, now: int) -> list[pa.Table]:
        window = self.config.window
        assert isinstance(window, Range)
        assert window.idle_timeout_us is not None
        self.set_clock(now)
        quiet = self.scopes.seen <= now - window.idle_timeout_us // 1000
        return self._closed(np.flatnonzero(quiet[self.windows.scope]))

    def flush(self) -> list[pa.Table]:
        return self._closed(np.arange(len(self.windows.windows)))

    def _closed(self, keys: Ints) -> list[pa.Table]:
        out = AnswerCollector(self.places)
        self._close(keys, out)
        return self._tables(out)

    def _close(self, keys: Ints, out: AnswerCollector) -> None:
        clock = None if self.config.scope is None else self.scopes.clock
        self.windows.close(keys, clock, int(self.every.max()), out)

    def _tables(self, out: AnswerCollector) -> list[pa.Table]:
        tables = [self._table(out)] if out.parts else []
        self.windows.forget()
        return tables

    def _table(self, out: AnswerCollector) -> pa.Table:
        of = out.sorted()
        for name, count in zip(OF_ANSWERS, of.counts(self.every), strict=True):
            self.counts[name] += count
        columns = {f"key{i}": self.index.take(of.group, i) for i in range(self.config.keys)}
        columns |= of.arrow(self.places, ARROW_TIMES[self.config.time])
        if self.config.streams:
            assert self.like is not None
            columns[ROW] = pa.nulls(len(of.group), self.like.schema.field(ROW).type)
            columns["stream"] = self.streams.take(of.stream_id)
        else:
            columns[ROW] = self.windows.rows_at(of.row_id)
        return pa.table(columns)

    def after_loading(self) -> None:
        super().after_loading()
        self.windows.counts = self.counts
        scope, codes = self.windows.scope, len(self.windows.windows)
        if scope.size and (scope.min() < 0 or scope.max() >= self.scopes.clock.size):
            raise ValueError("every key belongs to a scope that is known")
        if not self.config.streams and self.windows.row_ids().min(initial=0) < 0:
            raise ValueError("a row is missing that a window holds")
        if self.config.keys and codes > max(self.index.size, 1):
            raise ValueError("every window belongs to a key that is known")
        if self.config.streams:
            held = [window.held_tuples.stream for window in self.windows.windows]
            if not np.isin(np.concatenate([[], *held]), self.streams.values.numbers).all():
                raise ValueError("every window holds streams that are known")
        self.windows.register(self.config.named)
