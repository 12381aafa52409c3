"""The top-k windows of keys, and the rows and rules that they still need."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Ints, longer
from sfumato.operators.ranking.schedule import Due
from sfumato.operators.ranking.top_k_window import TopKWindow
from sfumato.operators.ranking.window_content import NEVER
from sfumato.operators.state.declared import Array, Part, Record
from sfumato.operators.state.declared_list import List
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.keys import KeyIndex
from sfumato.tables.ranking.numbered_answers import Held, NumberedAnswers
from sfumato.tables.row_store import RowStore
from sfumato.windows import LONGEST

FAR = 2**62  # no instant is due
FROM_WINDOWS = ("out_of_order", "rejected", "overflow", "executions", "cost")
_STARTS = {"scope": 0, "due": FAR, "newest": NEVER, "closed": NEVER}


class KeyWindows(Stateful):
    """A window for each key, by code.

    scope : code of the scope that the key belongs to    due : next instant with a run, or FAR
    newest : time of the newest tuple    closed : tuples before it come too late
    held : what each key's window holds    alive : how many tuples that is in all
    make : gives an empty window    counts : where what the windows count is added
    """

    state = {
        **dict.fromkeys(_STARTS, Array(int, "keys")),
        "windows": List(Part("make")),
        "held": List(Record(Held)),
        "rows": Part(),
        "rules": Part(),
    }

    def __init__(self, make: Callable[[], TopKWindow], counts: dict[str, int]) -> None:
        self.make, self.counts = make, counts
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

    def enter(self, key: int, numbers: Ints) -> None:
        """Note rows that the key's window takes next: int64[n], see `Held`."""
        held, arrival = self.held[key], self.windows[key].arrived + np.arange(numbers.size)
        held.arrival = np.concatenate([held.arrival, arrival])
        held.number = np.concatenate([held.number, numbers])
        self.alive += numbers.size

    @contextmanager
    def moving(self, key: int) -> Iterator[TopKWindow]:
        """A key's window while it moves: afterwards what it counted and still holds is known."""
        window = self.windows[key]
        before = [getattr(window, name) for name in FROM_WINDOWS]
        yield window
        for name, count in zip(FROM_WINDOWS, before, strict=True):
            self.counts[name] += getattr(window, name) - count
        held, live = self.held[key], window.held
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

    def advance(self, clock: Ints, steps: Mapping[int, Ints], out: NumberedAnswers) -> None:
        """Answer what is past for the keys' scopes, though no row of the key shows it.

        clock : int64[scopes]    steps : of a scope, its clock after each row of the batch
        """
        reached = clock[self.scope]
        for k in np.flatnonzero(self.due <= reached).tolist():
            with self.moving(k) as window:
                answers = window.advance(int(reached[k]))
                out.add(k, answers, self.held[k], clock=steps.get(int(self.scope[k])))

    def close(self, keys: Ints, clock: Ints | None, longest: int, out: NumberedAnswers) -> None:
        """Each query's first answer after the newest row of some keys, unless it was given.

        clock : int64[scopes], where keys have scopes    longest : the greatest `every`
        """
        nothing = np.empty(0, np.int64)
        for k in keys[self.newest[keys] >= self.closed[keys]].tolist():
            last = int(self.newest[k])
            if clock is not None:
                last = max(last, int(clock[self.scope[k]]))
            waiting = set(out.places)
            with self.moving(k) as window:
                out.add(k, window.advance(last), self.held[k], clock=nothing)
                due = window.next_due
                while waiting and due is not None and due <= last + longest:
                    answers = window.advance(due)
                    out.add(k, answers, self.held[k], only=waiting, clock=nothing)
                    waiting -= set(answers.names)
                    self.closed[k], due = due, window.next_due

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
        """Let all windows answer just these queries (see `Schedule`: no bound is missed)."""
        for key, window in enumerate(self.windows):
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

    def take(self, numbers: np.ndarray) -> pa.ChunkedArray:
        """The rows under these numbers."""
        return self.rows.take(numbers).column("row")

    def before_saving(self) -> None:
        self.rows.keep(self.numbers())

    def after_loading(self) -> None:
        if not len(self.windows) == len(self.held) == self.due.size:
            raise ValueError("every key has one window, and the rows that it holds")
        times = np.concatenate([self.newest, self.closed])
        if (abs(times[times != NEVER]) > LONGEST).any():
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
