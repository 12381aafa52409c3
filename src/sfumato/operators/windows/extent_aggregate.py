"""Aggregates over time extents of uncertain tuples, driven by punctuations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.kernels.windows import extents as kernel
from sfumato.operators.laws.aggregate import Aggregate, Ints
from sfumato.operators.laws.finite_laws import LawOptions
from sfumato.operators.laws.independent_law import (
    Results,
    checked_aggregates,
    law_of,
)
from sfumato.operators.laws.moment_channels import Channels, places
from sfumato.operators.state.row_store import RowStore
from sfumato.operators.state.snapshot import Snapshot, pack, unpack
from sfumato.operators.state.tuple_batch import (
    GROUP,
    NUMBER,
    TIME,
    TupleBatch,
    checked_alternatives,
    codes,
    joined,
)
from sfumato.operators.windows.extents import LONGEST, Extents, check_codes, microseconds
from sfumato.operators.windows.pane_store import COUNT, GROUP_OF, PANE, PaneStore

__all__ = ["ExtentAggregate", "Extents"]

KIND, VERSION = "extent_aggregate", 1
COUNTERS = ("rows", "late", "outside", "absent")
NEVER = kernel.NEVER


class ExtentAggregate:
    """Aggregates over RANGE windows: extent i holds (i + 1) s - n <= event time < (i + 1) s.

    length, slide : int > 0 microseconds, n and s; extents are aligned to time 0
    aggregates : what is measured
    quantiles, distribution, seed, samples : see `LawOptions`
    empty : a group's extents without a tuple between two that hold one come out too. They are known
        to be between only when the later one is complete: they come out just before that, with
        its punctuation and late count; a gap of more than `most_empty` of them is left out whole
    members : the extents' rows are stored, once each, and come out too
    attributes : columns of `values` (None: as many as the aggregates need)

    Rows belong to a group (what is aggregated together) and a scope (what shares punctuations; a
    group stays in one scope). An extent is complete when a punctuation is at least its end - 1 and
    all rows that punctuation let out have come. Rows let out together come in event-time order,
    so this shows at the first row of the scope that is not before the extent's end or has a higher
    punctuation; `settle` says it without such a row. Every complete extent comes out exactly
    once, for each group with a tuple in it, in order of completion, then of (end, group).

    - A late row is in no extent, only counted: it is flagged as late, or it lies before the end of
      a complete extent (then also if another one that would hold it is still open).
    - With slide > length, a row between extents is in none; counted as `outside`, never stored.
    - A tuple without alternatives is in no extent; counted as `absent`. Its time counts.

    Results do not depend on how rows are split into calls, nor on snapshot and restore.
    Guarantee: mean and standard deviation are exact (see `set_moments`, `extreme_law`), quantiles
    and distributions as `law_of` says.
    Cost: O(1) a tuple (some 100 nodes if an average is asked for and the tuple may not exist, a
    sort of its pane for min and max), O(1) an extent whatever the overlap (O(n/s) for min, max);
    laws, where asked for, are computed anew for each extent.
    Memory: the tuples of one RANGE and one slide, and partials of some 200 bytes a pane, group and
    attribute (10 KB with an average over uncertain existence).
    Raises ValueError or TypeError for arguments out of range.  Source: C, section 6; A, 8.1.

    >>> window = ExtentAggregate(10, 10, [Aggregate("sum", 0)])
    >>> found = window.process(np.zeros(3, int), np.array([1, 4, 12]), None, None,
    ...     np.arange(4), np.array([0.5, 1.0, 1.0]), np.array([[4.0], [2.0], [9.0]]))
    >>> found.start.tolist(), found.held.tolist(), found.results[0].mean.tolist()
    ([0], [2], [4.0])
    """

    def __init__(
        self,
        length: int,
        slide: int,
        aggregates: Sequence[Aggregate],
        *,
        quantiles: Sequence[float] = (),
        distribution: int | None = None,
        seed: int = 0,
        samples: int = 1000,
        empty: bool = False,
        most_empty: int = 10_000,
        members: bool = False,
        attributes: int | None = None,
    ) -> None:
        self.length, self.slide = microseconds("length", length), microseconds("slide", slide)
        self.attributes = checked_aggregates(aggregates, attributes)
        self.aggregates = list(aggregates)
        self.options = LawOptions(tuple(quantiles), distribution, seed, samples)
        self.empty, self.most_empty, self.members = empty, most_empty, members
        whole, part = divmod(self.length, self.slide)
        self._cut = self.slide - part if part else 0  # where in a slide extents begin
        per_slide = 2 if part else 1
        width = 2 * whole + 1 if part else whole
        self._panes = PaneStore(Channels(self.aggregates), per_slide, width, self.attributes)
        self._pending: list[TupleBatch] = []
        self._state = np.empty((0, kernel.STATE), np.int64)
        self._scope_of = np.empty(0, np.int64)
        self._arrived = np.empty(0, np.int64)  # tuples taken of each group
        self._previous = np.empty(0, np.int64)  # number of each group's last extent
        self._counts = np.zeros(len(COUNTERS), np.int64)
        self._next = 0
        self._rows = RowStore()
        self._schema: pa.Schema | None = None
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
        rows: pa.Table | None = None,
        *,
        scope: npt.ArrayLike | None = None,
    ) -> Extents:
        """Take n rows, in the order in which they were let out; the extents they complete.

        group : int64[n] >= 0, dense codes    event_time : int64[n] microseconds
        punctuation : int64[n] microseconds, that of the row's scope when it came out, not falling;
            None: rows come by event time, each with a punctuation of its event time - 1
        late : bool[n], None: none is    scope : int64[n] >= 0, dense codes; None: the groups'
        offsets : int64[n + 1], prob : float64[m], values : float64[m, a], alternatives; NaN: none
        rows : n rows, needed for members; the schema stays that of the first call
        Raises TypeError or ValueError, with nothing taken, for arrays that do not fit.
        """
        n = np.asarray(event_time).size
        group, time = codes("group", group, n), codes("event_time", event_time, n)
        scope = group if scope is None else codes("scope", scope, n)
        check_codes(group, scope, time)
        scope_of = self._with_scopes(group, scope)
        ordered = punctuation is None
        forced = np.empty(0, np.int64)
        if punctuation is not None:
            forced = np.minimum(codes("punctuation", punctuation, n), LONGEST)
        flags = np.zeros(0 if ordered else n, bool) if late is None else np.array(late, bool)
        if ordered and flags.any():
            raise ValueError("`late` rows need a `punctuation`; got None: leave the late rows out")
        if not ordered and flags.shape != (n,):
            raise ValueError(f"`late` must have {n} entries; got shape {flags.shape}")
        offsets, prob, table = checked_alternatives(n, offsets, prob, values, self.attributes)
        self._check_rows(rows, n)
        self._grow(scope_of, int(scope.max()) + 1 if n else 0)
        verdict = np.empty(n, np.int64)
        closings = np.empty((2 * n, kernel.COLUMNS), np.int64)
        gap = max(self.slide - self.length, 0)
        found = kernel.sweep(
            scope, time, ordered, forced, flags, np.diff(offsets) > 0, self.slide, gap,
            self._state, verdict, closings,
        )  # fmt: skip
        judged = [np.count_nonzero(verdict == kind) for kind in (1, 2, 3)]
        self._counts += np.array([n, *judged])
        self._take(group, time, offsets, prob, table, rows, np.flatnonzero(verdict == kernel.TAKEN))
        return self._complete(closings[:found])

    def settle(self, scopes: npt.ArrayLike | None = None) -> Extents:
        """Complete what the punctuations so far complete: no row let out with them is missing.

        scopes : int64[], codes; None: all.  Where each call brings all rows of its punctuations,
        `settle` after each gives extents one row earlier, and the same ones.
        """
        return self._close_all(scopes, True)

    def idle(self, scopes: npt.ArrayLike | None = None) -> Extents:
        """Complete all extents that hold a tuple of these scopes (None: all).

        The punctuation is then the last one's end - 1, so that later rows before it are late.
        """
        return self._close_all(scopes, False)

    def flush(self) -> Extents:
        """Complete all extents that hold a tuple: the stream has ended."""
        return self._close_all(None, False)

    @property
    def counters(self) -> dict[str, int]:
        """rows; late, outside, absent: in no extent; held: tuples stored now."""
        counts = {name: int(n) for name, n in zip(COUNTERS, self._counts, strict=True)}
        pending = sum(batch.size for batch in self._pending)
        return {**counts, "held": pending + int(self._panes.panes[COUNT].sum())}

    @property
    def nbytes(self) -> int:
        """Bytes of the numeric state (member rows not counted)."""
        return self._panes.nbytes + sum(batch.nbytes for batch in self._pending)

    def snapshot(self) -> bytes:
        """Parameters, tuples and scopes as versioned bytes; partials are computed again."""
        tuples = joined([self._panes.tuples(), *self._pending])
        values = {
            "length": self.length, "slide": self.slide, "empty": self.empty,
            "most_empty": self.most_empty, "members": self.members,
            "attributes": self.attributes, "next": self._next,
            "quantiles": list(self.options.quantiles), "distribution": self.options.distribution,
            "seed": self.options.seed, "samples": self.options.samples,
            "aggregates": [[a.function, a.attribute, a.argument] for a in self.aggregates],
        }  # fmt: skip
        arrays = {
            **tuples.arrays(), "state": self._state, "scope_of": self._scope_of,
            "arrived": self._arrived, "previous": self._previous, "counts": self._counts,
            "numbers": self._rows.numbers,
        }  # fmt: skip
        tables = {}
        if self._schema is not None:
            self._rows.keep(tuples.marks[NUMBER])
            arrays["numbers"] = self._rows.numbers
            tables["rows"] = self._rows.rows()
        return pack(KIND, VERSION, Snapshot(values, arrays, tables))

    @classmethod
    def restore(cls, data: bytes) -> ExtentAggregate:
        """The operator that `snapshot` saved. Raises SnapshotError for other bytes."""
        saved = unpack(data, KIND, VERSION)
        values, arrays = dict(saved.values), saved.arrays
        number = values.pop("next")
        aggregates = [Aggregate(*parts) for parts in values.pop("aggregates")]
        window = cls(values.pop("length"), values.pop("slide"), aggregates, **values)
        window._next, window._state = number, arrays["state"]
        window._scope_of, window._arrived = arrays["scope_of"], arrays["arrived"]
        window._previous, window._counts = arrays["previous"], arrays["counts"]
        tuples = TupleBatch.of(arrays)
        window._pending = [tuples] if tuples.size else []
        window._move_complete()
        if "rows" in saved.tables:
            table = saved.tables["rows"]
            window._schema = table.schema
            window._rows = RowStore(table, arrays["numbers"], number)
        return window

    def _close_all(self, scopes: npt.ArrayLike | None, settle: bool) -> Extents:
        known = np.arange(len(self._state))
        wanted = known if scopes is None else np.unique(np.asarray(scopes, np.int64))
        wanted = wanted[(wanted >= 0) & (wanted < len(known))]
        closings = np.empty((2 * wanted.size, kernel.COLUMNS), np.int64)
        found = kernel.close_all(wanted, settle, self.slide, self.length, self._state, closings)
        return self._complete(closings[:found], at_once=True)

    def _take(
        self, group: Ints, time: Ints, offsets: Ints, prob: npt.NDArray[np.float64],
        values: npt.NDArray[np.float64], rows: pa.Table | None, taken: Ints,
    ) -> None:  # fmt: skip
        """Store the rows at places `taken`."""
        if not taken.size:
            return
        order = np.argsort(group[taken], kind="stable")
        by_group = group[taken][order]
        first = np.searchsorted(by_group, by_group)
        index = np.empty(taken.size, np.int64)
        index[order] = np.arange(taken.size) - first + self._arrived[by_group]
        self._arrived += np.bincount(by_group, minlength=len(self._arrived))
        number = np.arange(self._next, self._next + taken.size)
        self._next += taken.size
        marks = np.stack([group, time, np.zeros_like(time), np.zeros_like(time)])
        batch = TupleBatch(marks, offsets, prob, values).take(taken)  # a copy, also of all
        batch.marks[NUMBER], batch.marks[-1] = number, index
        self._pending.append(batch)
        if rows is not None and self.members:
            self._rows.append(rows if taken.size == rows.num_rows else rows.take(pa.array(taken)))

    def _pane_of(self, time: Ints) -> Ints:
        whole = time // self.slide
        return 2 * whole + (time - whole * self.slide >= self._cut) if self._cut else whole

    def _closed(self, group: Ints) -> Ints:
        """Number of the last complete extent of each group's scope."""
        return self._state[self._scope_of[group], kernel.CLOSED]

    def _move_complete(self) -> None:
        """Move the tuples of complete panes to the panes: those whose slide is complete."""
        if not self._pending:
            return
        tuples = joined(self._pending)
        pane = self._pane_of(tuples.marks[TIME])
        limit = self._closed(tuples.marks[GROUP])
        done = self._pane_end(pane) <= limit
        order = np.flatnonzero(done)
        order = order[np.lexsort((pane[order], tuples.marks[GROUP][order]))]
        if order.size:
            self._panes.add(tuples.take(order), pane[order])
        staying = np.flatnonzero(~done)
        self._pending = [] if not staying.size else [tuples]
        if order.size and staying.size:
            self._pending = [tuples.take(staying)]

    def _pane_end(self, pane: Ints) -> Ints:
        """Number of the first extent that ends at or after the pane's end."""
        return pane // self._panes.per_slide + 1

    def _complete(self, closings: Ints, at_once: bool = False) -> Extents:
        """The extents of some closings, dropping what no further extent needs."""
        panes = self._panes
        if not closings.size and self._nothing is not None:
            return self._nothing
        self._move_complete()
        found, groups, turn = self._list(closings)
        answers, held = panes.answer(found, len(self.aggregates))
        turn = np.zeros_like(turn) if at_once else turn
        order = np.lexsort((groups, found[:, 0], turn))
        results = [Results(a, self.options, answers[r]) for r, a in enumerate(self.aggregates)]
        lawful = [r for r, a in enumerate(self.aggregates) if self.options.law_wanted(a)]
        if lawful:
            for row in range(len(found)):
                members, _ = panes.members(found[row, 1], found[row, 2])
                for r in lawful:
                    results[r].put(row, law_of(self.aggregates[r], members, self.options))
        end = found[order, 0] * self.slide
        closing = closings[found[order, 3]]
        extents = Extents(
            end - self.length, end, groups[order], held[order],
            closing[:, kernel.AT].copy(), closing[:, kernel.LATE_SO_FAR].copy(),
            [result.measured(order) for result in results], *self._member_rows(found[order]),
        )  # fmt: skip
        self._forget()
        if not closings.size and not self.members:
            self._nothing = extents
        return extents

    def _list(self, closings: Ints) -> tuple[Ints, Ints, Ints]:
        """(extents as in `extents_of_group` with rows of `closings`, their groups, their turns)."""
        table = self._panes.panes
        changes = np.flatnonzero(np.diff(table[GROUP_OF], prepend=-1))
        groups = table[GROUP_OF][changes]
        starts = np.append(changes, table.shape[1])
        by_scope = np.argsort(closings[:, kernel.SCOPE], kind="stable")
        ordered = np.ascontiguousarray(closings[by_scope])
        begins = np.full(len(self._state), -1)
        begins[ordered[::-1, kernel.SCOPE]] = np.arange(len(ordered))[::-1]
        arguments = (
            starts, table[PANE], begins[self._scope_of[groups]], ordered, self._panes.per_slide,
            self._panes.width, self._previous[groups], self.most_empty if self.empty else -1,
        )  # fmt: skip
        counts = kernel.list_extents(*arguments, np.empty((0, 4), np.int64))
        found = np.empty((int(counts.sum()), 4), np.int64)
        if len(found):
            kernel.list_extents(*arguments, found)
        last = places(counts)[1:][counts > 0] - 1
        self._previous[groups[counts > 0]] = found[last, 0]
        found[:, 3] = by_scope[found[:, 3]]
        return found, np.repeat(groups, counts), found[:, 3]

    def _member_rows(self, found: Ints) -> tuple[Ints | None, pa.Table | None]:
        if not self.members:
            return None, None
        parts = [self._panes.members(low, high)[1] for low, high in found[:, 1:3].tolist()]
        numbers = np.concatenate([np.empty(0, np.int64), *parts])
        offsets = places(np.array([part.size for part in parts], np.int64))
        if self._schema is None:
            return offsets, None
        return offsets, self._rows.take(numbers) if numbers.size else self._schema.empty_table()

    def _forget(self) -> None:
        """Drop panes that no further extent holds."""
        table, width = self._panes.panes, self._panes.width
        following = (self._closed(table[GROUP_OF]) + 1) * self._panes.per_slide
        self._panes.keep(table[PANE] >= following - width)
        if self.members:
            pending = (batch.marks[NUMBER] for batch in self._pending)
            self._rows.forget(np.concatenate([self._panes.numbers(), *pending]))

    def _with_scopes(self, group: Ints, scope: Ints) -> Ints:
        """The groups' scopes with those of some more rows; ValueError if a group changes scope."""
        n = max(int(group.max()) + 1 if group.size else 0, len(self._scope_of))
        scope_of = np.full(n, -1)
        scope_of[: len(self._scope_of)] = self._scope_of
        fresh = scope_of[group] < 0
        scope_of[group[fresh]] = scope[fresh]
        wrong = np.flatnonzero(scope_of[group] != scope)
        if wrong.size:
            g = group[wrong[0]]
            raise ValueError(
                f"`scope` must be the same for all rows of a group; got {scope[wrong[0]]} for "
                f"group {g} after {scope_of[g]}"
            )
        return scope_of

    def _grow(self, scope_of: Ints, scopes: int) -> None:
        more = len(scope_of) - len(self._scope_of)
        self._scope_of = scope_of
        self._arrived = np.concatenate([self._arrived, np.zeros(more, np.int64)])
        self._previous = np.concatenate([self._previous, np.full(more, NEVER)])
        fresh = np.zeros((max(scopes - len(self._state), 0), kernel.STATE), np.int64)
        for place in (kernel.PUNCTUATION, kernel.CLOSED, kernel.NEWEST):
            fresh[:, place] = NEVER
        self._state = np.concatenate([self._state, fresh])

    def _check_rows(self, rows: pa.Table | None, n: int) -> None:
        if not self.members:
            return
        if rows is None or rows.num_rows != n:
            got = "None" if rows is None else f"{rows.num_rows} rows"
            raise ValueError(f"`rows` must have {n} rows for members=True; got {got}")
        if self._schema is None:
            self._schema = rows.schema
            self._rows = RowStore(rows.schema.empty_table(), np.empty(0, np.int64))
        elif not rows.schema.equals(self._schema):
            raise ValueError(f"`rows` must keep its schema; got {rows.schema} after {self._schema}")
