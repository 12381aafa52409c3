"""Aggregates over time extents of rows that newer versions correct."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.windows import extents
from sfumato.kernels.windows.extents import ID, NO_EXTENT, NONE, REPLACED, ReleasedRows, Versions
from sfumato.operators.arrays import Bools, Floats, Ints, Records, longer, moved
from sfumato.operators.laws.aggregate import OVER_TIME
from sfumato.operators.state.declared import Array
from sfumato.operators.state.tuple_batch import TupleBatch, codes
from sfumato.operators.windows.extent_aggregate import (
    NO_VERSIONS,
    WITHIN,
    ExtentAggregate,
    Extents,
    as_numbers,
    with_codes,
)

NO_ID = np.array((NONE, 0, NO_EXTENT, NONE, NO_EXTENT, NO_EXTENT), ID)


class VersionedExtentAggregate(ExtentAggregate):
    """`ExtentAggregate` of rows with ids and versions: each extent has one version of each id.

    Of the rows with an id, an extent has the newest version that arrived before the extent was
    complete, if that row is within the extent. A row without alternatives is a version too.

    - A row replaces the earlier version in every extent that it does not come too late for, even
      where its own event time is elsewhere.
    - Rows that are not newer than the known version are counted as `outdated` only.
    - An id is forgotten when all extents of its rows are complete. A later row of this id is new.

    Not for averages over time and integrals, whose values hold beyond their extents.
    Cost: O(1) per tuple and extent that contains it. Memory: the tuples in open extents, and 48
    bytes per id. Moments are computed when an extent is complete, in order of arrival.
    """

    kind, version = "versioned_extents", 1
    state = {
        "ids": Array(int, "ids", len(ID.names or ())),
        "corrections": Array(int, 2, low=0),  # rows replaced, rows outdated
    }

    def __init__(self, *args: Any, certain: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)  # totals of panes cannot be corrected
        if self.readings:
            raise ValueError(f"versions are not supported for {' and '.join(OVER_TIME)}")
        self._ids = np.empty(0, ID)
        self.ids = as_numbers(self._ids)
        self.corrections = np.zeros(2, np.int64)
        self._closed = np.empty(0, np.int64)  # last complete extent of each scope before the call

    def process_versions(
        self, ids: npt.ArrayLike, version: npt.ArrayLike, *rows: Any, scope: npt.ArrayLike
    ) -> Extents:
        """Process rows as `process`.

        ids : int64[n], dense codes of ids, each within one group; -1 for a row without an id
        version : int64[n]
        """
        n = np.asarray(rows[1]).size
        of, newest = codes("ids", ids, n), codes("version", version, n)
        self._ids = with_codes(self._ids, of, NO_ID)
        self._versions = Versions(
            of, newest, np.arange(n) + self.next, self._ids, np.full(n, NONE, REPLACED)
        )
        self._closed = self._scopes["closed"].copy()
        complete = self.process(*rows, scope=scope)
        self.corrections += [0, int((self.verdicts == extents.OUTDATED).sum())]
        self._versions = NO_VERSIONS
        return complete

    def needed_ids(self) -> Ints:
        """Forget ids that no open extent needs, whose codes may be reused; return the others."""
        needed = self._is_needed
        self._ids[~needed] = NO_ID
        return np.flatnonzero(needed)

    def idle_groups(self) -> Ints:
        return np.setdiff1d(super().idle_groups(), self._ids["group"][self._is_needed])

    def forget(self, groups: Ints) -> None:
        super().forget(groups)
        self._ids[np.isin(self._ids["group"], groups)] = NO_ID

    def close(self, groups: Ints) -> Extents:
        complete = super().close(groups)
        self._ids[np.isin(self._ids["group"], groups)] = NO_ID
        return complete

    @property
    def _is_needed(self) -> Bools:
        """Return bool[ids]: whether an extent is open that a further row of the id may change."""
        group, until = self._ids["group"], self._ids["until"]
        if not group.size:
            return np.empty(0, np.bool_)
        scope = self._groups["scope"][group]
        known = (group != NONE) & (scope != NONE)
        needed: Bools = known & (until > self._scopes["closed"][scope])
        return needed

    @property
    def counters(self) -> dict[str, int]:
        """Counters, as of `ExtentAggregate`; also corrections: rows that a newer version replaced
        in an open extent, and outdated: rows that were not newer than the known version."""
        names = ("corrections", "outdated")
        found = zip(names, self.corrections.tolist(), strict=True)
        return super().counters | dict(found)

    def before_saving(self) -> None:
        super().before_saving()
        self.ids = as_numbers(self._ids)

    def after_loading(self) -> None:
        super().after_loading()
        self._ids = np.full(len(self.ids), NO_ID)
        as_numbers(self._ids)[:] = self.ids
        group, number = self._ids["group"], self._ids["number"]
        known = (group >= NONE) & (group < len(self._groups)) & (number < self.next)
        bounded = (self.ids[:, 2:] >= NO_EXTENT) & (self.ids[:, 2:] < WITHIN["high"])
        if not (known & bounded.all(axis=1)).all():
            raise ValueError("ids must be of known groups, rows and extents")
        of = self._ids[self._is_needed & (number != NONE)]
        closed = self._scopes["closed"][self._groups["scope"][of["group"]]]
        if not np.isin(of["number"][of["last"] > closed], self.held.number).all():
            raise ValueError("the newest rows of ids in open extents must be held")
        if np.count_nonzero(self._late_rows["tuple"] != NONE) != self.held.size:
            raise ValueError("every tuple must have its extents")

    def _store(
        self, rows: ReleasedRows, index: Ints, numbers: Ints, late_rows: Records, prob: Floats,
        values: Floats,
    ) -> None:  # fmt: skip
        super()._store(rows, index, numbers, late_rows, prob, values)
        replaced = self._versions.replaced
        replaced = replaced[replaced["number"] != NONE]
        if not replaced.size:
            return
        self.corrections += [replaced.size, 0]
        late = self._late_rows
        joined = np.flatnonzero(late["tuple"] != NONE)
        number = self._tuples.at["number"][late["tuple"][joined]]
        order = np.argsort(number)
        found = joined[order[np.searchsorted(number[order], replaced["number"])]]
        late["last"][found] = replaced["last"]
        scope = self._groups["scope"][late["group"][found]]
        closed = longer(self._closed, len(self._scopes), NO_EXTENT)[scope]
        gone = found[late["last"][found] < np.maximum(late["first"][found], closed + 1)]
        extents.drop_rows(late["pane"][gone], self._panes, self._tuples)
        self._late_rows = np.delete(late, gone)

    def _add_moments(
        self, rows: ReleasedRows, index: Ints, prob: Floats, values: Floats, to: Ints, begin: int
    ) -> None:
        """Make room for the panes' extremes; moments are computed when extents are complete."""
        top = self._partials.top
        panes = int(self._tuples.pool[0]["panes"])
        if panes > top.shape[1]:
            self._partials = self._partials._replace(top=moved(top, panes * 3 // 2))

    def _complete(self, closings: Records, at_once: bool = False) -> Extents:
        if closings.size:
            tuples, pool = self._tuples, self._tuples.pool[0]
            n, m = pool["tuples"], pool["alternatives"]
            offsets = np.append(tuples.at["begin"][:n], m)
            batch = TupleBatch(
                offsets, tuples.prob[:m], tuples.values[:, :m], tuples.at["index"][:n]
            )
            self._lifted, _ = self._channels.lifted(batch)
        return super()._complete(closings, at_once)
