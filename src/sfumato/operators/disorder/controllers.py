"""The delay controllers of several sources."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from sfumato.kernels.disorder import conformal_lateness, estimators, state
from sfumato.kernels.disorder.clock_guard import MAX_CLOCK_SKEW_US, WARM_UP
from sfumato.kernels.disorder.conformal_lateness import LARGEST_SAMPLE, list_place
from sfumato.kernels.disorder.controller import punctuate
from sfumato.kernels.disorder.estimators import LONGEST_VSEQ, SHORTEST_VSEQ
from sfumato.kernels.disorder.state import (
    CONTROLLER,
    END_OF_TIME,
    EXPERTS,
    Control,
    new_controllers,
)
from sfumato.operators.arrays import longer
from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.state.declared import Array, Declaration
from sfumato.operators.state.stateful import Stateful


def check_controllers(states: np.ndarray, memory: np.ndarray, control: Control) -> None:
    """Raise ValueError for states whose places lie outside of their memory. O(controllers)."""
    _check("place", states["place"], 0, len(memory))
    _check("room", states["room"], 0, len(memory) - states["place"])
    _check("heap_place", states["heap_place"], 0, len(memory))
    _check("heap_room", states["heap_room"], 0, (len(memory) - states["heap_place"]) // 3)
    _check("held", states["held"], 0, states["heap_room"])
    _check("count", states["count"], 0, 1 << 60)
    _check("fed", states["fed"], 0, states["count"])
    if control.estimator == state.SLACK:
        _check("size", states["size"], 0, states["room"])
    elif control.estimator == state.NORMAL:
        fed = states["fed"] > 0
        ring = states["room"] // 2
        _check("size", states["size"], np.where(fed, 1, 0), ring)
        _check("head", states["head"], 0, np.maximum(ring - 1, 0))
        _check("limit", states["limit"], np.where(fed, SHORTEST_VSEQ, 0), LONGEST_VSEQ)
        _check("size", states["size"], 0, LONGEST_VSEQ)
    elif control.estimator == state.CONFORMAL:
        _check_conformal(states)


def _check_conformal(states: np.ndarray) -> None:
    level = states["level"]
    for one in np.unique(level).tolist():
        if one not in (0, *(1 << i for i in range(1, LARGEST_SAMPLE.bit_length()))):
            raise ValueError(f"no controller has room for {one} rows")
        mine = states[level == one]
        for e in range(EXPERTS):
            at, capacity = list_place(e, one)
            _check("room", mine["room"], at + 2 * capacity, None)
            _check("listed", mine["listed"][:, e], 0, capacity)
    known = np.where(level < LARGEST_SAMPLE, level - 1, states["fed"])
    _check("fed", states["fed"], 0, np.maximum(known, 0))
    _check("size", states["size"], 0, np.minimum(level, LARGEST_SAMPLE))
    _check("held_of", states["held_of"], 0, states["size"][:, None])
    _check("chosen", states["chosen"], 0, EXPERTS - 1)
    started = states["fed"] > 0
    for name in ("thinning", "stride"):
        _check(name, states[name], np.where(started, 1, 0), 1 << 40)
    _check("clumps", states["clumps"], 0, 1 << 60)


def _check(name: str, values: np.ndarray, low: object, high: object) -> None:
    if (values < low).any() or (high is not None and (values > high).any()):
        raise ValueError(f"`{name}` of a disorder controller is out of range")


CONTROLLER_COUNTERS = (
    "count",
    "late",
    "after_idle",
    "stale",
    "future",
    "forced",
    "out_of_order",
)


class Controllers(Stateful):
    """The disorder controllers with codes 0, 1, 2, ...: compiled logic over arrays of state.

    A controller that has seen rows has a slot among the states, 1, 2, ...; slot 0 is a blank one,
    that of all others. Forgotten ones leave theirs, and once most are empty the states move up.
    Cost of a call: some 5 microseconds, and per row what `kernels.disorder.controller` says.
    Memory: of those that have seen rows and are not forgotten, some 2.5 KB each; of all 8 bytes.
    """

    state: ClassVar[Mapping[str, Declaration]] = {
        "slot": Array(int, "codes", low=0),
        "bytes_of_states": Array(np.uint8, "controllers", CONTROLLER.itemsize),
        "memory": Array(int, "memory"),
        "forgotten": Array(int, len(CONTROLLER_COUNTERS), low=0),
    }

    def __init__(self, control: DisorderControl) -> None:
        self.control = control
        self._kernel = control.kernel
        self._states = new_controllers(1)
        self._slot = np.zeros(0, np.int64)  # of each code
        self._end = 1  # slots given out are below this,
        self._empty = np.zeros(0, np.int64)  # and these of them were left
        self._memory = np.zeros(0, np.int64)
        self._used = 0  # numbers of `_memory` given out,
        self._left = 0  # and those of them that nobody uses any more
        self._size = 0
        self._counts = dict.fromkeys(CONTROLLER_COUNTERS, 0)
        self.forgotten = np.zeros(len(CONTROLLER_COUNTERS), np.int64)  # counts of those forgotten

    def __len__(self) -> int:
        return self._size

    @property
    def punctuation(self) -> np.ndarray:
        """int64[n] microseconds: the punctuations in force, the int64 minimum where none is."""
        return self.punctuation_of(np.arange(self._size))

    def punctuation_of(self, codes: np.ndarray) -> np.ndarray:
        """int64[k] microseconds: the punctuations in force of these controllers."""
        states, slots = self._states, self._slot[codes]
        return np.maximum(states["punctuation"][slots], states["floor"][slots])

    def horizon_of(self, codes: np.ndarray) -> np.ndarray:
        """int64[k]: the largest event times their guards believe; the int64 maximum: any."""
        states, slots = self._states, self._slot[codes]
        bound = np.minimum(states["bound"][slots], states["fast_bound"][slots])
        last = states["clock"][slots] - bound
        return np.where(states["guarded"][slots] == 1, last, END_OF_TIME)

    def plausible_of(self, codes: np.ndarray) -> np.ndarray:
        """int64[k]: the largest event times that may be right when a stream ends: those beyond are
        far ahead, and ahead of the arrivals; the int64 maximum: any."""
        states, slots = self._states, self._slot[codes]
        last = states["clock"][slots] + np.maximum(MAX_CLOCK_SKEW_US, -states["far_ahead"][slots])
        return np.maximum(
            np.where(states["guarded"][slots] == 1, last, END_OF_TIME), self.horizon_of(codes)
        )

    def arrived_of(self, codes: np.ndarray) -> np.ndarray:
        """int64[k]: how many rows have come to them."""
        return self._states["count"][self._slot[codes]]

    @property
    def counters(self) -> dict[str, int]:
        """Totals: rows; late (on arrival), of them stale and after_idle; future (set aside because
        they are too far ahead); forced (arrivals at which a full buffer pushed the punctuation);
        out_of_order. O(1).
        """
        counts = dict(self._counts)
        counts["rows"] = counts.pop("count")
        for reason in ("stale", "after_idle"):
            counts["late"] += counts[reason]
        return counts

    def grow(self, wanted: int) -> None:
        """There are controllers up to code `wanted` - 1 from now on."""
        if wanted > len(self._slot):
            self._slot = longer(self._slot, max(wanted, 2 * len(self._slot)))
        self._size = max(self._size, wanted)

    def _slots(self, codes: np.ndarray) -> np.ndarray:
        """int64[k]: where the states of these controllers (distinct) are, to be changed."""
        slots = self._slot[codes]
        none = np.flatnonzero(slots == 0)
        if len(none):
            again, fresh = self._empty[: len(none)], len(none) - len(self._empty)
            self._empty = self._empty[len(again) :]
            if fresh > 0:
                again = np.concatenate([again, np.arange(self._end, self._end + fresh)])
                self._end += fresh
            if self._end > len(self._states):
                more = max(self._end, 2 * len(self._states)) - len(self._states)
                self._states = np.concatenate([self._states, new_controllers(more)])
            slots[none] = self._slot[codes[none]] = again
        return slots

    def extend(
        self, which: np.ndarray, starts: np.ndarray, event_time: np.ndarray, arrival: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(punctuation, late, at, first, end) of further arrivals; see `punctuate`.

        which : int64[groups], codes, ascending     starts : int64[groups + 1], their rows
        """
        if len(which) == 0:
            none = np.empty(0, np.int64)
            return none, np.empty(0, bool), none, none, none
        self.grow(int(which[-1]) + 1)
        slots = self._slots(which)
        self._make_room(slots, np.diff(starts))
        before = self._states[slots]
        out = punctuate(
            event_time, arrival, starts, slots, self._kernel, self._states, self._memory
        )
        for name in CONTROLLER_COUNTERS:
            self._counts[name] += int((self._states[name][slots] - before[name]).sum())
        return out

    def _make_room(self, slots: np.ndarray, rows: np.ndarray) -> None:
        kernel, states = self._kernel, self._states
        if kernel.max_buffer:
            wanted = np.minimum(kernel.max_buffer, states["held"][slots] + rows) + 1
            for i in np.flatnonzero(wanted > states["heap_room"][slots]):
                self._widen_heap(states[slots[i]], int(wanted[i]))
        if kernel.estimator == state.SLACK:
            wanted = np.minimum(kernel.slack, states["size"][slots] + rows) + 1
            for i in np.flatnonzero(wanted > states["room"][slots]):
                self._widen(states[slots[i]], int(wanted[i]))
        elif kernel.estimator == state.NORMAL:
            # Rows from before the guard knew are fed later: WARM_UP more.
            wanted = np.minimum(states["size"][slots] + rows + WARM_UP, estimators.LONGEST_VSEQ) + 1
            for i in np.flatnonzero(2 * wanted > states["room"][slots]):
                self._widen_ring(states[slots[i]], int(wanted[i]))
        elif kernel.estimator == state.CONFORMAL:
            wanted, level = states["count"][slots] + rows, states["level"][slots]
            for i in np.flatnonzero(
                (level <= wanted) & (level < conformal_lateness.LARGEST_SAMPLE)
            ):
                self._widen_lists(states[slots[i]], int(wanted[i]))

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
        wider, key["level"] = conformal_lateness.make_room(self._area(key), int(key["level"]), rows)
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
        """Rows up to `punctuation` have come out: earlier ones are late from now on."""
        (slot,) = self._slots(np.array([code]))
        key = self._states[slot]
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
        """Let these controllers (int64[], distinct) be new ones, which have seen nothing."""
        slots = self._slot[codes]
        slots = slots[slots > 0]
        over = self._states[slots]
        self.forgotten += [int(over[name].sum()) for name in CONTROLLER_COUNTERS]
        self._left += int(over["room"].sum() + 3 * over["heap_room"].sum())
        self._states[slots] = new_controllers(len(slots))
        self._slot[codes] = 0
        self._empty = np.concatenate([self._empty, slots])
        if self._left > self._used // 2 or 2 * len(self._empty) > self._end:
            self._gather()

    def _gather(self) -> None:
        """Give back the slots and the memory that nobody uses; slots ascend with the codes then."""
        alive = np.flatnonzero(self._slot)
        self._states = np.concatenate([new_controllers(1), self._states[self._slot[alive]]])
        self._end, self._empty = len(self._states), self._empty[:0]
        self._slot[alive] = np.arange(1, self._end)
        old, self._memory = self._memory, np.zeros(self._used - self._left, np.int64)
        self._used = self._left = 0
        for key in self._states[1:]:
            area, heap = _within(old, key["place"], key["room"]), self._heap(key, old)
            key["place"], key["heap_place"] = self._new(area), self._new(heap.reshape(-1))

    # ---- saved

    def before_saving(self) -> None:
        self._gather()

    @property
    def slot(self) -> np.ndarray:
        """int64[n]: the slot of each code."""
        return self._slot[: self._size]

    @slot.setter
    def slot(self, saved: np.ndarray) -> None:
        self._slot, self._size = saved, len(saved)

    @property
    def bytes_of_states(self) -> np.ndarray:
        """uint8[controllers with a slot, bytes of a controller]: their states."""
        states = self._states[1 : self._end]
        return states.view(np.uint8).reshape(-1, CONTROLLER.itemsize)

    @bytes_of_states.setter
    def bytes_of_states(self, saved: np.ndarray) -> None:
        states = saved.reshape(-1).view(CONTROLLER)
        self._states = np.concatenate([new_controllers(1), states])
        self._end = len(self._states)

    @property
    def memory(self) -> np.ndarray:
        """int64[]: the memory in use."""
        return self._memory[: self._used]

    @memory.setter
    def memory(self, saved: np.ndarray) -> None:
        self._memory, self._used = saved, len(saved)

    def after_loading(self) -> None:
        if not np.array_equal(self.slot[self.slot > 0], np.arange(1, self._end)):
            raise ValueError("the slots of its controllers must be 1, 2, ... in order of the codes")
        check_controllers(self._states, self._memory, self._kernel)
        for name, forgotten in zip(CONTROLLER_COUNTERS, self.forgotten.tolist(), strict=True):
            self._counts[name] = forgotten + int(self._states[name].sum())


def _within(memory: np.ndarray, place: int, length: int) -> np.ndarray:
    return memory[place : place + length]


def _capacity(wanted: int) -> int:
    return 1 << max(wanted - 1, 15).bit_length()
