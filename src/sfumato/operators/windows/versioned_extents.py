"""Aggregates over time extents, where a newer version of a row replaces the older version."""

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.windows import extents
from sfumato.kernels.windows.extents import NO_EXTENT, NONE, ReleasedRows
from sfumato.operators.arrays import Floats, Ints, Records, pad, resize
from sfumato.operators.state.declared import Array
from sfumato.operators.state.tuple_batch import TupleBatch
from sfumato.operators.windows.extent_aggregate import Extents
from sfumato.operators.windows.identified_extents import IdentifiedExtentAggregate


class VersionedExtentAggregate(IdentifiedExtentAggregate):
    """`IdentifiedExtentAggregate` of rows with versions; an extent has one version per id.

    An extent has the newest version of an id that arrived before the extent was complete, if that
    row is within the extent. A row without alternatives is a version as well.

    - A row replaces the earlier version in every extent for which it is not too late, even if its
      event time is outside the extent.
    - Rows that are not newer than the known version are only counted, as `outdated`.

    Cost: O(1) per tuple and extent that contains it. Memory: the tuples in open extents, and 48
    bytes per id. Moments are computed when an extent is complete, in order of arrival.
    """

    kind, version = "versioned_extents", 1
    state = {"corrections": Array(int, 2, low=0)}  # numbers of replaced rows and outdated rows

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.corrections = np.zeros(2, np.int64)
        self._closed = np.empty(0, np.int64)  # last complete extent of each scope before the call

    def process_versions(
        self, ids: npt.ArrayLike, version: npt.ArrayLike, *rows: Any, scope: npt.ArrayLike
    ) -> Extents:
        """Process rows like `process`.

        ids : int64[n], dense codes, each within one group; -1 for a row without an id
        version : int64[n]
        """
        self._closed = self._scopes["closed"].copy()
        complete = self._process_ids(ids, version, *rows, scope=scope, shared=False)
        self.corrections += [0, int((self.verdicts == extents.OUTDATED).sum())]
        return complete

    @property
    def counters(self) -> dict[str, int]:
        """Counters of `ExtentAggregate`, corrections (replaced rows), and outdated rows."""
        names = ("corrections", "outdated")
        found = zip(names, self.corrections.tolist(), strict=True)
        return super().counters | dict(found)

    def after_loading(self) -> None:
        super().after_loading()
        of = self._ids[self._is_needed & (self._ids["number"] != NONE)]
        closed = self._scopes["closed"][self._groups["scope"][of["group"]]]
        if not np.isin(of["number"][of["last"] > closed], self.held.number).all():
            raise ValueError("for each id in an open extent, the newest row must be held")
        if np.count_nonzero(self._late_rows["tuple"] != NONE) != self.held.size:
            raise ValueError("every held tuple must be in an extent")

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
        closed = pad(self._closed, len(self._scopes), NO_EXTENT)[scope]
        gone = found[late["last"][found] < np.maximum(late["first"][found], closed + 1)]
        extents.drop_rows(late["pane"][gone], self._panes, self._tuples)
        self._late_rows = np.delete(late, gone)

    def _add_moments(
        self, rows: ReleasedRows, index: Ints, prob: Floats, values: Floats, to: Ints, begin: int
    ) -> None:
        """Make room for the panes' extremes; moments are added when extents are complete."""
        top = self._partials.top
        panes = int(self._tuples.pool[0]["panes"])
        if panes > top.shape[1]:
            self._partials = self._partials._replace(top=resize(top, panes * 3 // 2))

    def _complete(self, closings: Records, at_once: bool = False) -> Extents:
        if closings.size:
            tuples, pool = self._tuples, self._tuples.pool[0]
            n, m = pool["tuples"], pool["alternatives"]
            offsets = np.append(tuples.at["begin"][:n], m)
            batch = TupleBatch(
                offsets, tuples.prob[:m], tuples.values[:, :m], tuples.at["index"][:n]
            )
            self._per_tuple, _ = self._channels.tuple_moments(batch)
        return super()._complete(closings, at_once)
