"""What a top-k window holds, and which of it is inside at an instant."""

import numpy as np

from sfumato.operators.arrays import Ints
from sfumato.operators.ranking.top_k_config import TopKWindowConfig
from sfumato.operators.ranking.window_tuples import HeldTuples
from sfumato.operators.state.declared import Optional, Part, Record, Value
from sfumato.operators.state.stateful import Stateful
from sfumato.operators.windows.uncertain_window import UncertainWindow

NEVER = -(2**62)


class WindowContent(Stateful):
    """The tuples that a window of some length, or of so many rows, may still need.

    latest : no instant up to here is open    held_tuples : in order of arrival
    """

    config: TopKWindowConfig
    state = {
        "count": Optional(Part("_new_count")),
        "reach": Value(low=0),
        "held_tuples": Record(HeldTuples),
        "latest": Value(),
    }

    def __init__(self, config: TopKWindowConfig) -> None:
        self.config, self.latest = config, NEVER
        self.count = self._new_count() if config.confidence is not None else None
        self._reach = np.zeros(1, np.int64)  # oldest tuple held: before a call, after each arrival
        self._ordered = True  # whether the tuples held have ascending times
        self.held_tuples = HeldTuples.none()

    def reach_of(self, fresh: HeldTuples) -> Ints:
        """int64[n]: the oldest tuple's number that a window of `rows` holds behind each arrival."""
        if self.config.rows is None:
            return np.zeros(fresh.size, np.int64)
        if self.count is not None:
            existence = np.add.reduceat(fresh.prob, fresh.begin[:-1]) if fresh.size else np.empty(0)
            return self.count.extend(np.minimum(existence, 1.0))
        # By arrival numbers: a tuple left out counts, whether it is dropped already or not.
        return np.maximum(fresh.row + 1 - self.config.rows, 0)

    def enter(self, fresh: HeldTuples, reach: Ints) -> None:
        """Take arrivals, and what `reach_of` them is."""
        self._reach = np.concatenate([self._reach[-1:], reach])
        if fresh.size:
            self.held_tuples = HeldTuples.joined([self.held_tuples, fresh])
            self._ordered = bool((np.diff(self.held_tuples.time) >= 0).all())

    def moved_on(self, held: HeldTuples, reach: int, ordered: bool) -> None:
        """Have come to hold just these tuples. ordered : whether all times ascend"""
        self.held_tuples, self.reach, self._ordered = held, reach, ordered

    def at(self, instant: int, before: int, reached: int) -> Ints:
        """Places of the held tuples that are in the window at `instant`, in order of arrival:
        those held `before` this call and the first `reached` of it are there already."""
        held, visible = self.held_tuples, before + reached
        if self.config.length is not None:
            return held.between(instant - self.config.length, instant, visible, self._ordered)
        return self._newest(visible, reached)

    def _newest(self, visible: int, reached: int) -> Ints:
        """Places of those that a window of `rows` holds after that arrival of this call."""
        held = self.held_tuples
        return np.flatnonzero(held.valid[:visible] & (held.row[:visible] >= self._reach[reached]))

    def is_over(self, instant: int, visible: int) -> bool:
        """Whether no tuple that has arrived can be in a later window."""
        later = self.held_tuples.time[:visible] >= instant
        return self.config.length is not None and not later.any()

    def forget(self) -> None:
        """Drop the tuples that no window of a later instant can hold."""
        held = self.held_tuples
        if self.config.length is not None:
            live = held.valid & (held.time > self.latest - self.config.length)
            places = np.flatnonzero(live)
        else:
            places = self._newest(held.size, -1)
        if places.size < held.size:
            self.held_tuples = held.take(places)

    @property
    def reach(self) -> int:
        """Number of the oldest tuple that a window of `rows` holds."""
        return int(self._reach[-1])

    @reach.setter
    def reach(self, number: int) -> None:
        self._reach = np.array([number])

    def _new_count(self) -> UncertainWindow:
        rows, confidence = self.config.rows or 0, self.config.confidence or 0.0
        return UncertainWindow(rows, confidence, max_tuples=self.config.max_tuples)

    def after_loading(self) -> None:
        if (self.count is None) != (self.config.confidence is None):
            raise ValueError("a window with a confidence has an uncertain window, others none")
        self._ordered = bool((np.diff(self.held_tuples.time) >= 0).all())
