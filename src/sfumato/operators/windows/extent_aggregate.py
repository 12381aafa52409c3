"""Aggregates over time extents of uncertain tuples, driven by punctuations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.windows import extents as kernel
from sfumato.kernels.windows.extent_lists import EXTENT, Groups, PaneGrid, list_extents
from sfumato.operators.arrays import Ints, running_maximum
from sfumato.operators.laws.aggregate import Aggregate
from sfumato.operators.laws.finite_laws import LawOptions
from sfumato.operators.laws.independent_law import LawfulResults, checked_aggregates
from sfumato.operators.laws.moment_channels import Channels
from sfumato.operators.state.declared import Array, Part, Record, Value
from sfumato.operators.state.stateful import Operator
from sfumato.operators.state.tuple_batch import (
    GroupedBatch,
    check_held,
    checked_alternatives,
    codes,
    grouped_layout,
)
from sfumato.operators.windows.extent_groups import ExtentGroups
from sfumato.operators.windows.extents import LONGEST, Extents, check_codes, microseconds
from sfumato.operators.windows.missed_rows import MissedRows
from sfumato.operators.windows.pane_store import PaneStore
from sfumato.operators.windows.resting_tuples import RestingTuples

__all__ = ["ExtentAggregate", "Extents"]

VERDICTS = (kernel.LATE, kernel.OUTSIDE, kernel.ABSENT)
COUNTERS = ("late", "outside", "absent", "out_of_order")
NEVER = kernel.NEVER
MOST_AWAKE = 4096  # tuples that a pass may look at, before groups are let to rest
MOST_RESTING = 64  # tuples of a group that rests: it is put together again when it wakes


@dataclass(frozen=True)
class ExtentConfig:
    """What an `ExtentAggregate` is made of; see there."""

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
        microseconds("slide", self.slide)


class ExtentAggregate(Operator):
    """Aggregates over RANGE windows: extent i holds (i + 1) s - n <= event time < (i + 1) s.

    length, slide : int > 0 microseconds, n and s; extents are aligned to time 0
    aggregates : what is measured
    empty : a group's extents without a tuple between two that hold one come out too. They are known
        to be between only when the later one is complete: they come out just before that, with
        its punctuation and late count; a gap of more than `most_empty` of them is left out whole
    members : the extents' tuples come out too, by number
    attributes : columns of `values` (None: as many as the aggregates need)
    options : quantiles, distribution, seed, samples, see `LawOptions`

    Rows belong to a group (what is aggregated together) and a scope (what shares punctuations; a
    group stays in one scope). An extent is complete when a punctuation is at least its end - 1 and
    all rows that punctuation let out have come. Rows let out together come in event-time order,
    so this shows at the first row of the scope that is not before the extent's end or has a higher
    punctuation. Every complete extent comes out exactly once, for each group with a tuple in it, in
    order of completion, then of (end, group).

    - A late row (so flagged, with the punctuation of its own source) is in every extent that
      contains it and ends after that punctuation; the others have missed it. It says nothing about
      progress. A row that is not flagged is in every extent that contains it and is not complete.
    - `late` of an extent: the rows of its group that it contains and has missed, so far.
    - A row that no extent takes any more is counted as `late`.
    - With slide > length, a row between extents is in none; counted as `outside`, never stored.
    - A tuple without alternatives is in no extent; counted as `absent`. Its time counts.
    - A row in order at or below a punctuation that came before its own, or whose punctuation falls,
      shows that the rows are not those of one controller: counted as `out_of_order`.

    Results do not depend on how rows are split into calls, nor on snapshot and restore.
    Guarantee: mean and standard deviation are exact (see `mergeable_moments`, `extreme_law`),
    quantiles and distributions as `law_of` says.
    Cost: O(1) a tuple (some 100 nodes if an average is asked for and the tuple may not exist, a
    sort of its pane for min and max), O(1) an extent whatever the overlap (O(n/s) for min, max);
    laws, where asked for, are computed anew for
    each extent. A late row costs a merge in each extent that takes it.
    Where groups are scopes of their own, work is for those with rows, however many there are.
    Memory: the tuples of one RANGE and one slide, and partials of some 200 bytes a pane, group and
    attribute (10 KB with an average over uncertain existence).
    Raises ValueError or TypeError for arguments out of range.  Source: C, section 6; A, 8.1.

    >>> window = ExtentAggregate(10, 10, [Aggregate("sum", 0)])
    >>> found = window.process(np.zeros(3, int), np.array([1, 4, 12]), None, None,
    ...     np.arange(4), np.array([0.5, 1.0, 1.0]), np.array([[4.0], [2.0], [9.0]]))
    >>> found.start.tolist(), found.held.tolist(), found.results[0].mean.tolist()
    ([0], [2], [4.0])
    """

    kind, version = "extent_aggregate", 3
    spread = ("options",)
    config: ExtentConfig
    state = {
        "groups": Part(),
        "tuples": Record(GroupedBatch),
        "late": Record(GroupedBatch, grouped_layout("late", "late alternatives")),
        "joins": Array(int, 2, "late"),
        "missed": Part(),
        "counts": Array(int, len(COUNTERS), low=0),
        "next": Value(low=0),
    }

    def __init__(
        self,
        length: int,
        slide: int,
        aggregates: Sequence[Aggregate],
        *,
        empty: bool = False,
        most_empty: int = 10_000,
        members: bool = False,
        attributes: int | None = None,
        **options: Any,
    ) -> None:
        self.length, self.slide = microseconds("length", length), microseconds("slide", slide)
        self.attributes = checked_aggregates(aggregates, attributes)
        self.aggregates, self.options = list(aggregates), LawOptions(**options)
        self.empty, self.most_empty, self.members = empty, most_empty, members
        self.config = ExtentConfig(
            self.length, self.slide, tuple(aggregates), empty, most_empty, members,
            self.attributes, self.options,
        )  # fmt: skip
        whole, part = divmod(self.length, self.slide)
        self._cut = self.slide - part if part else 0  # where in a slide extents begin
        grid = PaneGrid(2, 2 * whole + 1) if part else PaneGrid(1, whole)
        self._panes = PaneStore(Channels(self.aggregates), grid, self.attributes)
        self._pending: list[GroupedBatch] = []
        self._resting, self._most = RestingTuples(self.attributes), MOST_AWAKE
        self.groups = ExtentGroups()
        self.missed = MissedRows()
        self.counts = np.zeros(len(COUNTERS), np.int64)
        self.next = 0
        self._nothing: Extents | None = None  # of no completed extents, made once

    def process(
        self,
        group: npt.ArrayLike,
        event_time: npt.ArrayLike,
        punctuation: npt.ArrayLike | None,
        late: npt.ArrayLike | None,
        offsets: npt.ArrayLike,
        prob: npt.ArrayLike,
        values: npt.ArrayLike,
        *,
        scope: npt.ArrayLike | None = None,
    ) -> Extents:
        """Take n rows, in the order in which they were let out; the extents they complete.

        group : int64[n] >= 0, dense codes    event_time : int64[n] microseconds
        punctuation : int64[n] microseconds: of a late row that of its source when it came, of
            others that of the scope when they came out; None: rows come by event time, each with a
            punctuation of its event time - 1
        late : bool[n], None: none is    scope : int64[n] >= 0, dense codes; None: the groups'
        offsets : int64[n + 1], prob : float64[m], values : float64[m, a], alternatives; NaN: none
        Raises TypeError or ValueError, with nothing taken, for arrays that do not fit.
        """
        n = np.asarray(event_time).size
        group, time = codes("group", group, n), codes("event_time", event_time, n)
        scope = group if scope is None else codes("scope", scope, n)
        check_codes(group, scope, time)
        self.groups.check(group, scope)
        forced, flags = _punctuated(n, punctuation, late)
        offsets, prob, table = checked_alternatives(n, offsets, prob, values, self.attributes)
        self.groups.take(group, scope)
        rows = kernel.ReleasedRows(scope, time, np.diff(offsets) > 0, forced, flags)
        judged = np.empty(n, kernel.JUDGED)
        closings = np.empty(2 * n, kernel.CLOSING)
        found = kernel.sweep(rows, self.length, self.slide, self.groups.scopes, judged, closings)
        kinds = np.bincount(judged["verdict"], minlength=kernel.ABSENT + 1)
        self.counts += [*kinds[[*VERDICTS]], judged["out_of_order"].sum()]
        if kinds[kernel.JOINED] or kinds[kernel.LATE]:
            of = judged["verdict"]
            some = np.flatnonzero((of == kernel.JOINED) | (of == kernel.LATE))
            first, last = judged["missed_from"][some], judged["missed_to"][some]
            self.missed.add(group[some], first, last)
        numbers = np.arange(n) + self.next
        batch = GroupedBatch(offsets, prob, table, np.zeros_like(time), group, time, numbers)
        self._take(batch, judged)
        self.next += n
        extents = self._complete(closings[:found])
        self._rest(group)
        return extents

    def idle_groups(self) -> Ints:
        """Groups that hold no tuple that an extent may still need: `forget` changes no answer.

        None where extents without a tuple come out.  O(groups).
        """
        groups = self.groups
        known = np.flatnonzero(groups.scope_of >= 0)
        if self.empty:
            return known[:0]
        known = known[groups.reach[known] <= groups.closed(known)]
        return known[~np.isin(known, self.missed.table[0])]

    def forget(self, groups: Ints) -> None:
        """Drop what is known of these groups, but for their scopes; their codes may come again."""
        self.groups.forget(groups)

    def close(self, groups: Ints) -> Extents:
        """Complete what these groups, each a scope of its own, hold, and know nothing of them any
        more; their codes may come again."""
        extents = self.idle(groups)
        self.missed.leave(groups)
        self.groups.forget(groups, scopes=True)
        return extents

    def idle(self, scopes: npt.ArrayLike | None = None) -> Extents:
        """Complete all extents that hold a tuple of these scopes (None: all).

        The punctuation is then the last one's end - 1, so that they miss later rows before it.
        """
        known = np.arange(len(self.groups.scopes))
        wanted = known if scopes is None else np.unique(np.asarray(scopes, np.int64))
        wanted = wanted[(wanted >= 0) & (wanted < len(known))]
        closings = np.empty(2 * wanted.size, kernel.CLOSING)
        found = kernel.close_all(wanted, self.length, self.slide, self.groups.scopes, closings)
        return self._complete(closings[:found], at_once=True)

    def flush(self) -> Extents:
        """Complete all extents that hold a tuple: the stream has ended."""
        return self.idle()

    @property
    def counters(self) -> dict[str, int]:
        """rows; late, outside, absent: in no extent; out_of_order; held: tuples stored now."""
        counts = {name: int(n) for name, n in zip(COUNTERS, self.counts, strict=True)}
        held = sum(batch.size for batch in self._pending) + self._panes.held
        return {"rows": self.next, **counts, "held": held + self._resting.size}

    @property
    def numbers(self) -> Ints:
        """Numbers of the rows whose tuples are stored now, among all rows so far, in no order."""
        pending = (batch.number for batch in self._pending)
        return np.concatenate([self._resting.numbers, self._panes.numbers(), *pending])

    def before_saving(self) -> None:
        panes = self._panes
        self.tuples = GroupedBatch.joined([self._resting.all(), panes.tuples(), *self._pending])
        self.late = panes.late_tuples()
        self.joins = np.stack([panes.late.first, panes.late.last])

    def after_loading(self) -> None:
        self._check()
        self._pending = [self.tuples] if self.tuples.size else []
        self._rest(self.late.group)
        self._move_complete()  # partials are computed again
        self._panes.add_late(self.late, *self.joins)

    def _check(self) -> None:
        """Raise ValueError for a state that leads kernels astray."""
        most = (self.length + LONGEST) // self.slide + 2
        for batch in (self.tuples, self.late):
            check_codes(batch.group, batch.number, batch.time)
            if (batch.group >= len(self.groups.scope_of)).any():
                raise ValueError("tuples must be of known groups")
            check_held(batch.offsets, batch.prob, batch.values)
        numbers = (
            self.groups.saved_scopes, self.groups.previous, self.groups.reach, self.joins,
            self.missed.table[1:],
        )  # fmt: skip
        if any(part.size and abs(part).max() > max(most, -NEVER) for part in numbers):
            raise ValueError("times and extents must lie within their range")
        first, last = self.joins
        if (first > last).any() or (last - first > self.length // self.slide + 1).any():
            raise ValueError("late tuples must be in extents that contain them")
        if (self.groups.scope_of[self.late.group] < 0).any():
            raise ValueError("tuples must be of a known scope")
        missed = self.missed.table[0]
        if missed.size and not 0 <= missed.min() <= missed.max() < len(self.groups.scope_of):
            raise ValueError("rows that extents missed must be of known groups")

    def _take(self, batch: GroupedBatch, judged: np.ndarray) -> None:
        """Store the rows that an extent takes."""
        verdict = judged["verdict"]
        taken = np.flatnonzero(verdict <= kernel.JOINED)
        if not taken.size:
            return
        stored = batch.take(taken)  # a copy, also of all
        of = judged if taken.size == judged.size else judged[taken]
        self.groups.number(stored, of)
        joined_late = verdict[taken] == kernel.JOINED
        if joined_late.any():
            late = np.flatnonzero(joined_late)
            first, last = of["first"][late], of["last"][late]
            self._panes.add_late(stored.take(late), first, last)
            stored = stored.take(np.flatnonzero(~joined_late))
        if stored.size:
            self._pending.append(stored)

    def _pane_of(self, time: Ints) -> Ints:
        whole = time // self.slide
        return 2 * whole + (time - whole * self.slide >= self._cut) if self._cut else whole

    def _move_complete(self) -> None:
        """Move the tuples of complete panes to the panes: those whose slide is complete."""
        if not self._pending:
            return
        tuples = GroupedBatch.joined(self._pending)
        pane = self._pane_of(tuples.time)
        limit = self.groups.closed(tuples.group)
        done = pane // self._panes.grid.per_slide + 1 <= limit
        order = np.flatnonzero(done)
        order = order[np.lexsort((pane[order], tuples.group[order]))]
        if order.size:
            self._panes.add(tuples.take(order), pane[order])
        staying = np.flatnonzero(~done)
        self._pending = [] if not staying.size else [tuples]
        if order.size and staying.size:
            self._pending = [tuples.take(staying)]

    def _complete(self, closings: np.ndarray, at_once: bool = False) -> Extents:
        """The extents of some closings, dropping what no further extent needs."""
        panes = self._panes
        if not closings.size and self._nothing is not None:
            return self._nothing
        self._wake(closings)
        self._move_complete()
        found, groups = self._list(closings)
        answers, held = panes.answer(found, groups, len(self.aggregates))
        turn = np.zeros(len(found)) if at_once else found["closing"]
        order = np.lexsort((groups, found["number"], turn))
        results = LawfulResults(self.aggregates, self.options, answers)
        if results.lawful:
            ends, rows = panes.members(found, groups)
            for x in range(len(found)):
                results.put(x, panes.tuples_at(rows[ends[x] : ends[x + 1]]))
        end = found["number"][order] * self.slide
        offsets, numbers = None, None
        if self.members:
            offsets, rows = panes.members(found[order], groups[order])
            numbers = panes.numbers_at(rows)
        extents = Extents(
            end - self.length, end, groups[order], held[order],
            closings["at"][found["closing"][order]], self.missed.of(found, groups)[order],
            results.measured(order), offsets, numbers,
        )  # fmt: skip
        self._forget()
        if not closings.size:
            self._nothing = extents
        return extents

    def _wake(self, closings: np.ndarray) -> None:
        """Bring back the groups of scopes in which something is complete."""
        if self._resting.size and closings.size:
            woken = self._resting.take(np.unique(closings["scope"]))
            if woken.size:
                self._pending.insert(0, woken)

    def _rest(self, busy: Ints) -> None:
        """Let groups rest that hold little and are scopes of their own, so that no pass over what
        is held sees them until one of their extents is complete.

        busy : groups that stay. Where too many are awake, most of them must find rest, or it is
        tried again only later: a try is a pass over all that are awake.
        """
        panes = self._panes
        size = panes.held + sum(batch.size for batch in self._pending)
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

    def _list(self, closings: np.ndarray) -> tuple[np.ndarray, Ints]:
        """(EXTENT[m], with rows of `closings`; int64[m], their groups)."""
        panes, late = self._panes.panes, self._panes.late
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
            most=self.most_empty if self.empty else -1,
        )
        counts = list_extents(asked, self._panes.grid, ordered, np.empty(0, EXTENT))
        found = np.empty(int(counts.sum()), EXTENT)
        if len(found):
            list_extents(asked, self._panes.grid, ordered, found)
        last = np.cumsum(counts)[counts > 0] - 1
        self.groups.previous[groups[counts > 0]] = found["number"][last]
        found["closing"] = by_scope[found["closing"]]
        return found, np.repeat(groups, counts)

    def _forget(self) -> None:
        """Drop panes and late rows that no further extent holds."""
        panes, grid = self._panes, self._panes.grid
        following = (self.groups.closed(panes.panes.group) + 1) * grid.per_slide
        still = panes.late.last > self.groups.closed(panes.late.group)
        panes.keep(panes.panes.number >= following - grid.width, still)
        group = self.missed.table[0]
        out = self.groups.closed(group)
        if self.empty:  # extents without a tuple come out later, with the next that has one
            previous = self.groups.previous[group]
            some = np.maximum(previous, out - self.most_empty - 1)
            out = np.where(previous > NEVER, np.minimum(out, some), out)
        self.missed.forget(out)


def _punctuated(
    n: int, punctuation: npt.ArrayLike | None, late: npt.ArrayLike | None
) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Punctuations and late flags of n rows; both empty for rows that come by event time."""
    flags = np.zeros(n, bool) if late is None else np.array(late, bool)
    if punctuation is None:
        if flags.any():
            raise ValueError("`late` rows need a `punctuation`; got None: leave the late rows out")
        return np.empty(0, np.int64), np.empty(0, bool)
    if flags.shape != (n,):
        raise ValueError(f"`late` must have {n} entries; got shape {flags.shape}")
    return np.minimum(codes("punctuation", punctuation, n), LONGEST), flags
