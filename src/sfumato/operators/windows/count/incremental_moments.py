"""Moments and extremes of a count window that every arrival updates.

The tuples themselves are the caller's. `memo` and `resume` save and bring back the little that does
not follow from the tuples held: where the front stack ends, and two numbers.
"""

import numpy as np

from sfumato.kernels.laws.tuples import WindowTuples, existences
from sfumato.kernels.windows.count.count_extremes import (
    ExtremeLaws,
    resume_extremes,
    slide_extremes,
)
from sfumato.kernels.windows.count.count_moments import (
    MOMENTS,
    CountLaws,
    empty_stacks,
    resume_moments,
    slide_moments,
)
from sfumato.kernels.windows.count.extreme_candidates import empty_extremes
from sfumato.operators.arrays import Floats, Ints

MOST_OUTCOMES = 2**40
Laws = tuple[Ints, Floats, Floats]  # where each one's entries begin, probabilities and values


class IncrementalMoments:
    """Mean and variance of the sum, the count and the average of the `rows` newest existing tuples.

    rows : int >= 1
    limit : int in [1, rows], most tuples of the back stack: what the window may hold, if less
    averaged : whether the average is asked for
    laws : whether distributions of the count are
    """

    def __init__(self, rows: int, limit: int, averaged: bool, laws: bool) -> None:
        self.rows, self.limit, self.averaged, self.laws = rows, limit, averaged, laws
        self._stacks = empty_stacks(rows, averaged)

    def extend(self, tuples: WindowTuples, heads: Ints) -> tuple[np.ndarray, Laws]:
        """Answers after each arrival: MOMENTS[k], see `slide_moments` for all arguments; and the
        distributions of the count: int64[0] for where they begin if there are none."""
        out = np.empty(heads.size, MOMENTS)
        places = np.zeros(heads.size + 1 if self.laws else 0, np.int64)
        laws = CountLaws(places, np.empty(0), np.empty(0))
        front, laws = slide_moments(*self._stacks, tuples, heads, self.rows, self.limit, out, laws)
        self._stacks = self._stacks._replace(front=front)
        end = int(places[-1]) if self.laws else 0
        return out, (places, laws.prob[:end], laws.counts[:end])

    @property
    def memo(self) -> tuple[int, float, float]:
        """Stream index where the front stack ends, -1 before the first arrival; the reference and
        ratio of the values."""
        marks, reals = self._stacks.front.marks[0], self._stacks.front.reals[0]
        middle = int(marks["mid"]) if marks["built"] else -1
        return middle, float(reals["reference"]), float(reals["ratio"])

    @property
    def grown(self) -> Ints:
        """int64[k, 2], what must be known of the average: see `grown` of AverageStack."""
        average = self._stacks.average
        return average.grown[: average.marks[0]["grown"]].copy()

    def resume(self, memo: tuple[int, float, float], grown: Ints, tuples: WindowTuples) -> None:
        """Go on as the one whose `memo` and `grown` these are, over the tuples it held.

        Raises ValueError for what cannot be theirs.
        """
        if memo[0] < 0:
            return
        middle, reals, cells = position(memo[0], tuples), self._stacks.front.reals, grown[:, 1]
        reals["reference"], reals["ratio"] = memo[1:]
        if (
            len(grown) > len(self._stacks.average.grown)
            or ((cells < 0) | (cells > self.rows)).any()
        ):
            raise ValueError("it cannot have had these cells in use")
        front = resume_moments(*self._stacks, tuples, middle, self.rows, grown)
        self._stacks = self._stacks._replace(front=front)

    def clear(self) -> None:
        """Reset, keeping the memory at hand."""
        for record in (
            self._stacks.front.marks,
            self._stacks.front.reals,
            self._stacks.average.marks,
        ):
            record.view(np.int64).fill(0)  # three times as fast as a record of fields


class IncrementalExtremes:
    """Distributions of the largest (or smallest) value of the `rows` newest existing tuples.

    rows : int >= 1
    limit : int in [1, rows], most tuples of the back stack: what the window may hold, if less
    sign : 1.0 for the largest, -1.0 for the smallest
    """

    def __init__(self, rows: int, limit: int, sign: float) -> None:
        self.rows, self.limit = rows, limit
        self._state = empty_extremes(rows, sign)

    def extend(self, tuples: WindowTuples, heads: Ints) -> Laws:
        """Distributions after each arrival, see `slide_extremes` for all arguments."""
        existence = existences(tuples.offsets, tuples.prob)
        laws = ExtremeLaws(np.zeros(heads.size + 1, np.int64), np.empty(0), np.empty(0))
        self._state, (places, prob, value) = slide_extremes(
            self._state, tuples, existence, heads, self.rows, self.limit, laws
        )
        return places, prob[: places[-1]], value[: places[-1]]

    @property
    def memo(self) -> tuple[int, float, float]:
        """Stream index where the front stack ends, -1 before the first arrival; floor and limit of
        the candidates."""
        marks = self._state.marks[0]
        middle = int(marks["mid"]) if marks["built"] else -1
        return middle, float(self._state.reals[0]["floor"]), float(marks["limit"])

    def resume(self, memo: tuple[int, float, float], tuples: WindowTuples) -> None:
        """Go on as the one whose `memo` this is, over the tuples it held.

        Raises ValueError for a memo that cannot be theirs.
        """
        first, floor, limit = memo
        if first < 0:
            return
        middle, state = position(first, tuples), self._state
        if np.isnan(floor) or not 0 <= limit < MOST_OUTCOMES:
            raise ValueError(f"it cannot have had the floor {floor} and the limit {limit}")
        state.reals[0]["floor"], state.marks[0]["limit"] = floor, int(limit)
        existence = existences(tuples.offsets, tuples.prob)
        self._state = resume_extremes(state, tuples, existence, middle, self.rows)

    def clear(self) -> None:
        """Reset, keeping the memory at hand."""
        for record in (self._state.marks, self._state.reals):
            record.view(np.int64).fill(0)


def position(middle: int, tuples: WindowTuples) -> int:
    """The position of stream index `middle`, where a front stack ends, among the tuples held.

    Raises ValueError for an index after the last of them.
    """
    if middle - tuples.first >= tuples.offsets.size:
        raise ValueError(f"its older part cannot end at tuple {middle}, which has not come")
    return max(middle - tuples.first, 0)
