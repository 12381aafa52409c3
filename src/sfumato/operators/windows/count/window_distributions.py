"""Distributions of a count window's aggregates: exact while small, otherwise from sampled worlds.

A world is a function of the seed, its number and the held tuples. Rebuilt worlds are therefore
identical to cached worlds, and worlds are not saved.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from sfumato.kernels.distributions.sampled_worlds import SampledWorlds, tuple_hashes
from sfumato.kernels.distributions.statistics import (
    AVERAGE,
    QUANTILE,
    SUM,
    exact_distributions,
    result_existences,
    sampled_statistics,
)
from sfumato.kernels.distributions.tuples import AttributeTuples
from sfumato.kernels.windows.count.count_groups import Groups
from sfumato.kernels.windows.count.count_worlds import (
    QUANTILE_WORLD,
    TOTAL_WORLD,
    RankedAlternatives,
    WorldArrivals,
    WorldTotals,
    slide_quantiles,
    slide_totals,
)
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.distributions.discrete_distributions import (
    OF_VALUES,
    STATISTICS,
    DiscreteDistributions,
    DistributionOptions,
    distribution_limits,
)

MAX_NUMBERS = 250_000  # samples per part, so that they fit a CPU cache
MAX_DISTRIBUTIONS = 256  # distributions per part


def column(groups: Groups, of: Aggregate) -> Floats:
    """Return an aggregate's values; for a count of values, 1 per value and 0 per NaN."""
    if of.attribute is None:
        return np.zeros(groups.tuples.prob.size)
    values = groups.tuples.values[of.attribute]
    return np.where(np.isnan(values), 0.0, 1.0) if of.function == "count" else values


