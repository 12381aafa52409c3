"""Mean and variance of the average over a count window, kept up with every arrival."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.windows import average_state as kernel
from sfumato.kernels.windows.average_state import AveragePlanes
from sfumato.kernels.windows.count_window_average import resume_average, slide_average
from sfumato.operators.laws.aggregate import Floats, Ints
from sfumato.operators.windows.resumable_state import with_room


class MovingAverage:
    """Mean and variance of the average of the `rows` newest existing tuples' values.

    rows : int >= 1

    It follows a `MovingMoments` over the same tuples: its older part ends where that one's does.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._state = _empty(rows)

    def extend(
        self, offsets: Ints, prob: Floats, value: Floats, first: int, begin: int, heads: Ints,
        moved: Floats,
    ) -> Floats:  # fmt: skip
        """Answers after each arrival: float64[k, 3], see `slide_average` for all arguments."""
        out, done = np.empty((heads.size, 3)), 0
        missing = np.zeros(offsets.size, np.int64)
        np.cumsum(np.maximum.reduceat(np.isnan(value), offsets[:-1]), out=missing[1:])
        while True:
            done = slide_average(
                self._state, offsets, prob, value, first, begin, done, heads, self.rows, missing,
                moved, out,
            )  # fmt: skip
            if done == heads.size:
                return out
            self._grow()

    @property
    def gone_through(self) -> int:
        """Arrivals so far whose window was gone through, tuple by tuple."""
        return int(self._state.marks[kernel.GONE_THROUGH])

    @property
    def memo(self) -> Ints:
        """int64[k, 2], what does not follow from the held tuples: see `grown` of AveragePlanes."""
        return self._state.grown[: self._state.marks[kernel.GROWN]].copy()

    def resume(
        self,
        memo: Ints,
        middle: int,
        reference: float,
        offsets: Ints,
        prob: Floats,
        value: Floats,
        first: int,
    ) -> None:
        """Go on as the one whose `memo` this is; middle, reference : those of its moments."""
        if middle < 0:
            return
        middle = max(middle - first, 0)
        while not resume_average(
            self._state, offsets, prob, value, first, middle, reference, self.rows, memo
        ):
            self._grow()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of the state."""
        return sum(array.nbytes for array in self._state)

    def _grow(self) -> None:
        self._state = with_room(self._state, kernel)


def _empty(rows: int) -> AveragePlanes:
    width = rows + kernel.LEAD + kernel.PAD
    short = np.arange(1, rows)
    table = np.zeros((2, width))
    table[0, 1:rows] = short / (rows - short)
    table[1] = table[0] ** 2
    return AveragePlanes(
        table=table,
        front=np.zeros((6, width)),
        law=np.zeros((3, width)),
        work=np.zeros((2, 3, width)),
        saved=np.zeros(0),
        extent=np.zeros((0, 3), np.int64),
        rows=np.zeros((0, 3, 0)),
        bands=np.zeros((0, 2), np.int64),
        grown=np.zeros((int(rows**0.5) + 4, 2), np.int64),
        marks=np.zeros(kernel.MARKS, np.int64),
    )
