"""Sampled worlds of one aggregate of a count window, kept up with every arrival.

A world is a function of the seed, its number and the tuples held: worlds that are begun anew give
what those that were kept would have given, so nothing of them is saved.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sfumato.kernels.laws.sampled_worlds import tuple_hashes
from sfumato.kernels.windows import sampled_quantiles, sampled_totals
from sfumato.kernels.windows.sampled_quantiles import slide_quantiles
from sfumato.kernels.windows.sampled_totals import WorldTotals, slide_totals
from sfumato.operators.laws.aggregate import Aggregate, Floats, Ints
from sfumato.operators.laws.finite_laws import LawOptions
from sfumato.operators.windows.window_laws import Arrivals


class Worlds(Protocol):
    """Sampled worlds of one window and aggregate."""

    def slide(self, a: Arrivals) -> Floats:
        """The aggregate in every world after each arrival, float64[k, samples], NaN for none.

        The tuples before the arrivals are those held; worlds not kept begin with them.
        """

    def stop(self) -> None:
        """Forget the worlds."""

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of the state."""


def worlds_of(aggregate: Aggregate, rows: int, limit: int, options: LawOptions) -> Worlds:
    """Those of sum, avg, count or quantile; rows : the window's; limit : see MovingMoments."""
    if aggregate.function == "quantile":
        return QuantileWorlds(aggregate, rows, options)
    return TotalWorlds(aggregate, rows, limit, options)


class TotalWorlds:
    """Sums, averages or counts of values in sampled worlds; arguments as of `worlds_of`.

    Up to 1,000 bytes a world for windows of 1,000 rows; O(sqrt(limit) + tuples held / 64).
    """

    def __init__(self, aggregate: Aggregate, rows: int, limit: int, options: LawOptions) -> None:
        self.aggregate, self.rows, self.options = aggregate, rows, options
        self._shift = 0  # tuples of a block: the power of 2 from sqrt(limit) on, at most 64
        while 4**self._shift < limit and self._shift < 6:
            self._shift += 1
        self._state: WorldTotals | None = None

    def slide(self, a: Arrivals) -> Floats:
        last = a.first + a.offsets.size - 2
        room = (last >> self._shift) - (a.first >> self._shift) + 2
        hashes = tuple_hashes(self.options.seed, a.indices)
        if self._state is None or self._state.blocks.shape[1] < room:
            self._state = self._fresh(a.first, room)
            self._enter(a, hashes, 0, np.zeros(a.begin, np.int64), np.empty((0, 0)))
        out = np.empty((a.heads.size, self.options.samples))
        self._enter(a, hashes, a.begin, a.heads, out)
        return out

    def stop(self) -> None:
        self._state = None

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._state or ())

    def _enter(self, a: Arrivals, hashes: np.ndarray, begin: int, heads: Ints, out: Floats) -> None:
        average = self.aggregate.function == "avg"
        slide_totals(
            self._state, a.offsets, a.prob, a.column(self.aggregate), hashes, a.first, begin,
            heads, self.rows, average, out,
        )  # fmt: skip

    def _fresh(self, first: int, room: int) -> WorldTotals:
        samples = self.options.samples
        whole = np.zeros((samples, sampled_totals.WHOLE), np.int64)
        whole[:, sampled_totals.HEAD], whole[:, sampled_totals.BLOCK] = first, -1
        return WorldTotals(
            whole=whole,
            real=np.zeros((samples, sampled_totals.REAL)),
            blocks=np.zeros((samples, 1 << (room - 1).bit_length())),
            rest=np.zeros((samples, (1 << self._shift) + 1)),
            following=np.zeros((samples, (1 << self._shift) + 1), np.uint8),
        )


class QuantileWorlds:
    """A quantile in sampled worlds; arguments as of `worlds_of`.  48 samples bytes."""

    def __init__(self, aggregate: Aggregate, rows: int, options: LawOptions) -> None:
        self.aggregate, self.rows, self.options = aggregate, rows, options
        self._state: Ints | None = None

    def slide(self, a: Arrivals) -> Floats:
        column = a.column(self.aggregate)
        hashes = tuple_hashes(self.options.seed, a.indices)
        order = np.argsort(column, kind="stable")
        order = order[: order.size - np.count_nonzero(np.isnan(column))]
        tuples = np.repeat(np.arange(a.offsets.size - 1), np.diff(a.offsets))
        common = a.offsets, a.prob, column, hashes, order, tuples[order], a.first
        if self._state is None:
            self._state = np.zeros((self.options.samples, sampled_quantiles.COLUMNS), np.int64)
            self._state[:, sampled_quantiles.HEAD] = a.first
            self._enter(common, 0, np.zeros(a.begin, np.int64), np.empty((0, 0)))
        out = np.empty((a.heads.size, self.options.samples))
        self._enter(common, a.begin, a.heads, out)
        return out

    def stop(self) -> None:
        self._state = None

    @property
    def nbytes(self) -> int:
        return 0 if self._state is None else self._state.nbytes

    def _enter(self, common: tuple, begin: int, heads: Ints, out: Floats) -> None:
        share = float(self.aggregate.argument or 0.0)
        slide_quantiles(self._state, *common, begin, heads, self.rows, share, out)
