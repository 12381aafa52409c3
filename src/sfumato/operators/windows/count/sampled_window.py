"""Sampled worlds of one aggregate of a count window, which move on with every arrival.

A world is a function of the seed, its number and the tuples held: worlds that are begun anew give
what those that were kept would have given, so nothing of them is saved.
"""

from abc import ABC, abstractmethod

import numpy as np

from sfumato.kernels.laws.sampled_worlds import Drawn, tuple_hashes
from sfumato.kernels.windows.count import sampled_quantiles, sampled_totals
from sfumato.kernels.windows.count.sampled_quantiles import Ranked, slide_quantiles
from sfumato.kernels.windows.count.sampled_totals import Arriving, WorldTotals, slide_totals
from sfumato.operators.laws.aggregate import Aggregate, Floats
from sfumato.operators.laws.finite_laws import LawOptions
from sfumato.operators.laws.spreads import STATISTICS, sampled_statistics
from sfumato.operators.windows.count.window_laws import Arrivals


class Worlds(ABC):
    """Sampled worlds of one window and aggregate; arguments as of `worlds_of`."""

    def __init__(self, aggregate: Aggregate, rows: int, limit: int, options: LawOptions) -> None:
        self.aggregate, self.rows, self.limit, self.options = aggregate, rows, limit, options
        self._state: tuple[np.ndarray, ...] | None = None  # None: begun at the next arrival

    @abstractmethod
    def slide(self, a: Arrivals) -> Floats:
        """The aggregate in every world after each arrival, float64[k, samples], NaN for none.

        The tuples before the arrivals are those held; worlds not kept begin with them.
        """

    def stop(self) -> None:
        """Forget the worlds."""
        self._state = None

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of the state."""
        return sum(array.nbytes for array in self._state or ())


def worlds_of(aggregate: Aggregate, rows: int, limit: int, options: LawOptions) -> Worlds:
    """Those of one aggregate; rows : the window's; limit : see MovingMoments."""
    kinds: dict[str, type[Worlds]] = {
        "quantile": QuantileWorlds,
        **dict.fromkeys(STATISTICS, StatisticWorlds),
    }
    kind = kinds.get(aggregate.function, TotalWorlds)
    return kind(aggregate, rows, limit, options)


class TotalWorlds(Worlds):
    """Sums, averages or counts of values in sampled worlds.

    Up to 1,000 bytes a world for windows of 1,000 rows; O(sqrt(limit) + tuples held / 64).
    """

    _state: WorldTotals | None

    @property
    def _shift(self) -> int:
        """Tuples of a block: the power of 2 from sqrt(limit) on, at most 64."""
        return next(shift for shift in range(7) if 4**shift >= self.limit or shift == 6)

    def slide(self, a: Arrivals) -> Floats:
        last = a.first + a.offsets.size - 2
        room = (last >> self._shift) - (a.first >> self._shift) + 2
        drawn, average = _drawn(a, self.aggregate, self.options), self.aggregate.function == "avg"
        if self._state is None or self._state.blocks.shape[1] < room:
            self._state = self._fresh(a.first, room)
            slide_totals(self._state, drawn, _held(a, self.rows), average, np.empty((0, 0)))
        out = np.empty((a.heads.size, self.options.samples))
        slide_totals(self._state, drawn, Arriving(a.begin, a.heads, self.rows), average, out)
        return out

    def _fresh(self, first: int, room: int) -> WorldTotals:
        samples = self.options.samples
        worlds = np.zeros(samples, sampled_totals.WORLD)
        worlds["head"], worlds["block"] = first, -1
        return WorldTotals(
            worlds=worlds,
            blocks=np.zeros((samples, 1 << (room - 1).bit_length())),
            rest=np.zeros((samples, (1 << self._shift) + 1)),
            following=np.zeros((samples, (1 << self._shift) + 1), np.uint8),
        )


class QuantileWorlds(Worlds):
    """A quantile in sampled worlds.  48 samples bytes."""

    def slide(self, a: Arrivals) -> Floats:
        drawn, share = _drawn(a, self.aggregate, self.options), float(self.aggregate.argument or 0)
        value = drawn.tuples.value
        order = np.argsort(value, kind="stable")
        order = order[: order.size - np.count_nonzero(np.isnan(value))]
        owner = np.repeat(np.arange(a.offsets.size - 1), np.diff(a.offsets))[order]
        ranked = Ranked(order, owner)
        if self._state is None:
            self._state = (np.zeros(self.options.samples, sampled_quantiles.WORLD),)
            self._state[0]["head"] = a.first
            held, none = _held(a, self.rows), np.empty((0, 0))
            slide_quantiles(*self._state, drawn, ranked, held, share, none)
        out = np.empty((a.heads.size, self.options.samples))
        arriving = Arriving(a.begin, a.heads, self.rows)
        slide_quantiles(*self._state, drawn, ranked, arriving, share, out)
        return out


class StatisticWorlds(Worlds):
    """A statistic of each sampled world, computed again at each arrival."""

    def slide(self, a: Arrivals) -> Floats:
        drawn = _drawn(a, self.aggregate, self.options)
        of, samples = self.aggregate.function, self.options.samples
        return sampled_statistics(of, drawn, a.heads, a.begin, self.rows, samples)


def _drawn(a: Arrivals, aggregate: Aggregate, options: LawOptions) -> Drawn:
    return Drawn(a.tuples(aggregate), tuple_hashes(options.seed, a.indices), a.first)


def _held(a: Arrivals, rows: int) -> Arriving:
    """The tuples held before the arrivals, as if they came now and nothing had left."""
    return Arriving(0, np.zeros(a.begin, np.int64), rows)
