"""The number of near tuples in the window, for each tuple of a stream."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.kernels.distributions.discrete_distribution import all_moments
from sfumato.kernels.distributions.tuples import existences
from sfumato.kernels.joins.neighbour_counts import NearSamples, count_neighbours
from sfumato.kernels.joins.similarity_nested import JOIN_COUNTS
from sfumato.operators.arrays import Floats, Ints, offsets_of
from sfumato.operators.distributions.aggregate import Aggregate, AggregateResult
from sfumato.operators.distributions.discrete_distributions import DistributionOptions
from sfumato.operators.distributions.mixture import ALL_VALUES, mixtures
from sfumato.operators.joins.answers import SampledTuples
from sfumato.operators.joins.arrivals import ArrivalBatch
from sfumato.operators.joins.similarity_join import PAIR_CHUNK, SimilarityJoin
from sfumato.operators.state.columns import Columns
from sfumato.operators.windows.extent_aggregate import extents_of_groups
from sfumato.operators.windows.shared_results import with_absent_values

LISTED_CHUNK = 512  # arrivals whose near samples are in memory together
SMALLEST_MASS = 1e-300  # regions are of all samples with at least this probability


@dataclass(frozen=True)
class NeighbourCounts(Columns, flat=("prob", "value"), begins="offsets"):
    """Distributions of numbers of neighbours, given that the tuple exists; none without samples.

    offsets : int64[n + 1]    prob : float64[m]    value : float64[m], ascending per tuple
    """

    offsets: Ints
    prob: Floats
    value: Floats

    def moments(self) -> Floats:
        """Return the mean and the standard deviation of each, float64[n, 2]; NaN without counts."""
        found: Floats = all_moments(self.offsets, self.prob, self.value)[:, :2]
        return found

    def below(self, limit: int) -> Floats:
        """Return the probability of each that the number is less than `limit`; NaN without counts.

        Sums of counts from 0 on, or 1 minus the sum of the others where that is smaller.
        """
        sizes = np.diff(self.offsets)
        of, less = np.repeat(np.arange(sizes.size), sizes), self.value < limit
        below, above = (
            np.bincount(of[part], self.prob[part], sizes.size) for part in (less, ~less)
        )
        found = np.where(below <= above, below, 1.0 - above)
        return np.where(sizes > 0, np.clip(found, 0.0, 1.0), np.nan)


class NeighbourCount(SimilarityJoin):
    """The number of tuples of the window that are near an arriving tuple, as a distribution.

    Arguments as for `SimilarityJoin`, with "index" or "auto" as strategy and one task, except
    probability : a tuple of a window by count is ignored once the probability that it is among the
        `rows` newest existing tuples is at most this, or 1 - confidence if that is larger

    For an arrival u, given that u exists, the number of tuples v of the opposite window with
    |u - v| <= within that exist and are among the `rows` newest existing ones. With one window, the
    window holds the earlier tuples of the same stream. Each sample of u is taken in turn: given
    it, the tuples are near independently, and the distributions are mixed by the samples'
    probabilities.

    Results do not depend on how arrivals are split into calls, nor on snapshot and restore.
    Guarantee: exact, up to rounding, tuples ignored by `probability`, and counts of a probability
    below 1e-15, which are left out.
    Source: this project; outliers of fewer than n neighbours as in Dallachiesa et al. (2015),
    section 1.
    """

    kind, version = "neighbour_count", 2

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.criterion = self.criterion._replace(least=SMALLEST_MASS)

    def count(self, arrivals: ArrivalBatch) -> NeighbourCounts:
        """Return the numbers of neighbours of arrivals, in order, and add these to their windows.

        Raises TypeError or ValueError, with state unchanged, for arrays of wrong dtype or shape.
        """
        arrivals = arrivals.checked(self.streams, self.config.dimensions)
        parts = (self._count(part)[0] for part in _parts(arrivals, PAIR_CHUNK))
        return NeighbourCounts.joined(list(parts))

    def listed(
        self, arrivals: ArrivalBatch
    ) -> Iterator[tuple[ArrivalBatch, NeighbourCounts, NearSamples]]:
        """Yield consecutive arrivals, and with them the results of `count` and the near samples of
        left ones. Later arrivals are processed as the iterator proceeds; raises as `count`."""
        arrivals = arrivals.checked(self.streams, self.config.dimensions)
        for part in _parts(arrivals, LISTED_CHUNK):
            yield part, *self._count(part, True)

    def _count(
        self, arrivals: ArrivalBatch, listed: bool = False
    ) -> tuple[NeighbourCounts, NearSamples]:
        samples = SampledTuples(arrivals.offsets, arrivals.prob, arrivals.points)
        batch, places = self._arrive(arrivals, samples)
        counts = self.counted.view(JOIN_COUNTS)
        offsets, prob, value, near = count_neighbours(
            self.store, batch, self.criterion, self.rows, listed, counts
        )
        sizes = np.zeros(arrivals.side.size, np.int64)
        sizes[places] = np.diff(offsets)
        return NeighbourCounts(offsets_of(sizes), prob, value), near


def _parts(arrivals: ArrivalBatch, step: int) -> Iterator[ArrivalBatch]:
    n = arrivals.side.size
    for begin in range(0, max(n, 1), step):
        yield arrivals.part(begin, min(begin + step, n))


def results_of_neighbours(
    aggregates: Sequence[Aggregate],
    options: DistributionOptions,
    arrivals: ArrivalBatch,
    near: NearSamples,
    prob: Floats,
    values: Floats,
) -> list[AggregateResult]:
    """Return the results of aggregates over the neighbours of each left arrival, given it exists.

    near : the neighbours, independent given the sample of the arrival, as in a window of time
    prob : float64[m], values : float64[a, m], NaN: no value, of `near.sample`
    Exact where the results of independent tuples are, by the law of total probability over the
    samples of the arrival. Cost: as of an extent of its neighbours, per sample of an arrival.
    Source: this project.
    """
    left = np.flatnonzero(arrivals.side == 0)
    own = arrivals.take(left)
    weight = own.prob / np.repeat(existences(own.offsets, own.prob), np.diff(own.offsets))
    place = np.cumsum(np.repeat(arrivals.side == 0, np.diff(arrivals.offsets))) - 1
    group = place[near.of]
    empty = np.setdiff1d(np.arange(weight.size), group)
    # A tuple without neighbours needs a group too, so count(*) is the number of values 1.
    ones, asked = len(values), []
    for of in aggregates:
        asked.append(Aggregate("count", ones) if of.attribute is None else of)
    values = np.concatenate([values, np.ones((1, prob.size))])
    batch = with_absent_values(near.begins, prob, values, empty.size)
    full = replace(
        options, quantiles=(), distribution=ALL_VALUES if options.distributions else None
    )
    found = extents_of_groups(np.append(group, empty), batch, asked, full).results
    return [
        mixtures(of, result, weight, own.offsets, options)
        for of, result in zip(asked, found, strict=True)
    ]
