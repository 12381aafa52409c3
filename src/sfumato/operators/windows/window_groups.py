"""What the groups of a count window aggregate keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.operators.laws.aggregate import Floats, Ints
from sfumato.operators.windows.moving_aggregates import MovingAggregates
from sfumato.operators.windows.uncertain_window import UncertainWindow
from sfumato.operators.windows.window_laws import Arrivals


@dataclass
class WindowGroup:
    """One group's window, the tuples it holds, and what is kept up with every arrival."""

    window: UncertainWindow
    offsets: Ints
    prob: Floats
    values: Floats
    moving: MovingAggregates

    @property
    def first(self) -> int:
        """Stream index of the oldest tuple held, or of the next to come."""
        return self.window.arrived - (self.offsets.size - 1)

    @property
    def nbytes(self) -> int:
        arrays = (self.offsets, self.prob, self.values)
        held = sum(array.nbytes for array in arrays)
        return held + self.window.nbytes + self.moving.nbytes

    def keep(self, a: Arrivals) -> None:
        """Only what the window still holds."""
        head = int(a.heads[-1])
        begin = int(a.offsets[head])
        self.offsets = a.offsets[head:] - begin
        self.prob, self.values = a.prob[begin:].copy(), a.values[begin:].copy()


def take(rows: Ints, offsets: Ints, prob: Floats, values: Floats) -> tuple[Ints, Floats, Floats]:
    """The tuples of these rows, in their order."""
    samples = np.diff(offsets)[rows]
    new = offsets_of(samples)
    places = np.repeat(offsets[rows] - new[:-1], samples) + np.arange(new[-1])
    return new, prob[places], values[places]


def offsets_of(sizes: npt.NDArray[Any]) -> Ints:
    """Where parts of these sizes begin, one after the other, and where the last ends."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets
