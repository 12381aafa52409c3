"""The held tuples of many groups, in one set of arrays."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.kernels.windows.count.count_groups import (
    Groups,
    PackedTuples,
    gather_groups,
    gather_tuples,
)
from sfumato.operators.arrays import Floats, Ints, compact, offsets_of, pad, resize
from sfumato.operators.state.declared import Array, Offsets, Record, Sizes
from sfumato.operators.state.stateful import Stateful
from sfumato.operators.state.tuple_batch import check_held

MAX_OUTCOMES = 2**40  # maximum number of candidate values of an extreme
SPARE = 1024  # spare tuples, so that the arrays of a few groups are not moved at every call
NO_TUPLES = np.empty(0, np.int64)


class SavedGroups(NamedTuple):
    """Saved groups, in order of appearance, and their tuples, stored end to end."""

    codes: Annotated[Ints, Array(int, "groups", low=0)]
    held: Annotated[Ints, Array(int, "groups", low=0)]
    status: Annotated[Ints, Array(int, "groups", 3, low=0)]  # arrived, overflow, short
    integers: Annotated[Ints, Array(int, "integers", "groups", low=-1)]
    triples: Annotated[Floats, Array(float, "triples", "groups", 3)]
    offsets: Annotated[Ints, Offsets("tuples", "alternatives")]
    prob: Annotated[Floats, Array(float, "alternatives", low=0.0)]
    values: Annotated[Floats, Array(float, "attributes", "alternatives")]


class GroupStore(Stateful):
    """Held tuples by group, with the numbers that cannot be derived from them.

    attributes : number of attributes
    integers, triples : numbers of integers and of triples of floats per group; int64[integers,
        groups] and float64[triples, groups, 3]

    A group's tuples are written after all other tuples, and their previous copy becomes dead. When
    the arrays are full, the live tuples move to new arrays.
    """

    state = {"saved": Record(SavedGroups)}

    def __init__(self, attributes: int, integers: int, triples: int) -> None:
        self._sizes = {"attributes": attributes, "integers": integers, "triples": triples}
        self._slots: dict[int, int] = {}  # by code, in order of appearance
        self._end, self._used = 0, 0  # first unused slot; tuples written
        self._begin, self._held = NO_TUPLES, NO_TUPLES
        self.status = np.empty((0, 3), np.int64)
        self.integers = np.empty((integers, 0), np.int64)
        self.triples = np.empty((triples, 0, 3))
        self._tuples = PackedTuples(np.zeros(1, np.int64), np.empty(0), np.empty((attributes, 0)))

    @property
    def codes(self) -> list[int]:
        """Known groups, in order of appearance."""
        return list(self._slots)

    def slots(self, codes: Sequence[int]) -> Ints:
        """Return the slots of groups; assign new slots to new groups."""
        new = [code for code in codes if code not in self._slots]
        if self._end + len(new) > self._held.size:
            self._compact(len(new))
        self._slots.update(zip(new, range(self._end, self._end + len(new)), strict=True))
        self._end += len(new)
        return np.array([self._slots[code] for code in codes], np.int64)

    def join(self, slots: Ints, batch: PackedTuples, order: Ints, starts: Ints) -> Groups:
        """Return each group's tuples, followed by arrivals order[starts[j] : starts[j + 1]]."""
        of = self._tuples, self._begin[slots], self._held[slots], self.status[slots, 0]
        return gather_groups(*of, batch, order, starts)

    def keep(self, slots: Ints, groups: Groups, heads: Ints) -> None:
        """Keep the tuples of these groups starting at positions `heads`; drop earlier tuples."""
        begin = groups.begin[:-1] + heads
        held = groups.begin[1:] - begin
        self.status[slots, 0] += np.diff(groups.arrivals)
        self._write(slots, _gather(groups.tuples, begin, held), held)

    def forget(self, codes: npt.ArrayLike) -> None:
        """Delete groups; unknown codes are ignored."""
        for code in np.asarray(codes).tolist():
            self._slots.pop(code, None)
        self._slots = compact(self._slots)
        if 4 * len(self._slots) + 64 < self._held.size:
            self._compact()

    @property
    def saved(self) -> SavedGroups:
        slots = np.fromiter(self._slots.values(), np.int64, len(self._slots))
        held = self._held[slots]
        return SavedGroups(
            np.array(self.codes, np.int64), held, self.status[slots], self.integers[:, slots],
            self.triples[:, slots], *_gather(self._tuples, self._begin[slots], held),
        )  # fmt: skip

    @saved.setter
    def saved(self, saved: SavedGroups) -> None:
        codes, held, self.status, self.integers, self.triples, offsets, prob, values = saved
        check_held(offsets, prob, values)
        if np.unique(codes).size < codes.size or held.sum() != offsets.size - 1:
            raise ValueError("codes must differ, and every tuple must belong to a group")
        if (held > self.status[:, 0]).any() or (self.integers > self.status[:, 0]).any():
            raise ValueError("no tuple or end of a group may be after its newest tuple")
        sizes = self.triples[..., 1:]
        if np.isnan(self.triples).any() or not ((sizes >= 0) & (sizes < MAX_OUTCOMES)).all():
            raise ValueError("the numbers of a group must be possible for a window")
        self._slots = {code: slot for slot, code in enumerate(codes.tolist())}
        self._begin, self._held = offsets_of(held)[:-1], held
        self._tuples = PackedTuples(offsets, prob, values)
        self._end, self._used = codes.size, offsets.size - 1

    def lengths(self) -> Sizes:
        return self._sizes

    def _write(self, slots: Ints, tuples: PackedTuples, held: Ints) -> None:
        n, m, to = tuples.offsets.size - 1, tuples.prob.size, self._tuples
        self._held[slots] = 0
        full = self._used + n >= to.offsets.size or to.offsets[self._used] + m > to.prob.size
        if full:
            alive = np.full(self._end, -1)
            known = np.fromiter(self._slots.values(), np.int64, len(self._slots))
            alive[known] = np.arange(known.size)
            self._compact(0, n, m)
            slots, to = alive[slots], self._tuples
        begin, at = self._used, to.offsets[self._used]
        to.offsets[begin : begin + n + 1] = tuples.offsets + at
        to.prob[at : at + m], to.values[:, at : at + m] = tuples.prob, tuples.values
        self._begin[slots], self._held[slots] = begin + offsets_of(held)[:-1], held
        self._used += n

    def _compact(self, groups: int = 0, n: int = 0, m: int = 0) -> None:
        """Move live tuples to arrays with room for more groups, n tuples and m alternatives."""
        _, held, status, integers, triples, *tuples = self.saved
        self._slots = dict(zip(self._slots, range(held.size), strict=True))
        self._end, self._used = held.size, int(held.sum())
        room = (self._end + groups) * 3 // 2
        self.status, self._held = pad(status, room), pad(held, room)
        self._begin = pad(offsets_of(held)[:-1], room)
        self.integers = np.full((len(integers), room), -1)
        self.triples = np.zeros((len(triples), room, 3))
        self.integers[:, : held.size], self.triples[:, : held.size] = integers, triples
        wide = (tuples[1].size + m) * 3 // 2 + SPARE
        self._tuples = PackedTuples(
            resize(tuples[0], (self._used + n) * 3 // 2 + SPARE), resize(tuples[1], wide),
            resize(tuples[2], wide),
        )  # fmt: skip


def _gather(tuples: PackedTuples, begin: Ints, held: Ints) -> PackedTuples:
    none = np.zeros(begin.size + 1, np.int64)
    return gather_tuples(tuples, begin, held, tuples, NO_TUPLES, none)
