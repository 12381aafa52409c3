"""The top-k windows of keys, and the rows and rules that they still need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import longer
from sfumato.operators.ranking.top_k_window import NEVER, TopKWindow
from sfumato.operators.state.declared import Array, List, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.keys import KeyIndex
from sfumato.tables.ranking.numbered_answers import ARRIVAL, NUMBER, RULE
from sfumato.tables.row_store import RowStore
from sfumato.windows import LONGEST

FAR = 2**62  # no instant is due
FROM_WINDOWS = ("out_of_order", "rejected", "overflow", "executions", "cost")
_STARTS = {"scope": 0, "due": FAR, "newest": NEVER, "closed": NEVER}


class KeyWindows(Stateful):
    """A window for each key, by code.

    scope : code of the scope that the key belongs to    due : next instant with a run, or FAR
    newest : time of the newest tuple    closed : tuples before it come too late
    held : of each key int64[3, n]: ARRIVAL, NUMBER and RULE of the tuples that its window holds
    make : gives an empty window    counts : where what the windows count is added
    """

    state = {
        **dict.fromkeys(_STARTS, Array(int, "keys")),
        "windows": List(Part("make")),
        "held": List(Array(int, 3, None)),
        "rows": Part(),
        "rules": Part(),
    }

    def __init__(self, make: Callable[[], TopKWindow], counts: dict[str, int]) -> None:
        self.make, self.counts = make, counts
        self.scope = self.due = self.newest = self.closed = np.empty(0, np.int64)
        self.windows: list[TopKWindow] = []
        self.held: list[np.ndarray] = []
        self.rows, self.rules = RowStore(), KeyIndex()

    def grow(self, keys: int) -> None:
        """Windows for so many keys."""
        for name, start in _STARTS.items():
            setattr(self, name, longer(getattr(self, name), keys, start))
        for _ in range(len(self.windows), keys):
            self.windows.append(self.make())
            self.held.append(np.empty((3, 0), np.int64))

    def enter(self, key: int, numbers: np.ndarray, rules: np.ndarray | None) -> None:
        """Note rows that the key's window takes next: their numbers, and the codes of their rules.

        numbers : int64[n], in `rows`; -1 where the row itself is not needed
        """
        first = self.windows[key].arrived
        none = np.full(numbers.size, -1)
        fresh = [first + np.arange(numbers.size), numbers, none if rules is None else rules]
        self.held[key] = np.concatenate([self.held[key], np.stack(fresh)], axis=1)

    @contextmanager
    def moving(self, key: int) -> Iterator[TopKWindow]:
        """A key's window while it moves: afterwards what it counted and still holds is known."""
        window = self.windows[key]
        before = [getattr(window, name) for name in FROM_WINDOWS]
        yield window
        for name, count in zip(FROM_WINDOWS, before, strict=True):
            self.counts[name] += getattr(window, name) - count
        live = window.held
        if live.size != self.held[key].shape[1]:
            places = np.searchsorted(self.held[key][ARRIVAL], live)
            self.held[key] = self.held[key][:, places]
        due = window.next_due
        self.due[key] = FAR if due is None or not live.size else due

    def empty(self, keys: np.ndarray) -> None:
        """Be as if no row of these keys had come; their codes may be given to others."""
        for name, start in _STARTS.items():
            getattr(self, name)[keys] = start
        for key in keys.tolist():
            self.windows[key], self.held[key] = self.make(), np.empty((3, 0), np.int64)

    def forget(self) -> None:
        """Drop rows and rules that no window needs any more."""
        alive = sum(held.shape[1] for held in self.held)
        if len(self.rows) > 2 * alive + 64:
            self.rows.forget(self.alive(NUMBER))
        if len(self.rules) > 2 * alive + 1024:
            self.rules.keep(self.alive(RULE))

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
        self.rows.keep(self.alive(NUMBER))

    def after_loading(self) -> None:
        if not len(self.windows) == len(self.held) == self.due.size:
            raise ValueError("every key has one window, and the rows that it holds")
        times = np.concatenate([self.newest, self.closed])
        if (abs(times[times != NEVER]) > LONGEST).any():
            raise ValueError("times of windows must lie within their range")
        for window, held in zip(self.windows, self.held, strict=True):
            if not np.array_equal(held[ARRIVAL], window.held):
                raise ValueError("the rows that are held must be those of the windows")
        numbers = self.alive(NUMBER)
        if not np.isin(numbers[numbers != -1], self.rows.numbers).all():
            raise ValueError("a row is lacking that a window holds")

    def alive(self, part: int) -> np.ndarray:
        """int64[]: this part of all that windows hold."""
        return np.concatenate([np.empty(0, np.int64), *(held[part] for held in self.held)])