class WindowDistributions:
    """Distributions of one aggregate after each arrival.

    of : sum, avg or count of an attribute, or a function in LISTED
    rows : the window's size; limit : int, the smaller of `rows` and the maximum number of held
        tuples

    Exact distributions are recomputed at each arrival. If a sum has too many states, worlds are
    sampled until all tuples of this sum have left the window, so attempts cost O(1) per arrival.
    """

    def __init__(self, of: Aggregate, rows: int, limit: int, options: DistributionOptions) -> None:
        self.of, self.rows, self.options = of, rows, options
        self._statistic, self._share = STATISTICS.get(of.function, SUM), float(of.argument or 0.0)
        # Tuples per block of `WorldTotals`: the smallest power of 2 >= sqrt(limit), at most 64.
        self._shift = next(shift for shift in range(7) if 4**shift >= limit or shift == 6)

    def distributions(
        self,
        groups: Groups,
        heads: Ints,
        untried: Ints,
        counts: DiscreteDistributions | None,
        worlds: Any,
    ) -> Iterator[DiscreteDistributions]:
        """Yield the distributions in parts.

        heads : int64[arrivals], window starts as positions in the group
        untried : int64[g], updated, see `exact_distributions`
        counts : distributions of the number of tuples, for a count of values
        worlds : function that returns the cached worlds of group j
        """
        n, values, tuples = heads.size, column(groups, self.of), groups.tuples
        of = AttributeTuples(tuples.offsets, tuples.prob, values)
        group = np.repeat(np.arange(groups.first.size), np.diff(groups.arrivals))
        lows = groups.begin[group] + heads
        ends = np.arange(n) - groups.arrivals[group + 1] + groups.begin[group + 1] + 1
        plain = np.zeros(n, np.bool_)
        if counts is not None:  # windows without missing values have the distribution of count(*)
            missing = np.isnan(tuples.values[self.of.attribute]).cumsum()
            missing = np.concatenate([[0], missing])[tuples.offsets]
            plain = missing[ends] == missing[lows]
        step = min(MAX_DISTRIBUTIONS, max(1, MAX_NUMBERS // self.options.samples))
        first = groups.first - groups.begin[:-1]
        for begin in range(0, n, step):
            rows = np.arange(begin, min(begin + step, n))
            parts, orders = [], []
            if plain[rows].any():
                orders.append(rows[plain[rows]])
                parts.append(counts.take(orders[-1]))  # type: ignore[union-attr]
                rows = rows[~plain[rows]]
            places, prob, value, done = exact_distributions(
                self._statistic, self._share, of, lows[rows], ends[rows], self.rows,
                distribution_limits(), group[rows], first, untried,
            )  # fmt: skip
            if done.any():
                orders.append(rows[done])
                parts.append(
                    DiscreteDistributions(places, prob, value, np.full(rows.size, np.nan)).take(
                        done
                    )
                )
            rows = rows[~done]
            if rows.size:
                exists = result_existences(self._statistic, of, lows[rows], ends[rows], self.rows)
                cuts = np.flatnonzero((np.diff(rows) > 1) | (np.diff(group[rows]) > 0)) + 1
                samples = np.concatenate([
                    self._sample_aggregate(groups, of, heads, run, int(group[run[0]]), worlds)
                    for run in np.split(rows, cuts)
                ])  # fmt: skip
                orders.append(rows)
                exact = self.of.function in ("quantile", *OF_VALUES)
                parts.append(DiscreteDistributions.of_samples(samples, exists, exact))
            yield DiscreteDistributions.concat(parts).take(np.argsort(np.concatenate(orders)))

    def _sample_aggregate(
        self, groups: Groups, of: AttributeTuples, heads: Ints, rows: Ints, j: int, worlds: Any
    ) -> Floats:
        """Return the aggregate in every world after consecutive arrivals of group j."""
        row, arrival = int(rows[0]), int(groups.arrivals[j])
        first = int(groups.begin[j + 1]) - int(groups.arrivals[j + 1])  # position of arrival 0
        head = int(heads[row - 1]) if row > arrival else 0
        low, end = int(groups.begin[j]) + head, first + int(rows[-1]) + 1
        begins = of.offsets[low : end + 1]
        flat = slice(begins[0], begins[-1])
        tuples = AttributeTuples(begins - begins[0], of.prob[flat], of.value[flat])
        index, samples = int(groups.first[j]) + head, self.options.samples
        hashes = tuple_hashes(self.options.seed, np.arange(index, index + end - low))
        drawn = SampledWorlds(tuples, hashes, index)
        arriving = WorldArrivals(first + row - low, heads[rows] - head, self.rows)
        if self._statistic not in (SUM, AVERAGE, QUANTILE):
            ends = np.arange(arriving.begin, end - low) + 1
            of_all = self._statistic, self._share, drawn, arriving.heads, ends, self.rows, samples
            return sampled_statistics(*of_all)
        held = WorldArrivals(0, np.zeros(arriving.begin, np.int64), self.rows)
        kept = worlds(j)
        state, upto = kept.get(self, (None, 0))
        if upto != index + arriving.begin:
            state = None
        out, none = np.empty((rows.size, samples)), np.empty((0, 0))
        if self._statistic == QUANTILE:
            order = np.argsort(tuples.value, kind="stable")
            order = order[: order.size - np.count_nonzero(np.isnan(tuples.value))]
            owner = np.repeat(np.arange(end - low), np.diff(tuples.offsets))[order]
            ranked = RankedAlternatives(order, owner)
            if state is None:
                state = np.zeros(samples, QUANTILE_WORLD)
                state["head"] = index
                slide_quantiles(state, drawn, ranked, held, self._share, none)
            slide_quantiles(state, drawn, ranked, arriving, self._share, out)
        else:
            room = ((index + end - low - 1) >> self._shift) - (index >> self._shift) + 2
            if state is None or state.blocks.shape[1] < room:
                state = self._new_totals(index, room)
                slide_totals(state, drawn, held, self._statistic == AVERAGE, none)
            slide_totals(state, drawn, arriving, self._statistic == AVERAGE, out)
        kept[self] = state, index + end - low
        return out

    def _new_totals(self, first: int, room: int) -> WorldTotals:
        samples = self.options.samples
        worlds = np.zeros(samples, TOTAL_WORLD)
        worlds["head"], worlds["block"] = first, -1
        return WorldTotals(
            worlds=worlds,
            blocks=np.zeros((samples, 1 << (room - 1).bit_length())),
            rest=np.zeros((samples, (1 << self._shift) + 1)),
            following=np.zeros((samples, (1 << self._shift) + 1), np.uint8),
        )
