"""Tuples of complete panes and late tuples, in arrays with room at the end."""

import numpy as np

from sfumato.kernels.windows.pane_moments import RankedValues, cut_slots
from sfumato.operators.arrays import Ints, chosen, moved, spans
from sfumato.operators.laws.moment_channels import Channels
from sfumato.operators.state.tuple_batch import GroupedBatch


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
