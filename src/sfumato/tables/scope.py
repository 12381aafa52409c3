"""Scopes: the rows that share a punctuation, those of some keys of the disorder controller.

What is aggregated or joined by `key` is complete by a punctuation only if it holds for all of its
rows, so `key` must contain the keys of the controller. docs/semantics.md compares scopes with the
other partitions of rows: keys, sources, buckets and tasks.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Ints, longer
from sfumato.operators.state.declared import Array, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.keys import KeyIndex

BEGINNING = np.iinfo(np.int64).min  # a time before all others


def scope_of(
    keys: Sequence[str], controlled_by: Sequence[str], wrong: str = "extents cannot be complete"
) -> tuple[int, ...]:
    """Return the numbers of the keys that share a punctuation.

    keys : names of the keys of what is aggregated    controlled_by : those of the controller
    wrong : what is impossible for other keys, in words
    Raises ValueError where groups reach across the controller's keys.
    """
    missing = _missing(controlled_by, keys)
    if missing:
        raise ValueError(
            f"the rows were reordered for each {', '.join(controlled_by)}, so {wrong} for groups "
            f"across them: add {missing} to `key`, or reorder without key"
        )
    return tuple(keys.index(name) for name in controlled_by)


def check_order(keys: Sequence[str], in_order_for: Sequence[str]) -> None:
    """Raise ValueError where groups reach across the keys within which rows come in order."""
    missing = _missing(in_order_for, keys)
    if missing:
        raise ValueError(
            f"the rows come in order for each {missing} only: add {missing} to `key`, or let "
            "sf.reorder without key come before the operator that these rows come from"
        )


def joined_scope(keys: Sequence[str], left: Sequence[str], right: Sequence[str]) -> tuple[int, ...]:
    """Return the numbers of the keys within which the extents of both sides of a join are in order.

    keys : names of the keys of the join    left, right : those within which each side is in order
    Raises ValueError where one of these is not in `keys`.
    """
    for side, controlled in (("left", left), ("right", right)):
        missing = _missing(controlled, keys)
        if missing:
            raise ValueError(
                f"the extents of the {side} frame are complete for each {', '.join(controlled)}: "
                f"add {missing} to `key`, or reorder without key before the window"
            )
    return tuple(sorted({keys.index(name) for name in [*left, *right]}))


def _missing(wanted: Sequence[str], keys: Sequence[str]) -> str:
    return ", ".join(name for name in wanted if name not in keys)


class Scopes(Stateful):
    """Scopes of two sides by code; a scope without rows for long is forgotten.

    keys : the numbers of the keys of a scope    forget_after : microseconds > 0; None: never

    A scope is over when both sides, in whatever scopes, are more than `forget_after` beyond all
    that they had reached when its last row came. So the pace of neither side matters.

    newest : int64[2], up to where each side has come
    since : int64[scopes], up to where the sides had come when the scope's last row came
    """

    state = {"index": Part(), "newest": Array(int, 2), "since": Array(int, "scopes")}

    def __init__(self, keys: Sequence[int], forget_after: float | None) -> None:
        self.keys, self.forget_after = [f"key{i}" for i in keys], forget_after
        self.index = KeyIndex()
        self.newest = np.full(2, BEGINNING)
        self.since = np.empty(0, np.int64)
        self._due = BEGINNING  # no scope is checked before both sides have come here

    def __len__(self) -> int:
        """Codes given so far are below this."""
        return len(self.since)

    def encode(self, rows: pa.Table) -> Ints:
        """Return int64[n]: the codes of the scopes of some rows."""
        codes = self.index.encode(rows.select(self.keys))
        self.since = longer(self.since, int(codes.max(initial=-1)) + 1, BEGINNING)
        return codes

    def note(self, side: int, codes: Ints, reached: int) -> None:
        """Note that rows of these scopes came, at least one, and up to where their side is now."""
        self.newest[side] = max(self.newest[side], reached)
        self.since[codes] = self.newest.max()

    def take_over(self, waiting: Iterable[Ints] = ()) -> Ints:
        """Return int64[]: codes of scopes that are over, except `waiting`; free to be given again.

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
