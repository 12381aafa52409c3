"""Complete panes of many groups: their tuples, once, and partial aggregates that extents share."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.laws.mergeable_moments import NODE, RISE, WEIGHT
from sfumato.kernels.windows import pane_moments as kernel
from sfumato.operators.laws.aggregate import Floats, Ints
from sfumato.operators.laws.independent_law import Members
from sfumato.operators.laws.moment_channels import Channels, places
from sfumato.operators.state.tuple_batch import GROUP, INDEX, NUMBER, TupleBatch, gathered

COLUMNS = 5
GROUP_OF, PANE, SLOT, FIRST, COUNT = range(COLUMNS)  # of a pane: its group, ..., tuples


class PaneStore:
    """Panes in order of (group, pane number), each with its tuples and its partials.

    panes : int64[COLUMNS, p]. The tuples lie in `tuples`, those of a pane one after the other;
        tuples of dropped panes are removed once they are more than half.
    """

    def __init__(self, channels: Channels, per_slide: int, width: int, attributes: int) -> None:
        self.channels, self.per_slide, self.width = channels, per_slide, width
        self.panes = np.empty((COLUMNS, 0), np.int64)
        self._pool = _Pool(attributes, len(channels.extremes))
        self._free = np.empty(0, np.int64)
        self._noded = False
        self._partial, self._nodes = channels.room(0, False)
        self._prefix, self._prefix_nodes = channels.room(0, False)
        self._suffixed = np.zeros(0, bool)
        self._kept = np.zeros((len(channels.extremes), 0), np.int64)

    def add(self, batch: TupleBatch, pane: Ints) -> None:
        """Put in whole panes that are new.

        batch : tuples in order of (group, pane)    pane : int64[n], the number of each's pane
        """
        if not batch.size:
            return
        group = batch.marks[GROUP]
        change = np.flatnonzero((np.diff(group) != 0) | (np.diff(pane) != 0)) + 1
        first = np.concatenate([np.zeros(1, np.int64), change])
        rows = np.append(first, batch.size)
        slots = self._take_slots(first.size)
        lifted, uncertain = self.channels.lifted(batch)
        self._make_nodes(uncertain)
        averages = self.channels.averages
        kernel.fill_panes(slots, rows, lifted, RISE, averages, self._partial, self._nodes)
        self._suffixed[slots] = False
        begin = self._pool.append(batch, self.channels, slots, rows, self._kept)
        fresh = np.stack([group[first], pane[first], slots, first + begin, np.diff(rows)])
        both = np.concatenate([self.panes, fresh], axis=1)
        order = np.lexsort((both[PANE], both[GROUP_OF]))
        self.panes = np.ascontiguousarray(both[:, order])
        kernel.prefix_panes(
            self.panes[GROUP_OF], self.panes[PANE], self.panes[SLOT],
            order >= both.shape[1] - first.size, self.width, averages, self._partial,
            self._nodes, self._prefix, self._prefix_nodes,
        )  # fmt: skip

    def answer(self, extents: Ints, aggregates: int) -> tuple[Floats, Ints]:
        """(float64[r, 3, m]: mean, standard deviation, existence; int64[m]: tuples) of extents.

        extents : int64[m, 4], see `extents_of_group`, places being those in `panes`
        """
        channels, pool = self.channels, self._pool
        answers = np.full((aggregates, 3, len(extents)), np.nan)
        held = np.zeros(len(extents), np.int64)
        kernel.answer_extents(
            extents, self.panes[PANE], self.panes[SLOT], self.per_slide, self.width,
            channels.averages, self._suffixed, self._partial, self._nodes, self._prefix,
            self._prefix_nodes, channels.what, channels.channel, NODE, WEIGHT, RISE, answers, held,
        )  # fmt: skip
        begins = pool.tuples.offsets[self.panes[FIRST]]
        extremes = []
        for x, (sign, attribute) in enumerate(channels.extremes):
            result = np.empty((3, len(extents)))
            kernel.answer_extremes(
                extents, self.panes[SLOT], begins, sign, pool.tuples.values[attribute],
                pool.tuples.prob, pool.owner, pool.rest, pool.order[x], self._kept[x], result,
            )  # fmt: skip
            extremes.append(result)
        for r, x in enumerate(channels.extreme):
            if x >= 0:
                answers[r] = extremes[x]
        return answers, held

    def members(self, low: int, high: int) -> tuple[Members, Ints]:
        """The tuples of the panes at places [low, high), and their numbers."""
        batch = self._pool.tuples.take(self._rows_of(self.panes[:, low:high]))
        return (
            Members(batch.offsets, batch.prob, batch.values, batch.marks[INDEX].copy()),
            batch.marks[NUMBER],
        )

    def keep(self, wanted: np.ndarray) -> None:
        """Drop all panes but those `wanted` (bool per pane)."""
        if wanted.all():
            return
        self._free = np.concatenate([self._free, self.panes[SLOT][~wanted]])
        self.panes = np.ascontiguousarray(self.panes[:, wanted])
        if self._pool.size > 2 * int(self.panes[COUNT].sum()) + 64:
            self.panes[FIRST] = self._pool.compact(self.panes[FIRST], self.panes[COUNT])

    def tuples(self) -> TupleBatch:
        """The tuples of all panes, in order of (group, pane)."""
        return self._pool.tuples.take(self._rows_of(self.panes))

    def numbers(self) -> Ints:
        """The numbers of those tuples."""
        return self._pool.tuples.marks[NUMBER, self._rows_of(self.panes)]

    @staticmethod
    def _rows_of(panes: Ints) -> Ints:
        """Places of some panes' tuples."""
        ends = places(panes[COUNT])
        return np.repeat(panes[FIRST] - ends[:-1], panes[COUNT]) + np.arange(ends[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self._partial, self._nodes, self._prefix, self._prefix_nodes, self._kept)
        return self.panes.nbytes + sum(a.nbytes for a in arrays) + self._pool.nbytes

    def _take_slots(self, wanted: int) -> Ints:
        missing = wanted - self._free.size
        if missing > 0:
            before = len(self._suffixed)
            room = max(missing, before // 2, 4)
            self._free = np.concatenate([self._free, np.arange(before, before + room)])
            self._partial, self._nodes = self._wider(self._partial, self._nodes, room)
            self._prefix, self._prefix_nodes = self._wider(self._prefix, self._prefix_nodes, room)
            self._suffixed = np.concatenate([self._suffixed, np.zeros(room, bool)])
            more = np.zeros((len(self._kept), room), np.int64)
            self._kept = np.concatenate([self._kept, more], axis=1)
        taken, self._free = self._free[:wanted], self._free[wanted:]
        return np.ascontiguousarray(taken)

    def _wider(self, scalars: Floats, nodes: Floats, room: int) -> tuple[Floats, Floats]:
        more, more_nodes = self.channels.room(room, self._noded)
        wide = np.concatenate([nodes, more_nodes]) if self._noded else nodes
        return np.concatenate([scalars, more]), wide

    def _make_nodes(self, uncertain: bool) -> None:
        """Nodes take most of the memory: none before the first tuple that needs them."""
        if uncertain and not self._noded:
            self._noded = True
            _, self._nodes = self.channels.room(len(self._suffixed), True)
            _, self._prefix_nodes = self.channels.room(len(self._suffixed), True)


class _Pool:
    """Tuples of panes, in arrays with room at the end, with what min and max need of them.

    owner : int64[alternatives], tuple of each    order : int64[extremes, alternatives], see
    `cut_alternatives`    rest : float64[tuples], all 1
    """

    def __init__(self, attributes: int, extremes: int) -> None:
        self.tuples = TupleBatch.none(attributes)
        self.owner = np.empty(0, np.int64)
        self.order = np.empty((extremes, 0), np.int64)
        self.rest = np.ones(0)
        self.size = 0

    @property
    def nbytes(self) -> int:
        return self.tuples.nbytes + self.owner.nbytes + self.order.nbytes + self.rest.nbytes

    def append(
        self, batch: TupleBatch, channels: Channels, slots: Ints, rows: Ints, kept: Ints
    ) -> int:
        """Store tuples of new panes; where the first went. Writes `kept` of the panes' slots."""
        n, m = self.size, int(self.tuples.offsets[self.size])
        end, last = n + batch.size, m + batch.prob.size
        self._make_room(end, last)
        tuples = self.tuples
        tuples.marks[:, n:end] = batch.marks
        tuples.offsets[n : end + 1] = batch.offsets + m
        tuples.prob[m:last], tuples.values[:, m:last] = batch.prob, batch.values
        owner = np.repeat(np.arange(batch.size), np.diff(batch.offsets))
        self.owner[m:last] = owner + n
        begins = batch.offsets[rows]
        pane = np.repeat(np.arange(slots.size), np.diff(begins))
        for x, (sign, attribute) in enumerate(channels.extremes):
            values = batch.values[attribute]
            order = np.lexsort((-sign * values, pane)) - begins[pane]
            kernel.cut_panes(slots, begins, values, batch.prob, owner, self.rest, order, kept[x])
            self.order[x, m:last] = order
        self.size = end
        return n

    def compact(self, first: Ints, count: Ints) -> Ints:
        """Keep only the tuples of some panes; where each pane's are now."""
        ends = places(count)
        at = np.repeat(first - ends[:-1], count) + np.arange(ends[-1])
        _, flat = gathered(self.tuples.offsets, at)
        self.tuples = self.tuples.take(at)
        self.order = np.ascontiguousarray(self.order[:, flat])
        self.owner = np.repeat(np.arange(at.size), np.diff(self.tuples.offsets))
        self.size, self.rest = at.size, np.ones(at.size)
        return ends[:-1]

    def _make_room(self, tuples: int, alternatives: int) -> None:
        """Room for so many; when it must grow, for half as many again."""
        old = self.tuples
        if tuples <= self.rest.size and alternatives <= self.owner.size:
            return
        room, wide = tuples * 3 // 2, alternatives * 3 // 2
        self.tuples = TupleBatch(
            _wider(old.marks, room),
            _wider(old.offsets, room + 1),
            _wider(old.prob, wide),
            _wider(old.values, wide),
        )
        self.owner, self.order = _wider(self.owner, wide), _wider(self.order, wide)
        self.rest = np.ones(room)


def _wider(array: np.ndarray, room: int) -> np.ndarray:
    """A copy with room for so many entries along the last axis."""
    result = np.empty((*array.shape[:-1], room), array.dtype)
    result[..., : array.shape[-1]] = array[..., :room]
    return result
