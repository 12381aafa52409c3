"""Tuples of groups that nothing happens to: found by group, and passed over by nothing else."""

import numpy as np

from sfumato.operators.arrays import Bools, Ints, spans
from sfumato.operators.state.tuple_batch import GroupedBatch


class RestingTuples:
    """Adds and takes tuples of whole groups; those of a group stay in order.

    A few levels of falling size, each in order of group. Cost: O(log n) searches a group taken,
    O(log n) copies a tuple in all.
    """

    def __init__(self, attributes: int) -> None:
        self._none = GroupedBatch.none(attributes=attributes)
        self._levels: list[tuple[GroupedBatch, Bools]] = []  # and what is there still
        self.size = 0

    def add(self, tuples: GroupedBatch) -> None:
        """Put in tuples, which come after those of their groups that are here."""
        self.size += tuples.size
        while self._levels and self._levels[-1][0].size < 2 * tuples.size:
            tuples = GroupedBatch.joined([self._rest_of(*self._levels.pop()), tuples])
        if tuples.size:
            tuples = tuples.take(np.argsort(tuples.group, kind="stable"))
            self._levels.append((tuples, np.ones(tuples.size, bool)))

    def take(self, groups: Ints) -> GroupedBatch:
        """Take out the tuples of some groups (distinct)."""
        parts = [self._none]
        for tuples, here in self._levels:
            column = tuples.group
            first, last = (np.searchsorted(column, groups, side) for side in ("left", "right"))
            places = spans(first, last - first)[1]
            places = places[here[places]]
            if places.size:
                here[places] = False
                parts.append(tuples.take(places))
        taken = GroupedBatch.joined(parts)
        self.size -= taken.size
        if sum(len(here) for _, here in self._levels) > 2 * self.size + 1024:
            rest = self.all()
            self._levels, self.size = [], 0
            self.add(rest)
        return taken

    def all(self) -> GroupedBatch:
        """The tuples that are here."""
        return GroupedBatch.joined([self._none, *(self._rest_of(*level) for level in self._levels)])

    @property
    def numbers(self) -> Ints:
        """Their numbers."""
        parts = (tuples.number[here] for tuples, here in self._levels)
        return np.concatenate([np.empty(0, np.int64), *parts])

    def _rest_of(self, tuples: GroupedBatch, here: Bools) -> GroupedBatch:
        return tuples if here.all() else tuples.take(here)
