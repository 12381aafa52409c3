"""Multi-top-k over Arrow tables: columns to arrays, a top-k window for each key, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.ranking.semantics import Semantics
from sfumato.operators.ranking.top_k_window import NEVER, TopKWindow
from sfumato.operators.state.tuple_batch import gathered
from sfumato.tables.arrival_order import arrival_order
from sfumato.tables.arrow import as_numbers, as_times, joined
from sfumato.tables.keys import KeyIndex
from sfumato.tables.operator import TIE
from sfumato.tables.ranking.expiring_keys import ExpiringKeyIndex
from sfumato.tables.ranking.numbered_answers import (
    ARRIVAL,
    NUMBER,
    RULE,
    NumberedAnswers,
    by_code,
    counted,
)
from sfumato.tables.row_store import RowStore
from sfumato.tables.snapshot import Snapshot, pack, unpack
from sfumato.tables.windows.columns import TIMES, alternatives_of, punctuations_of
from sfumato.windows import Range, Rows

KIND, VERSION = "top-k bucket", 2
FAR = 2**62  # no instant is due
OF_ANSWERS = ("answers", "answered", "late_answers", "latency")
FROM_WINDOWS = ("out_of_order", "rejected", "overflow", "executions", "cost")
OF_GROUPS = {"scope_of": 0, "due": FAR, "newest": NEVER, "closed": NEVER}
OF_SCOPES = {"clock": NEVER, "punctuation": np.iinfo(np.int64).min, "seen": 0}


@dataclass(frozen=True)
class TopKSettings:
    """What a multi-top-k is told: plain values, to go to workers and into checkpoints.

    queries : name, k and every (microseconds) of each
    window : sf.Range (only its length and idle timeout count) or sf.Rows
    semantics, plan, ascending : as TopKWindow has them
    rules, streams : whether there are columns `rule` and `stream`
    keys : names of key0..    scope : numbers of the keys that share a punctuation; None: no
        punctuations, rows in order
    time : what the order is: "timestamp", "timestamp_ntz" or "long"
    columns, buckets : the schema of the rows and the number of buckets, only to recognise a
        checkpoint of another query
    """

    queries: tuple[tuple[str, int, int], ...]
    window: Range | Rows
    semantics: Semantics
    plan: str
    ascending: bool
    rules: bool
    streams: bool
    keys: tuple[str, ...]
    scope: tuple[int, ...] | None
    time: str
    columns: str
    buckets: int

    counters: ClassVar[tuple[str, ...]] = (
        "rows",
        "late",
        "out_of_order",
        "rejected",
        "overflow",
        "executions",
        "cost",
        "answers",
        "answered",
        "late_answers",
        "latency",
    )

    def make(self) -> TableTopK:
        self.one_window()  # raises what the settings have wrong
        return TableTopK(self)

    def one_window(self) -> TopKWindow:
        """The empty window of one key."""
        window = self.window
        return TopKWindow(
            {name: (k, every) for name, k, every in self.queries},
            length=window.span if isinstance(window, Range) else None,
            rows=window.rows if isinstance(window, Rows) else None,
            confidence=window.confidence if isinstance(window, Rows) else None,
            max_tuples=window.max_tuples if isinstance(window, Rows) else None,
            semantics=self.semantics,
            plan=self.plan,
            ascending=self.ascending,
            streams=self.streams,
        )

    def restore(self, data: bytes) -> TableTopK:
        return TableTopK.restored(self, data)

    def fingerprint(self) -> str:
        """All but the queries: others may take their place at a restart."""
        window = {"window": type(self.window).__name__, **asdict(self.window)}
        known = {"operator": "top-k", **asdict(self), "window": window}
        del known["queries"]
        return json.dumps(known, sort_keys=True, default=str)


class TableTopK:
    """Top-k windows over Arrow tables, for the keys of one bucket.

    Tables have the columns row (a struct: what comes out of a tuple), prob and value0 (its scores;
    lists of one length a row), order0, key0.., __tie, with rules `rule`, with streams `stream`,
    and, with a scope, late and punctuation.

    An instant of a key is past, with a scope, once a row that is not late of that time or a later
    one comes for any key of the scope, or a row whose punctuation is above one that had reached
    it; without, once the key has a row of that time or a later one. Rows flagged late, or before
    instants that are past for their scope, take no part.
    """

    def __init__(self, settings: TopKSettings) -> None:
        self.settings = settings
        self.groups, self.scopes, self.stream_ids = KeyIndex(), KeyIndex(), KeyIndex()
        self.rule_ids = ExpiringKeyIndex()
        self.rows = RowStore()
        self.windows: list[TopKWindow] = []
        self.held: list[np.ndarray] = []  # of each group int64[3, n]: ARRIVAL, NUMBER, RULE
        self.of_group = {name: np.empty(0, np.int64) for name in OF_GROUPS}
        self.of_scope = {name: np.empty(0, np.int64) for name in OF_SCOPES}
        self.counts = dict.fromkeys(settings.counters, 0)
        self.places = {name: i for i, (name, *_) in enumerate(settings.queries)}
        self.every = np.array([every for *_, every in settings.queries], np.int64)
        self.clocks: dict[int, np.ndarray] = {}  # of a scope, after each of its rows of this batch
        self.row_type: pa.DataType | None = None

    # ---- rows in

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        rows = joined([table for _, table in batch]).combine_chunks()
        self.row_type = rows.schema.field("row").type
        rows = rows.take(pa.array(self._order(rows)))
        self.counts["rows"] += rows.num_rows
        group = self.groups.encode(self._keys(rows, range(len(self.settings.keys))))
        scope = group
        if self.settings.scope is not None:
            scope = self.scopes.encode(self._keys(rows, self.settings.scope))
        self._grow(int(group.max(initial=-1)) + 1, int(scope.max(initial=-1)) + 1)
        self.of_group["scope_of"][group] = scope
        self.of_scope["seen"][scope] = now
        time = as_numbers(rows.column("order0"))
        late = self._judged(rows, group, scope, time)
        self.counts["late"] += int(np.count_nonzero(late))
        out = NumberedAnswers(self.places)
        taken = np.flatnonzero(~late)
        self._extend(rows, group, time, taken, out)
        if self.settings.scope is not None:
            clock = self.of_scope["clock"][self.of_group["scope_of"]]
            for g in np.flatnonzero(self.of_group["due"] <= clock).tolist():
                with self._watched(g) as window:
                    answers = window.advance(int(clock[g]))
                    out.add(g, answers, self.held[g], clock=self._clock_of(g))
        tables = self._tables(out)
        self._forget()
        return tables

    def _order(self, rows: pa.Table) -> np.ndarray:
        """Rows as they arrived, or as the disorder controller let them out."""
        columns = [as_numbers(rows.column("order0"))]
        if self.settings.scope is not None:
            # Late rows of a punctuation came after the rows that it let out.
            columns = [punctuations_of(rows), as_numbers(rows.column("late")), *columns]
        return arrival_order(columns, [as_numbers(rows.column(TIE))])

    def _keys(self, rows: pa.Table, numbers: Sequence[int]) -> pa.Table:
        return rows.select([f"key{i}" for i in numbers])

    def _grow(self, groups: int, scopes: int) -> None:
        for table, start, n in (
            (self.of_group, OF_GROUPS, groups),
            (self.of_scope, OF_SCOPES, scopes),
        ):
            for name, value in start.items():
                fresh = np.full(max(n - len(table[name]), 0), value, np.int64)
                table[name] = np.concatenate([table[name], fresh])
        for _ in range(len(self.windows), groups):
            self.windows.append(self.settings.one_window())
            self.held.append(np.empty((3, 0), np.int64))

    def _judged(
        self, rows: pa.Table, group: np.ndarray, scope: np.ndarray, time: np.ndarray
    ) -> np.ndarray:
        """bool[n]: rows that come too late; moves the clocks of the scopes."""
        late = time < self.of_group["closed"][group]
        self.clocks = {}
        if self.settings.scope is None:
            return late
        late |= as_numbers(rows.column("late")) != 0
        punctuation = punctuations_of(rows)
        for s, at in by_code(scope):
            newest = np.concatenate([self.of_scope["punctuation"][s : s + 1], punctuation[at]])
            newest = np.maximum.accumulate(newest)
            settled = np.where(newest[1:] > newest[:-1], newest[:-1] + 1, NEVER)
            shown = np.maximum(np.where(late[at], NEVER, time[at]), settled)
            clock = np.maximum.accumulate(
                np.concatenate([self.of_scope["clock"][s : s + 1], shown])
            )
            late[at] |= time[at] < np.maximum(clock[:-1], settled)
            self.clocks[s] = clock[1:]
            self.of_scope["punctuation"][s], self.of_scope["clock"][s] = newest[-1], clock[-1]
        return late

    def _extend(
        self,
        rows: pa.Table,
        group: np.ndarray,
        time: np.ndarray,
        taken: np.ndarray,
        out: NumberedAnswers,
    ) -> None:
        offsets, prob, values = alternatives_of(rows, 1)
        rule = stream = None
        if self.settings.rules:
            rule = self.rule_ids.encode(rows.column("rule"))
        if self.settings.streams:
            names = [f"key{i}" for i in range(len(self.settings.keys))]
            stream = self.stream_ids.encode(rows.select([*names, "stream"]))
        number = np.full(len(group), -1)
        number[taken] = self.rows.next + np.arange(taken.size)
        if not self.settings.streams:
            self.rows.append(rows.select(["row"]).take(pa.array(taken)))
        for g, at in by_code(group[taken]):
            of = taken[at]
            begin, flat = gathered(offsets, of)
            with self._watched(g) as window:
                fresh = np.stack(
                    [
                        window.arrived + np.arange(of.size),
                        number[of],
                        np.full(of.size, -1) if rule is None else rule[of],
                    ]
                )
                self.held[g] = np.concatenate([self.held[g], fresh], axis=1)
                answers = window.extend(
                    time[of],
                    scores=values[flat, 0],
                    prob=prob[flat],
                    offsets=begin,
                    rules=None if rule is None else rule[of],
                    streams=None if stream is None else stream[of],
                )
                out.add(g, answers, self.held[g], clock=self._clock_of(g))
            self.of_group["newest"][g] = max(self.of_group["newest"][g], time[of].max())

    def _clock_of(self, g: int) -> np.ndarray | None:
        """The times known in a group's scope after each of its rows; None: without a scope."""
        return self.clocks.get(int(self.of_group["scope_of"][g]))

    def _watched(self, g: int) -> _Watched:
        return _Watched(self, g)

    def _forget(self) -> None:
        """Rows and rules that no window needs any more."""
        alive = sum(held.shape[1] for held in self.held)
        if len(self.rows.numbers) > 2 * alive + 64:
            self.rows.forget(self._alive(NUMBER))
        if len(self.rule_ids) > 2 * alive + 1024:
            self.rule_ids.keep(self._alive(RULE))

    def _alive(self, part: int) -> np.ndarray:
        parts = [held[part] for held in self.held]
        return np.concatenate([np.empty(0, np.int64), *parts])

    # ---- no more rows

    def idle(self, now: int) -> list[pa.Table]:
        window = self.settings.window
        assert isinstance(window, Range)
        assert window.timeout is not None
        quiet = self.of_scope["seen"] <= now - window.timeout // 1000
        return self._close(np.flatnonzero(quiet[self.of_group["scope_of"]]))

    def flush(self) -> list[pa.Table]:
        return self._close(np.arange(len(self.windows)))

    def _close(self, groups: np.ndarray) -> list[pa.Table]:
        """Each query's first answer after the newest row of some groups, unless it was given."""
        out, nothing = NumberedAnswers(self.places), np.empty(0, np.int64)
        longest = max(every for *_, every in self.settings.queries)
        fresh = self.of_group["newest"] >= self.of_group["closed"]
        for g in groups[fresh[groups]].tolist():
            last = int(self.of_group["newest"][g])
            if self.settings.scope is not None:
                last = max(last, int(self.of_scope["clock"][self.of_group["scope_of"][g]]))
            waiting = set(self.places)
            with self._watched(g) as window:
                out.add(g, window.advance(last), self.held[g], clock=nothing)
                due = window.next_due
                while waiting and due is not None and due <= last + longest:
                    answers = window.advance(due)
                    out.add(g, answers, self.held[g], only=waiting, clock=nothing)
                    waiting -= set(answers.names)
                    last_due, due = due, window.next_due
                    self.of_group["closed"][g] = last_due
        tables = self._tables(out)
        self._forget()
        return tables

    # ---- answers out

    def _tables(self, out: NumberedAnswers) -> list[pa.Table]:
        if not out.parts:
            return []
        group, query, k, time, answered, rank, number, stream, score, probability = out.sorted()
        found = counted(group, query, time, answered, self.every)
        for name, count in zip(OF_ANSWERS, (len(group), *found), strict=True):
            self.counts[name] += count
        columns = {}
        if self.settings.keys:
            assert self.groups.table is not None
            for i, name in enumerate(self.settings.keys):
                columns[name] = self.groups.table.column(f"key{i}").take(pa.array(group))
        columns |= {
            "query": pa.array(list(self.places)).take(pa.array(query)),
            "k": pa.array(k),
            "time": as_times(time, TIMES[self.settings.time]),
            "rank": pa.array(rank),
            "score": pa.array(score),
            "probability": pa.array(probability),
        }
        shown = {"answered": as_times(answered, TIMES[self.settings.time])}
        if not self.settings.streams:
            columns["row"] = self.rows.take(number).column("row")
            return [pa.table(columns | shown)]
        assert self.stream_ids.table is not None
        names = self.stream_ids.table.column("stream")
        columns["row"] = pa.nulls(len(group), self.row_type)
        columns["stream"] = names.take(pa.array(stream))
        return [pa.table(columns | shown)]

    def counters(self) -> dict[str, int]:
        return dict(self.counts)

    # ---- state

    def snapshot(self) -> bytes:
        self.rows.keep(self._alive(NUMBER))
        tables = {"groups": self.groups.table, "scopes": self.scopes.table}
        tables |= {"streams": self.stream_ids.table, "rules": self.rule_ids.table}
        if len(self.rows.numbers) or (self.rows.next and not self.settings.streams):
            tables["rows"] = self.rows.rows()
        if self.row_type is not None:
            tables["like"] = pa.table({"row": pa.nulls(0, self.row_type)})
        saved = [np.frombuffer(window.snapshot(), np.uint8) for window in self.windows]
        arrays = {
            "windows": np.concatenate([np.empty(0, np.uint8), *saved]),
            "window_sizes": np.array([len(data) for data in saved], np.int64),
            "held": np.concatenate([np.empty((3, 0), np.int64), *self.held], axis=1),
            "held_sizes": np.array([held.shape[1] for held in self.held], np.int64),
            "numbers": self.rows.numbers,
            **{f"group_{name}": array for name, array in self.of_group.items()},
            **{f"scope_{name}": array for name, array in self.of_scope.items()},
        }
        values = {
            "counts": self.counts,
            "next_row": self.rows.next,
            "next_rule": self.rule_ids.next,
        }
        known = {name: table for name, table in tables.items() if table is not None}
        return pack(KIND, VERSION, Snapshot(values, arrays, known))

    @classmethod
    def restored(cls, settings: TopKSettings, data: bytes) -> TableTopK:
        """The operator of a snapshot, which then answers the queries of `settings`: those that
        are new as of what it knew last, those that are gone no more.

        Raises SnapshotError for other bytes.
        """
        saved = unpack(data, KIND, VERSION)
        bucket, arrays, tables = cls(settings), saved.arrays, saved.tables
        bucket.groups = KeyIndex(tables.get("groups"))
        bucket.scopes = KeyIndex(tables.get("scopes"))
        bucket.stream_ids = KeyIndex(tables.get("streams"))
        bucket.rule_ids = ExpiringKeyIndex(tables.get("rules"), saved.values["next_rule"])
        bucket.rows = RowStore(tables.get("rows"), arrays["numbers"], saved.values["next_row"])
        bucket.counts = saved.values["counts"]
        if "like" in tables:
            bucket.row_type = tables["like"].schema.field("row").type
        ends = np.cumsum(arrays["window_sizes"])[:-1]
        for part in np.split(arrays["windows"], ends) if len(arrays["window_sizes"]) else ():
            bucket.windows.append(TopKWindow.restore(part.tobytes()))
            _register(settings.queries, bucket.windows[-1])
        if bucket.windows:
            ends = np.cumsum(arrays["held_sizes"])[:-1]
            bucket.held = np.split(arrays["held"], ends, axis=1)
        bucket.of_group = {name: arrays[f"group_{name}"] for name in OF_GROUPS}
        bucket.of_scope = {name: arrays[f"scope_{name}"] for name in OF_SCOPES}
        for g, window in enumerate(bucket.windows):
            if bucket.of_group["due"][g] != FAR and window.next_due is not None:
                bucket.of_group["due"][g] = window.next_due
        return bucket


