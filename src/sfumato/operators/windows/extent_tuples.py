"""The tuples of extents, group by group."""

from dataclasses import dataclass

import numpy as np

from sfumato.kernels.windows import extents
from sfumato.kernels.windows.extents import EXTENT, Groups, PaneGrid, list_extents
from sfumato.limits import check_extents
from sfumato.operators.arrays import Bools, Ints, running_maximum, spans
from sfumato.operators.laws.aggregate import Aggregate
from sfumato.operators.laws.finite_laws import LawOptions
from sfumato.operators.laws.moment_channels import Channels
from sfumato.operators.state.tuple_batch import GroupedBatch
from sfumato.operators.windows.extents import ExtentGroups, microseconds
from sfumato.operators.windows.pane_store import PaneStore


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


MOST_AWAKE = 4096  # tuples that a pass may look at, before groups are let to rest
MOST_RESTING = 64  # tuples of a group that rests: it is put together again when it wakes


@dataclass(frozen=True)
class ExtentConfig:
    """Arguments of an `ExtentAggregate`; see there."""

    length: int
    slide: int
    aggregates: tuple[Aggregate, ...]
    empty: bool
    most_empty: int
    members: bool
    attributes: int
    options: LawOptions

    def __post_init__(self) -> None:
        microseconds("length", self.length)
        check_extents(self.length, microseconds("slide", self.slide))


