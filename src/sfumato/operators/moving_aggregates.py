"""All that is kept up with every arrival in a count window, for the aggregates asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.kernels.held_sums import held_sums, tuple_means
from sfumato.operators.aggregate import Aggregate, Floats, Ints
from sfumato.operators.moving_average import MovingAverage
from sfumato.operators.moving_extremes import MovingExtremes
from sfumato.operators.moving_moments import MovingMoments
from sfumato.operators.window_laws import Arrivals, Laws

SIGN = {"max": 1.0, "min": -1.0}
Moments = tuple[Floats, Floats, Floats]  # mean, standard deviation, existence


@dataclass(frozen=True)
class Kept:
    """What the aggregates ask to be kept: one entry for each distinct attribute and kind.

    moments : sums and counts; averages : the sums that averages are made of, all among `moments`;
    extremes : min and max; bounds : boundary_sum
    """

    moments: list[Aggregate]
    averages: list[Aggregate]
    extremes: list[Aggregate]
    bounds: list[Aggregate]

    @classmethod
    def of(cls, aggregates: Sequence[Aggregate]) -> Kept:
        asked = list(dict.fromkeys(aggregates))
        averages = [Aggregate("sum", a.attribute) for a in asked if a.function == "avg"]
        counted = [a for a in asked if a.function in ("sum", "count")]
        sums = [a for a in counted if a.attribute is not None] + averages
        return cls(
            # Every one of them counts the tuples too: count(*) alone needs one of its own.
            list(dict.fromkeys(sums if sums else counted)),
            averages,
            [a for a in asked if a.function in SIGN],
            [a for a in asked if a.function == "boundary_sum"],
        )


class MovingAggregates:
    """Sum, count, avg, min, max and boundary_sum of one window, kept up with every arrival.

    kept : what to keep; rows : int >= 1; limit : int in [1, rows], see MovingMoments

    The tuples themselves are the caller's. `memo` and `resume` save and bring back the little that
    does not follow from the held tuples.
    """

    def __init__(self, kept: Kept, rows: int, limit: int) -> None:
        self.kept = kept
        self._moments = [MovingMoments(rows, limit) for _ in kept.moments]
        self._averages = [MovingAverage(rows) for _ in kept.averages]
        self._extremes = [MovingExtremes(rows, limit, SIGN[of.function]) for of in kept.extremes]
        self._with_memo: list[MovingMoments | MovingExtremes] = [*self._moments, *self._extremes]
        self._bounds = [0] * len(kept.bounds)  # stream index where each sum's older part ends

    def extend(self, a: Arrivals) -> dict[Aggregate, Moments | Laws]:
        """For each aggregate that is kept, its moments, or the law of a min or max, after each
        arrival; the rest of an aggregate's answer follows from these."""
        answers: dict[Aggregate, Moments | Laws] = {}
        k, one = a.heads.size, np.ones(a.heads.size)
        moved = {}
        for of, moments in zip(self.kept.moments, self._moments, strict=True):
            row = moved[of] = moments.extend(*a.of(of))
            answers[of] = row[:, 0], np.sqrt(row[:, 1]), one
            answers[Aggregate("count")] = row[:, 2], np.sqrt(row[:, 3]), one
        for of, average in zip(self.kept.averages, self._averages, strict=True):
            row = average.extend(*a.of(of), moved[of])
            answers[Aggregate("avg", of.attribute)] = row[:, 0], np.sqrt(row[:, 1]), row[:, 2]
        for of, extremes in zip(self.kept.extremes, self._extremes, strict=True):
            answers[of] = Laws(*extremes.extend(*a.of(of)), np.full(k, np.nan))
        for i, of in enumerate(self.kept.bounds):
            total, x = np.empty(k), tuple_means(a.offsets, a.prob, a.column(of))
            self._bounds[i] = int(held_sums(x, a.first, self._bounds[i], a.heads, a.begin, total))
            answers[of] = total, np.zeros(k), one
        return answers

    @property
    def memo(self) -> tuple[Ints, Floats]:
        """What does not follow from the held tuples: int64[...] and float64[2 * (moments +
        extremes)]."""
        memos = [kept.memo for kept in self._with_memo]
        grown = [average.memo for average in self._averages]
        whole = [[memo[0] for memo in memos], self._bounds, [of.size for of in grown]]
        integers = [np.array(part, dtype=np.int64) for part in whole]
        numbers = np.array([memo[1:] for memo in memos], dtype=np.float64)
        return np.concatenate([*integers, *(of.ravel() for of in grown)]), numbers.ravel()

    def resume(self, memo: tuple[Ints, Floats], held: Arrivals) -> None:
        """Go on as the one whose `memo` this is; held : the tuples it held, no arrivals."""
        integers, numbers = memo
        of, bounds = (*self.kept.moments, *self.kept.extremes), len(self._bounds)
        middles, at = integers[: len(of)].tolist(), len(of) + bounds + len(self._averages)
        self._bounds = integers[len(of) : len(of) + bounds].tolist()
        pairs = numbers.reshape(-1, 2).tolist()
        for i, kept in enumerate(self._with_memo):
            offsets, prob, value, first, _, _ = held.of(of[i])
            kept.resume((middles[i], *pairs[i]), offsets, prob, value, first)
        for i, average in enumerate(self._averages):
            end = at + int(integers[len(of) + bounds + i])
            own = self.kept.moments.index(self.kept.averages[i])
            offsets, prob, value, first, _, _ = held.of(self.kept.averages[i])
            average.resume(
                integers[at:end].reshape(-1, 2), middles[own], pairs[own][0], offsets, prob,
                value, first,
            )  # fmt: skip
            at = end

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of the state."""
        moving = (self._moments, self._averages, self._extremes)
        return sum(sum(kept.nbytes for kept in some) for some in moving)
