"""Laws of the largest or smallest value of a count window, updated by every arrival."""

import numpy as np

from sfumato.kernels.laws.existence import existences
from sfumato.kernels.windows.count import extremes_state as kernel
from sfumato.kernels.windows.count.count_window_extremes import (
    ExtremeLaws,
    resume_extremes,
    slide_extremes,
)
from sfumato.kernels.windows.count.extremes_state import ExtremesState
from sfumato.kernels.windows.held_tuples import HeldTuples
from sfumato.operators.arrays import Floats, Ints, longer
from sfumato.operators.windows.resumable_state import ResumableState

MOST_OUTCOMES = 2**40


class MovingExtremes(ResumableState):
    """Laws of the largest (or smallest) value of the `rows` newest existing tuples.

    rows : int >= 1
    limit : int in [1, rows], most tuples of the newer part: what the window may hold, if less
    sign : 1.0 for the largest, -1.0 for the smallest
    """

    def __init__(self, rows: int, limit: int, sign: float) -> None:
        self.rows, self.limit = rows, limit
        self._state = _empty(rows, sign)

    def extend(self, tuples: HeldTuples, heads: Ints) -> tuple[Ints, Floats, Floats]:
        """Laws after each arrival, see `slide_extremes` for all arguments: where each one's
        entries begin, int64[k + 1], their probabilities and values."""
        existence, done = existences(tuples.offsets, tuples.prob), 0
        places = np.zeros(heads.size + 1, np.int64)
        to_prob, to_value = np.empty(16 * heads.size), np.empty(16 * heads.size)
        while True:
            laws = ExtremeLaws(places, to_prob, to_value)
            done = slide_extremes(
                self._state, tuples, existence, heads, done, self.rows, self.limit, laws
            )
            if done == heads.size:
                return places, to_prob[: places[-1]], to_value[: places[-1]]
            self._grow()
            room = int(places[done] + self._state.marks[0]["limit"])
            if room > to_prob.size:
                more = np.empty(room + to_prob.size // 2)
                to_prob, to_value = np.append(to_prob, more), np.append(to_value, more)

    @property
    def memo(self) -> tuple[int, float, float]:
        marks = self._state.marks[0]
        middle = int(marks["mid"]) if marks["built"] else -1
        return middle, float(self._state.reals[0]["floor"]), float(marks["limit"])

    def _recall(self, first: float, second: float) -> None:
        if np.isnan(first) or not 0 <= second < MOST_OUTCOMES:
            raise ValueError(f"it cannot have had the floor {first} and the limit {second}")
        self._state.reals[0]["floor"] = first
        self._state.marks[0]["limit"] = int(second)

    def _rebuilt(self, tuples: HeldTuples, middle: int) -> bool:
        existence, state = existences(tuples.offsets, tuples.prob), self._state
        # More than its limit where tuples are held that are outside for certain: the next arrival
        # drops their outcomes again.
        self._grow(int(np.count_nonzero(state.sign * tuples.value >= state.reals[0]["floor"])))
        return resume_extremes(self._state, tuples, existence, middle, self.rows)

    def _grow(self, outcomes: int = 0) -> None:
        state, marks = self._state, self._state.marks[0]
        outcomes = max(outcomes, int(marks["limit"]))
        wanted = dict.fromkeys(("places", "facts", "outcomes", "owner"), outcomes)
        wanted["saved"] = int(marks["saved_needed"])
        for name, room in wanted.items():
            array = getattr(state, name)
            if room > len(array):
                state = state._replace(**{name: longer(array, room * 5 // 4)})
        self._state = state


def _empty(rows: int, sign: float) -> ExtremesState:
    return ExtremesState(
        sign=sign,
        front=np.zeros((2, rows + 2)),
        saved=np.zeros(0),
        places=np.zeros(0, kernel.PLACES),
        facts=np.zeros(0, kernel.FACTS),
        outcomes=np.zeros(0, kernel.OUTCOME),
        owner=np.zeros(0, np.int64),
        marks=np.zeros(1, kernel.MARKS),
        reals=np.zeros(1, kernel.REALS),
    )
