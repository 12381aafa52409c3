"""Mean and variance of the average over a count window, updated by every arrival."""

import numpy as np

from sfumato.kernels.windows.count import average_state as kernel
from sfumato.kernels.windows.count.average_state import AverageState
from sfumato.kernels.windows.count.count_window_average import resume_average, slide_average
from sfumato.kernels.windows.held_tuples import HeldTuples
from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.windows.resumable_state import with_room


class MovingAverage:
    """Mean and variance of the average of the `rows` newest existing tuples' values.

    rows : int >= 1

    It follows a `MovingMoments` over the same tuples: its older part ends where that one's does.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._state = empty_average(rows)

    def extend(self, tuples: HeldTuples, heads: Ints, moved: np.ndarray) -> Floats:
        """Answers after each arrival: float64[k, 3], see `slide_average` for all arguments."""
        out, done = np.empty((heads.size, 3)), 0
        missing = np.zeros(tuples.offsets.size, np.int64)
        gaps = np.maximum.reduceat(np.isnan(tuples.value), tuples.offsets[:-1])
        np.cumsum(gaps, out=missing[1:])
        while True:
            done = slide_average(self._state, tuples, heads, done, self.rows, missing, moved, out)
            if done == heads.size:
                return out
            self._grow()

    def clear(self) -> None:
        """Be as a new one; what memory there is stays."""
        self._state.marks.view(np.int64).fill(0)

    @property
    def memo(self) -> Ints:
        """int64[k, 2], what does not follow from the held tuples: see `grown` of AverageState."""
        return self._state.grown[: self._state.marks[0]["grown"]].copy()

    def resume(self, memo: Ints, middle: int, reference: float, tuples: HeldTuples) -> None:
        """Go on as the one whose `memo` this is; middle, reference : those of its moments."""
        if middle < 0:
            return
        room, cells = len(self._state.grown), memo[:, 1]
        if len(memo) > room or ((cells < 0) | (cells > self.rows)).any():
            raise ValueError("it cannot have had these cells in use")
        middle = max(middle - tuples.first, 0)
        while not resume_average(self._state, tuples, middle, reference, self.rows, memo):
            self._grow()

    def _grow(self) -> None:
        self._state = with_room(self._state)


def empty_average(rows: int) -> AverageState:
    width = rows + kernel.LEAD + kernel.PAD
    short = np.arange(1, rows)
    table = np.zeros((2, width))
    table[0, 1:rows] = short / (rows - short)
    table[1] = table[0] ** 2
    return AverageState(
        table=table,
        front=np.zeros((6, width)),
        law=np.zeros((3, width)),
        work=np.zeros((2, 3, width)),
        saved=np.zeros(0),
        extent=np.zeros(0, kernel.EXTENT),
        rows=np.zeros((0, 3, 0)),
        bands=np.zeros((0, 2), np.int64),
        grown=np.zeros((int(rows**0.5) + 4, 2), np.int64),
        marks=np.zeros(1, kernel.MARKS),
    )
