"""The top-k windows of keys, and the rows and rules that they still need."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Bools, Ints, longer, offsets_of
from sfumato.operators.ranking.schedule import Due
from sfumato.operators.ranking.top_k_window import TopKWindow
from sfumato.operators.ranking.window_answers import TopKAnswers
from sfumato.operators.ranking.window_content import NO_INSTANT, HeldTuples
from sfumato.operators.ranking.window_runs import MovedWindows, arrived, moved_together
from sfumato.operators.state.declared import Array, List, Part, Record
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrow import UNKNOWN
from sfumato.tables.keys import KeyIndex
from sfumato.tables.ranking.numbered_answers import Held, NumberedAnswers
from sfumato.tables.row_store import RowStore
from sfumato.windows import LONGEST

FAR = 2**62  # no instant is due
FROM_WINDOWS = ("out_of_order", "rejected", "overflow", "executions", "cost")
_STARTS = {"scope": 0, "due": FAR, "newest": NO_INSTANT, "closed": NO_INSTANT}


class KeyWindows(Stateful):
    """A window for each key, by code.

    scope : code of the scope that the key belongs to    due : next instant with a run, or FAR
    newest : time of the newest tuple    closed : tuples before it come too late
    held : what each key's window holds    alive : how many tuples that is in all
    make : gives an empty window    counts : where what the windows count is added
    known : when times were known to be past (int64[n]), given their scopes, they, and when the
        windows say so
    """

    state = {
        **dict.fromkeys(_STARTS, Array(int, "keys")),
        "windows": List(Part("make")),
        "held": List(Record(Held)),
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
        self.held: list[Held] = []
        self.alive = 0
        self.largest = 0  # window since this was set to 0
        self.rows, self.rules = RowStore(), KeyIndex()

    def grow(self, keys: int) -> None:
        """Windows for so many keys."""
        for name, start in _STARTS.items():
            setattr(self, name, longer(getattr(self, name), keys, start))
        for _ in range(len(self.windows), keys):
            self.windows.append(self.make())
            self.held.append(Held.none())

    @contextmanager
    def counting(self, windows: Sequence[TopKWindow]) -> Iterator[None]:
        """Windows move: what they count meanwhile is counted."""
        before = [sum(getattr(each, name) for each in windows) for name in FROM_WINDOWS]
        yield
        for name, count in zip(FROM_WINDOWS, before, strict=True):
            self.counts[name] += sum(getattr(each, name) for each in windows) - count

    def take(
        self, keys: Ints, fresh: HeldTuples, sizes: Ints, numbers: Ints, out: NumberedAnswers
    ) -> None:
        """Let arrivals enter the windows of their keys, and collect the answers.

        keys : int64[w], each once    fresh : n arrivals, key by key, so many as `sizes` (int64[w])
        numbers : int64[n], of their rows, see `Held`
        """
        self._move(keys, fresh, (sizes, numbers, np.full(keys.size, NO_INSTANT)), out)
        at = offsets_of(sizes)[:-1]
        self.newest[keys] = np.maximum(self.newest[keys], np.maximum.reduceat(fresh.time, at))

    def advance(self, clock: Ints, out: NumberedAnswers) -> None:
        """Answer what is past for the keys' scopes, though no row of the key shows it.

        clock : int64[scopes]
        """
        reached = clock[self.scope]
        keys = np.flatnonzero(self.due <= reached)
        if keys.size:
            self._advance(keys, reached[keys], out)

    def _move(
        self,
        keys: Ints,
        fresh: HeldTuples,
        given: tuple[Ints, Ints, Ints],
        out: NumberedAnswers,
        only: Bools | None = None,
    ) -> Bools:
        """Which queries of each key are answered: bool[w, queries].

        given : sizes, numbers, and what is past beside the arrivals' times, int64[w]
        only : bool[w, queries], those wanted at the close, when nobody knows that they are due
        """
        sizes, numbers, until = given
        windows = [self.windows[key] for key in keys.tolist()]
        answered = np.zeros((keys.size, len(out.places)), np.bool_)
        with self.counting(windows):
            of = arrived(windows, fresh, sizes, until)
            able, moved = moved_together(of)
            if moved is not None:
                answered[np.ix_(able, out.places_of(moved.answers.names))] = moved.ranked
                entered = self._note(keys[able], moved, numbers[np.repeat(able, sizes)])
                wanted = None if only is None else only[able][moved.window]
                self._add(keys[able][moved.window], moved.answers, entered, out, wanted)
            for j in np.flatnonzero(~able).tolist():
                key, window, part = int(keys[j]), windows[j], of.part(j)
                held = self._enter(key, part.fresh.row, numbers[of.begin[j] : of.begin[j + 1]])
                found = window.answered(part.fresh, part.reach, int(until[j]))
                found = found._replace(row=np.searchsorted(held.arrival, found.row))
                answered[j, out.places_of(found.names)] = True
                wanted = None if only is None else np.tile(only[j], (found.row.size, 1))
                self._add(np.full(found.row.size, key), found, held.number, out, wanted)
                self._settle(key)
        return answered

    def _add(
        self,
        group: Ints,
        answers: TopKAnswers,
        numbers: Ints,
        out: NumberedAnswers,
        only: Bools | None,
    ) -> None:
        """Collect answers of keys (int64[n]); `only`, see `_move`, of each of them."""
        if only is None:
            answered = self.known(self.scope[group], answers.time, answers.answered)
        else:
            answered = np.full_like(answers.time, UNKNOWN)
        out.add(group, answers._replace(answered=answered), numbers, only)

    def _note(self, keys: Ints, moved: MovedWindows, numbers: Ints) -> Ints:
        """Note what windows hold that moved together; the numbers of all rows that they held before
        and that arrived, of which the latter are `numbers`."""
        held = [self.held[key] for key in keys.tolist()]
        entered = np.concatenate([*(each.number for each in held), numbers])
        self.alive += moved.kept.size - sum(each.number.size for each in held)
        self.largest = max(self.largest, int(moved.sizes.max()))
        self.due[keys] = np.where(moved.sizes > 0, moved.after, FAR)
        left, ends = entered[moved.kept], np.cumsum(moved.sizes)[:-1]
        for key, each, part in zip(keys.tolist(), held, np.split(left, ends), strict=True):
            each.arrival, each.number = self.windows[key].held_tuples.row, part.copy()
        return entered

    def _enter(self, key: int, arrival: Ints, numbers: Ints) -> Held:
        """What a key's window holds once it takes these rows: int64[n] each, see `Held`."""
        held = self.held[key]
        held.arrival = np.concatenate([held.arrival, arrival])
        held.number = np.concatenate([held.number, numbers])
        self.alive += numbers.size
        return held

    def _settle(self, key: int) -> None:
        """Note what a window holds that has moved."""
        window, held = self.windows[key], self.held[key]
        live = window.held
        self.largest = max(self.largest, live.size)
        if live.size != held.arrival.size:
            self.alive += live.size - held.arrival.size
            held.number = held.number[np.searchsorted(held.arrival, live)]
            held.arrival = live
        due = window.next_due
        self.due[key] = FAR if due is None or not live.size else due

    def upcoming(self, number: int) -> list[Due]:
        """The next runs, at most `number`, of the key whose next one comes first."""
        if not self.due.size or self.due.min() == FAR:
            return []
        return self.windows[int(self.due.argmin())].upcoming(number)

    def close(self, keys: Ints, clock: Ints | None, longest: int, out: NumberedAnswers) -> None:
        """Each query's first answer after the newest row of some keys, unless it was given.

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
        self, keys: Ints, until: Ints, out: NumberedAnswers, only: Bools | None = None
    ) -> Bools:
        """See `_move`, without arrivals."""
        none = np.empty(0, np.int64)
        given = np.zeros(keys.size, np.int64), none, until
        return self._move(keys, HeldTuples.none(), given, out, only)

    def empty(self, keys: np.ndarray) -> None:
        """Be as if no row of these keys had come; their codes may be given to others."""
        for name, start in _STARTS.items():
            getattr(self, name)[keys] = start
        for key in keys.tolist():
            self.alive -= self.held[key].arrival.size
            self.windows[key], self.held[key] = self.make(), Held.none()

    def forget(self) -> None:
        """Drop rows and rules that no window needs any more, once they are most of what is kept."""
        if len(self.rows) > 2 * self.alive + 64:
            self.rows.keep(self.numbers())
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

    def rows_of(self, numbers: np.ndarray) -> pa.ChunkedArray:
        """The rows under these numbers."""
        return self.rows.take(numbers).column("row")

    def before_saving(self) -> None:
        self.rows.keep(self.numbers())

    def after_loading(self) -> None:
        if not len(self.windows) == len(self.held) == self.due.size:
            raise ValueError("every key has one window, and the rows that it holds")
        times = np.concatenate([self.newest, self.closed])
        if (abs(times[times != NO_INSTANT]) > LONGEST).any():
            raise ValueError("times of windows must lie within their range")
        for window, held in zip(self.windows, self.held, strict=True):
            if not np.array_equal(held.arrival, window.held):
                raise ValueError("the rows that are held must be those of the windows")
        numbers = self.numbers()
        self.alive = numbers.size
        if not np.isin(numbers[numbers != -1], self.rows.numbers).all():
            raise ValueError("a row is lacking that a window holds")

    def numbers(self) -> Ints:
        """int64[]: numbers of the rows of all that windows hold."""
        return np.concatenate([np.empty(0, np.int64), *(held.number for held in self.held)])


def _renamed(
    known: Mapping[str, tuple[int, int]], queries: Mapping[str, tuple[int, int]]
) -> dict[str, str]:
    """Old and new names of the queries that ask the same as before under another name."""
    fresh = [name for name in queries if name not in known]
    found = {}
    for old, query in known.items():
        same = next((name for name in fresh if queries[name] == query), None)
        if old not in queries and same is not None:
            found[old] = same
            fresh.remove(same)
    return found
