"""The number of near tuples in the window, for each tuple of a stream."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.kernels.distributions.discrete_distribution import all_moments
from sfumato.kernels.distributions.tuples import existences
from sfumato.kernels.joins.neighbour_counts import NearSamples, count_neighbours
from sfumato.kernels.joins.similarity_join import JOIN_COUNTS
from sfumato.operators.arrays import Floats, Ints, offsets_of
from sfumato.operators.distributions.aggregate import Aggregate, AggregateResult
from sfumato.operators.distributions.discrete_distributions import (
    DistributionOptions,
    full_options,
    mixtures,
)
from sfumato.operators.joins.arrivals import ArrivalBatch
from sfumato.operators.joins.similarity_join import PAIR_CHUNK, SimilarityJoin
from sfumato.operators.state.columns import Columns
from sfumato.operators.windows.shared_results import results_of_groups

LISTED_CHUNK = 512  # arrivals whose near samples are in memory together
SMALLEST_MASS = 1e-300  # regions contain all samples with at least this probability


@dataclass(frozen=True)
class NeighbourCounts(Columns, flat=("prob", "value"), begins="offsets"):
    """Distributions of the number of neighbours, given that the tuple exists; empty without
    samples. offsets : int64[n + 1]    prob, value : float64[m], values ascending per tuple"""

    offsets: Ints
    prob: Floats
    value: Floats

    def moments(self) -> Floats:
        """Return float64[n, 2]: mean and standard deviation; NaN for an empty distribution."""
        return all_moments(self.offsets, self.prob, self.value)[:, :2]

    def probability_below(self, limit: int) -> Floats:
        """Return float64[n]: the probability of fewer than `limit` neighbours, computed from the
        smaller tail; NaN for an empty distribution."""
        sizes = np.diff(self.offsets)
        of, less = np.repeat(np.arange(sizes.size), sizes), self.value < limit
        below, above = (
            np.bincount(of[part], self.prob[part], sizes.size) for part in (less, ~less)
        )
        found = np.where(below <= above, below, 1.0 - above)
        return np.where(sizes > 0, np.clip(found, 0.0, 1.0), np.nan)


class NeighbourCount(SimilarityJoin):
    """Distribution of the number of tuples in the window that are near an arriving tuple.

    Accepts the arguments of `SimilarityJoin`, with strategy "index" or "auto" and one task. Only
    `probability` differs: a tuple of a count window is ignored once the probability that it is
    among the `rows` newest existing tuples is at most max(probability, 1 - confidence).

    For an arrival u, given that u exists, the result is the number of tuples v of the opposite
    window with |u - v| <= within that exist and are among the `rows` newest existing tuples. With
    one window, the tuples v are earlier tuples of the same stream. Given a sample of u, tuples are
    near u independently of each other; the distributions per sample are mixed with the samples'
    probabilities as weights.

    The distribution is exact up to rounding, except that tuples are ignored as described for
    `probability`, and counts with a probability below 1e-15 are left out.
    Source: outliers with fewer than n neighbours, Dallachiesa et al. (2015), section 1.
    """

    kind, version = "neighbour_count", 4

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.criterion = self.criterion._replace(least=SMALLEST_MASS)

    def count(self, arrivals: ArrivalBatch) -> NeighbourCounts:
        """Return the arrivals' numbers of neighbours, and add the arrivals to their windows. Raises
        errors like `process`."""
        parts = (self._count(part)[0] for _, part in self._parts(arrivals, PAIR_CHUNK))
        return NeighbourCounts.concat(list(parts))

    def count_with_samples(
        self, arrivals: ArrivalBatch
    ) -> Iterator[tuple[ArrivalBatch, NeighbourCounts, NearSamples]]:
        """Yield parts of the arrivals, each with the results of `count` and the near samples of its
        left arrivals. A part is processed when it is requested. Raises errors like `count`."""
        for _, part in self._parts(arrivals, LISTED_CHUNK):
            yield part, *self._count(part, True)

    def _count(
        self, arrivals: ArrivalBatch, listed: bool = False
    ) -> tuple[NeighbourCounts, NearSamples]:
        batch, places = self._arrive(arrivals)
        counts = self.pair_counts.view(JOIN_COUNTS)
        offsets, prob, value, near = count_neighbours(
            self.store, batch, self.criterion, self.rows, listed, counts
        )
        sizes = np.zeros(arrivals.side.size, np.int64)
        sizes[places] = np.diff(offsets)
        return NeighbourCounts(offsets_of(sizes), prob, value), near


def results_of_neighbours(
    aggregates: Sequence[Aggregate],
    options: DistributionOptions,
    arrivals: ArrivalBatch,
    near: NearSamples,
    prob: Floats,
    values: Floats,
) -> list[AggregateResult]:
    """Return the results of aggregates over each left arrival's neighbours, given that it exists.

    near : neighbours that are independent given the arrival's sample, as in time windows
    prob, values : float64[m], float64[a, m] (NaN for no value), of the samples `near.sample`
    Results are computed per sample of an arrival and mixed by the samples' probabilities. They are
    exact wherever results over independent tuples are exact.
    Cost: per sample of an arrival, as for one extent of its neighbours.
    """
    left = np.flatnonzero(arrivals.side == 0)
    own = arrivals.take(left)
    weight = own.prob / np.repeat(existences(own.offsets, own.prob), np.diff(own.offsets))
    place = np.cumsum(np.repeat(arrivals.side == 0, np.diff(arrivals.offsets))) - 1
    group = place[near.of]
    empty = np.setdiff1d(np.arange(weight.size), group)
    # count(*) counts values of 1, so that it ignores the tuples of samples without neighbours.
    counted = Aggregate("count", len(values))
    asked = [counted if of.attribute is None else of for of in aggregates]
    values = np.concatenate([values, np.ones((1, prob.size))])
    given = group, empty, near.begins, prob, values
    found = results_of_groups(*given, asked, full_options(options))
    return [
        mixtures(of, result, weight, own.offsets, options)
        for of, result in zip(asked, found, strict=True)
    ]
