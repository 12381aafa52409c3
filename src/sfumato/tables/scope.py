"""Scopes: groups of rows that share a punctuation, by the keys of the disorder controller.

A punctuation completes an aggregate or join by `key` only if it holds for all rows of a key, so
`key` must contain the controller's keys. docs/reference/semantics/order.md compares scopes with
keys, sources, buckets and tasks.
"""

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Ints, pad
from sfumato.operators.state.declared import Array, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.keys import KeyIndex

BEGINNING = np.iinfo(np.int64).min  # a time before all others


def scope_of(
    keys: Sequence[str], controlled_by: Sequence[str], wrong: str = "extents cannot be complete"
) -> tuple[int, ...]:
    """Return the positions in `keys` of the controller's keys. wrong : what missing keys cause"""
    missing = _missing(controlled_by, keys)
    if missing:
        raise ValueError(
            f"the rows were reordered per {', '.join(controlled_by)}, so {wrong} for groups with "
            f"several values of {missing}: add {missing} to `key`, or reorder without a key"
        )
    return tuple(keys.index(name) for name in controlled_by)


def check_order(keys: Sequence[str], in_order_for: Sequence[str]) -> None:
    """Raise ValueError if `keys` does not contain all keys within which rows are ordered."""
    missing = _missing(in_order_for, keys)
    if missing:
        raise ValueError(
            f"the rows are in order only per {missing}: add {missing} to `key`, or put sf.reorder "
            "without a key upstream of the operator that emits these rows"
        )


def join_scope(keys: Sequence[str], left: Sequence[str], right: Sequence[str]) -> tuple[int, ...]:
    """Return the positions in `keys` of the keys within which both sides' extents are ordered."""
    for side, controlled in (("left", left), ("right", right)):
        missing = _missing(controlled, keys)
        if missing:
            raise ValueError(
                f"the extents of the {side} frame are complete only per {', '.join(controlled)}: "
                f"add {missing} to `key`, or reorder without a key before the window"
            )
    return tuple(sorted({keys.index(name) for name in [*left, *right]}))


def _missing(wanted: Sequence[str], keys: Sequence[str]) -> str:
    return ", ".join(name for name in wanted if name not in keys)


class Scopes(Stateful):
    """The codes of two sides' scopes; a scope is forgotten after a time without rows.

    A scope expires when both sides, in any scope, have advanced by more than `forget_after` since
    its last row. Expiry is therefore independent of the speed of either side.

    keys : positions of the scope's keys    forget_after : microseconds > 0; None to keep scopes
    newest : int64[2], latest time of each side
    since : int64[scopes], latest time of any side at the scope's last row
    """

    state = {"index": Part(), "newest": Array(int, 2), "since": Array(int, "scopes")}

    def __init__(self, keys: Sequence[int], forget_after: float | None) -> None:
        self.keys, self.forget_after = [f"key{i}" for i in keys], forget_after
        self.index = KeyIndex()
        self.newest = np.full(2, BEGINNING)
        self.since = np.empty(0, np.int64)
        self._due = BEGINNING  # scopes are not checked until both sides reach this time

    def __len__(self) -> int:
        """Return the number of codes, including free codes."""
        return len(self.since)

    def encode(self, rows: pa.Table) -> Ints:
        codes = self.index.encode(rows.select(self.keys))
        self.since = pad(self.since, int(codes.max(initial=-1)) + 1, BEGINNING)
        return codes

    def record(self, side: int, codes: Ints, reached: int) -> None:
        """Record that a side has rows (at least one) in these scopes and has reached a time."""
        self.newest[side] = max(self.newest[side], reached)
        self.since[codes] = self.newest.max()

    def take_expired(self, waiting: Iterable[Ints] = ()) -> Ints:
        """Forget and return expired scopes, int64[], except `waiting`; codes may be reused.

        Cost: O(scopes), each time both sides have advanced by `forget_after` / 16.
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
            raise ValueError("every scope must have keys")
        if (self.since[self.index.free] > BEGINNING).any():
            raise ValueError("a forgotten scope must have no rows")
