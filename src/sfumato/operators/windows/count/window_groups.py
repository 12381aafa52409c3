"""What a group of a count window aggregate keeps."""

import numpy as np

from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.state.declared import Array, Offsets, Part
from sfumato.operators.state.tuple_batch import check_held
from sfumato.operators.windows.count.moving_aggregates import MovingAggregates
from sfumato.operators.windows.count.window_laws import Arrivals
from sfumato.operators.windows.resting_group import RestingGroup, packed, unpacked
from sfumato.operators.windows.uncertain_window import HeldExistence, UncertainWindow


class WindowGroup(RestingGroup):
    """One group's window, the tuples it holds, and what every arrival updates."""

    state = {
        "window": Part(),
        "offsets": Offsets("held", "alternatives"),
        "prob": Array(float, "alternatives", low=0.0),
        "values": Array(float, "alternatives", "attributes"),
        "memo": Array(int, None),
        "numbers": Array(float, None),
    }

    def __init__(self, window: UncertainWindow, attributes: int, moving: MovingAggregates) -> None:
        self.window, self.moving, self._attributes = window, moving, attributes
        self._begin()

    def _begin(self) -> None:
        self.offsets: Ints = np.zeros(1, np.int64)
        self.prob: Floats = np.empty(0)
        self.values: Floats = np.empty((0, self._attributes))
        self.memo: Ints = np.empty(0, np.int64)  # of `moving`, to be saved
        self.numbers: Floats = np.empty(0)
        self._moved = True  # since the memo was taken

    def lengths(self) -> dict[str, int]:
        return {"attributes": self._attributes}

    def before_saving(self) -> None:
        if self._moved:
            (self.memo, self.numbers), self._moved = self.moving.memo, False

    def after_loading(self) -> None:
        check_held(self.offsets, self.prob, self.values)
        if not np.array_equal(self.window.indices, np.arange(self.first, self.window.arrived)):
            raise ValueError("the window must hold its newest tuples, and their alternatives")
        self._resume()  # raises for what is damaged

    def _resume(self) -> None:
        none = np.empty(0, np.int64)
        held = Arrivals(self.offsets, self.prob, self.values, self.first, 0, none)
        self.moving.resume((self.memo, self.numbers), held)
        self._moved = False

    def rest(self) -> Ints:
        self.before_saving()
        window = self.window.saved
        marks = np.array([window.arrived, window.overflow, window.short])
        reals = window.sums, window.existence, self.prob, self.values.ravel(), self.numbers
        rested = packed((marks, window.indices, self.offsets, self.memo), reals)
        self.window.clear()
        self.moving.clear()
        self._begin()
        return rested

    def recall(self, rested: Ints) -> None:
        (marks, indices, self.offsets, self.memo), reals = unpacked(rested, 4, 5)
        sums, existence, self.prob, values, self.numbers = reals
        self.values = values.reshape(self.prob.size, self._attributes)
        self.window.recall(HeldExistence(existence, indices, sums, *marks.tolist()))
        self._moved = False

    def wake(self, rested: Ints) -> None:
        self.recall(rested)
        self._resume()

    @property
    def first(self) -> int:
        """Stream index of the oldest tuple held, or of the next to come."""
        return self.window.arrived - (self.offsets.size - 1)

    def keep(self, a: Arrivals) -> None:
        """Only what the window still holds."""
        head = int(a.heads[-1])
        begin = int(a.offsets[head])
        self.offsets = a.offsets[head:] - begin
        self.prob, self.values = a.prob[begin:].copy(), a.values[begin:].copy()
        self._moved = True
