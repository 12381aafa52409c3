"""The scopes of two sides that wait for each other, by code: those that are over begin anew."""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Ints, longer
from sfumato.operators.state.declared import Array, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.keys import KeyIndex

BEGINNING = np.iinfo(np.int64).min


class Scopes(Stateful):
    """Scopes by code: the values of some keys, within which rows of each side come in order.

    keys : the numbers of these keys    forget_after : microseconds > 0; None: scopes are kept

    A scope is over when both sides have gone on, in whatever scopes, by more than `forget_after`
    beyond all that they had reached when its last row came, so that the pace of neither decides.

    newest : int64[2], up to where each side has come
    since : int64[scopes], up to where the sides had come when the scope's last row came
    """

    state = {"index": Part(), "newest": Array(int, 2), "since": Array(int, "scopes")}

    def __init__(self, keys: Sequence[int], forget_after: float | None) -> None:
        self.keys, self.forget_after = [f"key{i}" for i in keys], forget_after
        self.index = KeyIndex()
        self.newest = np.full(2, BEGINNING)
        self.since = np.empty(0, np.int64)
        self._due = BEGINNING  # no scope is looked at before both sides have come here

    def __len__(self) -> int:
        """Codes given so far are below this."""
        return len(self.since)

    def encode(self, rows: pa.Table) -> Ints:
        """int64[n]: codes of the scopes of some rows."""
        codes = self.index.encode(rows.select(self.keys))
        self.since = longer(self.since, int(codes.max(initial=-1)) + 1, BEGINNING)
        return codes

    def came(self, side: int, codes: Ints, reached: int) -> None:
        """Note that rows of these scopes came, at least one, by which a side has come so far."""
        self.newest[side] = max(self.newest[side], reached)
        self.since[codes] = self.newest.max()

    def take_over(self, waiting: Iterable[Ints] = ()) -> Ints:
        """int64[]: codes of scopes that are over, but for those `waiting`; given to others then.

        Cost: O(scopes), each time that both sides have gone on by `forget_after` / 16.
        """
        least = int(self.newest.min())
        if self.forget_after is None or not self.keys or least <= self._due:
            return np.empty(0, np.int64)
        self._due = least + int(self.forget_after / 16)
        over = (self.since > BEGINNING) & (self.since < least - int(self.forget_after))
        for codes in waiting:
            over[codes] = False
        found = np.flatnonzero(over)
        self.index.forget(found)
        self.since[found] = BEGINNING
        return found

    def after_loading(self) -> None:
        if self.keys and len(self.since) != self.index.size:
            raise ValueError("every scope is known by its keys")
        if (self.since[self.index.free] > BEGINNING).any():
            raise ValueError("no row can have come of a scope that is over")
