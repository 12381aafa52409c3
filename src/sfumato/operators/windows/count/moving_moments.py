"""Mean and variance of the sum over a count window, updated by every arrival."""

import numpy as np

from sfumato.kernels.windows.count import moments_state as kernel
from sfumato.kernels.windows.count.count_window_moments import (
    MOMENTS,
    CountLaws,
    resume_moments,
    slide_moments,
)
from sfumato.kernels.windows.count.moments_state import MomentsState
from sfumato.kernels.windows.held_tuples import HeldTuples
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.windows.resumable_state import ResumableState, with_room


class MovingMoments(ResumableState):
    """Mean and variance of the sum, and of the count, of the `rows` newest existing tuples.

    rows : int >= 1
    limit : int in [1, rows], most tuples of the newer part: what the window may hold, if less
    laws : whether laws of the count are wanted as well
    """

    def __init__(self, rows: int, limit: int, laws: bool = False) -> None:
        self.rows, self.limit, self.laws = rows, limit, laws
        self._state = empty_moments(rows)

    def extend(
        self, tuples: HeldTuples, heads: Ints
    ) -> tuple[np.ndarray, tuple[Ints, Floats, Floats]]:
        """Answers after each arrival: MOMENTS[k], see `slide_moments` for all arguments; and laws
        of the count: where each one's entries begin, int64[k + 1] (int64[0] for no laws at all),
        their probabilities and values."""
        out, done = np.empty(heads.size, MOMENTS), 0
        places = np.zeros(heads.size + 1 if self.laws else 0, np.int64)
        to_prob = np.empty(self.laws * (self.rows + 1 + 32 * heads.size))
        to_count = np.empty_like(to_prob)
        while True:
            laws = CountLaws(places, to_prob, to_count)
            done = slide_moments(
                self._state, tuples, heads, done, self.rows, self.limit, out, laws
            )  # fmt: skip
            if done == heads.size:
                end = int(places[-1]) if self.laws else 0
                return out, (places, to_prob[:end], to_count[:end])
            if self.laws and places[done] + self.rows + 1 > to_prob.size:
                more = np.empty(self.rows + 1 + to_prob.size // 2)
                to_prob, to_count = np.append(to_prob, more), np.append(to_count, more)
            else:  # what has more room is empty, and built anew: it must not be done for a law
                self._grow()

    @property
    def memo(self) -> tuple[int, float, float]:
        marks, reals = self._state.marks[0], self._state.reals[0]
        middle = int(marks["mid"]) if marks["built"] else -1
        return middle, float(reals["reference"]), float(reals["ratio"])

    def _recall(self, first: float, second: float) -> None:
        reals = self._state.reals[0]
        reals["reference"], reals["ratio"] = first, second

    def _rebuilt(self, tuples: HeldTuples, middle: int) -> bool:
        return resume_moments(self._state, tuples, middle, self.rows)

    def _grow(self) -> None:
        self._state = with_room(self._state)


def empty_moments(rows: int) -> MomentsState:
    width = rows + kernel.LEAD + kernel.PAD
    return MomentsState(
        front=np.zeros((5, width)),
        work=np.zeros((2, 4, width)),
        saved=np.zeros(0),
        extent=np.zeros(0, kernel.EXTENT),
        facts=np.zeros(0, kernel.FACTS),
        rows=np.zeros((0, 4, 0)),
        bands=np.zeros((0, 2), np.int64),
        row_facts=np.zeros(0, kernel.FACTS),
        marks=np.zeros(1, kernel.MARKS),
        reals=np.zeros(1, kernel.REALS),
    )
