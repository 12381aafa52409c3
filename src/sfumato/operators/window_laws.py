"""Laws of aggregates over a count window: exact while they are small, else sampled worlds."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.kernels import sampled_worlds
from sfumato.kernels.capped_laws import (
    count_laws,
    order_statistic_law,
    value_existences,
)
from sfumato.kernels.sampled_worlds import sampled_values
from sfumato.kernels.sum_laws import sum_law
from sfumato.operators.aggregate import Aggregate, Floats, Ints

MOST_STATES = 4_096  # of the exact law of a sum or average; beyond, worlds are sampled
MOST_WORK = 4_000_000  # cell updates of the exact law of a quantile; beyond, worlds are sampled
CONFIDENCE = 0.99  # of the stated error of sampled worlds


@dataclass(frozen=True)
class Arrivals:
    """The tuples of one window in order: those held before, then the arrivals.

    offsets : int64[n + 1], prob : float64[...], values : float64[..., a], NaN for no value
    first : stream index of position 0; begin : position of the first arrival
    heads : int64[n - begin], position of the oldest tuple held after each arrival
    """

    offsets: Ints
    prob: Floats
    values: Floats
    first: int
    begin: int
    heads: Ints

    def column(self, aggregate: Aggregate) -> Floats:
        """The values an aggregate is over; to count values is to sum ones, none being 0."""
        if aggregate.attribute is None:
            return np.zeros(self.prob.size)
        column = np.ascontiguousarray(self.values[:, aggregate.attribute])
        return np.where(np.isnan(column), 0.0, 1.0) if aggregate.function == "count" else column

    def of(self, aggregate: Aggregate) -> tuple[Ints, Floats, Floats, int, int, Ints]:
        """What kernels take: offsets, prob, the aggregate's values, first, begin, heads."""
        column = self.column(aggregate)
        return self.offsets, self.prob, column, self.first, self.begin, self.heads


@dataclass(frozen=True)
class Laws:
    """k laws, ascending values; error float64[k] is NaN for exact ones, else as in Measured."""

    places: Ints
    prob: Floats
    value: Floats
    error: Floats


@dataclass(frozen=True)
class LawMaker:
    """How laws are made. rows : the window's size; seed, samples : of sampled worlds."""

    rows: int
    seed: int
    samples: int

    def laws(self, aggregate: Aggregate, arrivals: Arrivals) -> Laws:
        """The law of `aggregate`, not min or max, after each arrival."""
        a, function = arrivals, aggregate.function
        column = a.column(aggregate)
        if function == "count" and (aggregate.attribute is None or column.all()):
            return self._counts(a)
        existences = np.ones(a.heads.size)
        if function in ("avg", "quantile"):
            existences = value_existences(a.offsets, a.prob, column, a.heads, a.begin, self.rows)
        parts = [
            self._law(aggregate, a, column, int(head), a.begin + t + 1, float(existences[t]))
            for t, head in enumerate(a.heads)
        ]
        places = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(prob) for prob, _, _ in parts], out=places[1:])
        nothing = [np.empty(0)]
        return Laws(
            places,
            np.concatenate([prob for prob, _, _ in parts] or nothing),
            np.concatenate([value for _, value, _ in parts] or nothing),
            np.array([error for _, _, error in parts], dtype=np.float64),
        )

    def _counts(self, a: Arrivals) -> Laws:
        laws = count_laws(a.offsets, a.prob, a.heads, a.begin, self.rows)
        row, count = np.nonzero(laws)
        places = np.searchsorted(row, np.arange(len(laws) + 1)).astype(np.int64)
        return Laws(places, laws[row, count], count.astype(np.float64), np.full(len(laws), np.nan))

    def _law(
        self, aggregate: Aggregate, a: Arrivals, column: Floats, head: int, end: int, exists: float
    ) -> tuple[Floats, Floats, float]:
        q = 0.0
        if aggregate.function == "quantile":
            function, q = sampled_worlds.QUANTILE, float(aggregate.argument or 0.0)
            done = _quantile_work(a.offsets, column, head, end, self.rows) <= MOST_WORK
            if done:
                prob, value = order_statistic_law(
                    a.offsets, a.prob, column, head, end, self.rows, q
                )
        else:
            average = aggregate.function == "avg"
            function = sampled_worlds.AVERAGE if average else sampled_worlds.SUM
            done, prob, value = sum_law(
                a.offsets, a.prob, column, head, end, self.rows, average, MOST_STATES
            )
        if done:
            some = prob > 0.0
            return prob[some], value[some], math.nan
        worlds = sampled_values(
            a.offsets, a.prob, column, head, end, a.first, self.rows, function, q,
            self.seed, self.samples,
        )  # fmt: skip
        worlds = worlds[~np.isnan(worlds)]
        value, times = np.unique(worlds, return_counts=True)
        error = math.sqrt(math.log(2.0 / (1.0 - CONFIDENCE)) / (2.0 * max(1, worlds.size)))
        return times * (exists / max(1, worlds.size)), value, error


def _quantile_work(offsets: Ints, column: Floats, head: int, end: int, rows: int) -> int:
    span = column[offsets[head] : offsets[end]]
    counts = min(rows, end - head) + 1
    kinds = counts if np.isnan(span).any() else 1
    return span.size * (end - head) * counts * counts * kinds
