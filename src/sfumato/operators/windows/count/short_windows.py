"""Short windows of many groups, moved together: where only sums, counts and averages are asked."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sfumato.kernels.windows.count.count_window_moments import MOMENTS
from sfumato.kernels.windows.count.packed_group import Packed
from sfumato.kernels.windows.count.short_windows import (
    Answers,
    Arrivals,
    Asked,
    Scratch,
    move_windows,
)
from sfumato.operators.arguments import NO_LIMIT
from sfumato.operators.arrays import Ints, offsets_of
from sfumato.operators.laws.aggregate import Aggregate
from sfumato.operators.laws.finite_laws import Moments
from sfumato.operators.windows.count.moving_aggregates import Kept, average_of, sum_and_count
from sfumato.operators.windows.count.moving_average import empty_average
from sfumato.operators.windows.count.moving_moments import empty_moments
from sfumato.operators.windows.resumable_state import with_room
from sfumato.operators.windows.uncertain_window import FIRST_CAPACITY, empty_window, larger_window

SHORT = 128  # rows of a window: the arrays of longer ones, cleared for each group, take the time
MOST_HELD = 250  # tuples of a group: laws of more are kept ready, not built anew at each call


class MovedTogether(NamedTuple):
    """held : int64[n], tuples held after each arrival; moments : of each aggregate; groups : at
    rest again; overflow : tuples evicted by `max_tuples`."""

    held: Ints
    moments: dict[Aggregate, Moments]
    groups: list[Ints]
    overflow: int


class ShortWindows:
    """Moves groups at rest, which rest again behind it.

    rows, confidence, max_tuples : the window, see UncertainWindow; its method is "exact"
    kept : what to keep, no more than `serves` says

    What it holds is no group's, and follows from no arrival.
    """

    def __init__(self, rows: int, confidence: float, max_tuples: int | None, kept: Kept) -> None:
        self._kept = kept
        self._asked = Asked(
            w=rows,
            limit=min(rows, max_tuples or rows),
            target=float(confidence),
            max_tuples=max_tuples or NO_LIMIT,
            attribute=np.array(
                [-1 if of.attribute is None else of.attribute for of in kept.moments], np.int64
            ),
            counted=np.array([of.function == "count" for of in kept.moments]),
            own=np.array([kept.moments.index(of) for of in kept.averages], np.int64),
        )
        self._scratch = Scratch(
            empty_window(MOST_HELD + FIRST_CAPACITY), empty_moments(rows), empty_average(rows)
        )

    @staticmethod
    def serves(rows: int, method: str, kept: Kept) -> bool:
        """Whether windows are short, and no more is kept than it moves."""
        more = kept.extremes or kept.bounds or kept.laws or kept.counts
        return rows <= SHORT and method == "exact" and not more

    @staticmethod
    def takes(rested: Ints) -> bool:
        """Whether a group at rest holds few tuples."""
        return int(rested[1]) <= MOST_HELD

    def extend(
        self, groups: Sequence[Ints], begin: Ints, tuples: Ints, batch: Sequence[np.ndarray]
    ) -> MovedTogether:
        """Answers after each arrival, group by group.

        groups : at rest; begin : int64[groups + 1], where the arrivals of each one begin in
        tuples : int64[n], which of the batch they are
        batch : offsets, prob and values (float64[m, a]) of all tuples
        """
        offsets, prob, values = batch
        table = np.require(values.T, requirements=["C", "W"])
        arrivals = Arrivals(begin, tuples, offsets, prob, table)
        old = Packed(np.concatenate(groups), offsets_of([group.size for group in groups]))
        new = Packed(np.empty(self._most(old, arrivals), np.int64), np.zeros_like(old.begin))
        n, kept = tuples.size, self._kept
        answers = Answers(
            held=np.empty(n, np.int64),
            moments=np.empty((len(kept.moments), n), MOMENTS),
            averages=np.empty((len(kept.averages), n, 3)),
        )
        done, overflow = 0, 0
        while True:
            done, more = move_windows(self._scratch, self._asked, arrivals, old, new, answers, done)
            overflow += more
            if done == len(groups):
                break
            self._grow()
        ends = new.begin.tolist()
        rested = [new.array[i:j].copy() for i, j in pairwise(ends)]  # views would keep all of it
        return MovedTogether(answers.held, self._moments(answers), rested, overflow)

    def _most(self, old: Packed, arrivals: Arrivals) -> int:
        """Numbers that the groups may be packed into."""
        sizes = np.diff(arrivals.offsets)[arrivals.tuple].sum()
        memo = len(self._kept.averages) * self._scratch.average.grown.size
        tuples = 3 * arrivals.tuple.size + sizes * (1 + len(arrivals.values))
        return int(old.array.size + tuples + memo * (old.begin.size - 1))

    def _moments(self, answers: Answers) -> dict[Aggregate, Moments]:
        moments: dict[Aggregate, Moments] = {}
        for of, row in zip(self._kept.moments, answers.moments, strict=True):
            moments |= sum_and_count(of, row)
        for of, row in zip(self._kept.averages, answers.averages, strict=True):
            moments |= average_of(of, row)
        return moments

    def _grow(self) -> None:
        window, moments, average = self._scratch
        window = larger_window(window, self._asked.w)
        self._scratch = Scratch(window, with_room(moments), with_room(average))
