"""Distributions of a count window's aggregates, exact while small, else from sampled worlds.

Sampled worlds move on with every arrival. A world is a function of the seed, its number and the
tuples held: worlds that are begun anew give what those that were kept would have given, so nothing
of them is saved.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from sfumato.kernels.laws.order_statistics import (
    order_statistic_law,
    small_quantiles,
    value_existences,
)
from sfumato.kernels.laws.sampled_worlds import Drawn, tuple_hashes
from sfumato.kernels.laws.sum_law import sum_law
from sfumato.kernels.laws.tuples import AttributeTuples
from sfumato.kernels.windows.count import count_worlds
from sfumato.kernels.windows.count.count_worlds import (
    RankedAlternatives,
    WorldArrivals,
    WorldTotals,
    slide_quantiles,
    slide_totals,
)
from sfumato.operators.laws import finite_laws
from sfumato.operators.laws.aggregate import Aggregate, Floats
from sfumato.operators.laws.finite_laws import FiniteLaws, LawOptions
from sfumato.operators.laws.spreads import (
    OF_VALUES,
    STATISTICS,
    exact_statistic,
    is_small,
    sampled_statistics,
    statistic_existences,
)
from sfumato.operators.windows.count.window_laws import WindowArrivals


class Worlds(ABC):
    """Sampled worlds of one window and aggregate; arguments as of `worlds_of`."""

    def __init__(self, aggregate: Aggregate, rows: int, limit: int, options: LawOptions) -> None:
        self.aggregate, self.rows, self.limit, self.options = aggregate, rows, limit, options
        self._state: tuple[np.ndarray, ...] | None = None  # None: begun at the next arrival

    @abstractmethod
    def slide(self, a: WindowArrivals) -> Floats:
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
    """Return the worlds of one aggregate; rows : the window's; limit : see IncrementalMoments."""
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

    def slide(self, a: WindowArrivals) -> Floats:
        last = a.first + a.offsets.size - 2
        room = (last >> self._shift) - (a.first >> self._shift) + 2
        drawn, average = _drawn(a, self.aggregate, self.options), self.aggregate.function == "avg"
        if self._state is None or self._state.blocks.shape[1] < room:
            self._state = self._fresh(a.first, room)
            slide_totals(self._state, drawn, _held(a, self.rows), average, np.empty((0, 0)))
        out = np.empty((a.heads.size, self.options.samples))
        slide_totals(self._state, drawn, WorldArrivals(a.begin, a.heads, self.rows), average, out)
        return out

    def _fresh(self, first: int, room: int) -> WorldTotals:
        samples = self.options.samples
        worlds = np.zeros(samples, count_worlds.TOTAL_WORLD)
        worlds["head"], worlds["block"] = first, -1
        return WorldTotals(
            worlds=worlds,
            blocks=np.zeros((samples, 1 << (room - 1).bit_length())),
            rest=np.zeros((samples, (1 << self._shift) + 1)),
            following=np.zeros((samples, (1 << self._shift) + 1), np.uint8),
        )


class QuantileWorlds(Worlds):
    """A quantile in sampled worlds.  48 samples bytes."""

    def slide(self, a: WindowArrivals) -> Floats:
        drawn, share = _drawn(a, self.aggregate, self.options), float(self.aggregate.argument or 0)
        value = drawn.tuples.value
        order = np.argsort(value, kind="stable")
        order = order[: order.size - np.count_nonzero(np.isnan(value))]
        owner = np.repeat(np.arange(a.offsets.size - 1), np.diff(a.offsets))[order]
        ranked = RankedAlternatives(order, owner)
        if self._state is None:
            self._state = (np.zeros(self.options.samples, count_worlds.QUANTILE_WORLD),)
            self._state[0]["head"] = a.first
            held, none = _held(a, self.rows), np.empty((0, 0))
            slide_quantiles(*self._state, drawn, ranked, held, share, none)
        out = np.empty((a.heads.size, self.options.samples))
        arriving = WorldArrivals(a.begin, a.heads, self.rows)
        slide_quantiles(*self._state, drawn, ranked, arriving, share, out)
        return out


class StatisticWorlds(Worlds):
    """A statistic of each sampled world, computed again at each arrival."""

    def slide(self, a: WindowArrivals) -> Floats:
        drawn = _drawn(a, self.aggregate, self.options)
        of, samples = self.aggregate.function, self.options.samples
        return sampled_statistics(of, drawn, a.heads, a.begin, self.rows, samples)


def _drawn(a: WindowArrivals, aggregate: Aggregate, options: LawOptions) -> Drawn:
    return Drawn(a.tuples(aggregate), tuple_hashes(options.seed, a.indices), a.first)


def _held(a: WindowArrivals, rows: int) -> WorldArrivals:
    """The tuples held before the arrivals, as if they came now and nothing had left."""
    return WorldArrivals(0, np.zeros(a.begin, np.int64), rows)


