"""The panes of extents, and the tuples in them."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.laws.mergeable_moments import Sets
from sfumato.kernels.windows import sliding_partials
from sfumato.kernels.windows.extents import PaneGrid, late_of_extents
from sfumato.kernels.windows.sliding_partials import (
    ChannelMeasures,
    LateSlots,
    Panes,
    Partials,
    RankedValues,
    cut_slots,
)
from sfumato.operators.arrays import Floats, Ints, chosen, moved, offsets_of, spans
from sfumato.operators.laws.moment_channels import Channels
from sfumato.operators.state.tuple_batch import GroupedBatch


def measures_of(channels: Channels) -> ChannelMeasures:
    """The `ChannelMeasures` of some channels."""
    return ChannelMeasures(
        what=channels.what,
        channel=channels.channel,
        extreme=np.array(channels.extreme, np.int64),
        sign=np.array([sign for sign, _ in channels.extremes], np.float64),
        attribute=np.array([attribute for _, attribute in channels.extremes], np.int64),
    )


class TuplePool:
    """Tuples in the order in which they were stored, with what min and max need of them.

    tuples : GroupedBatch with `size` tuples    rest : float64[tuples], all 1
    owner : int64[alternatives], tuple of each    order : int64[extremes, alternatives] and
    kept : int64[extremes, slots], see `cut_alternatives`; a slot is a pane or a late tuple
    """

    def __init__(self, attributes: int, extremes: int) -> None:
        self.tuples = GroupedBatch.none(attributes=attributes)
        self.owner = np.empty(0, np.int64)
        self.order = np.empty((extremes, 0), np.int64)
        self.kept = np.zeros((extremes, 0), np.int64)
        self.rest = np.ones(0)
        self.size = 0

    def append(self, batch: GroupedBatch, channels: Channels, slots: Ints, rows: Ints) -> int:
        """Store tuples rows[i] ... rows[i + 1] of the batch for slots[i]; where the first went."""
        n, m = self.size, int(self.tuples.offsets[self.size])
        end, last = n + batch.size, m + batch.prob.size
        self._make_room(end, last)
        tuples = self.tuples
        for name in ("index", "group", "time", "number"):
            getattr(tuples, name)[n:end] = getattr(batch, name)
        tuples.offsets[n : end + 1] = batch.offsets + m
        tuples.prob[m:last], tuples.values[:, m:last] = batch.prob, batch.values
        owner = np.repeat(np.arange(batch.size), np.diff(batch.offsets))
        self.owner[m:last] = owner + n
        begins = batch.offsets[rows]
        of = np.repeat(np.arange(slots.size), np.diff(begins))
        for x, (sign, attribute) in enumerate(channels.extremes):
            values = batch.values[attribute]
            order = np.lexsort((-sign * values, of)) - begins[of]
            none = np.empty(0, np.int64)
            ranked = RankedValues(none, values, batch.prob, owner, self.rest, none, self.kept[x])
            cut_slots(slots, begins, ranked, order)
            self.order[x, m:last] = order
        self.size = end
        return n

    def ranked(self, x: int, attribute: int, first: Ints) -> RankedValues:
        """The alternatives by the value of extreme x; first : the panes' first tuples."""
        tuples = self.tuples
        return RankedValues(
            tuples.offsets[first], tuples.values[attribute], tuples.prob, self.owner, self.rest,
            self.order[x], self.kept[x],
        )  # fmt: skip

    def compact(self, first: Ints, count: Ints) -> Ints:
        """Keep only count[i] tuples from first[i] on; where each of these parts is now."""
        begins, at = spans(first, count)
        _, flat = chosen(self.tuples.offsets, at)
        self.tuples = self.tuples.take(at)
        self.order = np.ascontiguousarray(self.order[:, flat])
        self.owner = np.repeat(np.arange(at.size), np.diff(self.tuples.offsets))
        self.size, self.rest = at.size, np.ones(at.size)
        return begins[:-1]

    def add_slots(self, more: int) -> None:
        """Room in `kept` for so many slots more."""
        self.kept = np.concatenate([self.kept, np.zeros((len(self.kept), more), np.int64)], axis=1)

    def _make_room(self, tuples: int, alternatives: int) -> None:
        """Room for so many; when it must grow, for half as many again."""
        old = self.tuples
        if tuples <= self.rest.size and alternatives <= self.owner.size:
            return
        room, wide = tuples * 3 // 2, alternatives * 3 // 2
        rooms = {"offsets": room + 1, "prob": wide, "values": wide}
        arrays = {name: moved(a, rooms.get(name, room)) for name, a in vars(old).items()}
        self.tuples = GroupedBatch(**arrays)
        self.owner, self.order = moved(self.owner, wide), moved(self.order, wide)
        self.rest = np.ones(room)


