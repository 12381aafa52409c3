"""Laws of the largest or smallest value of a count window, kept up with every arrival."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.laws.existence import existences
from sfumato.kernels.windows import extremes_state as kernel
from sfumato.kernels.windows.count_window_extremes import resume_extremes, slide_extremes
from sfumato.kernels.windows.extremes_state import ExtremePlanes
from sfumato.operators.laws.aggregate import Floats, Ints
from sfumato.operators.windows.resumable_state import TwoParts


class MovingExtremes(TwoParts):
    """Laws of the largest (or smallest) value of the `rows` newest existing tuples.

    rows : int >= 1
    limit : int in [1, rows], most tuples of the newer part: what the window may hold, if less
    sign : 1.0 for the largest, -1.0 for the smallest
    """

    def __init__(self, rows: int, limit: int, sign: float) -> None:
        self.rows, self.limit, self.sign = rows, limit, sign
        self._state = _empty(rows)

    def extend(
        self, offsets: Ints, prob: Floats, value: Floats, first: int, begin: int, heads: Ints
    ) -> tuple[Ints, Floats, Floats]:
        """Laws after each arrival, see `slide_extremes` for all arguments: where each one's
        entries begin, int64[k + 1], their probabilities and values."""
        existence, done = existences(offsets, prob), 0
        places = np.zeros(heads.size + 1, np.int64)
        to_prob, to_value = np.empty(16 * heads.size), np.empty(16 * heads.size)
        while True:
            done = slide_extremes(
                self._state, offsets, prob, value, existence, first, begin, done, heads, self.rows,
                self.limit, self.sign, places, to_prob, to_value,
            )  # fmt: skip
            if done == heads.size:
                return places, to_prob[: places[-1]], to_value[: places[-1]]
            self._grow()
            room = int(places[done] + self._state.marks[kernel.LIMIT])
            if room > to_prob.size:
                more = np.empty(room + to_prob.size // 2)
                to_prob, to_value = np.append(to_prob, more), np.append(to_value, more)

    @property
    def memo(self) -> tuple[int, float, float]:
        marks = self._state.marks
        middle = int(marks[kernel.MID]) if marks[kernel.BUILT] else -1
        return middle, float(self._state.reals[kernel.FLOOR]), float(marks[kernel.LIMIT])

    def _recall(self, first: float, second: float) -> None:
        self._state.reals[kernel.FLOOR] = first
        self._state.marks[kernel.LIMIT] = int(second)

    def _rebuilt(self, offsets: Ints, prob: Floats, value: Floats, first: int, middle: int) -> bool:
        return resume_extremes(
            self._state, offsets, prob, value, existences(offsets, prob), first, middle,
            self.rows, self.sign,
        )  # fmt: skip

    def _grow(self) -> None:
        state, marks = self._state, self._state.marks
        room, needed = int(marks[kernel.LIMIT]), int(marks[kernel.SAVED_NEEDED])
        if room > state.owner.size:
            state = state._replace(
                places=_longer(state.places, room),
                facts=_longer(state.facts, room),
                outcomes=_longer(state.outcomes, room),
                owner=_longer(state.owner, room),
            )
        if needed > state.saved.size:
            state = state._replace(saved=_longer(state.saved, needed))
        self._state = state


def _longer(array: np.ndarray, room: int) -> np.ndarray:
    """With its entries, and room to spare."""
    longer = np.zeros((room * 5 // 4, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _empty(rows: int) -> ExtremePlanes:
    return ExtremePlanes(
        front=np.zeros((2, rows + 2)),
        saved=np.zeros(0),
        places=np.zeros((0, 4), np.int64),
        facts=np.zeros((0, kernel.FACTS)),
        outcomes=np.zeros((0, kernel.COLUMNS)),
        owner=np.zeros(0, np.int64),
        marks=np.zeros(kernel.MARKS, np.int64),
        reals=np.zeros(kernel.REALS),
    )
