"""The uncertain count windows of a join, one for each key and side, and the tuples they hold."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.kernels.joins.tuple_store import (
    Tuples,
    Windows,
    assign_slots,
    compact_blocks,
    held_numbers,
    move_windows,
    padded,
    read_tuples,
    repack,
    windows_to_move,
    write_tuples,
)
from sfumato.operators.joins.join_strategy import Batch, Strategy
from sfumato.operators.windows.uncertain_window import UncertainWindow

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class JoinWindows:
    """Tuples of all windows, in slots (see `kernels.uncertain_tuples`), and where windows begin.

    A window's code is 2 * key + side. What a window holds depends on existences alone, so that
    it is known for a whole batch before any tuple is matched (Algorithm 2).

    A window whose tuples have all had existence 1 is the plain one of the newest `rows`. Others
    have an `UncertainWindow`, made from the held tuples when it is first needed; it is no state
    of its own, as its decisions depend on nothing but these.
    """

    def __init__(
        self,
        dimensions: int,
        rows: int,
        confidence: float,
        probability: float,
        max_tuples: int | None,
        strategy: Strategy,
    ) -> None:
        self.dimensions = dimensions
        self.rows = rows
        self.confidence = confidence
        self.probability = probability
        self.max_tuples = max_tuples
        self.strategy = strategy
        self.overflow = 0
        self.tuples = _lines(0, strategy.columns, np.empty(0))
        self.windows = _windows(0)
        self._used = 0  # places of `blocks` written
        self._end = 0  # slots given out
        self._uncertain: dict[int, UncertainWindow] = {}

    def admit(
        self,
        code: Ints,
        numbers: Ints,
        existence: Floats,
        offsets: Ints,
        prob: Floats,
        points: Floats,
    ) -> Batch:
        """Write arrivals behind their windows and find where each window begins after each.

        The windows do not move yet: that is for the join, which sees them arrival by arrival.
        """
        arriving = self._write(code, numbers, existence, offsets, prob, points)
        slots = assign_slots(self.windows, code)
        self.strategy.written(self.tuples, slots)
        return Batch(code, slots, self._begins(code, slots, existence, arriving))

    def load(
        self,
        code: Ints,
        numbers: Ints,
        existence: Floats,
        offsets: Ints,
        prob: Floats,
        points: Floats,
    ) -> None:
        """Put tuples into their windows, in order, as `held` gave them."""
        arriving = self._write(code, numbers, existence, offsets, prob, points)
        self.strategy.written(self.tuples, assign_slots(self.windows, code))
        self.windows.tail[:] += arriving
        self.strategy.resized(self.tuples, self.windows)
        for w in np.unique(code[existence < 1.0]):
            self._window(int(w))  # not a plain window, even if all that arrives next is certain

    def held(self) -> dict[str, np.ndarray]:
        """All tuples held, window after window, as the arguments of `load`."""
        sizes = self.windows.tail - self.windows.head
        code = np.repeat(np.arange(sizes.size), sizes)
        slots = np.arange(code.size) + np.repeat(
            self.windows.head - (np.cumsum(sizes) - sizes), sizes
        )
        offsets, prob, points = read_tuples(self.tuples, slots, self.dimensions)
        return {
            "code": code,
            "numbers": self.tuples.number[slots],
            "existence": self.tuples.existence[slots],
            "offsets": offsets,
            "prob": prob,
            "points": points,
        }

    def numbers(self, side: int) -> Ints:
        """Numbers of the tuples held on a side."""
        result: Ints = held_numbers(self.tuples, self.windows, side)
        return result

    @property
    def size(self) -> int:
        """Tuples held in all windows."""
        return int((self.windows.tail - self.windows.head).sum())

    def _write(
        self,
        code: Ints,
        numbers: Ints,
        existence: Floats,
        offsets: Ints,
        prob: Floats,
        points: Floats,
    ) -> Ints:
        """Make room and write lines and blocks; how many tuples each window gets."""
        self._reserve_windows(int(code.max(initial=-1)) // 2 * 2 + 2)
        arriving = np.bincount(code, minlength=self.windows.head.size)
        self._reserve_slots(arriving)
        counts = np.diff(offsets)
        self._reserve_blocks((self.dimensions + 1) * int(padded_sum(counts)))
        slots = assign_slots(self.windows, code)
        self._used = write_tuples(
            self.tuples, slots, offsets, prob, points, existence, numbers, self._used
        )
        return arriving

    def _begins(self, code: Ints, slots: Ints, existence: Floats, arriving: Ints) -> Ints:
        begins = np.maximum(self.windows.head[code], slots + 1 - self.rows)
        exact = self._special(code, existence, arriving)
        if exact is None:
            return begins
        order = np.argsort(code, kind="stable")
        ends = np.cumsum(arriving)
        for w in np.flatnonzero(exact):
            places = order[ends[w] - arriving[w] : ends[w]]
            window = self._window(int(w))
            shift = slots[places[0]] - window.arrived
            before = window.overflow
            begins[places] = window.extend(existence[places]) + shift
            self.overflow += window.overflow - before
        return begins

    def _special(
        self, code: Ints, existence: Floats, arriving: Ints
    ) -> npt.NDArray[np.bool_] | None:
        """Which windows with arrivals are not plain ones; None if there are none."""
        if self.max_tuples is not None and self.max_tuples < self.rows:
            return arriving > 0
        uncertain = existence < 1.0
        if not self._uncertain and not uncertain.any():
            return None
        special = np.bincount(code[uncertain], minlength=arriving.size) > 0
        known = np.fromiter(self._uncertain, np.int64, len(self._uncertain))
        special[known] = True
        return special & (arriving > 0)

    def _window(self, w: int) -> UncertainWindow:
        window = self._uncertain.get(w)
        if window is None:
            window = self._uncertain[w] = UncertainWindow(
                self.rows, self.confidence, self.probability, max_tuples=self.max_tuples
            )
            window.extend(self.tuples.existence[self.windows.head[w] : self.windows.tail[w]])
        return window

    def _reserve_windows(self, needed: int) -> None:
        known = self.windows.head.size
        if needed <= known:
            return
        larger = _windows(max(needed, 2 * known))
        for new, old in zip(larger, self.windows, strict=True):
            new[:known] = old
        self.windows = larger
        self.strategy.resized(self.tuples, self.windows)

    def _reserve_slots(self, arriving: Ints) -> None:
        tuples, windows = self.tuples, self.windows
        moves = np.empty((int(np.count_nonzero(arriving)), 3), np.int64)
        count, end = windows_to_move(windows, arriving, self._end, tuples.at.size, moves)
        if count > 0:
            moves = moves[:count]
            self.strategy.leaving(windows, moves)
            move_windows(tuples, windows, moves)
            self._end = end
            self.strategy.moved(tuples, windows, moves)
        elif count < 0:
            nothing = _lines(0, self.strategy.columns, tuples.blocks)
            room = repack(tuples, windows, arriving, nothing)
            self.tuples = _lines(2 * room, self.strategy.columns, tuples.blocks)
            self._end = repack(tuples, windows, arriving, self.tuples)
            self.strategy.resized(self.tuples, windows)

    def _reserve_blocks(self, needed: int) -> None:
        if self._used + needed <= self.tuples.blocks.size:
            return
        live = compact_blocks(self.tuples, self.windows, self.dimensions, np.empty(0))
        blocks = np.empty(2 * (live + needed))
        self._used = compact_blocks(self.tuples, self.windows, self.dimensions, blocks)
        self.tuples = self.tuples._replace(blocks=blocks)
        self.strategy.repacked(self.tuples, self.windows)


def padded_sum(counts: Ints) -> Ints:
    """Length of rows for tuples of these numbers of samples, together."""
    return np.sum(padded.py_func(counts))


def _lines(slots: int, columns: int, blocks: Floats) -> Tuples:
    return Tuples(
        blocks=blocks,
        at=np.empty(slots, np.int64),
        samples=np.empty(slots, np.int64),
        existence=np.empty(slots),
        number=np.empty(slots, np.int64),
        summary=np.empty((slots, columns)),
    )


def _windows(count: int) -> Windows:
    return Windows(*(np.zeros(count, np.int64) for _ in range(4)))
