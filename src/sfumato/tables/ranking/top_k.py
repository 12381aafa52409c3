"""Multi-top-k over Arrow tables: columns to arrays, a top-k window for each key, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.limits import check_extents
from sfumato.operators.arguments import EXCESS
from sfumato.operators.arrays import chosen, grouped
from sfumato.operators.ranking.semantics import Semantics
from sfumato.operators.ranking.top_k_window import TopKWindow
from sfumato.operators.ranking.window_content import HeldTuples
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Part
from sfumato.tables.arrival_order import Arrival, arrival_order
from sfumato.tables.arrow import as_numbers
from sfumato.tables.declared import Table
from sfumato.tables.disorder.released import RELEASED, punctuations_of, release_order
from sfumato.tables.operator import ROW, TIE, TableConfig, TableOperator
from sfumato.tables.ranking.key_windows import KeyWindows
from sfumato.tables.ranking.numbered_answers import NumberedAnswers, counted
from sfumato.tables.ranking.scope_clocks import ScopeClocks
from sfumato.tables.ranking.stream_numbers import StreamNumbers
from sfumato.tables.window_sizes import SIZES, sizes
from sfumato.tables.windows.columns import EARLIEST, LATEST, TIMES, alternatives_of
from sfumato.windows import LONGEST, Range, Rows

UPCOMING = 6  # runs of a timetable that are shown
OF_ANSWERS = ("answers", "answered", "late_answers", "latency")


@dataclass(frozen=True, kw_only=True)
class TopKTableConfig(TableConfig):
    """Settings of a multi-top-k.

    queries : name, k and every (microseconds) of each; others may take their place at a restart
    window : sf.Range (only its length and idle timeout count) or sf.Rows
    semantics, plan, ascending : as TopKWindow has them
    rules, streams : whether there are columns `rule` and `stream`
    rescale : whether rules of probability above 1 are scaled, see TopKWindow
    scope : numbers of the keys that share a punctuation; None: no punctuations, rows in order
    time : what the order is: "timestamp", "timestamp_ntz" or "long"
    by : the scores, and of what rows, only to recognise a checkpoint of another query
    """

    queries: tuple[tuple[str, int, int], ...] = field(metadata=CHANGEABLE)
    window: Range | Rows
    semantics: Semantics
    plan: str
    ascending: bool
    rules: bool
    streams: bool
    scope: tuple[int, ...] | None
    time: str
    rescale: bool = field(default=False, metadata=CHANGEABLE)
    by: str = ""

    kind, version = "top-k table", 5
    counters: ClassVar[tuple[str, ...]] = (
        "rows", "invalid", "late", "out_of_order", "rejected", "overflow", "executions", "cost",
        *OF_ANSWERS,
    )  # fmt: skip
    gauges: ClassVar[Mapping[str, tuple[str, str]]] = {
        **TableConfig.gauges,
        **SIZES,
        "due": ("long", "min(due)"),
        "timetable": ("string", "min_by(timetable, due)"),
    }

    def __post_init__(self) -> None:
        span = self.window.length_us if isinstance(self.window, Range) else None
        for *_, every in self.queries if span is not None else ():
            if every > 0:  # else the window says what is wrong
                check_extents(span or 0, every, "every")
        if self.forget_after is not None and self.shared and (span or LONGEST) > self.forget_after:
            raise ValueError(
                "`forget_after` of a ranking whose keys share a controller must be at least the "
                f"length of its sf.Range, {span} microseconds: make it longer"
                if span is not None
                else "`forget_after` of a ranking by sf.Rows whose keys share a controller would "
                "depend on the rows of the other keys: reorder by the same `key`, or leave it out"
            )

    @property
    def shared(self) -> bool:
        """Whether several keys share a punctuation."""
        return self.scope is not None and len(self.scope) < self.keys

    def arrival(self, side: int = 0) -> Arrival:
        if self.scope is None:
            return super().arrival(side)
        return Arrival(RELEASED)

    def make(self) -> TableTopK:
        self.one_window()  # raises what the config has wrong
        return TableTopK(self)

    def one_window(self) -> TopKWindow:
        """The empty window of one key."""
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


class TableTopK(TableOperator):
    """Top-k windows over Arrow tables, for the keys of one bucket.

    Tables have, beside the base's columns, prob and value0 (a tuple's scores; lists of one length a
    row), with rules `rule`, with streams `stream`, and, with a scope, late and punctuation.
    Answers have key0.., query, k, time, rank, score, probability, row, with streams stream, and
    answered.

    An instant of a key is past, with a scope, when `ScopeClocks` says so; without, once the key has
    a row of that time or a later one. Rows flagged late, or before instants that are past for
    their scope, take no part.
    """

    config: TopKTableConfig
    state = {"scopes": Part(), "streams": Part(), "windows": Part(), "like": Table()}

    def __init__(self, config: TopKTableConfig) -> None:
        super().__init__(config)
        self.scopes, self.streams = ScopeClocks(), StreamNumbers()
        self.windows = KeyWindows(config.one_window, self.counts, self._known)
        self.places = {name: i for i, (name, *_) in enumerate(config.queries)}
        self.every = np.array([every for *_, every in config.queries], np.int64)
        # The last answer that a tuple calls for is about an instant so far behind it, at most.
        span = config.window.length_us if isinstance(config.window, Range) else 0
        self._stays = min(LONGEST, span + int(self.every.max(initial=0)))
        self.like: pa.Table | None = None  # no row, of the rows' type

    def begin(self) -> None:
        super().begin()
        self.windows.largest = 0

    def gauges(self) -> dict[str, Any]:
        """Beside sizes, and those of the base, the next runs of the key whose next one is first:
        [[time, [name of a query, ...]], ...] in JSON, of timestamps microseconds."""
        runs = self.windows.upcoming(UPCOMING)
        return {
            **super().gauges(),
            **sizes(self.windows.largest, [self.config.window]),
            "due": runs[0].time if runs else None,
            "timetable": json.dumps([[run.time, run.queries] for run in runs]) if runs else None,
        }

    def usable(self, rows: pa.Table) -> np.ndarray:
        """bool[n]: rows with a time within 2**60 microseconds of 1970, finite scores, and
        probabilities above 0 that sum to at most 1; of timestamps those that are in answers about
        instants of the calendar only."""
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
        """Rows as they arrived, or as the disorder controller let them out."""
        if self.config.scope is not None:
            return release_order(rows)
        return arrival_order([as_numbers(rows.column("order0"))], [as_numbers(rows.column(TIE))])

    def answers(self, rows: pa.Table, now: int) -> list[pa.Table]:
        self.like = rows.select([ROW]).slice(0, 0)
        late = np.zeros(rows.num_rows, bool)
        if self.config.scope is not None:
            late = as_numbers(rows.column("late")) != 0
        key, scope = self._coded(rows, late)
        self.scopes.seen[scope] = now
        time = as_numbers(rows.column("order0"))
        late |= time < self.windows.closed[key]
        if self.config.scope is not None:
            known, late = late, self.scopes.judge(scope, time, late, punctuations_of(rows))
            behind = int(np.count_nonzero(late & ~known))
            self.require_one_controller(behind)
            self.counts["out_of_order"] += behind
        self.counts["late"] += int(np.count_nonzero(late))
        out = NumberedAnswers(self.places)
        self._extend(rows, key, time, np.flatnonzero(~late), out)
        if self.config.scope is not None:
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

    def _coded(self, rows: pa.Table, late: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(keys, scopes) of rows, int64[n] each, with room for them.

        Where keys share a scope, late rows (bool[n]) do not show that a key begins anew: what its
        tuples are answered by is not over then. They have key 0, and take no part.
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

    def _expired(self) -> np.ndarray:
        """int64[]: keys that are over. Where they share a scope, it has gone past what they hold:
        no answer changes."""
        over = self.index.expired()
        if not self.config.shared or not len(over):
            return over
        assert isinstance(self.config.window, Range)
        clock = self.scopes.clock[self.windows.scope[over]]
        return over[clock >= self.windows.newest[over] + self.config.window.length_us]

    def _extend(
        self,
        rows: pa.Table,
        key: np.ndarray,
        time: np.ndarray,
        taken: np.ndarray,
        out: NumberedAnswers,
    ) -> None:
        """Let the rows at `taken` enter the windows of their keys, and collect the answers."""
        offsets, prob, values = alternatives_of(rows, 1)
        rule, stream = None, None
        if self.config.rules:
            codes = self.windows.rules.encode(rows.select(["rule"]))
            rule = np.where(rows.column("rule").is_valid().to_numpy(), codes, -1)
        number = np.full(len(key), -1)
        if self.config.streams:
            stream = np.full(len(key), -1)
            of_taken = rows.column("stream").take(pa.array(taken))
            stream[taken] = self.streams.encode(key[taken], of_taken)
        else:
            number[taken] = self.windows.rows.next + np.arange(taken.size)
            self.windows.rows.append(rows.select([ROW]).take(pa.array(taken)))
        if not taken.size:
            return
        order, starts, keys = grouped(key[taken])
        of = taken[order]
        begin, flat = chosen(offsets, of)
        fresh = HeldTuples.of_arrivals(
            time[of], values[flat, 0], prob[flat], begin,
            None if rule is None else rule[of], None if stream is None else stream[of],
        )  # fmt: skip
        self.windows.take(keys, fresh, np.diff(starts), number[of], out)

    def _known(self, scope: np.ndarray, time: np.ndarray, answered: np.ndarray) -> np.ndarray:
        """When times were known to be past: by their scope's clock, if there are scopes."""
        return (
            answered
            if self.config.scope is None
            else self.scopes.steps.known(scope, time, answered)
        )

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

    def _closed(self, keys: np.ndarray) -> list[pa.Table]:
        out = NumberedAnswers(self.places)
        self._close(keys, out)
        return self._tables(out)

    def _close(self, keys: np.ndarray, out: NumberedAnswers) -> None:
        clock = None if self.config.scope is None else self.scopes.clock
        self.windows.close(keys, clock, int(self.every.max()), out)

    def _tables(self, out: NumberedAnswers) -> list[pa.Table]:
        tables = [self._table(out)] if out.parts else []
        self.windows.forget()
        return tables

    def _table(self, out: NumberedAnswers) -> pa.Table:
        of = out.sorted()
        for name, count in zip(OF_ANSWERS, (len(of.group), *counted(of, self.every)), strict=True):
            self.counts[name] += count
        columns = {f"key{i}": self.index.take(of.group, i) for i in range(self.config.keys)}
        columns |= of.shown(self.places, TIMES[self.config.time])
        if self.config.streams:
            assert self.like is not None
            columns[ROW] = pa.nulls(len(of.group), self.like.schema.field(ROW).type)
            columns["stream"] = self.streams.take(of.stream)
        else:
            columns[ROW] = self.windows.rows_of(of.number)
        return pa.table(columns)

    def after_loading(self) -> None:
        super().after_loading()
        self.windows.counts = self.counts
        scope, codes = self.windows.scope, len(self.windows.windows)
        if scope.size and (scope.min() < 0 or scope.max() >= self.scopes.clock.size):
            raise ValueError("every key belongs to a scope that is known")
        if not self.config.streams and self.windows.numbers().min(initial=0) < 0:
            raise ValueError("a row is lacking that a window holds")
        if self.config.keys and codes > max(self.index.size, 1):
            raise ValueError("every window belongs to a key that is known")
        if self.config.streams:
            held = [window.held_tuples.stream for window in self.windows.windows]
            if not np.isin(np.concatenate([[], *held]), self.streams.values.numbers).all():
                raise ValueError("every window holds streams that are known")
        self.windows.register(self.config.named)
