"""Aggregates over time extents of uncertain tuples, driven by punctuations."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.windows import extents
from sfumato.operators.arrays import Ints
from sfumato.operators.laws.aggregate import Aggregate
from sfumato.operators.laws.finite_laws import LawOptions
from sfumato.operators.laws.independent_law import LawfulResults, checked_aggregates
from sfumato.operators.laws.spreads import OF_VALUES
from sfumato.operators.state.declared import Array, Part, Record, Value
from sfumato.operators.state.stateful import Operator
from sfumato.operators.state.tuple_batch import (
    GroupedBatch,
    check_held,
    checked_alternatives,
    codes,
    grouped_layout,
)
from sfumato.operators.windows.extent_tuples import ExtentConfig, ExtentTuples
from sfumato.operators.windows.extents import (
    MAX_TIME_US,
    WITHIN,
    ExtentGroups,
    Extents,
    MissedRows,
    check_codes,
    microseconds,
)

VERDICTS = (extents.LATE, extents.OUTSIDE, extents.ABSENT)
EXTENT_COUNTERS = ("late", "outside", "absent", "out_of_order", "skipped")
MOST_EMPTY = 1_000_000  # some 200 bytes each while they are made


class ExtentAggregate(Operator):
    """Aggregates over RANGE windows: extent i holds (i + 1) s - n <= event time < (i + 1) s.

    length, slide : int > 0 microseconds, n and s; extents are aligned to time 0
    aggregates : what is measured
    empty : a group's extents without a tuple between two that hold one come out too. They are known
        to be between only when the later one is complete: they come out just before that, with
        its punctuation and late count; a gap of more than `most_empty` of them is left out, and
        its extents are counted as `skipped`
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
    - A row in order below a punctuation that came before its own, or whose punctuation falls,
      shows that the rows are not those of one controller: counted as `out_of_order`.

    Results do not depend on how rows are split into calls, nor on snapshot and restore.
    Guarantee: mean and standard deviation are exact (see `mergeable_moments`, `extreme_law`),
    quantiles and distributions as `law_of` says.
    Cost: O(1) a tuple (some 100 nodes if an average is asked for and the tuple may not exist, a
    sort of its pane for min and max), O(1) an extent whatever the overlap (O(n/s) for min, max);
    laws, where asked for, are computed anew for each extent. A late row costs a merge in each
    extent that takes it. Where groups are scopes of their own, work is for those with rows.
    Memory: the tuples of one RANGE and one slide, and partials of some 200 bytes a pane, group and
    attribute (10 KB with an average over uncertain existence).
    Raises ValueError or TypeError for arguments out of range.  Source: C, section 6; A, 8.1.

    >>> window = ExtentAggregate(10, 10, [Aggregate("sum", 0)])
    >>> found = window.process(np.zeros(3, int), np.array([1, 4, 12]), None, None,
    ...     np.arange(4), np.array([0.5, 1.0, 1.0]), np.array([[4.0], [2.0], [9.0]]))
    >>> found.start.tolist(), found.held.tolist(), found.results[0].mean.tolist()
    ([0], [2], [4.0])
    """

    kind, version = "extent_aggregate", 4
    spread = ("options",)
    config: ExtentConfig
    state = {
        "groups": Part(),
        "tuples": Record(GroupedBatch),
        "late": Record(GroupedBatch, grouped_layout("late", "late alternatives")),
        "joins": Array(int, 2, "late", **WITHIN),
        "missed": Part(),
        "counts": Array(int, len(EXTENT_COUNTERS), low=0),
        "next": Value(low=0),
    }

    def __init__(
        self,
        length: int,
        slide: int,
        aggregates: Sequence[Aggregate],
        *,
        empty: bool = False,
        most_empty: int = MOST_EMPTY,
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
        self._ordered = any(of.function in OF_VALUES for of in aggregates)
        self.groups = ExtentGroups()
        self._held = ExtentTuples(self.config, self.groups)
        self.missed = MissedRows()
        self.counts = np.zeros(len(EXTENT_COUNTERS), np.int64)
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
        rows = extents.ReleasedRows(scope, time, np.diff(offsets) > 0, forced, flags)
        judged = np.empty(n, extents.JUDGED)
        closings = np.empty(2 * n, extents.CLOSING)
        found = extents.sweep(rows, self.length, self.slide, self.groups.scopes, judged, closings)
        kinds = np.bincount(judged["verdict"], minlength=extents.ABSENT + 1)
        self.counts += [*kinds[[*VERDICTS]], judged["out_of_order"].sum(), 0]
        if kinds[extents.JOINED] or kinds[extents.LATE]:
            some = np.flatnonzero(np.isin(judged["verdict"], (extents.JOINED, extents.LATE)))
            self.missed.add(group[some], judged["missed_from"][some], judged["missed_to"][some])
        numbers = np.arange(n) + self.next
        batch = GroupedBatch(offsets, prob, table, np.zeros_like(time), group, time, numbers)
        self._held.take(batch, judged)
        self.next += n
        complete = self._complete(closings[:found])
        self._held.rest(group)
        return complete

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
        complete = self.idle(groups)
        self.missed.leave(groups)
        self.groups.forget(groups, scopes=True)
        return complete

    def idle(self, scopes: npt.ArrayLike | None = None) -> Extents:
        """Complete all extents that hold a tuple of these scopes (None: all).

        The punctuation is then the last one's end - 1, so that they miss later rows before it.
        """
        known = np.arange(len(self.groups.scopes))
        wanted = known if scopes is None else np.unique(np.asarray(scopes, np.int64))
        wanted = wanted[(wanted >= 0) & (wanted < len(known))]
        closings = np.empty(2 * wanted.size, extents.CLOSING)
        found = extents.close_all(wanted, self.length, self.slide, self.groups.scopes, closings)
        return self._complete(closings[:found], at_once=True)

    def flush(self) -> Extents:
        """Complete all extents that hold a tuple: the stream has ended."""
        return self.idle()

    @property
    def counters(self) -> dict[str, int]:
        """rows; late, outside, absent: in no extent; out_of_order; skipped: extents without a
        tuple that are not in the answers; held: tuples stored now."""
        counts = {name: int(n) for name, n in zip(EXTENT_COUNTERS, self.counts, strict=True)}
        return {"rows": self.next, **counts, "held": self._held.size}

    @property
    def numbers(self) -> Ints:
        """Numbers of the rows whose tuples are stored now, among all rows so far, in no order."""
        return self._held.numbers

    def before_saving(self) -> None:
        late = self._held.panes.late
        self.tuples, self.late = self._held.all(), self._held.panes.late_tuples()
        self.joins = np.stack([late.first, late.last])

    def after_loading(self) -> None:
        self._check()
        self._held.add(self.tuples)
        self._held.rest(self.late.group)
        self._held.move_complete()  # partials are computed again
        self._held.panes.add_late(self.late, *self.joins)

    def _check(self) -> None:
        """Raise ValueError for a state that leads kernels astray."""
        for batch in (self.tuples, self.late):
            check_codes(batch.group, batch.number, batch.time)
            if (batch.group >= len(self.groups.scope_of)).any():
                raise ValueError("tuples must be of known groups")
            check_held(batch.offsets, batch.prob, batch.values)
        first, last = self.joins
        if (first > last).any() or (last - first > self.length // self.slide + 1).any():
            raise ValueError("late tuples must be in extents that contain them")
        if (self.groups.scope_of[self.late.group] < 0).any():
            raise ValueError("tuples must be of a known scope")
        missed = self.missed.table[0]
        if missed.size and not 0 <= missed.min() <= missed.max() < len(self.groups.scope_of):
            raise ValueError("rows that extents missed must be of known groups")

    def _complete(self, closings: np.ndarray, at_once: bool = False) -> Extents:
        """The extents of some closings, dropping what no further extent needs."""
        panes = self._held.panes
        if not closings.size and self._nothing is not None:
            return self._nothing
        self._held.wake(closings["scope"])
        self._held.move_complete()
        most = self.most_empty if self.empty else -1
        found, groups, skipped = self._held.extents_of(closings, most)
        self.counts[EXTENT_COUNTERS.index("skipped")] += skipped
        answers, held = panes.answer(found, groups, len(self.aggregates))
        turn = np.zeros(len(found)) if at_once else found["closing"]
        order = np.lexsort((groups, found["number"], turn))
        results = LawfulResults(self.aggregates, self.options, answers)
        if results.lawful:
            ends, rows = panes.members(found, groups)
            for x in range(len(found)):
                tuples = panes.tuples_at(rows[ends[x] : ends[x + 1]])
                if self._ordered:
                    tuples = tuples.take(np.lexsort((tuples.number, tuples.time)))
                results.put(x, tuples)
        end = found["number"][order] * self.slide
        members: tuple[Ints | None, Ints | None] = (None, None)
        if self.members:
            members = panes.numbers_of(found[order], groups[order])
        complete = Extents(
            end - self.length, end, groups[order], held[order],
            closings["at"][found["closing"][order]], self.missed.of(found, groups)[order],
            results.measured(order), *members,
        )  # fmt: skip
        self._forget()
        if not closings.size:
            self._nothing = complete
        return complete

    def _forget(self) -> None:
        """Drop what no further extent holds or has missed."""
        self._held.forget()
        group = self.missed.table[0]
        out = self.groups.closed(group)
        if self.empty:  # extents without a tuple come out later, with the next that has one
            previous = self.groups.previous[group]
            some = np.maximum(previous, out - self.most_empty - 1)
            out = np.where(previous > extents.NO_EXTENT, np.minimum(out, some), out)
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
    return np.minimum(codes("punctuation", punctuation, n), MAX_TIME_US), flags
