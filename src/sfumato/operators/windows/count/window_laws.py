"""The tuples of a count window as kernels take them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.kernels.laws.tuples import AttributeTuples, WindowTuples
from sfumato.operators.laws.aggregate import Aggregate, Floats, Ints


@dataclass(frozen=True)
class WindowArrivals:
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

    def of(self, aggregate: Aggregate) -> WindowTuples:
        """The tuples with the aggregate's values, as kernels take them."""
        return WindowTuples(self.offsets, self.prob, self.column(aggregate), self.first)

    @property
    def indices(self) -> Ints:
        """Stream index of every tuple."""
        return np.arange(self.first, self.first + self.offsets.size - 1)

    def tuples(self, aggregate: Aggregate) -> AttributeTuples:
        """The tuples with the aggregate's values."""
        return AttributeTuples(self.offsets, self.prob, self.column(aggregate))

    def gaps(self, attribute: int) -> np.ndarray:
        """bool[n - begin], whether a tuple held after the arrival may be without a value."""
        missing = np.zeros(self.prob.size + 1, np.int64)
        np.cumsum(np.isnan(self.values[:, attribute]), out=missing[1:])
        ends = self.offsets[self.begin + 1 :]
        return missing[ends] > missing[self.offsets[self.heads]]

    def part(self, begin: int, end: int) -> WindowArrivals:
        """Arrivals begin ... end - 1 alone, after the tuples held just before them."""
        head = int(self.heads[begin - 1]) if begin else 0
        offsets = self.offsets[head : self.begin + end + 1]
        some = slice(offsets[0], offsets[-1])
        return WindowArrivals(
            offsets - offsets[0], self.prob[some], self.values[some], self.first + head,
            self.begin + begin - head, self.heads[begin:end] - head,
        )  # fmt: skip
