"""All that every arrival updates in a count window, for the aggregates asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from sfumato.kernels.laws.tuples import lift
from sfumato.kernels.windows.sliding_partials import running_sums
from sfumato.operators.laws.aggregate import LISTED, Aggregate, Floats, Ints
from sfumato.operators.laws.finite_laws import FiniteLaws, LawOptions, Moments
from sfumato.operators.windows.count.incremental_moments import (
    IncrementalExtremes,
    IncrementalMoments,
)
from sfumato.operators.windows.count.sampled_window import MovingLaw
from sfumato.operators.windows.count.window_laws import WindowArrivals

SIGN = {"max": 1.0, "min": -1.0}


@dataclass(frozen=True)
class Kept:
    """The state that aggregates need: one entry for each distinct attribute and kind.

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
class BatchResult:
    """For each aggregate its moments and its laws, as far as kept, after each arrival.

    The laws of an aggregate come some at a time; they are to be taken, all of them, once.
    """

    moments: dict[Aggregate, Moments]
    laws: dict[Aggregate, Iterable[FiniteLaws]]


class MovingAggregates:
    """The aggregates of one window, which move on with every arrival.

    kept : what to keep; rows : int >= 1; limit : int in [1, rows], see IncrementalMoments
    options : of the laws that are too large

    The tuples themselves are the caller's. `memo` and `resume` save and bring back the little that
    does not follow from the held tuples.
    """

    def __init__(self, kept: Kept, rows: int, limit: int, options: LawOptions) -> None:
        self.kept = kept
        self._moments = [
            IncrementalMoments(rows, limit, of in kept.averages, kept.counts and i == 0)
            for i, of in enumerate(kept.moments)
        ]
        self._averaged = [self._moments[kept.moments.index(of)] for of in kept.averages]
        self._extremes = [
            IncrementalExtremes(rows, limit, SIGN[of.function]) for of in kept.extremes
        ]
        self._with_memo: list[IncrementalMoments | IncrementalExtremes]
        self._with_memo = [*self._moments, *self._extremes]
        self._bounds = [0] * len(kept.bounds)  # stream index where each sum's front stack ends
        self._laws = [MovingLaw(of, rows, limit, options) for of in kept.laws]

    def extend(self, a: WindowArrivals) -> BatchResult:
        """Answers after each arrival; the rest of an aggregate's answer follows from these."""
        moments: dict[Aggregate, Moments] = {}
        laws: dict[Aggregate, Iterable[FiniteLaws]] = {}
        k, one = a.heads.size, np.ones(a.heads.size)
        counts, exact = None, np.full(k, np.nan)
        for of, kept in zip(self.kept.moments, self._moments, strict=True):
            row, law = kept.extend(a.of(of), a.heads)
            if kept.laws:
                counts = FiniteLaws(*law, exact)
                laws[Aggregate("count")] = [counts]
            moments |= moments_of(of, row, kept.averaged)
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
        return BatchResult(moments, laws)

    @property
    def memo(self) -> tuple[Ints, Floats]:
        """State that does not follow from the held tuples: int64[...] and float64[2 * (moments +
        extremes)]. The sampled worlds do."""
        memos = [kept.memo for kept in self._with_memo]
        grown = [average.grown for average in self._averaged]
        untried, sizes = [law.untried for law in self._laws], [of.size for of in grown]
        whole = np.array([*(memo[0] for memo in memos), *self._bounds, *untried, *sizes], np.int64)
        numbers = np.array([memo[1:] for memo in memos], dtype=np.float64)
        return np.concatenate([whole, *(of.ravel() for of in grown)]), numbers.ravel()

    def resume(self, memo: tuple[Ints, Floats], held: WindowArrivals) -> None:
        """Go on as the one whose `memo` this is; held : the tuples it held, no arrivals."""
        integers, numbers = memo
        sizes = len(self._with_memo), len(self._bounds), len(self._laws), len(self._averaged)
        ends = list(accumulate(sizes, initial=0))
        whole = integers[: ends[-1]].tolist()
        middles, self._bounds, untried, lengths = (whole[i:j] for i, j in pairwise(ends))
        if any(bound - held.first >= held.offsets.size for bound in self._bounds):
            raise ValueError("sums cannot end after the tuples held")
        for law, index in zip(self._laws, untried, strict=True):
            law.untried = index
        cuts = list(accumulate(lengths, initial=ends[-1]))
        grown = {
            average: integers[i:j].reshape(-1, 2)
            for average, (i, j) in zip(self._averaged, pairwise(cuts), strict=True)
        }
        pairs = [
            (m, *pair) for m, pair in zip(middles, numbers.reshape(-1, 2).tolist(), strict=True)
        ]
        for of, moments in zip(self.kept.moments, self._moments, strict=True):
            cells = grown.get(moments, np.empty((0, 2), np.int64))
            moments.resume(pairs.pop(0), cells, held.of(of))
        for of, extremes in zip(self.kept.extremes, self._extremes, strict=True):
            extremes.resume(pairs.pop(0), held.of(of))

    def clear(self) -> None:
        """Reset, keeping the memory at hand; then `resume`, or the first arrival."""
        for kept in self._with_memo:
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


def moments_of(of: Aggregate, row: np.ndarray, averaged: bool) -> dict[Aggregate, Moments]:
    """Moments of a sum, of the count and, if `averaged`, of the average, from MOMENTS[k]."""
    one = np.ones(row.size)
    found = {
        of: (row["sum_mean"].copy(), np.sqrt(row["sum_variance"]), one),
        Aggregate("count"): (row["count"].copy(), np.sqrt(row["count_variance"]), one),
    }
    if averaged:
        found[Aggregate("avg", of.attribute)] = (
            row["average"].copy(), np.sqrt(row["average_variance"]),
            row["average_existence"].copy(),
        )  # fmt: skip
    return found
