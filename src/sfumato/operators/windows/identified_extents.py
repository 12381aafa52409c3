"""Aggregates over time extents of rows whose ids identify versions or shared outcomes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.distributions.sampled_worlds import list_hashes
from sfumato.kernels.windows import extents
from sfumato.kernels.windows.extents import (
    ID,
    NO_EXTENT,
    NO_INDEX,
    REPLACED,
    ReleasedRows,
    Versions,
)
from sfumato.operators.arrays import Bools, Floats, Ints, Records, gather_lists, pad, resize
from sfumato.operators.distributions.aggregate import OVER_TIME, AggregateResult
from sfumato.operators.state.declared import Array, Value
from sfumato.operators.state.tuple_batch import checked_alternatives, codes
from sfumato.operators.windows.extent_aggregate import (
    NO_VERSIONS,
    TIME_BOUNDS,
    ExtentAggregate,
    ExtentConfig,
    Extents,
    as_numbers,
    restored,
    with_codes,
)
from sfumato.operators.windows.shared_results import shared_results

SAME_WEIGHT = 2.0**-20  # weights are rounded to multiples of this: float32 errors reach 2**-24
NO_ID = np.array((NO_INDEX, 0, NO_EXTENT, NO_INDEX, NO_EXTENT, NO_EXTENT), ID)


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
        replaced = np.full(n, NO_INDEX, REPLACED)
        self._versions = Versions(of, newest, self._ids, replaced, shared)
        try:
            return self.process(*rows, scope=scope)
        finally:
            self._versions = NO_VERSIONS

    def needed_ids(self) -> Ints:
        """Forget ids that no open extent needs (codes may be reused), and return the other ids."""
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
        known = (group != NO_INDEX) & (scope != NO_INDEX)
        return known & (until > self._scopes["closed"][scope])

    def before_saving(self) -> None:
        super().before_saving()
        self.ids = as_numbers(self._ids)

    def after_loading(self) -> None:
        super().after_loading()
        self._ids = restored(self.ids, NO_ID)
        group, number = self._ids["group"], self._ids["number"]
        known = (group >= NO_INDEX) & (group < len(self._groups)) & (number < self.next)
        bounded = (self.ids[:, 2:] >= NO_EXTENT) & (self.ids[:, 2:] < TIME_BOUNDS["high"])
        if not (known & bounded.all(axis=1)).all():
            raise ValueError("ids must belong to known groups, rows and extents")


class VersionedExtentAggregate(IdentifiedExtentAggregate):
    """`IdentifiedExtentAggregate` of rows with versions; an extent has one version per id.

    An extent contains the newest version of an id that arrived before the extent was complete, if
    that row is within the extent. A row without alternatives is also a version.

    - A row replaces the earlier version in every extent for which it is not too late, even if its
      event time is outside the extent.
    - Rows that are not newer than the known version are only counted, as `outdated`.

    Cost: O(1) per tuple and extent that contains it. Memory: the tuples in open extents, and 48
    bytes per id. Moments are computed when an extent is complete, in order of arrival.
    """

    kind, version = "versioned_extents", 3
    state = {"corrections": Array(int, 2, low=0)}  # numbers of replaced rows and outdated rows

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.corrections = np.zeros(2, np.int64)
        self._closed = np.empty(0, np.int64)  # last complete extent of each scope before the call

    def process_versions(
        self, ids: npt.ArrayLike, version: npt.ArrayLike, *rows: Any, scope: npt.ArrayLike
    ) -> Extents:
        """Process rows like `process`; ids, version : as for `_process_ids`."""
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
        of = self._ids[self._is_needed & (self._ids["number"] != NO_INDEX)]
        closed = self._scopes["closed"][self._groups["scope"][of["group"]]]
        if not np.isin(of["number"][of["last"] > closed], self.held.number).all():
            raise ValueError("for each id in an open extent, the newest row must be held")
        if np.count_nonzero(self._late_rows["tuple"] != NO_INDEX) != self.held.size:
            raise ValueError("every held tuple must be in an extent")

    def _store(self, rows: ReleasedRows, index: Ints, late_rows: Records) -> None:
        super()._store(rows, index, late_rows)
        replaced = self._versions.replaced
        replaced = replaced[replaced["number"] != NO_INDEX]
        if not replaced.size:
            return
        self.corrections += [replaced.size, 0]
        late = self._late_rows
        joined = np.flatnonzero(late["tuple"] != NO_INDEX)
        number = self._tuples.at["number"][late["tuple"][joined]]
        order = np.argsort(number)
        found = joined[order[np.searchsorted(number[order], replaced["number"])]]
        late["last"][found] = replaced["last"]
        scope = self._groups["scope"][late["group"][found]]
        closed = pad(self._closed, len(self._scopes), NO_EXTENT)[scope]
        gone = found[late["last"][found] < np.maximum(late["first"][found], closed + 1)]
        extents.drop_rows(late["pane"][gone], self._panes, self._tuples)
        self._late_rows = np.delete(late, gone)

    def _moments_of(self, rows: ReleasedRows) -> Floats:
        """Make room for the panes' extremes; moments are added when extents are complete."""
        top = self._partials.top
        panes = int(self._tuples.pool[0]["panes"])
        if panes > top.shape[1]:
            self._partials = self._partials._replace(top=resize(top, panes * 3 // 2))
        return np.empty((self._channels.count, 3, 0))

    def _complete(self, completions: Records, at_once: bool = False) -> Extents:
        if completions.size:
            self._per_tuple, _ = self._channels.tuple_moments(self._stored)
        return super()._complete(completions, at_once)


@dataclass(frozen=True)
class SharedExtentConfig(ExtentConfig):
    """Arguments of a `SharedExtentAggregate`."""

    more_attributes = 1  # the id


class SharedExtentAggregate(IdentifiedExtentAggregate):
    """`IdentifiedExtentAggregate` whose ids identify shared outcomes.

    attributes : number of columns of `values`, plus one for ids; by default as the aggregates
        require

    In every possible world, tuples of one group with the same id have the alternative with the same
    number, or none of them exists. Different ids and tuples without an id are independent.

    All rows with an id must have the probabilities of its first row, to within SAME_WEIGHT. Other
    rows are in no extent, and are counted as `unequal`. Results are computed when an extent is
    complete, by `shared_results`.

    Cost: O(1) per tuple, and `shared_results` per extent. Memory: the tuples in open extents, and
    48 bytes per id.
    """

    config: SharedExtentConfig
    from_tuples = True
    kind, version = "shared_extents", 3
    state = {"unequal": Value(low=0)}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.unequal = 0

    def process_shared(self, ids: npt.ArrayLike, *rows: Any, scope: npt.ArrayLike) -> Extents:
        """Process rows like `process`.

        ids : int64[n], dense codes, each within one group; -1 for an independent row
        """
        *places, offsets, prob, values = rows
        n = np.asarray(places[1]).size
        of = codes("ids", ids, n)
        offsets, prob, table = checked_alternatives(n, offsets, prob, values, self.attributes - 1)
        batch = offsets, prob, np.vstack([table, np.repeat(of, np.diff(offsets))]).T
        weights = list_hashes(offsets, np.rint(prob / SAME_WEIGHT))
        complete = self._process_ids(of, weights, *places, *batch, scope=scope, shared=True)
        self.unequal += int((self.verdicts == extents.UNEQUAL).sum())
        return complete

    @property
    def counters(self) -> dict[str, int]:
        """Counters of `ExtentAggregate`, and `unequal` rows."""
        return super().counters | {"unequal": self.unequal}

    def after_loading(self) -> None:
        super().after_loading()
        ids, offsets = self.held.values[-1], self.held.offsets
        first = np.repeat(ids[offsets[:-1]], np.diff(offsets))
        if not ((ids == first) & (ids == np.floor(ids)) & (ids >= extents.NO_INDEX)).all():
            raise ValueError("tuples must have one id each")

    def _results(
        self, answers: Floats, ends: Ints, members: Ints, order: Ints
    ) -> list[AggregateResult]:
        offsets, which = gather_lists(ends, order)
        extent, places = np.repeat(np.arange(order.size), np.diff(offsets)), members[which]
        at = self._tuples.at[places]
        places = places[np.lexsort((at["number"], at["time"], extent))]
        self._needs_order = False
        tuples = self._tuples_at(places)
        ids = tuples.values[-1, tuples.offsets[:-1]].astype(np.int64)
        return shared_results(self.aggregates, self.options, order.size, extent, tuples, ids)
