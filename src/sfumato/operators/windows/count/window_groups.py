"""What a group of a count window aggregate keeps."""

from __future__ import annotations

import numpy as np

from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.state.declared import Array, Offsets, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.operators.state.tuple_batch import check_held
from sfumato.operators.windows.count.moving_aggregates import MovingAggregates
from sfumato.operators.windows.count.window_laws import Arrivals
from sfumato.operators.windows.uncertain_window import UncertainWindow


class WindowGroup(Stateful):
    """One group's window, the tuples it holds, and what every arrival updates.

    At rest it has only what is saved, a few times smaller, and is to be woken before the next
    arrival. A loaded one is at rest.
    """

    state = {
        "window": Part(),
        "offsets": Offsets("held", "alternatives"),
        "prob": Array(float, "alternatives", low=0.0),
        "values": Array(float, "alternatives", "attributes"),
        "memo": Array(int, None),
        "numbers": Array(float, None),
    }

    moving: MovingAggregates | None

    def __init__(self, window: UncertainWindow, attributes: int, moving: MovingAggregates) -> None:
        self.window, self.moving, self._attributes = window, moving, attributes
        self.offsets: Ints = np.zeros(1, np.int64)
        self.prob: Floats = np.empty(0)
        self.values: Floats = np.empty((0, attributes))
        self.memo: Ints = np.empty(0, np.int64)  # of `moving`, to be saved
        self.numbers: Floats = np.empty(0)

    def lengths(self) -> dict[str, int]:
        return {"attributes": self._attributes}

    def before_saving(self) -> None:
        if self.moving is not None:
            self.memo, self.numbers = self.moving.memo

    def after_loading(self) -> None:
        check_held(self.offsets, self.prob, self.values)
        if not np.array_equal(self.window.indices, np.arange(self.first, self.window.arrived)):
            raise ValueError("the window must hold its newest tuples, and their alternatives")
        assert self.moving is not None
        self.wake(self.moving)  # raises for what is damaged
        self.moving = None

    def rest(self) -> MovingAggregates:
        """Keep only what is saved; what is given back may serve another group."""
        assert self.moving is not None
        self.before_saving()
        given, self.moving = self.moving, None
        return given

    def wake(self, fresh: MovingAggregates) -> None:
        """Go on with `fresh`, which has seen nothing, as if there had been no rest."""
        none = np.empty(0, np.int64)
        held = Arrivals(self.offsets, self.prob, self.values, self.first, 0, none)
        fresh.resume((self.memo, self.numbers), held)
        self.moving = fresh

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