MOST_NUMBERS = 250_000  # of samples at a time: they stay in a fast cache
MOST_EXACT_LAWS = 256  # exact ones at a time


class MovingLaw:
    """Laws of one aggregate of the `rows` newest existing tuples, after each arrival.

    aggregate : sum, avg, count of an attribute, or one of those in LISTED
    rows, limit : int, see MovingMoments; options : of the worlds

    An exact law is computed anew at each arrival, sampled worlds move on with it. Those in LISTED
    are exact where their work is bounded. The exact law of the others is
    tried; when it has too many states the worlds are sampled, until all the tuples that made it too
    large have left: so the trials cost O(1) per arrival, and which arrivals are tried depends on
    the stream alone.
    """

    def __init__(self, aggregate: Aggregate, rows: int, limit: int, options: LawOptions) -> None:
        self.aggregate, self.rows, self.options = aggregate, rows, options
        self.untried = 0  # the exact law is not tried while older stream indices are held
        self._worlds = worlds_of(aggregate, rows, limit, options)

    def extend(self, a: WindowArrivals, counts: FiniteLaws | None) -> Iterator[FiniteLaws]:
        """The laws, some at a time; the state has moved on once all are taken.

        counts : laws of the number of tuples, for a count of values
        """
        assert self.aggregate.attribute is not None
        tuples, gaps = a.tuples(self.aggregate), a.gaps(self.aggregate.attribute)
        exact: list[tuple[Floats, Floats]] = []
        sampled = self._sampled(a, tuples, gaps)
        t, k = 0, a.heads.size
        while t < k:
            if sampled[t]:
                law = None
            elif counts is not None and not gaps[t]:
                law = counts[t]
            else:
                law = self._exact(a, tuples, t)
            if law is not None:
                exact.append(law)
                t += 1
            elif not sampled[t]:
                self.untried = a.first + a.begin + t + 1
                sampled = self._sampled(a, tuples, gaps)
            if exact and (t == k or sampled[t] or len(exact) == MOST_EXACT_LAWS):
                self._worlds.stop()
                yield FiniteLaws.exact(exact)
                exact = []
            if law is None:
                end = t + 1
                while end < k and sampled[end]:
                    end += 1
                yield from self._sample(a, t, end)
                t = end

    def forget_worlds(self) -> None:
        """Free their memory; the answers stay the same, the next one takes O(samples * held)."""
        self._worlds.stop()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of the state."""
        return self._worlds.nbytes

    def _sampled(self, a: WindowArrivals, tuples: AttributeTuples, gaps: np.ndarray) -> np.ndarray:
        """bool[k], arrivals whose exact law is not to be computed."""
        if self.aggregate.function == "quantile":
            return ~small_quantiles(tuples, a.heads, a.begin, self.rows, finite_laws.MOST_WORK)
        if self.aggregate.function in STATISTICS:
            return ~is_small(self.aggregate.function, tuples, a.heads, a.begin, self.rows)
        sampled = a.first + a.heads < self.untried
        return sampled & gaps if self.aggregate.function == "count" else sampled

    def _exact(
        self, a: WindowArrivals, tuples: AttributeTuples, t: int
    ) -> tuple[Floats, Floats] | None:
        """Probabilities and values after arrival t; None if there are too many states."""
        window = tuples, int(a.heads[t]), a.begin + t + 1, self.rows
        if self.aggregate.function == "quantile":
            done = True
            prob, value = order_statistic_law(*window, float(self.aggregate.argument or 0.0))
        elif self.aggregate.function in STATISTICS:
            done = True
            prob, value = exact_statistic(self.aggregate.function, *window)
        else:
            averaged = self.aggregate.function == "avg"
            done, prob, value = sum_law(*window, averaged, finite_laws.MOST_STATES)
        some = prob > 0.0
        return (prob[some], value[some]) if done else None

    def _sample(self, a: WindowArrivals, t: int, end: int) -> Iterator[FiniteLaws]:
        most = max(1, MOST_NUMBERS // self.options.samples)
        while t < end:
            held = a.begin + t + 1 - int(a.heads[t])
            some = a.part(t, min(end, t + min(most, max(held, 64))))
            t += some.heads.size
            samples = self._worlds.slide(some)
            existence, tuples = np.ones(some.heads.size), some.tuples(self.aggregate)
            if self.aggregate.function in ("avg", "quantile"):
                existence = value_existences(tuples, some.heads, some.begin, self.rows)
            elif self.aggregate.function in STATISTICS:
                of = self.aggregate.function, tuples, some.heads, some.begin, self.rows
                existence = statistic_existences(*of)
            exact = self.aggregate.function in ("quantile", *OF_VALUES)
            yield FiniteLaws.of_samples(samples, existence, exact)