class LateTuples(NamedTuple):
    """Late tuples that some extents take, in order of (group, arrival): int64[q] each.

    first, last : the extents that take it    slot : of its partial    place : in the pool
    """

    group: Ints
    first: Ints
    last: Ints
    slot: Ints
    place: Ints


class PaneStore:
    """Panes in order of (group, number), late tuples beside them, each with its partials.

    The tuples lie in a pool, those of a pane one after the other; tuples that nothing needs any
    more are removed once they are more than half.
    """

    def __init__(self, channels: Channels, grid: PaneGrid, attributes: int) -> None:
        self.channels, self.grid = channels, grid
        self.measures = measures_of(channels)
        self.panes = Panes(*(np.empty(0, np.int64) for _ in Panes._fields))
        self.late = LateTuples(*(np.empty(0, np.int64) for _ in LateTuples._fields))
        self._pool = TuplePool(attributes, len(channels.extremes))
        self._free = np.empty(0, np.int64)
        self._noded = False
        self._partials = Partials(
            channels.room(0, False), channels.room(0, False), np.zeros(0, bool)
        )

    @property
    def held(self) -> int:
        """Tuples stored."""
        return int(self.panes.size.sum()) + self.late.place.size

    def add(self, batch: GroupedBatch, pane: Ints) -> None:
        """Put in whole panes that are new.

        batch : tuples in order of (group, pane)    pane : int64[n], the number of each's pane
        """
        if not batch.size:
            return
        group = batch.group
        change = np.flatnonzero((np.diff(group) != 0) | (np.diff(pane) != 0)) + 1
        first = np.concatenate([np.zeros(1, np.int64), change])
        rows = np.append(first, batch.size)
        slots, begin = self._store(batch, rows)
        fresh = Panes(group[first], pane[first], slots, first + begin, np.diff(rows))
        both = [np.concatenate(pair) for pair in zip(self.panes, fresh, strict=True)]
        order = np.lexsort((both[1], both[0]))
        self.panes = Panes(*(column[order] for column in both))
        is_fresh = order >= order.size - first.size
        sliding_partials.prefix_panes(self.panes, is_fresh, self.grid.width, self._partials)

    def add_late(self, batch: GroupedBatch, first: Ints, last: Ints) -> None:
        """Put in late tuples, in order of arrival; extents first[i] ... last[i] take tuple i."""
        if not batch.size:
            return
        slots, begin = self._store(batch, np.arange(batch.size + 1))
        fresh = (batch.group, first, last, slots, np.arange(batch.size) + begin)
        both = [np.concatenate(pair) for pair in zip(self.late, fresh, strict=True)]
        order = np.argsort(both[0], kind="stable")
        self.late = LateTuples(*(column[order] for column in both))

    def answer(self, extents: np.ndarray, groups: Ints, aggregates: int) -> tuple[Floats, Ints]:
        """(float64[r, 3, m]: mean, standard deviation, existence; int64[m]: tuples) of extents.

        extents : EXTENT[m], places being those in `panes`    groups : int64[m]
        """
        channels, pool = self.channels, self._pool
        answers = np.full((aggregates, 3, len(extents)), np.nan)
        held = np.zeros(len(extents), np.int64)
        begins, which = self._late_of(extents, groups)
        at = pool.tuples.offsets[self.late.place[which]]
        late = LateSlots(begins, self.late.slot[which], at)
        sliding_partials.answer_extents(
            extents, self.panes, self.grid, late, self.measures, self._partials, answers, held
        )
        extremes = np.empty((len(channels.extremes), 3, len(extents)))
        for x, (sign, attribute) in enumerate(channels.extremes):
            ranked = pool.ranked(x, attribute, self.panes.first)
            sliding_partials.answer_extremes(extents, self.panes, late, sign, ranked, extremes[x])
        for r, x in enumerate(channels.extreme):
            if x >= 0:
                answers[r] = extremes[x]
        return answers, held

    def members(self, extents: np.ndarray, groups: Ints) -> tuple[Ints, Ints]:
        """Where in the pool the tuples of extents are: (int64[m + 1], int64[k])."""
        begins, which = self._late_of(extents, groups)
        parts = [np.empty(0, np.int64)]
        for x, (low, high) in enumerate(zip(extents["low"], extents["high"], strict=True)):
            panes = Panes(*(column[low:high] for column in self.panes))
            parts += [_rows_of(panes), self.late.place[which[begins[x] : begins[x + 1]]]]
        sizes = [a.size + b.size for a, b in zip(parts[1::2], parts[2::2], strict=True)]
        return offsets_of(np.array(sizes, np.int64)), np.concatenate(parts)

    def tuples_at(self, rows: Ints) -> GroupedBatch:
        """The tuples at some places of the pool."""
        return self._pool.tuples.take(rows)

    def numbers_of(self, extents: np.ndarray, groups: Ints) -> tuple[Ints, Ints]:
        """`members` by number."""
        offsets, rows = self.members(extents, groups)
        return offsets, self._pool.tuples.number[rows]

    def keep(self, panes: np.ndarray, late: np.ndarray) -> None:
        """Drop all panes and late tuples but those wanted (bool each)."""
        if panes.all() and late.all():
            return
        freed = [self._free, self.panes.slot[~panes], self.late.slot[~late]]
        self._free = np.concatenate(freed)
        self.panes = Panes(*(column[panes] for column in self.panes))
        self.late = LateTuples(*(column[late] for column in self.late))
        if self._pool.size > 2 * self.held + 64:
            first = np.concatenate([self.panes.first, self.late.place])
            count = np.concatenate([self.panes.size, np.ones_like(self.late.place)])
            moved, n = self._pool.compact(first, count), self.panes.first.size
            self.panes = self.panes._replace(first=moved[:n])
            self.late = self.late._replace(place=moved[n:])

    def tuples(self) -> GroupedBatch:
        """The tuples of all panes, in order of (group, pane)."""
        return self._pool.tuples.take(_rows_of(self.panes))

    def late_tuples(self) -> GroupedBatch:
        """The late tuples, in order of (group, arrival)."""
        return self._pool.tuples.take(self.late.place)

    def numbers(self) -> Ints:
        """The numbers of all tuples."""
        rows = np.concatenate([_rows_of(self.panes), self.late.place])
        return self._pool.tuples.number[rows]

    def _late_of(self, extents: np.ndarray, groups: Ints) -> tuple[Ints, Ints]:
        """(int64[m + 1], int64[k]): which of the late tuples each extent holds."""
        sides = [np.searchsorted(self.late.group, groups, side) for side in ("left", "right")]
        starts = np.stack(sides, axis=1)
        given = extents, starts, self.late.first, self.late.last
        begins = late_of_extents(*given, np.empty(0, np.int64))
        which = np.empty(int(begins[-1]), np.int64)
        if which.size:
            late_of_extents(*given, which)
        return begins, which

    def _store(self, batch: GroupedBatch, rows: Ints) -> tuple[Ints, int]:
        """Slots for tuples rows[i] ... rows[i + 1], with their partials; where the first went."""
        slots = self._take_slots(rows.size - 1)
        lifted, uncertain = self.channels.lifted(batch)
        self._make_nodes(uncertain)
        sliding_partials.fill_slots(slots, rows, lifted, self._partials)
        self._partials.suffixed[slots] = False
        return slots, self._pool.append(batch, self.channels, slots, rows)

    def _take_slots(self, wanted: int) -> Ints:
        missing = wanted - self._free.size
        if missing > 0:
            old = self._partials
            before = old.suffixed.size
            room = max(missing, before // 2, 4)
            self._free = np.concatenate([self._free, np.arange(before, before + room)])
            self._partials = Partials(
                self._wider(old.own, room),
                self._wider(old.prefix, room),
                np.concatenate([old.suffixed, np.zeros(room, bool)]),
            )
            self._pool.add_slots(room)
        taken, self._free = self._free[:wanted], self._free[wanted:]
        return np.ascontiguousarray(taken)

    def _wider(self, old: Sets, room: int) -> Sets:
        more = self.channels.room(room, self._noded)
        nodes = np.concatenate([old.nodes, more.nodes]) if self._noded else old.nodes
        return Sets(np.concatenate([old.sums, more.sums]), nodes)

    def _make_nodes(self, uncertain: bool) -> None:
        """Nodes take most of the memory: none before the first tuple that needs them."""
        if uncertain and not self._noded:
            self._noded = True
            own, prefix, suffixed = self._partials
            self._partials = Partials(
                Sets(own.sums, self.channels.room(suffixed.size, True).nodes),
                Sets(prefix.sums, self.channels.room(suffixed.size, True).nodes),
                suffixed,
            )


def _rows_of(panes: Panes) -> Ints:
    """Places of some panes' tuples in the pool."""
    return spans(panes.first, panes.size)[1]
