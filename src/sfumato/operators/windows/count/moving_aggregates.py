"""All that every arrival updates in a count window, for the aggregates asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from sfumato.kernels.laws.value_moments import lift
from sfumato.kernels.windows.count.running_sum import running_sums
from sfumato.operators.laws.aggregate import LISTED, Aggregate, Floats, Ints
from sfumato.operators.laws.finite_laws import FiniteLaws, LawOptions, Moments
from sfumato.operators.windows.count.moving_average import MovingAverage
from sfumato.operators.windows.count.moving_extremes import MovingExtremes
from sfumato.operators.windows.count.moving_law import MovingLaw
from sfumato.operators.windows.count.moving_moments import MovingMoments
from sfumato.operators.windows.count.window_laws import Arrivals

SIGN = {"max": 1.0, "min": -1.0}


@dataclass(frozen=True)
class Kept:
    """What the aggregates ask to be kept: one entry for each distinct attribute and kind.

    moments : sums and counts; averages : the sums that averages are made of, all among `moments`;
    extremes : min and max; bounds : boundary_sum; laws : those in LISTED, and sums, averages and
    counts of an attribute whose law is wanted; counts : whether laws of counts are
    """

    moments: list[Aggregate]
    averages: list[Aggregate]
    extremes: list[Aggregate]
    bounds: list[Aggregate]
    laws: list[Aggregate]
    counts: bool

    @classmethod
    def of(cls, aggregates: Sequence[Aggregate], laws: bool) -> Kept:
        """laws : whether more than means and deviations is wanted."""
        asked = list(dict.fromkeys(aggregates))
        averages = [Aggregate("sum", a.attribute) for a in asked if a.function == "avg"]
        counted = [a for a in asked if a.function in ("sum", "count")]
        sums = [a for a in counted if a.attribute is not None] + averages
        large = ("sum", "avg", "count") if laws else ()
        return cls(
            # Every one of them counts the tuples too: count(*) alone needs one of its own.
            list(dict.fromkeys(sums if sums else counted)),
            averages,
            [a for a in asked if a.function in SIGN],
            [a for a in asked if a.function == "boundary_sum"],
            [
                a
                for a in asked
                if a.function in LISTED or (a.function in large and a.attribute is not None)
            ],
            laws and any(a.function == "count" for a in asked),
        )


@dataclass(frozen=True)
class Moved:
    """For each aggregate its moments and its laws, as far as kept, after each arrival.

    The laws of an aggregate come some at a time; they are to be taken, all of them, once.
    """

    moments: dict[Aggregate, Moments]
    laws: dict[Aggregate, Iterable[FiniteLaws]]


class MovingAggregates:
    """The aggregates of one window, which move on with every arrival.

    kept : what to keep; rows : int >= 1; limit : int in [1, rows], see MovingMoments; options : of
    the laws that are too large

    The tuples themselves are the caller's. `memo` and `resume` save and bring back the little that
    does not follow from the held tuples.
    """

    def __init__(self, kept: Kept, rows: int, limit: int, options: LawOptions) -> None:
        self.kept = kept
        self._moments = [
            MovingMoments(rows, limit, kept.counts and i == 0) for i in range(len(kept.moments))
        ]
        self._averages = [MovingAverage(rows) for _ in kept.averages]
        self._extremes = [MovingExtremes(rows, limit, SIGN[of.function]) for of in kept.extremes]
        self._with_memo: list[MovingMoments | MovingExtremes] = [*self._moments, *self._extremes]
        self._bounds = [0] * len(kept.bounds)  # stream index where each sum's older part ends
        self._laws = [MovingLaw(of, rows, limit, options) for of in kept.laws]

    def extend(self, a: Arrivals) -> Moved:
        """Answers after each arrival; the rest of an aggregate's answer follows from these."""
        moments: dict[Aggregate, Moments] = {}
        laws: dict[Aggregate, Iterable[FiniteLaws]] = {}
        k, one = a.heads.size, np.ones(a.heads.size)
        moved, counts, exact = {}, None, np.full(k, np.nan)
        for of, kept in zip(self.kept.moments, self._moments, strict=True):
            row, law = kept.extend(a.of(of), a.heads)
            moved[of] = row
            if kept.laws:
                counts = FiniteLaws(*law, exact)
                laws[Aggregate("count")] = [counts]
            moments |= sum_and_count(of, row)
        for of, average in zip(self.kept.averages, self._averages, strict=True):
            moments |= average_of(of, average.extend(a.of(of), a.heads, moved[of]))
        for of, extremes in zip(self.kept.extremes, self._extremes, strict=True):
            laws[of] = [FiniteLaws(*extremes.extend(a.of(of), a.heads), exact)]
        for i, of in enumerate(self.kept.bounds):
            total, lifted = np.empty(k), np.empty((3, a.offsets.size - 1))
            lift(a.offsets, a.prob, a.column(of), lifted)
            self._bounds[i] = int(
                running_sums(lifted[1], a.first, self._bounds[i], a.heads, a.begin, total)
            )
            moments[of] = total, np.zeros(k), one
            laws[of] = [FiniteLaws(np.arange(k + 1), one, total, exact)]
        for of, moving in zip(self.kept.laws, self._laws, strict=True):
            laws[of] = moving.extend(a, counts if of.function == "count" else None)
        return Moved(moments, laws)

    @property
    def memo(self) -> tuple[Ints, Floats]:
        """What does not follow from the held tuples: int64[...] and float64[2 * (moments +
        extremes)]. The sampled worlds do."""
        memos = [kept.memo for kept in self._with_memo]
        grown = [average.memo for average in self._averages]
        untried, sizes = [law.untried for law in self._laws], [of.size for of in grown]
        whole = np.array([*(memo[0] for memo in memos), *self._bounds, *untried, *sizes], np.int64)
        numbers = np.array([memo[1:] for memo in memos], dtype=np.float64)
        return np.concatenate([whole, *(of.ravel() for of in grown)]), numbers.ravel()

    def resume(self, memo: tuple[Ints, Floats], held: Arrivals) -> None:
        """Go on as the one whose `memo` this is; held : the tuples it held, no arrivals."""
        integers, numbers = memo
        of = (*self.kept.moments, *self.kept.extremes)
        ends = list(accumulate(map(len, (of, self._bounds, self._laws, self._averages)), initial=0))
        whole = integers[: ends[-1]].tolist()
        middles, self._bounds, untried, sizes = (whole[i:j] for i, j in pairwise(ends))
        if any(bound - held.first >= held.offsets.size for bound in self._bounds):
            raise ValueError("sums cannot end after the tuples held")
        for law, index in zip(self._laws, untried, strict=True):
            law.untried = index
        pairs = numbers.reshape(-1, 2).tolist()
        for i, kept in enumerate(self._with_memo):
            kept.resume((middles[i], *pairs[i]), held.of(of[i]))
        at = ends[-1]
        for i, average in enumerate(self._averages):
            end = at + sizes[i]
            own = self.kept.moments.index(self.kept.averages[i])
            grown, tuples = integers[at:end].reshape(-1, 2), held.of(self.kept.averages[i])
            average.resume(grown, middles[own], pairs[own][0], tuples)
            at = end

    def clear(self) -> None:
        """Be as a new one, with the memory at hand; then `resume`, or the first arrival."""
        for kept in (*self._with_memo, *self._averages):
            kept.clear()
        self._bounds = [0] * len(self._bounds)
        for law in self._laws:
            law.untried = 0
        self.forget_worlds()

    def forget_worlds(self) -> None:
        """Free the memory of all sampled worlds; see `forget_worlds` of MovingLaw."""
        for law in self._laws:
            law.forget_worlds()

    @property
    def world_bytes(self) -> int:
        """Bytes of all sampled worlds."""
        return sum(law.nbytes for law in self._laws)


def sum_and_count(of: Aggregate, row: np.ndarray) -> dict[Aggregate, Moments]:
    """Moments of a sum and of the count, from the answers to k arrivals: MOMENTS[k]."""
    one = np.ones(row.size)
    return {
        of: (row["sum_mean"].copy(), np.sqrt(row["sum_variance"]), one),
        Aggregate("count"): (row["count"].copy(), np.sqrt(row["count_variance"]), one),
    }


def average_of(of: Aggregate, row: Floats) -> dict[Aggregate, Moments]:
    """Moments of the average that is made of a sum, from the answers to k arrivals: [k, 3]."""
    return {Aggregate("avg", of.attribute): (row[:, 0], np.sqrt(row[:, 1]), row[:, 2])}