def _register(queries: Sequence[tuple[str, int, int]], window: TopKWindow) -> None:
    """Let a window answer just these queries (see Schedule: no bound is missed)."""
    wanted, known = {name: (k, every) for name, k, every in queries}, window.queries
    for name in [name for name in wanted if name not in known]:
        window.add(name, *wanted[name])
    for name, query in known.items():
        if wanted.get(name) != query:
            window.remove(name)
            if name in wanted:
                window.add(name, *wanted[name])


class _Watched:
    """A group's window while it moves: afterwards what it counted and still holds is known."""

    def __init__(self, bucket: TableTopK, g: int) -> None:
        self.bucket, self.g, self.window = bucket, g, bucket.windows[g]

    def __enter__(self) -> TopKWindow:
        self.before = [getattr(self.window, name) for name in FROM_WINDOWS]
        return self.window

    def __exit__(self, *_: object) -> None:
        bucket, g, window = self.bucket, self.g, self.window
        for name, before in zip(FROM_WINDOWS, self.before, strict=True):
            bucket.counts[name] += getattr(window, name) - before
        live = window.held
        if live.size != bucket.held[g].shape[1]:
            places = np.searchsorted(bucket.held[g][ARRIVAL], live)
            bucket.held[g] = bucket.held[g][:, places]
        due = window.next_due
        bucket.of_group["due"][g] = FAR if due is None or not live.size else due
