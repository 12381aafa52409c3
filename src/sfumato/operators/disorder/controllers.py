"""Many disorder controllers as arrays: their states, the memory they share, and its growth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from sfumato.kernels.disorder import conformal_experts, normal_delay, state
from sfumato.kernels.disorder.clock_guard import WARM_UP
from sfumato.kernels.disorder.controller import punctuate
from sfumato.kernels.disorder.state import ALWAYS, CONTROLLER, new_controllers
from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.disorder.damage import check_controllers
from sfumato.operators.state.declared import Array, Declaration
from sfumato.operators.state.stateful import Stateful

COUNTERS = (
    "count",
    "late",
    "after_idle",
    "stale",
    "premature",
    "future",
    "forced",
    "expelled",
    "out_of_order",
)


class Controllers(Stateful):
    """The disorder controllers with codes 0, 1, 2, ...: compiled logic over arrays of state.

    Cost of a call: some 5 microseconds, and per row what `kernels.disorder.controller` says.
    """

    state: ClassVar[Mapping[str, Declaration]] = {
        "bytes_of_states": Array(np.uint8, "controllers", CONTROLLER.itemsize),
        "memory": Array(int, "memory"),
        "forgotten": Array(int, len(COUNTERS), low=0),
    }

    def __init__(self, control: DisorderControl) -> None:
        self.control = control
        self._kernel = control.kernel
        self._states = new_controllers(0)
        self._memory = np.zeros(0, np.int64)
        self._used = 0  # numbers of `_memory` given out,
        self._left = 0  # and those of them that nobody uses any more
        self._size = 0
        self._counts = dict.fromkeys(COUNTERS, 0)
        self.forgotten = np.zeros(len(COUNTERS), np.int64)  # counts of those forgotten

    def __len__(self) -> int:
        return self._size

    @property
    def states(self) -> np.ndarray:
        """CONTROLLER[n]: a view, not a copy."""
        return self._states[: self._size]

    @property
    def punctuation(self) -> np.ndarray:
        """int64[n] microseconds: the punctuations in force, the int64 minimum where none is."""
        return np.maximum(self.states["punctuation"], self.states["floor"])

    def punctuation_of(self, codes: np.ndarray) -> np.ndarray:
        """int64[k] microseconds: the punctuations in force of these controllers."""
        states = self.states
        return np.maximum(states["punctuation"][codes], states["floor"][codes])

    def horizon_of(self, codes: np.ndarray) -> np.ndarray:
        """int64[k]: the largest event times their guards believe; the int64 maximum: any."""
        states = self.states
        last = states["clock"][codes] - states["bound"][codes]
        return np.where(states["guarded"][codes] == 1, last, ALWAYS)

    @property
    def counters(self) -> dict[str, int]:
        """Totals: rows; late (on arrival), of them stale and after_idle; future (those too far
        ahead, which are late, and those held until their time); expelled (held, but late in the
        end); forced (arrivals at which a full buffer pushed the punctuation); out_of_order. O(1).
        """
        counts = dict(self._counts)
        counts["rows"] = counts.pop("count")
        for reason in ("stale", "premature", "after_idle"):
            counts["late"] += counts[reason]
        counts["future"] += counts.pop("premature")
        return counts

    def grow(self, wanted: int) -> None:
        """There are controllers up to code `wanted` - 1 from now on."""
        if wanted > len(self._states):
            fresh = new_controllers(max(wanted, 2 * len(self._states)) - len(self._states))
            self._states = np.concatenate([self._states, fresh])
        self._size = max(self._size, wanted)

    def extend(
        self, which: np.ndarray, starts: np.ndarray, event_time: np.ndarray, arrival: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(punctuation, late, expelled_at, expelled) of further arrivals; see `punctuate`.

        which : int64[groups], codes, ascending     starts : int64[groups + 1], their rows
        """
        if len(which) == 0:
            none = np.empty(0, np.int64)
            return none, np.empty(0, bool), none, none
        self.grow(int(which[-1]) + 1)
        self._make_room(which, np.diff(starts))
        before = self._states[which]
        out = punctuate(
            event_time, arrival, starts, which, self._kernel, self._states, self._memory
        )
        for name in COUNTERS:
            self._counts[name] += int((self._states[name][which] - before[name]).sum())
        return out

    def _make_room(self, which: np.ndarray, rows: np.ndarray) -> None:
        kernel, states = self._kernel, self._states
        if kernel.max_buffer:
            wanted = np.minimum(kernel.max_buffer, states["held"][which] + rows) + 1
            for i in np.flatnonzero(wanted > states["heap_room"][which]):
                self._widen_heap(states[which[i]], int(wanted[i]))
        if kernel.estimator == state.SLACK:
            wanted = np.minimum(kernel.slack, states["size"][which] + rows) + 1
            for i in np.flatnonzero(wanted > states["room"][which]):
                self._widen(states[which[i]], int(wanted[i]))
        elif kernel.estimator == state.NORMAL:
            # Rows from before the guard knew are fed later: WARM_UP more.
            wanted = np.minimum(states["size"][which] + rows + WARM_UP, normal_delay.LONGEST) + 1
            for i in np.flatnonzero(2 * wanted > states["room"][which]):
                self._widen_ring(states[which[i]], int(wanted[i]))
        elif kernel.estimator == state.CONFORMAL:
            wanted, level = states["count"][which] + rows, states["level"][which]
            for i in np.flatnonzero((level <= wanted) & (level < conformal_experts.LARGEST_SAMPLE)):
                self._widen_lists(states[which[i]], int(wanted[i]))

    def _widen(self, key: np.void, wanted: int) -> None:
        area = self._area(key)
        self._give(key, np.concatenate([area, np.zeros(_capacity(wanted) - len(area), np.int64)]))

    def _widen_ring(self, key: np.void, wanted: int) -> None:
        ring = self._area(key).reshape(2, -1)
        wider = np.zeros((2, _capacity(wanted)), np.int64)
        wider[:, : ring.shape[1]] = np.roll(ring, -int(key["head"]), axis=1)
        key["head"] = 0
        self._give(key, wider.reshape(-1))

    def _widen_lists(self, key: np.void, rows: int) -> None:
        wider, key["level"] = conformal_experts.make_room(self._area(key), int(key["level"]), rows)
        self._give(key, wider)

    def _widen_heap(self, key: np.void, wanted: int) -> None:
        heap = self._heap(key)
        wider = np.zeros((3, _capacity(wanted)), np.int64)
        wider[:, : heap.shape[1]] = heap
        self._left += heap.size
        key["heap_place"] = self._new(wider.reshape(-1))
        key["heap_room"] = wider.shape[1]

    def _area(self, key: np.void) -> np.ndarray:
        return _within(self._memory, key["place"], key["room"])

    def _heap(self, key: np.void, memory: np.ndarray | None = None) -> np.ndarray:
        memory = self._memory if memory is None else memory
        return _within(memory, key["heap_place"], 3 * key["heap_room"]).reshape(3, -1)

    def _give(self, key: np.void, area: np.ndarray) -> None:
        """Let `area` (a copy, not a view) be this controller's from now on."""
        self._left += int(key["room"])
        key["place"], key["room"] = self._new(area), len(area)

    def _new(self, values: np.ndarray) -> int:
        """The place of new memory with these values."""
        end = self._used + len(values)
        if end > len(self._memory):
            wider = np.zeros(max(end, 2 * len(self._memory)), np.int64)
            wider[: self._used] = self._memory[: self._used]
            self._memory = wider
        place, self._used = self._used, end
        self._memory[place:end] = values
        return place

    def advance(self, code: int, punctuation: int) -> None:
        """Rows up to `punctuation` have come out: from now on others are late (after idle)."""
        key = self._states[code]
        if punctuation <= max(key["punctuation"], key["floor"]):
            return
        key["floor"] = punctuation
        heap = self._heap(key)
        alive = heap[:, : key["held"]]
        alive = alive[:, alive[0] > punctuation]
        alive = alive[:, np.lexsort((alive[1], alive[0]))]  # sorted, hence a heap
        heap[:, : alive.shape[1]] = alive
        key["held"], key["aside"] = alive.shape[1], alive[2].sum()
        if self._kernel.estimator == state.SLACK:
            area = self._area(key)
            buffer = area[: key["size"]]
            buffer = np.sort(buffer[buffer > punctuation])
            area[: len(buffer)] = buffer
            key["size"] = len(buffer)

    def forget(self, codes: np.ndarray) -> None:
        """Let these controllers (int64[]) be new ones, which have seen nothing."""
        over = self._states[codes]
        self.forgotten += [int(over[name].sum()) for name in COUNTERS]
        self._left += int(over["room"].sum() + 3 * over["heap_room"].sum())
        self._states[codes] = new_controllers(len(codes))
        if self._left > self._used // 2:
            self.before_saving()

    def before_saving(self) -> None:
        """Give back the memory that nobody uses."""
        old, self._memory = self._memory, np.zeros(self._used - self._left, np.int64)
        self._used = self._left = 0
        for key in self.states:
            area, heap = _within(old, key["place"], key["room"]), self._heap(key, old)
            key["place"], key["heap_place"] = self._new(area), self._new(heap.reshape(-1))

    @property
    def bytes_of_states(self) -> np.ndarray:
        """uint8[n, bytes of a controller]: the states, for a snapshot."""
        return self.states.view(np.uint8).reshape(-1, CONTROLLER.itemsize)

    @bytes_of_states.setter
    def bytes_of_states(self, saved: np.ndarray) -> None:
        self._states = saved.reshape(-1).view(CONTROLLER)
        self._size = len(saved)

    @property
    def memory(self) -> np.ndarray:
        """int64[]: the memory in use."""
        return self._memory[: self._used]

    @memory.setter
    def memory(self, saved: np.ndarray) -> None:
        self._memory, self._used = saved, len(saved)

    def after_loading(self) -> None:
        check_controllers(self.states, self._memory, self._kernel)
        for name, forgotten in zip(COUNTERS, self.forgotten.tolist(), strict=True):
            self._counts[name] = forgotten + int(self.states[name].sum())


def _within(memory: np.ndarray, place: int, length: int) -> np.ndarray:
    return memory[place : place + length]


def _capacity(wanted: int) -> int:
    return 1 << max(wanted - 1, 15).bit_length()
