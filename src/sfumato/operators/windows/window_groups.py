"""What the groups of a count window aggregate keep, and how their answers become one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.operators.laws.aggregate import Floats, Ints, Measured
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


def join(parts: list[Measured], back: Ints, shares: int, distribution: int | None) -> Measured:
    """The groups' answers as one, in the order of arrival: answer i is `back[i]` of theirs."""
    if not parts:
        none = np.empty(0)
        nothing = Measured(none, none, none, np.empty((0, shares)), none)
        places = np.zeros(1, np.int64)
        return (
            nothing
            if distribution is None
            else replace(nothing, offsets=places, prob=none, value=none, moved=none)
        )

    def all_of(name: str) -> Any:
        return np.concatenate([getattr(part, name) for part in parts])

    names = ("mean", "stddev", "existence", "quantiles", "error")
    joined = [all_of(name)[back] for name in names]
    if distribution is None:
        return Measured(*joined)
    sizes = np.concatenate([np.diff(part.offsets) for part in parts if part.offsets is not None])
    places, prob, value = take(back, offsets_of(sizes), all_of("prob"), all_of("value"))
    measured, moved = Measured(*joined), all_of("moved")[back]
    return replace(measured, offsets=places, prob=prob, value=value, moved=moved)


def offsets_of(sizes: npt.NDArray[Any]) -> Ints:
    """Where parts of these sizes begin, one after the other, and where the last ends."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets
