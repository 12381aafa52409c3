"""Disorder controllers for many sources."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.disorder import state
from sfumato.kernels.disorder.clock_guard import MAX_CLOCK_SKEW_US
from sfumato.kernels.disorder.conformal_delay import SAMPLE_SIZE
from sfumato.kernels.disorder.controller import memory_layout, punctuate, raise_floors
from sfumato.kernels.disorder.estimators import LONGEST_VSEQ, SHORTEST_VSEQ
from sfumato.kernels.disorder.state import (
    CONTROLLER,
    COUNTS,
    END_OF_TIME,
    NO_IDS,
    RowIds,
    new_controllers,
)
from sfumato.operators.arrays import Bools, Ints, pad, ranges_of
from sfumato.operators.disorder.control import DisorderControl
from sfumato.operators.disorder.rows import NO_CODES
from sfumato.operators.state.declared import Array, Value
from sfumato.operators.state.stateful import Stateful


class Judgement(NamedTuple):
    """Judgement of rows by their controllers, in order of arrival. A place is a row's index.

    before, after : int64[n], punctuation before and after each row
    late, duplicate : bool[n], whether a row is late, and whether a late row is a duplicate
    number : int64[n], the row's number within its controller
    evicted_late : int64[e, 5], (place, code, first, end, punctuation): the row at `place` causes
        the source's held rows with first <= number < end to be emitted as late
    forced_by_buffer : int64[f, 5], (place, code, -1, -1, punctuation), ascending: under
        `max_buffer_total`, the row at `place` raises the source's punctuation, which releases the
        source's oldest rows
    """

    before: Ints
    after: Ints
    late: Bools
    duplicate: Bools
    number: Ints
    evicted_late: Ints
    forced_by_buffer: Ints


class Controllers(Stateful):
    """Disorder controllers with codes 0, 1, 2, ...; compiled functions update arrays of states.

    Each controller that has received rows has a slot 1, 2, ... among the states; all others share
    the blank slot 0. States are compacted once most slots, or most of the memory, are unused.
    Cost of a call: a few microseconds, plus the cost of `kernels.disorder.controller` per row.
    Memory: 8 bytes per code, and less than 4 KB per active controller plus its sort buffer, VSeq or
    bounded buffer.
    """

    state = {
        "slot": Array(int, "codes", low=0),
        "states": Array(np.uint8, "controllers", CONTROLLER.itemsize),
        "memory": Array(int, None),
        "rows": Value(low=0),
        "counts": Array(int, len(COUNTS.names or ()), low=0),
    }

    def __init__(self, control: DisorderControl) -> None:
        self.control = control
        self._kernel = control.kernel
        self._states = new_controllers(1)
        self.slot = np.zeros(0, np.int64)  # by code
        self._size = 0  # number of codes
        self._end, self._forgotten = 1, 0  # first unassigned slot; number of forgotten slots
        self.memory = np.zeros(0, np.int64)
        self._usage = np.zeros(2, np.int64)  # numbers of assigned and of freed memory entries
        # Totals named in `COUNTS`, including forgotten controllers
        self.counts = np.zeros(len(COUNTS.names or ()), np.int64)
        self.rows = 0  # arrivals at all controllers

    def __len__(self) -> int:
        return self._size

    def grow(self, wanted: int) -> None:
        """Create controllers up to code `wanted` - 1."""
        if wanted > len(self.slot):
            self.slot = pad(self.slot, max(wanted, 2 * len(self.slot)))
        self._size = max(self._size, wanted)

    def punctuation_of(self, codes: Ints) -> Ints:
        """Return int64[k] microseconds: the current punctuations, the int64 minimum if unknown."""
        states, slots = self._states, self.slot[codes]
        return np.maximum(states["punctuation"][slots], states["floor"][slots])

    def clock_of(self, codes: Ints) -> Ints:
        """Return int64[k] microseconds: the latest arrivals at these controllers."""
        return self._states["clock"][self.slot[codes]]

    def horizon_of(self, codes: Ints) -> Ints:
        """Return int64[k]: latest event times that guards accept; int64 maximum if inactive."""
        states, slots = self._states, self.slot[codes]
        bound = np.minimum(states["bound"][slots], states["fast_bound"][slots])
        last = states["clock"][slots] - bound
        return np.where(states["guarded"][slots] == 1, last, END_OF_TIME)

    def plausible_of(self, codes: Ints) -> Ints:
        """Return int64[k]: the latest plausible event times at the end of a stream. Later times are
        far ahead of both other rows and the arrivals."""
        states, slots = self._states, self.slot[codes]
        last = states["clock"][slots] + np.maximum(MAX_CLOCK_SKEW_US, -states["far_ahead"][slots])
        last = np.where(states["guarded"][slots] == 1, last, END_OF_TIME)
        return np.maximum(last, self.horizon_of(codes))

    @property
    def counters(self) -> dict[str, int]:
        """Totals: rows; late (on arrival), including stale, after_idle and duplicates; future (too
        far ahead: set aside, or late due to `max_ahead`); forced (arrivals at which a full buffer
        advanced the punctuation); out_of_order."""
        counts = dict(zip(COUNTS.names or (), self.counts.tolist(), strict=True))
        late = sum(counts[name] for name in ("late", "stale", "after_idle", "duplicates"))
        return {"rows": self.rows, **counts, "late": late}

    def extend(
        self,
        groups: tuple[Ints, Ints, Ints],
        event_time: Ints,
        arrival: Ints,
        ids: RowIds = NO_IDS,
        sent: Ints = NO_CODES,
    ) -> Judgement:
        """Judge the next rows. groups : result of `grouped` for the codes, which must exist."""
        order, starts, which = groups
        slots = self._slots(which)
        self.rows += len(order)
        self.memory, times, late, duplicate, number, evicted_late, forced = punctuate(
            event_time, arrival, sent, (order, starts), slots, ids,
            self._kernel, self._states, self.counts.view(COUNTS)[0], self.memory, self._usage,
        )  # fmt: skip
        if evicted_late.size or forced.size:
            alive = np.flatnonzero(self.slot)
            code = np.zeros(len(self._states), np.int64)
            code[self.slot[alive]] = alive
            evicted_late[1], forced[1] = code[evicted_late[1]], code[forced[1]]
        return Judgement(times[0], times[1], late, duplicate, number, evicted_late.T, forced.T)

    def checked_sent(self, sent: Ints, rows: int) -> Ints:
        """Return the punctuations that rows carry, int64[rows], empty if punctuations are
        estimated. Raises ValueError for a wrong number of punctuations."""
        wanted = rows if self._kernel.estimator == state.CARRIED else 0
        array = np.ascontiguousarray(sent, np.int64)
        if array.shape != (wanted,):
            raise ValueError(
                f"`sent` must have {wanted} punctuations (one per row with estimator='sent', "
                f"otherwise none); got an array of shape {array.shape}"
            )
        return array

    def advance(self, codes: Ints, times: Ints) -> None:
        """Record that rows up to `times` were released; earlier rows are late from now on."""
        raise_floors(times, self._slots(codes), self._kernel, self._states, self.memory)

    def _slots(self, codes: Ints) -> Ints:
        """Return int64[k]: the slots of these distinct controllers; assign missing slots."""
        fresh = codes[self.slot[codes] == 0]
        begin, self._end = self._end, self._end + len(fresh)
        self.slot[fresh] = np.arange(begin, self._end)
        if self._end > len(self._states):
            more = max(self._end, 2 * len(self._states)) - len(self._states)
            self._states = np.concatenate([self._states, new_controllers(more)])
        return self.slot[codes]

    def forget(self, codes: Ints) -> None:
        """Reset these controllers (int64[], distinct)."""
        slots = self.slot[codes]
        slots = slots[slots > 0]
        self.slot[codes] = 0
        self._states["held"][slots] = 0
        self._forgotten += len(slots)
        self._usage[1] += self._states["length"][slots].sum()
        if 2 * self._forgotten > self._end or 2 * self._usage[1] > self._usage[0]:
            self.before_saving()

    def before_saving(self) -> None:
        """Free unused slots and memory; afterwards slots ascend with the codes."""
        self.slot = self.slot[: self._size]
        alive = np.flatnonzero(self.slot)
        states = self._states[self.slot[alive]]
        offsets, at = ranges_of(states["place"], states["length"])
        states["place"], self.memory = offsets[:-1], self.memory[at]
        self._usage[:] = len(self.memory), 0
        self._states = np.concatenate([new_controllers(1), states])
        self._end, self._forgotten = len(self._states), 0
        self.slot[alive] = np.arange(1, self._end)

    @property
    def states(self) -> np.ndarray:
        """States of the controllers with a slot, uint8[controllers, bytes per controller]."""
        return self._states[1 : self._end].view(np.uint8).reshape(-1, CONTROLLER.itemsize)

    @states.setter
    def states(self, saved: np.ndarray) -> None:
        states = saved.reshape(-1).view(CONTROLLER)
        self._states = np.concatenate([new_controllers(1), states])
        self._end = len(self._states)

    def after_loading(self) -> None:
        self._size, self._usage[0] = len(self.slot), len(self.memory)
        if not np.array_equal(self.slot[self.slot > 0], np.arange(1, self._end)):
            raise ValueError("the slots of controllers must be 1, 2, ... in order of the codes")
        check_controllers(self._states[1:], len(self.memory), self._kernel)


def check_controllers(states: np.ndarray, memory: int, control: state.Control) -> None:
    """Raise ValueError for fields out of range, such as indices outside the memory."""
    numbers, *lanes = memory_layout(control)
    room, started = states["room"], states["fed"] > 0
    bounds = {
        "room": (0, memory),
        "length": (numbers + sum(lanes) * room, numbers + sum(lanes) * room),
        "place": (0, memory - states["length"]),
        "held": (0, room),
        "count": (0, 1 << 60),
        "fed": (0, states["count"]),
        "size": (0, room),
        "head": (0, np.maximum(room - 1, 0)),
        "limit": (0, LONGEST_VSEQ),
    }
    if control.estimator == state.NORMAL:
        bounds["size"] = (np.where(started, 1, 0), room)
        bounds["limit"] = (np.where(started, SHORTEST_VSEQ, 0), LONGEST_VSEQ)
    elif control.estimator == state.CONFORMAL:
        bounds["size"] = (0, SAMPLE_SIZE)
        bounds["measure"] = (0, state.MEASURES - 1)
        bounds["thinning"] = (started, 1 << 40)
    for name, (low, high) in bounds.items():
        if ((low > states[name].T) | (high < states[name].T)).any():
            raise ValueError(f"`{name}` of a disorder controller is out of range")
