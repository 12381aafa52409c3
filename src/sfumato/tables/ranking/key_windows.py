"""The top-k windows of keys, the rows and rules that they need, and their answers.

There are three kinds of ids. A *slot* numbers a tuple within the window of its key, in order of
arrival; `TopKWindow` calls it `row`. A *row id* numbers a row in the `RowStore` of all windows; -1:
the row is not needed. A *stream id* numbers a stream, see `StreamIds`; -1: streams are not ranked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Bools, Floats, Ints, longer, offsets_of
from sfumato.operators.ranking.schedule import Due
from sfumato.operators.ranking.top_k_window import TopKWindow
from sfumato.operators.ranking.window_answers import TopKAnswers, answers_and_latency
from sfumato.operators.ranking.window_content import NO_INSTANT, HeldTuples
from sfumato.operators.ranking.window_runs import MovedWindows, arrived, moved_together
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array, Declaration, List, Part, Record
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrow import UNKNOWN, as_times
from sfumato.tables.keys import KeyIndex
from sfumato.tables.operator import ROW
from sfumato.tables.row_store import RowStore
from sfumato.windows import LONGEST

FAR = 2**62  # no instant is due
FROM_WINDOWS = ("out_of_order", "rejected", "overflow", "executions", "cost")
_STARTS = {"scope": 0, "due": FAR, "newest": NO_INSTANT, "closed": NO_INSTANT}


@dataclass
class HeldRows:
    """The tuples that a key's window holds, oldest first.

    slot, row_id : int64[n]
    """

    slot: Ints
    row_id: Ints

    layout: ClassVar[Mapping[str, Declaration]] = dict.fromkeys(
        ("slot", "row_id"), Array(int, "held")
    )

    @classmethod
    def none(cls) -> HeldRows:
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True)
class AnswerColumns(Columns):
    """Rows of answers, by time, then group, query and rank: int64[n], but score and probability.

    query : place among the queries    answered : time, or UNKNOWN
    """

    group: Ints
    query: Ints
    k: Ints
    time: Ints
    answered: Ints
    rank: Ints
    row_id: Ints
    stream_id: Ints
    score: Floats
    probability: Floats

    def arrow(self, names: Iterable[str], kind: pa.DataType) -> dict[str, pa.Array]:
        """Return the plain columns of a table of answers, times of this type."""
        return {
            "query": pa.array(list(names)).take(pa.array(self.query)),
            "k": pa.array(self.k),
            "time": as_times(self.time, kind),
            "rank": pa.array(self.rank),
            "score": pa.array(self.score),
            "probability": pa.array(self.probability),
            "answered": as_times(self.answered, kind),
        }

    def counts(self, every: Ints) -> tuple[int, int, int, int]:
        """Count rows, answers, and answers later than their query's `every`; and sum the answers'
        latencies in microseconds. The rows are sorted."""
        changes = np.ones(self.group.size, np.bool_)
        changes[1:] = np.diff(self.group) != 0
        for column in (self.query, self.time):
            changes[1:] |= np.diff(column) != 0
        limits = every[self.query]
        found = answers_and_latency(changes, self.time, self.answered, limits, UNKNOWN)
        return self.group.size, *found


class AnswerCollector:
    """The answers of several keys' windows, collected.

    places : the number of each query
    """

    def __init__(self, places: dict[str, int]) -> None:
        self.places = places
        self.parts: list[AnswerColumns] = []

    def add(
        self, group: Ints, answers: TopKAnswers, row_ids: Ints, only: Bools | None = None
    ) -> None:
        """Add answers of keys (int64[n]).

        row_ids : of the tuples; `row` of the answers is a place in them
        only : bool[n, queries], the queries whose answers are wanted
        """
        if not answers.row.size:
            return
        query = self.places_of(answers.names)[answers.query]
        part = AnswerColumns(
            group, query, answers.k, answers.time, answers.answered, answers.rank,
            row_ids[answers.row], answers.stream, answers.score, answers.probability,
        )  # fmt: skip
        if only is not None:
            part = part.take(only[np.arange(query.size), query])
        self.parts.append(part)

    def places_of(self, names: Sequence[str]) -> Ints:
        """Return int64[n]: the numbers of queries."""
        return np.array([self.places[name] for name in names], np.int64)

    def sorted(self) -> AnswerColumns:
        """Return all answers, at least one."""
        of = AnswerColumns.joined(self.parts)
        return of.take(np.lexsort((of.rank, of.query, of.group, of.time)))


class KeyWindows(Stateful):
    """A window for each key, by code.

    scope : code of the key's scope    due : next instant with a run, or FAR
    newest : time of the newest tuple    closed : tuples before it come too late
    held : the tuples of each window    alive : their number in all windows
    make : returns an empty window    counts : the counters to which those of windows are added
    known : returns when times were known to be past (int64[n]), given their scopes, the times, and
        when the windows knew it
    """

    state = {
        **dict.fromkeys(_STARTS, Array(int, "keys")),
        "windows": List(Part("make")),
        "held": List(Record(HeldRows)),
        "rows": Part(),
        "rules": Part(),
    }

    def __init__(
        self,
        make: Callable[[], TopKWindow],
        counts: dict[str, int],
        known: Callable[[Ints, Ints, Ints], Ints],
    ) -> None:
        self.make, self.counts, self.known = make, counts, known
        self.scope = self.due = self.newest = self.closed = np.empty(0, np.int64)
        self.windows: list[TopKWindow] = []
        self.held: list[HeldRows] = []
        self.alive = 0
        self.largest = 0  # window since this was set to 0
        self.rows, self.rules = RowStore(), KeyIndex()

    def grow(self, keys: int) -> None:
        """Add windows up to this number of keys."""
        for name, start in _STARTS.items():
            setattr(self, name, longer(getattr(self, name), keys, start))
        for _ in range(len(self.windows), keys):
            self.windows.append(self.make())
            self.held.append(HeldRows.none())

    def take(
        self, keys: Ints, fresh: HeldTuples, sizes: Ints, row_ids: Ints, out: AnswerCollector
    ) -> None:
        """Let arrivals enter the windows of their keys, and collect the answers.

        keys : int64[w], each once    fresh : n arrivals, key by key, `sizes` (int64[w]) of each
        row_ids : int64[n]
        """
        self._move(keys, fresh, (sizes, row_ids, np.full(keys.size, NO_INSTANT)), out)
        at = offsets_of(sizes)[:-1]
        self.newest[keys] = np.maximum(self.newest[keys], np.maximum.reduceat(fresh.time, at))

    def advance(self, clock: Ints, out: AnswerCollector) -> None:
        """Answer what is past for the keys' scopes, though no row of the key shows it.

        clock : int64[scopes]
        """
        reached = clock[self.scope]
        keys = np.flatnonzero(self.due <= reached)
        if keys.size:
            self._advance(keys, reached[keys], out)

    def close(self, keys: Ints, clock: Ints | None, longest: int, out: AnswerCollector) -> None:
        """Give each query's first answer after the newest row of some keys, unless it was given.

        clock : int64[scopes], where keys have scopes    longest : the greatest `every`
        """
        keys = keys[(self.newest[keys] > NO_INSTANT) & (self.newest[keys] >= self.closed[keys])]
        if not keys.size:
            return
        last = self.newest[keys]
        if clock is not None:
            last = np.maximum(last, clock[self.scope[keys]])
        waiting = np.ones((keys.size, len(out.places)), np.bool_)
        self._advance(keys, last, out, waiting)
        while True:
            windows = [self.windows[key] for key in keys.tolist()]
            due = np.array([FAR if each.next_due is None else each.next_due for each in windows])
            there = waiting.any(axis=1) & (due <= last + longest)
            if not there.any():
                return
            keys, last, waiting = keys[there], last[there], waiting[there]
            waiting &= ~self._advance(keys, due[there], out, waiting)
            self.closed[keys] = due[there]

    def _advance(
        self, keys: Ints, until: Ints, out: AnswerCollector, only: Bools | None = None
    ) -> Bools:
        """See `_move`, without arrivals."""
        none = np.empty(0, np.int64)
        given = np.zeros(keys.size, np.int64), none, until
        return self._move(keys, HeldTuples.none(), given, out, only)

    def _move(
        self,
        keys: Ints,
        fresh: HeldTuples,
        given: tuple[Ints, Ints, Ints],
        out: AnswerCollector,
        only: Bools | None = None,
    ) -> Bools:
        """Move windows, collect the answers, and return which queries of each key are answered:
        bool[w, queries].

        given : sizes, row ids, and up to where time is past even without arrivals, int64[w]
        only : bool[w, queries], those wanted at the close, when nobody knows that they are due
        """
        sizes, row_ids, until = given
        windows = [self.windows[key] for key in keys.tolist()]
        answered = np.zeros((keys.size, len(out.places)), np.bool_)
        with self._counting(windows):
            of = arrived(windows, fresh, sizes, until)
            able, moved = moved_together(of)
            if moved is not None:
                answered[np.ix_(able, out.places_of(moved.answers.names))] = moved.ranked
                entered = self._settle_together(keys[able], moved, row_ids[np.repeat(able, sizes)])
                wanted = None if only is None else only[able][moved.window]
                self._collect(keys[able][moved.window], moved.answers, entered, out, wanted)
            for j in np.flatnonzero(~able).tolist():
                key, window, part = int(keys[j]), windows[j], of.part(j)
                held = self._enter(key, part.fresh.row, row_ids[of.begin[j] : of.begin[j + 1]])
                found = window.answered(part.fresh, part.reach, int(until[j]))
                found = found._replace(row=np.searchsorted(held.slot, found.row))
                answered[j, out.places_of(found.names)] = True
                wanted = None if only is None else np.tile(only[j], (found.row.size, 1))
                self._collect(np.full(found.row.size, key), found, held.row_id, out, wanted)
                self._settle(key)
        return answered

    @contextmanager
    def _counting(self, windows: Sequence[TopKWindow]) -> Iterator[None]:
        """Add what windows count meanwhile to `counts`."""
        before = [sum(getattr(each, name) for each in windows) for name in FROM_WINDOWS]
        yield
        for name, count in zip(FROM_WINDOWS, before, strict=True):
            self.counts[name] += sum(getattr(each, name) for each in windows) - count

    def _collect(
        self,
        group: Ints,
        answers: TopKAnswers,
        row_ids: Ints,
        out: AnswerCollector,
        only: Bools | None,
    ) -> None:
        """Collect answers of keys (int64[n]); `only`, see `_move`, of each of them."""
        if only is None:
            answered = self.known(self.scope[group], answers.time, answers.answered)
        else:
            answered = np.full_like(answers.time, UNKNOWN)
        out.add(group, answers._replace(answered=answered), row_ids, only)

    def _settle_together(self, keys: Ints, moved: MovedWindows, row_ids: Ints) -> Ints:
        """Note what windows hold that moved together. Return the row ids of all tuples that they
        held before, and then `row_ids`, those of the arrivals."""
        held = [self.held[key] for key in keys.tolist()]
        entered = np.concatenate([*(each.row_id for each in held), row_ids])
        self.alive += moved.kept.size - sum(each.row_id.size for each in held)
        self.largest = max(self.largest, int(moved.sizes.max()))
        self.due[keys] = np.where(moved.sizes > 0, moved.after, FAR)
        left, ends = entered[moved.kept], np.cumsum(moved.sizes)[:-1]
        for key, each, part in zip(keys.tolist(), held, np.split(left, ends), strict=True):
            each.slot, each.row_id = self.windows[key].held_tuples.row, part.copy()
        return entered

    def _enter(self, key: int, slots: Ints, row_ids: Ints) -> HeldRows:
        """Add arrivals to what a key's window holds."""
        held = self.held[key]
        held.slot = np.concatenate([held.slot, slots])
        held.row_id = np.concatenate([held.row_id, row_ids])
        self.alive += row_ids.size
        return held

    def _settle(self, key: int) -> None:
        """Note what a window holds that has moved."""
        window, held = self.windows[key], self.held[key]
        live = window.held
        self.largest = max(self.largest, live.size)
        if live.size != held.slot.size:
            self.alive += live.size - held.slot.size
            held.row_id = held.row_id[np.searchsorted(held.slot, live)]
            held.slot = live
        due = window.next_due
        self.due[key] = FAR if due is None or not live.size else due

    def upcoming(self, number: int) -> list[Due]:
        """Return the next runs, at most `number`, of the key whose next run comes first."""
        if not self.due.size or self.due.min() == FAR:
            return []
        return self.windows[int(self.due.argmin())].upcoming(number)

    def empty(self, keys: Ints) -> None:
        """Reset these keys; their codes may be given to others."""
        for name, start in _STARTS.items():
            getattr(self, name)[keys] = start
        for key in keys.tolist():
            self.alive -= self.held[key].slot.size
            self.windows[key], self.held[key] = self.make(), HeldRows.none()

    def forget(self) -> None:
        """Drop rows and rules that no window needs, once they are most of those stored."""
        if self.rows.crowded(self.alive):
            self.rows.keep(self.row_ids())
        if len(self.rules) > 2 * self.alive + 1024:
            self.rules.keep(np.concatenate([window.held_tuples.rule for window in self.windows]))

    def register(self, queries: dict[str, tuple[int, int]]) -> None:
        """Let all windows answer just these queries (see `Schedule`: no bound is missed).

        A query that only has another name now goes on as it was.
        """
        for key, window in enumerate(self.windows):
            window.rename(_renamed(window.queries, queries))
            known = window.queries
            for name in [name for name in queries if name not in known]:
                window.add(name, *queries[name])
            for name, query in known.items():
                if queries.get(name) != query:
                    window.remove(name)
                    if name in queries:
                        window.add(name, *queries[name])
            if self.due[key] != FAR and window.next_due is not None:
                self.due[key] = window.next_due

    def rows_at(self, row_ids: Ints) -> pa.ChunkedArray:
        """Return the rows with these ids."""
        return self.rows.take(row_ids).column(ROW)

    def row_ids(self) -> Ints:
        """Return int64[]: the row ids of all tuples that windows hold."""
        return np.concatenate([np.empty(0, np.int64), *(held.row_id for held in self.held)])

    def before_saving(self) -> None:
        self.rows.keep(self.row_ids())

    def after_loading(self) -> None:
        if not len(self.windows) == len(self.held) == self.due.size:
            raise ValueError("every key has one window, and the rows that it holds")
        times = np.concatenate([self.newest, self.closed])
        if (abs(times[times != NO_INSTANT]) > LONGEST).any():
            raise ValueError("times of windows must lie within their range")
        for window, held in zip(self.windows, self.held, strict=True):
            if not np.array_equal(held.slot, window.held):
                raise ValueError("the rows that are held must be those of the windows")
        row_ids = self.row_ids()
        self.alive = row_ids.size
        if not np.isin(row_ids[row_ids != -1], self.rows.numbers).all():
            raise ValueError("a row is missing that a window holds")


def _renamed(
    known: Mapping[str, tuple[int, int]], queries: Mapping[str, tuple[int, int]]
) -> dict[str, str]:
    """Return old and new names of the queries that only have another name now."""
    fresh = [name for name in queries if name not in known]
    found = {}
    for old, query in known.items():
        same = next((name for name in fresh if queries[name] == query), None)
        if old not in queries and same is not None:
            found[old] = same
            fresh.remove(same)
    return found
