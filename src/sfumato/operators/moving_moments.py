"""Mean and variance of the sum over a count window, kept up with every arrival."""

from __future__ import annotations

import numpy as np

from sfumato.kernels import moment_planes as kernel
from sfumato.kernels.count_window_moments import MOVED, resume_moments, slide_moments
from sfumato.kernels.moment_planes import WindowMoments
from sfumato.operators.aggregate import Floats, Ints


class MovingMoments:
    """Mean and variance of the sum, and of the count, of the `rows` newest existing tuples.

    rows : int >= 1
    limit : int in [1, rows], most tuples of the newer part: what the window may hold, if less
    laws : whether laws of the count are wanted as well

    The tuples themselves are the caller's. Between two calls this keeps where its older part
    ends and the laws of both parts; `memo` and `resume` save and bring back the little that does
    not follow from the held tuples.
    """

    def __init__(self, rows: int, limit: int, laws: bool = False) -> None:
        self.rows, self.limit, self.laws = rows, limit, laws
        self._state = _empty(rows)

    def extend(
        self, offsets: Ints, prob: Floats, value: Floats, first: int, begin: int, heads: Ints
    ) -> tuple[Floats, tuple[Ints, Floats, Floats]]:
        """Answers after each arrival: float64[k, MOVED], see `slide_moments` for all arguments;
        and laws of the count: where each one's entries begin, int64[k + 1] (int64[0] for no laws
        at all), their probabilities and values."""
        out, done = np.empty((heads.size, MOVED)), 0
        places = np.zeros(heads.size + 1 if self.laws else 0, np.int64)
        to_prob = np.empty(self.laws * (self.rows + 1 + 32 * heads.size))
        to_count = np.empty_like(to_prob)
        while True:
            done = slide_moments(
                self._state, offsets, prob, value, first, begin, done, heads, self.rows,
                self.limit, out, places, to_prob, to_count,
            )  # fmt: skip
            if done == heads.size:
                end = int(places[-1]) if self.laws else 0
                return out, (places, to_prob[:end], to_count[:end])
            self._grow()
            if self.laws and places[done] + self.rows + 1 > to_prob.size:
                more = np.empty(self.rows + 1 + to_prob.size // 2)
                to_prob, to_count = np.append(to_prob, more), np.append(to_count, more)

    @property
    def memo(self) -> tuple[int, float, float]:
        """Stream index where the older part ends, and two numbers the values do not tell; the
        index is -1 before the first arrival."""
        marks, reals = self._state.marks, self._state.reals
        middle = int(marks[kernel.MID]) if marks[kernel.BUILT] else -1
        return middle, float(reals[kernel.REFERENCE]), float(reals[kernel.RATIO])

    def resume(
        self,
        memo: tuple[int, float, float],
        offsets: Ints,
        prob: Floats,
        value: Floats,
        first: int,
    ) -> None:
        """Go on as the one whose `memo` this is, over the tuples it held."""
        middle, reference, ratio = memo
        if middle < 0:
            return
        reals = self._state.reals
        reals[kernel.REFERENCE], reals[kernel.RATIO] = reference, ratio
        middle = max(middle - first, 0)
        while not resume_moments(self._state, offsets, prob, value, first, middle, self.rows):
            self._grow()

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of the state."""
        return sum(array.nbytes for array in self._state)

    def _grow(self) -> None:
        state, marks = self._state, self._state.marks
        blocks = int(marks[kernel.BLOCKS_NEEDED]) + 1
        if blocks > len(state.extent):
            state = state._replace(
                extent=np.zeros((blocks, 5), np.int64), facts=np.zeros((blocks, kernel.FACTS))
            )
        needed, width = int(marks[kernel.SAVED_NEEDED]), int(marks[kernel.WIDTH_NEEDED])
        if needed > state.saved.size:
            state = state._replace(saved=np.zeros(needed * 5 // 4))
        stride = 1 << int(marks[kernel.SHIFT])
        if stride > state.rows.shape[0] or width > state.rows.shape[2]:
            width = max(width * 5 // 4, state.rows.shape[2])
            state = state._replace(
                rows=np.zeros((stride, 4, width)),
                bands=np.zeros((stride, 2), np.int64),
                row_facts=np.zeros((stride, kernel.FACTS)),
            )
        self._state = state


def _empty(rows: int) -> WindowMoments:
    width = rows + kernel.LEAD + kernel.PAD
    return WindowMoments(
        front=np.zeros((5, width)),
        work=np.zeros((2, 4, width)),
        saved=np.zeros(0),
        extent=np.zeros((0, 5), np.int64),
        facts=np.zeros((0, kernel.FACTS)),
        rows=np.zeros((0, 4, 0)),
        bands=np.zeros((0, 2), np.int64),
        row_facts=np.zeros((0, kernel.FACTS)),
        marks=np.zeros(kernel.MARKS, np.int64),
        reals=np.zeros(kernel.REALS),
    )