class ExtentTuples:
    """Tuples as they come (`add`), then in `panes` (`move_complete`), or at rest."""

    def __init__(self, config: ExtentConfig, groups: ExtentGroups) -> None:
        self.groups, self._slide = groups, config.slide
        whole, part = divmod(config.length, config.slide)
        self._cut = config.slide - part if part else 0  # where in a slide extents begin
        grid = PaneGrid(2, 2 * whole + 1) if part else PaneGrid(1, whole)
        self.panes = PaneStore(Channels(config.aggregates), grid, config.attributes)
        self._pending: list[GroupedBatch] = []
        self._resting, self._most = RestingTuples(config.attributes), MOST_AWAKE

    @property
    def size(self) -> int:
        """Tuples stored."""
        pending = sum(batch.size for batch in self._pending)
        return self._resting.size + self.panes.held + pending

    @property
    def numbers(self) -> Ints:
        """Their numbers, in no order."""
        pending = (batch.number for batch in self._pending)
        return np.concatenate([self._resting.numbers, self.panes.numbers(), *pending])

    def all(self) -> GroupedBatch:
        """All tuples but the late ones of the panes."""
        return GroupedBatch.joined([self._resting.all(), self.panes.tuples(), *self._pending])

    def add(self, tuples: GroupedBatch) -> None:
        """Take tuples that are not late."""
        if tuples.size:
            self._pending.append(tuples)

    def take(self, batch: GroupedBatch, judged: np.ndarray) -> None:
        """Store the rows that an extent takes; judged : JUDGED[n]."""
        verdict = judged["verdict"]
        taken = np.flatnonzero(verdict <= extents.JOINED)
        if not taken.size:
            return
        stored = batch.take(taken)  # a copy, also of all
        of = judged if taken.size == judged.size else judged[taken]
        self.groups.number(stored, of)
        joined_late = verdict[taken] == extents.JOINED
        if joined_late.any():
            late = np.flatnonzero(joined_late)
            first, last = of["first"][late], of["last"][late]
            self.panes.add_late(stored.take(late), first, last)
            stored = stored.take(np.flatnonzero(~joined_late))
        self.add(stored)

    def extents_of(self, closings: np.ndarray, most_empty: int) -> tuple[np.ndarray, Ints, int]:
        """(EXTENT[m], with rows of `closings`; int64[m], their groups; number): complete now.

        most_empty : extents without a tuple in a gap that come out too; -1: none. The number is
            that of extents in longer gaps
        """
        panes, late, grid = self.panes.panes, self.panes.late, self.panes.grid
        groups = np.union1d(panes.group, late.group)
        by_first = np.lexsort((late.first, late.group))
        first, late_group = late.first[by_first], late.group[by_first]
        by_scope = np.argsort(closings["scope"], kind="stable")
        ordered = closings[by_scope]
        scope = self.groups.scope_of[groups]
        begins = np.searchsorted(ordered["scope"], scope)
        closing = begins < len(ordered)
        closing[closing] = ordered["scope"][begins[closing]] == scope[closing]
        asked = Groups(
            starts=np.append(np.searchsorted(panes.group, groups), panes.group.size),
            panes=panes.number,
            late_starts=np.append(np.searchsorted(late_group, groups), late_group.size),
            first=first,
            reach=running_maximum(late.last[by_first], late_group),
            begins=np.where(closing, begins, -1),
            previous=self.groups.previous[groups],
            most=most_empty,
        )
        counts, skipped = list_extents(asked, grid, ordered, np.empty(0, EXTENT))
        found = np.empty(int(counts.sum()), EXTENT)
        if len(found):
            list_extents(asked, grid, ordered, found)
        last = np.cumsum(counts)[counts > 0] - 1
        self.groups.previous[groups[counts > 0]] = found["number"][last]
        found["closing"] = by_scope[found["closing"]]
        return found, np.repeat(groups, counts), int(skipped)

    def forget(self) -> None:
        """Drop panes and late tuples that no further extent holds."""
        panes, late, grid = self.panes.panes, self.panes.late, self.panes.grid
        following = (self.groups.closed(panes.group) + 1) * grid.per_slide
        still = late.last > self.groups.closed(late.group)
        self.panes.keep(panes.number >= following - grid.width, still)

    def wake(self, scopes: Ints) -> None:
        """Bring back the groups of scopes in which something is complete."""
        if self._resting.size and scopes.size:
            woken = self._resting.take(np.unique(scopes))
            if woken.size:
                self._pending.insert(0, woken)

    def rest(self, busy: Ints) -> None:
        """Let groups rest that hold little and are scopes of their own, so that no pass over what
        is held sees them until one of their extents is complete.

        busy : groups that stay. Where too many are awake, most of them must find rest, or it is
        tried again only later: a try is a pass over all that are awake.
        """
        panes = self.panes
        size = self.size - self._resting.size
        if size <= self._most:
            self._most = max(MOST_AWAKE, self._most * 4 // 5)
            return
        awake = GroupedBatch.joined([panes.tuples(), *self._pending])
        groups, inverse, counts = np.unique(awake.group, return_inverse=True, return_counts=True)
        some = (counts <= MOST_RESTING) & (self.groups.scope_of[groups] == groups)
        some &= ~np.isin(groups, busy) & ~np.isin(groups, panes.late.group)
        resting = some[inverse.reshape(-1)]
        self._most = max(MOST_AWAKE, 2 * size)
        if 2 * np.count_nonzero(resting) < size:
            return
        in_panes = awake.size - sum(batch.size for batch in self._pending)
        self._resting.add(awake.take(resting))
        resting[:in_panes] = True
        panes.keep(~np.isin(panes.panes.group, groups[some]), np.ones(panes.late.place.size, bool))
        self._pending = [awake.take(~resting)] if not resting.all() else []
        self._most = MOST_AWAKE

    def _pane_of(self, time: Ints) -> Ints:
        whole = time // self._slide
        return 2 * whole + (time - whole * self._slide >= self._cut) if self._cut else whole

    def move_complete(self) -> None:
        """Move the tuples of complete panes to the panes: those whose slide is complete."""
        if not self._pending:
            return
        tuples = GroupedBatch.joined(self._pending)
        pane = self._pane_of(tuples.time)
        limit = self.groups.closed(tuples.group)
        done = pane // self.panes.grid.per_slide + 1 <= limit
        order = np.flatnonzero(done)
        order = order[np.lexsort((pane[order], tuples.group[order]))]
        if order.size:
            self.panes.add(tuples.take(order), pane[order])
        staying = np.flatnonzero(~done)
        self._pending = [] if not staying.size else [tuples]
        if order.size and staying.size:
            self._pending = [tuples.take(staying)]
