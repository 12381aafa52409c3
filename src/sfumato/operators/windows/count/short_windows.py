"""Short windows of many groups, moved together: where only sums, counts and averages are asked."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sfumato.kernels.windows.count.count_boundary import empty_window
from sfumato.kernels.windows.count.count_groups import (
    GroupAnswers,
    GroupArrivals,
    GroupPlan,
    GroupScratch,
    PackedGroups,
    move_windows,
)
from sfumato.kernels.windows.count.count_moments import MOMENTS, empty_stacks
from sfumato.operators.arguments import NO_LIMIT
from sfumato.operators.arrays import Ints, offsets_of
from sfumato.operators.laws.aggregate import Aggregate
from sfumato.operators.laws.finite_laws import Moments
from sfumato.operators.windows.count.moving_aggregates import Kept, moments_of
from sfumato.operators.windows.uncertain_window import FIRST_CAPACITY

MOST_ROWS = (
    128  # rows of a window: the arrays of longer ones, cleared for each group, take the time
)
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
        self._asked = GroupPlan(
            w=rows,
            limit=min(rows, max_tuples or rows),
            target=float(confidence),
            max_tuples=max_tuples or NO_LIMIT,
            attribute=np.array(
                [-1 if of.attribute is None else of.attribute for of in kept.moments], np.int64
            ),
            counted=np.array([of.function == "count" for of in kept.moments]),
            average=np.array(
                [kept.averages.index(of) if of in kept.averages else -1 for of in kept.moments],
                np.int64,
            ),
            averages=len(kept.averages),
        )
        self._scratch = GroupScratch(
            empty_window(MOST_HELD + FIRST_CAPACITY),
            empty_stacks(rows, False),
            empty_stacks(rows, True),
        )

    @staticmethod
    def serves(rows: int, method: str, kept: Kept) -> bool:
        """True if windows are short, and only sums, counts and averages are requested."""
        more = kept.extremes or kept.bounds or kept.laws or kept.counts
        return rows <= MOST_ROWS and method == "exact" and not more

    @staticmethod
    def takes(rested: Ints) -> bool:
        """True if a group at rest holds few tuples."""
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
        arrivals = GroupArrivals(begin, tuples, offsets, prob, table)
        old = PackedGroups(np.concatenate(groups), offsets_of([group.size for group in groups]))
        new = PackedGroups(np.empty(self._most(old, arrivals), np.int64), np.zeros_like(old.begin))
        n, kept = tuples.size, self._kept
        answers = GroupAnswers(np.empty(n, np.int64), np.empty((len(kept.moments), n), MOMENTS))
        self._scratch, overflow = move_windows(
            self._scratch, self._asked, arrivals, old, new, answers
        )
        ends = new.begin.tolist()
        rested = [new.array[i:j].copy() for i, j in pairwise(ends)]  # views would keep all of it
        return MovedTogether(answers.held, self._moments(answers), rested, overflow)

    def _most(self, old: PackedGroups, arrivals: GroupArrivals) -> int:
        """Numbers that the groups may be packed into."""
        sizes = np.diff(arrivals.offsets)[arrivals.tuple].sum()
        memo = len(self._kept.averages) * self._scratch.averaged.average.grown.size
        tuples = 3 * arrivals.tuple.size + sizes * (1 + len(arrivals.values))
        return int(old.array.size + tuples + memo * (old.begin.size - 1))

    def _moments(self, answers: GroupAnswers) -> dict[Aggregate, Moments]:
        moments: dict[Aggregate, Moments] = {}
        for of, row in zip(self._kept.moments, answers.moments, strict=True):
            moments |= moments_of(of, row, of in self._kept.averages)
        return moments
