"""Aggregates over time extents of rows with ids, which are stored while their extents are open."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.windows.extents import ID, NO_EXTENT, NONE, REPLACED, Versions
from sfumato.operators.arrays import Bools, Ints
from sfumato.operators.distributions.aggregate import OVER_TIME
from sfumato.operators.state.declared import Array
from sfumato.operators.state.tuple_batch import codes
from sfumato.operators.windows.extent_aggregate import (
    NO_VERSIONS,
    TIME_BOUNDS,
    ExtentAggregate,
    Extents,
    as_numbers,
    with_codes,
)

NO_ID = np.array((NONE, 0, NO_EXTENT, NONE, NO_EXTENT, NO_EXTENT), ID)


class IdentifiedExtentAggregate(ExtentAggregate):
    """`ExtentAggregate` of rows with ids.

    An id is forgotten when all extents of its rows are complete; a later row with this id is new.
    time_avg and integral are not supported, because their values hold beyond their extents.
    """

    state = {"ids": Array(int, "ids", len(ID.names or ()))}

    def __init__(self, *args: Any, certain: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)  # not `certain`, because totals of panes do not suffice
        if self.readings:
            raise ValueError(f"rows with ids are not supported for {' and '.join(OVER_TIME)}")
        self._ids = np.empty(0, ID)
        self.ids = as_numbers(self._ids)

    def _process_ids(
        self, ids: npt.ArrayLike, version: npt.ArrayLike, *rows: Any, scope: npt.ArrayLike,
        shared: bool,
    ) -> Extents:  # fmt: skip
        """Process rows like `process`.

        ids : int64[n], dense codes, each within one group; -1 for a row without an id
        version : int64[n]    shared : as for `Versions`
        """
        n = np.asarray(rows[1]).size
        of, newest = codes("ids", ids, n), codes("version", version, n)
        self._ids = with_codes(self._ids, of, NO_ID)
        replaced = np.full(n, NONE, REPLACED)
        self._versions = Versions(of, newest, np.arange(n) + self.next, self._ids, replaced, shared)
        try:
            return self.process(*rows, scope=scope)
        finally:
            self._versions = NO_VERSIONS

    def needed_ids(self) -> Ints:
        """Forget ids that no open extent needs, so that codes may be reused; return the others."""
        needed = self._is_needed
        self._ids[~needed] = NO_ID
        return np.flatnonzero(needed)

    def idle_groups(self) -> Ints:
        return np.setdiff1d(super().idle_groups(), self._ids["group"][self._is_needed])

    def forget(self, groups: Ints) -> None:
        super().forget(groups)
        self._ids[np.isin(self._ids["group"], groups)] = NO_ID

    @property
    def _is_needed(self) -> Bools:
        """Return bool[ids]: whether a further row with the id may change an open extent."""
        group, until = self._ids["group"], self._ids["until"]
        if not group.size:
            return np.empty(0, np.bool_)
        scope = self._groups["scope"][group]
        known = (group != NONE) & (scope != NONE)
        needed: Bools = known & (until > self._scopes["closed"][scope])
        return needed

    def before_saving(self) -> None:
        super().before_saving()
        self.ids = as_numbers(self._ids)

    def after_loading(self) -> None:
        super().after_loading()
        self._ids = np.full(len(self.ids), NO_ID)
        as_numbers(self._ids)[:] = self.ids
        group, number = self._ids["group"], self._ids["number"]
        known = (group >= NONE) & (group < len(self._groups)) & (number < self.next)
        bounded = (self.ids[:, 2:] >= NO_EXTENT) & (self.ids[:, 2:] < TIME_BOUNDS["high"])
        if not (known & bounded.all(axis=1)).all():
            raise ValueError("ids must belong to known groups, rows and extents")
