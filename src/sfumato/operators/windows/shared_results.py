"""Results over extents of tuples that may share outcomes.

Tuples with a shared outcome have the alternative with the same number in every possible world. For
counts, sums and extremes, these tuples are treated as one tuple: the values of alternatives with
the same number are combined. For other functions, the results given each combination of outcomes
are mixed, weighted by the probability of the combination.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Self

import numpy as np

from sfumato.kernels.distributions.tuples import existences, tuple_moments
from sfumato.kernels.windows.extents import NO_INDEX
from sfumato.operators.arrays import Bools, Floats, Ints, ranges_of, renumber
from sfumato.operators.distributions.aggregate import Aggregate, AggregateResult
from sfumato.operators.distributions.discrete_distributions import (
    MAX_STATES,
    DistributionOptions,
    full_options,
    mixtures,
)
from sfumato.operators.distributions.independent_distribution import sampled_distribution
from sfumato.operators.state.tuple_batch import TupleBatch
from sfumato.operators.windows.extent_aggregate import extents_of_groups

TOTALS = {  # functions computed from totals of shared outcomes -> function of the totals
    "count": "sum", "sum": "sum", "avg": "avg", "min": "min", "max": "max",
    "boundary_sum": "boundary_sum",
}  # fmt: skip
MIN_VALUES = {"count_distinct": 0, "stddev": 2, "var": 2}  # required for a result; default 1
MAX_TUPLES_TOGETHER = 1_000_000  # over all combinations that are computed together


def shared_results(
    aggregates: Sequence[Aggregate],
    options: DistributionOptions,
    m: int,
    extent: Ints,
    tuples: TupleBatch,
    shared: Ints,
) -> list[AggregateResult]:
    """Return the results of extents 0 ... m - 1.

    extent : int64[n], ascending, each tuple's extent; tuples are in order of time within an extent
    shared : int64[n], code of the shared outcome, NO_INDEX for an independent tuple

    Results are exact, with two exceptions, which are sampled and have an `error`: distributions
    that are also sampled for independent tuples; and functions without totals (or averages over an
    uncertain number of values) over more than MAX_STATES combinations of outcomes.
    Cost: O(n) for totals; otherwise O(n * combinations).
    """
    if not m:
        return [options.no_results() for _ in aggregates]
    of = SharedTuples.build(extent, tuples, shared)
    known = [of.has_totals(a, m) for a in aggregates]
    direct = [a for a, fine in zip(aggregates, known, strict=True) if fine.any()]
    totals = iter(_results_of_totals(of, direct, options, m))
    results: list[list[AggregateResult]] = [[next(totals)] if fine.any() else [] for fine in known]
    for x in np.flatnonzero(~np.all(known, axis=0)).tolist():
        left = [r for r, fine in enumerate(known) if not fine[x]]
        parts = _results_of_combinations(of.part(x), [aggregates[r] for r in left], options)
        for r, part in zip(left, parts, strict=True):
            results[r].append(part)
    found = []
    for parts, fine in zip(results, known, strict=True):
        place = np.cumsum(~fine) - 1
        if fine.any():
            place = np.where(fine, np.arange(m), m + place)
        found.append(AggregateResult.concat(parts).take(place))
    return found


@dataclass(frozen=True)
class SharedTuples:
    """Tuples and their clusters: single tuples, or all tuples of an extent with a shared outcome.

    extent, cluster : int64[n], of n tuples; clusters are numbered by first appearance
    firsts : the first tuple of each cluster    sizes : int64[clusters], numbers of tuples
    target : int64[alternatives], the alternative of `firsts` that occurs with each alternative
    """

    extent: Ints
    tuples: TupleBatch
    cluster: Ints
    firsts: TupleBatch
    sizes: Ints
    target: Ints

    @classmethod
    def build(cls, extent: Ints, tuples: TupleBatch, shared: Ints) -> Self:
        """Cluster tuples; arguments as for `shared_results`."""
        own = np.where(shared == NO_INDEX, -1 - np.arange(shared.size), shared)
        ids, own = np.unique(own, return_inverse=True)
        cluster, first = renumber(
            extent * ids.size + own, (int(extent.max(initial=-1)) + 1) * ids.size
        )
        firsts = tuples.take(first)
        _, target = ranges_of(firsts.offsets[cluster], np.diff(tuples.offsets))
        return cls(extent, tuples, cluster, firsts, np.bincount(cluster), target)

    def part(self, x: int) -> Self:
        low, high = np.searchsorted(self.extent, [x, x + 1]).tolist()
        tuples = self.tuples.part(low, high)
        return self.build(self.extent[low:high], tuples, self.cluster[low:high])

    @property
    def extents(self) -> Ints:
        """Extent of each cluster."""
        found = np.empty(self.sizes.size, np.int64)
        found[self.cluster] = self.extent
        return found

    @property
    def existence(self) -> Floats:
        """Probability that the tuples of each cluster exist."""
        return existences(self.firsts.offsets, self.firsts.prob)

    def sums(self, values: Floats | Bools) -> Floats:
        """Sum the values of alternatives by alternative of `firsts`."""
        totals = np.bincount(self.target, values, self.firsts.prob.size)
        return totals.astype(np.float64, copy=False)

    def counts(self, attribute: int | None) -> Floats:
        """Count values by alternative of `firsts`; without an attribute, count tuples."""
        if attribute is None:
            return self.sums(np.ones(self.target.size))
        return self.sums(~np.isnan(self.tuples.values[attribute]))

    def has_totals(self, of: Aggregate, m: int) -> Bools:
        """Return bool[m]: whether `totals` suffice for an aggregate in each extent."""
        if of.function != "avg":
            return np.full(m, of.function in TOTALS)
        counts, begin = self.counts(of.attribute), self.firsts.offsets[:-1]
        if not counts.size:
            return np.full(m, True)
        most = np.maximum.reduceat(counts, begin)
        fine = most == np.minimum.reduceat(counts, begin)
        fine &= (most == 0) | (self.existence == 1.0)
        return np.bincount(self.extents, ~fine, m) == 0

    def totals(self, of: Aggregate, m: int) -> Floats:
        """Return the values, by alternative of `firsts`, to which TOTALS apply."""
        counts, lengths = self.counts(of.attribute), np.diff(self.firsts.offsets)
        if of.attribute is None or of.function == "count":
            return counts
        values = self.tuples.values[of.attribute]
        found: Floats = np.full(counts.size, np.nan)
        if of.function in ("min", "max"):
            extreme = np.fmin if of.function == "min" else np.fmax
            extreme.at(found, self.target, values)
            return found
        if of.function == "boundary_sum":
            means = np.empty((3, self.tuples.size))
            tuple_moments(self.tuples.offsets, self.tuples.prob, values, means)
            valued = means[0] > 0.0
            whole = np.bincount(self.cluster, np.where(valued, means[1], 0.0))
            whole = np.where(np.bincount(self.cluster, valued) > 0, whole, np.nan)
            return np.repeat(whole, lengths)
        found = np.where(counts > 0, self.sums(np.nan_to_num(values)), np.nan)
        if of.function == "avg":  # weighted, so that averages over clusters average the values
            first, extents = counts[self.firsts.offsets[:-1]], self.extents
            many = np.bincount(extents, first, m)
            weight = np.bincount(extents, first > 0, m) / np.maximum(many, 1.0)
            found *= np.repeat(weight[extents], lengths)
        return found


def _results_of_totals(
    of: SharedTuples, aggregates: Sequence[Aggregate], options: DistributionOptions, m: int
) -> list[AggregateResult]:
    if not aggregates:
        return []
    empty = np.setdiff1d(np.arange(m), of.extent)
    values = np.stack([of.totals(a, m) for a in aggregates])
    asked = [Aggregate(TOTALS[a.function], i) for i, a in enumerate(aggregates)]
    given = of.extents, empty, of.firsts.offsets, of.firsts.prob, values
    return results_of_groups(*given, asked, options)


def results_of_groups(
    group: Ints, empty: Ints, offsets: Ints, prob: Floats, values: Floats,
    aggregates: Sequence[Aggregate], options: DistributionOptions,
) -> list[AggregateResult]:  # fmt: skip
    """Return results over independent tuples, by group. group : int64[n], of each tuple
    empty : int64[], groups that get an additional tuple, which has no value and is only counted
    offsets, prob, values : as in `TupleBatch`
    """
    batch = TupleBatch(
        np.append(offsets, offsets[-1] + np.arange(1, empty.size + 1)),
        np.append(prob, np.ones(empty.size)),
        np.concatenate([values, np.full((len(values), empty.size), np.nan)], axis=1),
        np.arange(offsets.size - 1 + empty.size),
    )
    return extents_of_groups(np.append(group, empty), batch, aggregates, options).results


def _results_of_combinations(
    of: SharedTuples, aggregates: Sequence[Aggregate], options: DistributionOptions
) -> list[AggregateResult]:
    """Return the results of one extent, mixed over all combinations of shared outcomes."""
    joint, existence = np.flatnonzero(of.sizes > 1), of.existence
    outcomes = []  # each shared outcome's probabilities of the alternatives, and of no tuple
    for c in joint:
        chance = of.firsts.prob[of.firsts.offsets[c] : of.firsts.offsets[c + 1]]
        rest = [1.0 - existence[c]] if existence[c] < 1.0 else []
        outcomes.append(np.append(chance * (existence[c] / chance.sum()), rest))
    many = prod(chance.size for chance in outcomes)
    if many > MAX_STATES:
        return [_sampled_result(of, a, options) for a in aggregates]
    step = max(1, MAX_TUPLES_TOGETHER // (of.cluster.size + 1))
    parts, weights = list[list[AggregateResult]](), list[Floats]()
    for low in range(0, many, step):
        number = np.arange(low, min(low + step, many))
        choice, weight = np.zeros((of.sizes.size, number.size), np.int64), np.ones(number.size)
        for c, chance in zip(joint, outcomes, strict=True):
            number, choice[c] = np.divmod(number, chance.size)
            weight = weight * chance[choice[c]]
        weights.append(weight)
        parts.append(_results_given(of, choice, aggregates, full_options(options)))
    weight = np.concatenate(weights)
    measured = [AggregateResult.concat([part[i] for part in parts]) for i in range(len(aggregates))]
    return [
        mixtures(a, given, weight, np.array([0, weight.size]), options)
        if np.isnan(given.error).all()
        else _sampled_result(of, a, options)
        for a, given in zip(aggregates, measured, strict=True)
    ]


def _results_given(
    of: SharedTuples, choice: Ints, aggregates: Sequence[Aggregate], options: DistributionOptions
) -> list[AggregateResult]:
    """Return the results of one extent given each of k combinations of outcomes.

    choice : int64[clusters, k], the number of the alternative for each cluster with several tuples
        (the number of alternatives if no tuple exists); 0 for other clusters
    """
    tuples, k = of.tuples, choice.shape[1]
    shared = np.tile(of.sizes[of.cluster] > 1, (k, 1))
    begin, lengths = tuples.offsets[:-1] + choice[of.cluster].T, np.diff(tuples.offsets)
    lengths = np.where(shared, lengths > choice[of.cluster].T, lengths)
    there = lengths > 0
    offsets, flat = ranges_of(begin[there], lengths[there])
    chance = np.where(np.repeat(shared[there], lengths[there]), 1.0, tuples.prob[flat])
    given = np.nonzero(there)[0], np.arange(k), offsets, chance, tuples.values[:, flat]
    return results_of_groups(*given, aggregates, options)


def _sampled_result(
    of: SharedTuples, aggregate: Aggregate, options: DistributionOptions
) -> AggregateResult:
    tuples = replace(of.tuples, index=of.firsts.index[of.cluster])
    counts, begin = of.counts(aggregate.attribute), of.firsts.offsets[:-1]
    none, one = (
        np.add.reduceat(np.where(counts == n, of.firsts.prob, 0.0), begin) for n in range(2)
    )
    none += 1.0 - of.existence
    fewer = np.array([1.0, 0.0])  # probabilities of no value and of exactly one value
    for without, single in zip(none, one, strict=True):
        fewer = fewer * without + [0.0, fewer[0] * single]
    fewest = MIN_VALUES.get(aggregate.function, 1)
    existence = 1.0 - fewer[:fewest].sum(keepdims=True)
    return options.summarise(None, [sampled_distribution(aggregate, tuples, options, existence)])
