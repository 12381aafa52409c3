"""Aggregates over time extents of tuples that may share outcomes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.distributions.sampled_worlds import list_hashes
from sfumato.kernels.windows import extents
from sfumato.operators.arrays import Floats, Ints, gather_lists
from sfumato.operators.distributions.aggregate import Aggregate, AggregateResult
from sfumato.operators.distributions.independent_distribution import checked_aggregates
from sfumato.operators.state.declared import Value
from sfumato.operators.state.tuple_batch import checked_alternatives, codes
from sfumato.operators.windows.extent_aggregate import Extents
from sfumato.operators.windows.identified_extents import IdentifiedExtentAggregate
from sfumato.operators.windows.shared_results import shared_results

SAME_WEIGHT = 2.0**-20  # weights are rounded to multiples of it: float32 errors reach 2**-24


class SharedExtentAggregate(IdentifiedExtentAggregate):
    """`IdentifiedExtentAggregate` whose ids identify shared outcomes.

    attributes : number of columns of `values`, plus one for ids; by default as the aggregates
        require

    In every possible world, tuples of one group with the same id take the alternative of the same
    number, or none of them exists. Different ids and tuples without an id are independent.

    All rows with an id must have the probabilities of its first row, to within SAME_WEIGHT. Other
    rows are in no extent, and are counted as `unequal`. Results are computed when an extent is
    complete, by `shared_results`.

    Cost: O(1) per tuple, and `shared_results` per extent. Memory: the tuples in open extents, and
    48 bytes per id.
    """

    from_tuples = True
    kind, version = "shared_extents", 1
    state = {"unequal": Value(low=0)}

    def __init__(
        self,
        length: int,
        slide: int,
        aggregates: Sequence[Aggregate],
        *,
        attributes: int | None = None,
        **options: Any,
    ) -> None:
        given = None if attributes is None else attributes - 1
        attributes = checked_aggregates(aggregates, given, over_time=True) + 1
        super().__init__(length, slide, aggregates, attributes=attributes, **options)
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
        if not ((ids == first) & (ids == np.floor(ids)) & (ids >= extents.NONE)).all():
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
