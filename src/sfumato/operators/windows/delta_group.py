"""One group's attribute-delta window: the tuples it holds and the partials over them."""

import numpy as np

from sfumato.kernels.laws.mergeable_moments import Sets, add_tuple
from sfumato.kernels.windows import sliding_partials
from sfumato.kernels.windows.delta_window import (
    DeltaRule,
    begin_survival,
    list_alternatives,
    slide_delta,
)
from sfumato.kernels.windows.sliding_partials import HeldByPlace, PartialStacks
from sfumato.operators.arrays import Floats, Ints, moved
from sfumato.operators.laws.moment_channels import Channels
from sfumato.operators.state.declared import Record, Value
from sfumato.operators.state.tuple_batch import TupleBatch, check_held, layout_of
from sfumato.operators.windows.grouped_windows import RestingGroup, packed, unpacked
from sfumato.operators.windows.pane_store import measures_of


class DeltaGroup(RestingGroup):
    """One group's window: arrays with room at the end, moved to the front when that is used up."""

    state = {
        "tuples": Record(TupleBatch, layout_of("held", "alternatives")),
        "front": Value(low=0),
        "overflow": Value(low=0),
        "arrived": Value(low=0),
    }

    def __init__(self, rule: DeltaRule, channels: Channels, attributes: int) -> None:
        self._rule, self._channels, self._measures = rule, channels, measures_of(channels)
        self._attributes = attributes
        self._begin()

    def _begin(self) -> None:
        channels, attributes, self._noded = self._channels, self._attributes, False
        self._written = True  # since `tuples` were taken
        self.front, self.overflow, self.arrived = 0, 0, 0  # tuples; the first two to be saved
        self.tuples = TupleBatch.none(attributes=attributes)  # those held, to be saved
        self._index = np.empty(0, np.int64)
        extremes = len(channels.extremes)
        self.held = HeldByPlace(
            marks=np.array([(0, 0, 0, -1, 0)], sliding_partials.STACK_MARKS),
            offsets=np.zeros(1, np.int64),
            prob=np.empty(0),
            values=np.empty((attributes, 0)),
            owner=np.empty(0, np.int64),
            lifted=np.empty((channels.count, 3, 0)),
            rest=np.ones(0),
            order=np.empty((extremes, 0), np.int64),
            listed=np.zeros(extremes, np.int64),
            survival=np.empty(4),
        )
        self.stacks = PartialStacks(
            kept=channels.room(1, False),
            block=channels.room(sliding_partials.STRIDE, False),
            back=channels.room(1, True),
        )

    def extend(self, batch: TupleBatch) -> tuple[Ints, Floats]:
        """Take arrivals: (int64[2, n], where the window began and ended; float64[r, 3, n])."""
        self._written, enters = True, np.diff(batch.offsets) > 0
        self._write(batch if enters.all() else batch.take(np.flatnonzero(enters)))
        bounds = np.empty((2, batch.size), np.int64)
        answers = np.full((self._measures.what.size, 3, batch.size), np.nan)
        slide_delta(self.held, self.stacks, enters, self._rule, self._measures, bounds, answers)
        return bounds, answers

    def members(self, low: int, high: int) -> TupleBatch:
        """The tuples at places [low, high)."""
        begin, end = self.held.offsets[low], self.held.offsets[high]
        return TupleBatch(
            self.held.offsets[low : high + 1] - begin,
            self.held.prob[begin:end],
            self.held.values[:, begin:end],
            self._index[low:high],
        )

    @property
    def evicted(self) -> int:
        """Tuples evicted so far only because of `max_tuples`."""
        return int(self.held.marks[0]["overflow"])

    def lengths(self) -> dict[str, int]:
        return {"attributes": self._attributes}

    def before_saving(self) -> None:
        if not self._written:
            return
        marks, self._written = self.held.marks[0], False
        self.tuples = self.members(marks["head"], marks["tail"])
        self.front, self.overflow = int(marks["middle"] - marks["head"]), int(marks["overflow"])

    def after_loading(self) -> None:
        batch = self.tuples
        check_held(batch.offsets, batch.prob, batch.values)
        if self.front > batch.size:
            raise ValueError("the older part of a window cannot end behind its newest tuple")
        self._resume()

    def _resume(self) -> None:
        """Go on from the state, with memory that has seen nothing."""
        batch, arrived = self.tuples, self.arrived
        self.arrived = 0
        self._write(batch)
        self._index[: batch.size], self.arrived = batch.index, arrived
        marks = self.held.marks[0]
        marks["middle"], marks["overflow"] = self.front, self.overflow
        sliding_partials.build_front(self.held, self.stacks)
        marks["tail"] = batch.size
        for i in range(batch.size):
            list_alternatives(self.held, i, self._measures)
        for i in range(self.front, batch.size):
            add_tuple(self.held.lifted, i, self.stacks.back, 0)
        if batch.size:
            begin_survival(self.held, self._rule)

    def rest(self) -> Ints:
        self.before_saving()
        marks, of = np.array([self.front, self.overflow, self.arrived]), self.tuples
        rested = packed((marks, of.offsets, of.index), (of.prob, of.values.ravel()))
        self._begin()
        return rested

    def recall(self, rested: Ints) -> None:
        (marks, offsets, index), (prob, values) = unpacked(rested, 3, 2)
        self.front, self.overflow, self.arrived = marks.tolist()
        self.tuples = TupleBatch(offsets, prob, values.reshape(self._attributes, -1), index)
        self._written = False

    def wake(self, rested: Ints) -> None:
        self.recall(rested)
        self._resume()

    def _write(self, batch: TupleBatch) -> None:
        """Write arrivals after the tail, making room."""
        lifted, uncertain = self._channels.lifted(batch)
        self._make_nodes(uncertain)
        longest = int(np.diff(batch.offsets).max(initial=0))
        survival = self.held.survival
        if longest > survival.size:
            self.held = self.held._replace(survival=np.append(survival, np.empty(longest)))
        tail = int(self.held.marks[0]["tail"])
        begin = self.held.offsets[tail]
        if tail + batch.size > self._index.size or begin + batch.prob.size > self.held.prob.size:
            self._make_room(batch.size, batch.prob.size)
            tail = int(self.held.marks[0]["tail"])
            begin = self.held.offsets[tail]
        held, end, last = self.held, tail + batch.size, begin + batch.prob.size
        held.offsets[tail + 1 : end + 1] = batch.offsets[1:] + begin
        held.prob[begin:last], held.values[:, begin:last] = batch.prob, batch.values
        held.owner[begin:last] = np.repeat(np.arange(tail, end), np.diff(batch.offsets))
        held.lifted[:, :, tail:end] = lifted
        self._index[tail:end] = np.arange(batch.size) + self.arrived
        self.arrived += batch.size

    def _make_room(self, tuples: int, alternatives: int) -> None:
        """Move what is held to the front of arrays with room for as much again and some more."""
        held, marks = self.held, self.held.marks[0]
        head, tail = int(marks["head"]), int(marks["tail"])
        begin, end = int(held.offsets[head]), int(held.offsets[tail])
        room, wide = 2 * (tail - head + tuples) + 16, 2 * (end - begin + alternatives) + 16
        self._index = moved(self._index, room, head, tail)
        for name in ("head", "middle", "tail"):
            marks[name] -= head
        self.held = HeldByPlace(
            held.marks,
            moved(held.offsets, room + 1, head, tail + 1) - begin,
            moved(held.prob, wide, begin, end),
            moved(held.values, wide, begin, end),
            moved(held.owner, wide, begin, end) - head,
            moved(held.lifted, room, head, tail),
            np.ones(room),
            moved(held.order, wide, 0, held.order.shape[1]) - begin,
            held.listed,
            held.survival,
        )
        kept = self._channels.room(room // sliding_partials.STRIDE + 2, self._noded)
        for source, target in zip(self.stacks.kept, kept, strict=True):
            n = min(len(source), len(target))
            target[:n] = source[:n]
        self.stacks = self.stacks._replace(kept=kept)

    def _make_nodes(self, uncertain: bool) -> None:
        """Nodes take most of the memory: none before the first tuple that needs them."""
        if uncertain and not self._noded:
            self._noded = True
            kept, block = self.stacks.kept.sums, self.stacks.block.sums
            self.stacks = self.stacks._replace(
                kept=Sets(kept, self._channels.room(len(kept), True).nodes),
                block=Sets(block, self._channels.room(sliding_partials.STRIDE, True).nodes),
            )
