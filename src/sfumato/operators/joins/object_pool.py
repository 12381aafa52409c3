"""Objects held by the windows of a join over incomplete streams: slots, and room for more."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation.dependency_choice import PRESENT
from sfumato.kernels.joins.incomplete.objects import Objects, Rings
from sfumato.kernels.joins.regions import summary_columns
from sfumato.kernels.joins.tuple_store import Tuples

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class ObjectPool:
    """Rings of at most `rows` slots, one for each window (see `kernels.incomplete_objects`).

    names, dimensions : columns D of an object, and T of them joined
    streams : windows of a key, of codes key * streams + stream
    A ring grows by doubling, to new room behind all others; when the pool is full, all rings move
    to a larger one. Both cost O(1) amortised an arrival.
    """

    def __init__(self, rows: int, names: int, dimensions: int, streams: int) -> None:
        self.rows, self.names, self.dimensions, self.streams = rows, names, dimensions, streams
        self.rings = Rings(*(np.zeros(0, np.int64) for _ in range(4)))
        self.tuples, self.objects = self._lines(0, np.empty(0))
        self.used = 0  # places of blocks written
        self._end = 0  # slots given out

    def reserve(self, code: Ints) -> None:
        """Room for arrivals in these windows, int64[n], all at once."""
        windows = (int(code.max()) // self.streams + 1) * self.streams if code.size else 0
        if windows > self.rings.base.size:
            more = max(windows, 2 * self.rings.base.size) - self.rings.base.size
            nothing = np.zeros(more, np.int64)
            self.rings = Rings(*(np.concatenate([old, nothing]) for old in self.rings))
        rings = self.rings
        arriving = np.bincount(code, minlength=rings.base.size)
        needed = np.where(arriving > 0, np.minimum(self.rows, rings.held + arriving), 0)
        grow = np.flatnonzero(needed > rings.capacity)
        if not grow.size:
            return
        room = np.minimum(self.rows, 2 * needed[grow])
        if self._end + room.sum() <= self.tuples.at.size:
            self._move(grow, room, self._end, self.tuples, self.objects)
            return
        everything = np.arange(rings.base.size)
        capacity = rings.capacity.copy()
        capacity[grow] = room
        before = self.tuples, self.objects
        self.tuples, self.objects = self._lines(2 * int(capacity.sum()), self.tuples.blocks)
        self._move(everything, capacity, 0, *before)

    def slots(self) -> Ints:
        """Slots of all held objects, window after window, oldest first: int64[]."""
        return self._slots_of(np.arange(self.rings.base.size))

    def numbers(self, stream: int) -> Ints:
        """Numbers of the objects held of one stream, window after window: int64[]."""
        slots = self._slots_of(np.arange(stream, self.rings.base.size, self.streams))
        return self.tuples.number[slots]

    def load(
        self,
        code: Ints,
        number: Ints,
        state: npt.NDArray[np.uint8],
        raw: Floats,
        rule: Ints,
        low: Floats,
        high: Floats,
    ) -> None:
        """Fill an empty pool with objects, window after window, oldest first."""
        self.reserve(code)
        self.rings.held[:] = np.bincount(code, minlength=self.rings.base.size)
        slots, objects = self.slots(), self.objects
        self.tuples.number[slots], self.tuples.samples[slots] = number, 0
        objects.state[slots], objects.raw[slots], objects.rule[slots] = state, raw, rule
        missing = rule != PRESENT
        objects.gap[slots] = np.where(missing.sum(axis=1) == 1, missing.argmax(axis=1), -1)
        objects.low[:, slots], objects.high[:, slots] = low.T, high.T

    def _slots_of(self, windows: Ints) -> Ints:
        rings = self.rings
        held = rings.held[windows]
        window = np.repeat(windows, held)
        place = np.arange(window.size) - np.repeat(np.cumsum(held) - held, held)
        # Only a full ring wraps; in others the oldest is the first.
        return rings.base[window] + (rings.oldest[window] + place) % np.maximum(
            rings.held[window], 1
        )

    def _move(
        self, windows: Ints, room: Ints, begin: int, tuples: Tuples, objects: Objects
    ) -> None:
        """Give windows new room from slot `begin` on, and copy their objects there."""
        source = self._slots_of(windows)
        self.rings.base[windows] = begin + np.cumsum(room) - room
        self.rings.capacity[windows] = room
        self.rings.oldest[windows] = 0
        target = self._slots_of(windows)
        for name in ("at", "samples", "existence", "number", "summary"):
            getattr(self.tuples, name)[target] = getattr(tuples, name)[source]
        for name in ("state", "raw", "rule", "gap"):
            getattr(self.objects, name)[target] = getattr(objects, name)[source]
        for name in ("low", "high"):
            getattr(self.objects, name)[:, target] = getattr(objects, name)[:, source]
        self._end = begin + int(room.sum())

    def _lines(self, slots: int, blocks: Floats) -> tuple[Tuples, Objects]:
        d = self.dimensions
        tuples = Tuples(
            blocks=blocks,
            at=np.zeros(slots, np.int64),
            samples=np.zeros(slots, np.int64),
            existence=np.empty(slots),
            number=np.empty(slots, np.int64),
            summary=np.empty((slots, int(summary_columns.py_func(d)))),
        )
        objects = Objects(
            state=np.empty(slots, np.uint8),
            raw=np.empty((slots, self.names)),
            rule=np.empty((slots, d), np.int64),
            low=np.empty((d, slots)),
            high=np.empty((d, slots)),
            gap=np.empty(slots, np.int64),
        )
        return tuples, objects
