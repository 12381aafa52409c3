"""Rows that came too late for some extents, until these are complete: what their `late` counts."""

import numpy as np

from sfumato.kernels.windows.extent_lists import late_of_extents
from sfumato.operators.arrays import Ints
from sfumato.operators.state.declared import Array
from sfumato.operators.state.stateful import Stateful
from sfumato.operators.windows.extent_groups import WITHIN


class MissedRows(Stateful):
    """For each such row its group, and the first and last extent that has missed it.

    table : int64[3, k], in order of group
    """

    state = {"table": Array(int, 3, "missed", **WITHIN)}

    def __init__(self) -> None:
        self.table = np.empty((3, 0), np.int64)

    def add(self, group: Ints, first: Ints, last: Ints) -> None:
        """Rows missed by extents first ... last (those with first > last by none)."""
        some = first <= last
        if some.any():
            fresh = np.stack([group[some], first[some], last[some]])
            both = np.concatenate([self.table, fresh], axis=1)
            self.table = np.ascontiguousarray(both[:, np.argsort(both[0], kind="stable")])

    def of(self, extents: np.ndarray, groups: Ints) -> Ints:
        """int64[m]: how many rows each extent has missed."""
        group, first, last = self.table
        sides = [np.searchsorted(group, groups, side) for side in ("left", "right")]
        starts = np.stack(sides, axis=1)
        return np.diff(late_of_extents(extents, starts, first, last, np.empty(0, np.int64)))

    def leave(self, groups: Ints) -> None:
        """No extent of these groups comes out any more."""
        self.table = np.ascontiguousarray(self.table[:, ~np.isin(self.table[0], groups)])

    def forget(self, out: Ints) -> None:
        """out : int64[k], for each row the last extent of its group that cannot come out again."""
        if out.size:
            self.table = np.ascontiguousarray(self.table[:, self.table[2] > out])
