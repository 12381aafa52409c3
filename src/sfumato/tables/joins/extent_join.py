"""Two windowed streams joined extent by extent, over Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.limits import MAX_ALTERNATIVES
from sfumato.operators.arguments import distance, share
from sfumato.operators.arrays import longer, spans
from sfumato.operators.joins.answers import pair_matches
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Array, Declaration, Optional, Part, Record
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrival_order import Arrival
from sfumato.tables.arrow import as_array, as_numbers, joined
from sfumato.tables.declared import Table
from sfumato.tables.joins.alternatives import ALTERNATIVES, attributes_at, samples_of
from sfumato.tables.joins.join import SIDES, answers_table
from sfumato.tables.joins.scopes import BEGINNING, Scopes
from sfumato.tables.keys import KeyIndex
from sfumato.tables.operator import ROW, TableConfig, TableOperator


@dataclass(frozen=True, kw_only=True)
class ExtentJoinTableConfig(TableConfig):
    """scope : numbers of the keys within which extents come in order
    on : the attributes that span the distance of a match; none: every pair of rows is one
    within, probability : as for `SimilarityJoin`; None without `on`
    forget_after : microseconds; the rows of a scope that is over, see `Scopes`, go unmatched
    max_alternatives : pairs of alternatives that one answer has at most, see `matching_pairs`
    """

    scope: tuple[int, ...] = ()
    on: tuple[str, ...] = ()
    within: float | None = None
    probability: float | None = None
    max_alternatives: int = field(default=MAX_ALTERNATIVES, metadata=CHANGEABLE)

    kind, version = "extent join table", 3
    counters = ("rows", "pairs", "unmatched")

    def __post_init__(self) -> None:
        given = [value is not None for value in (self.on or None, self.within, self.probability)]
        if any(given) and not all(given):
            raise ValueError("`on`, `within` and `probability` go together: give all three or none")
        if self.on:
            distance("within", self.within)
            share("probability", self.probability)

    def arrival(self, side: int = 0) -> Arrival:
        return Arrival(("window.end",), tied=False)

    def make(self) -> TableExtentJoin:
        return TableExtentJoin(self)


@dataclass
class Waiting:
    """Rows of one side whose extents the other side may still have rows of.

    end : int64[n] microseconds; code, scope : int64[n]; matched : bool[n], has come out
    """

    rows: pa.Table
    end: np.ndarray
    code: np.ndarray
    scope: np.ndarray
    matched: np.ndarray

    def kept(self, wanted: np.ndarray) -> Waiting:
        parts = (self.end, self.code, self.scope, self.matched)
        return Waiting(self.rows.filter(pa.array(wanted)), *(part[wanted] for part in parts))

    def then(self, later: Waiting) -> Waiting:
        names = ("end", "code", "scope", "matched")
        return Waiting(
            pa.concat_tables([self.rows, later.rows]).combine_chunks(),
            *(np.append(getattr(self, name), getattr(later, name)) for name in names),
        )

    layout: ClassVar[Mapping[str, Declaration]] = {
        "rows": Table("waiting"),
        "end": Array(int, "waiting"),
        "code": Array(int, "waiting", low=0),
        "scope": Array(int, "waiting", low=0, high="scopes"),
        "matched": Array(bool, "waiting"),
    }


class ExtentSide(Stateful):
    """One side: the newest end of each scope's extents, and the rows that wait."""

    state = {"newest": Array(int, "scopes"), "waiting": Optional(Record(Waiting))}

    def __init__(self) -> None:
        self.newest = np.empty(0, np.int64)
        self.waiting: Waiting | None = None

    def add(self, fresh: Waiting) -> None:
        self.waiting = fresh if self.waiting is None else self.waiting.then(fresh)

    def keep(self, wanted: np.ndarray) -> int:
        """Let only the rows `wanted` (bool) wait on; how many of the others met none."""
        if self.waiting is None or wanted.all():
            return 0
        unmatched = int((~wanted & ~self.waiting.matched).sum())
        self.waiting = self.waiting.kept(wanted)
        return unmatched

    def before_saving(self) -> None:
        if self.waiting is not None and not len(self.waiting.end):
            self.waiting = None


class TableExtentJoin(TableOperator):
    """Pairs of rows with equal keys and equal ends of their extents, for the keys of a bucket.

    Tables of a side have the columns row (a struct), window (start, end), key0.. and, with `on`,
    alternatives. Extents of a scope come in order on each side, so that a row waits until the other
    side has gone past its extent. Neither side overtakes: the rows of the one that is ahead wait.
    """

    config: ExtentJoinTableConfig
    state = {"scopes": Part(), "left": Part(), "right": Part()}

    def __init__(self, config: ExtentJoinTableConfig) -> None:
        super().__init__(config)
        self.index = KeyIndex()  # whose keys are needed while rows of them wait
        self.scopes = Scopes(config.scope, config.forget_after)
        self.left, self.right = self.sides = ExtentSide(), ExtentSide()
        self.kept = [ROW, "window", *([ALTERNATIVES] if config.on else [])]

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        outputs = []
        for side in (0, 1):
            tables = [table for of, table in batch if of == side]
            if tables:
                fresh = self._read(joined(tables), side)
                outputs += self._pairs(fresh, side)
                self.sides[side].add(fresh)
        for side in (0, 1):
            self._drop_passed(side)
        self._forget()
        return outputs

    def _read(self, rows: pa.Table, side: int) -> Waiting:
        end = as_numbers(as_array(rows.column("window")).field("end"))
        scope = self.scopes.encode(rows)
        code = self.index.encode(rows.select([f"key{i}" for i in range(self.config.keys)]))
        if self.config.on:  # alternatives that are NULL match nothing
            place = rows.column_names.index(ALTERNATIVES)
            given = rows.column(place)
            known = pc.coalesce(given, pa.scalar([], given.type))
            rows = rows.set_column(place, ALTERNATIVES, known)
        fresh = Waiting(rows.select(self.kept), end, code, scope, np.zeros(len(end), bool))
        for of in self.sides:
            of.newest = longer(of.newest, len(self.scopes), BEGINNING)
        if len(end):
            np.maximum.at(self.sides[side].newest, scope, end)
            self.scopes.came(side, scope, int(end.max()))
        self.counts["rows"] += len(end)
        return fresh

    def _pairs(self, fresh: Waiting, side: int) -> list[pa.Table]:
        """The fresh rows of one side with the waiting rows of the other."""
        other = self.sides[1 - side].waiting
        if other is None or not len(other.end) or not len(fresh.end):
            return []
        ends = np.unique(np.concatenate([other.end, fresh.end]))
        keys = max(self.index.size, 1)  # without key columns no code is kept, and all are 0
        theirs, mine = (
            np.searchsorted(ends, rows.end) * keys + rows.code for rows in (other, fresh)
        )
        order = np.argsort(theirs, kind="stable")
        first, last = (np.searchsorted(theirs[order], mine, side) for side in ("left", "right"))
        offsets, places = spans(first, last - first)
        if not len(places):
            return []
        theirs_at, mine_at = order[places], np.repeat(np.arange(len(mine)), np.diff(offsets))
        other.matched[theirs_at] = True
        fresh.matched[mine_at] = True
        sides, at = [other.rows, fresh.rows], [theirs_at, mine_at]
        if side == 0:
            sides, at = sides[::-1], at[::-1]
        return self._matches(sides, at) if self.config.on else self._all(sides, at)

    def _all(self, sides: list[pa.Table], at: list[np.ndarray]) -> list[pa.Table]:
        self.counts["pairs"] += len(at[0])
        rows = [table.take(pa.array(of)) for table, of in zip(sides, at, strict=True)]
        named = {name: table.column(ROW) for name, table in zip(SIDES, rows, strict=True)}
        return [pa.table({"window": rows[0].column("window"), **named})]

    def _matches(self, sides: list[pa.Table], at: list[np.ndarray]) -> list[pa.Table]:
        """Of the pairs those whose alternatives are near with enough probability."""
        assert self.config.within is not None
        assert self.config.probability is not None
        left, right = (samples_of(table, self.config.on) for table in sides)
        found = pair_matches(
            left,
            right,
            (at[0], at[1]),
            self.config.within,
            self.config.probability,
            self.config.max_alternatives,
        )
        self.counts["pairs"] += found.place.size
        if not found.place.size:
            return []
        one, other = (t.take(pa.array(of[found.place])) for t, of in zip(sides, at, strict=True))
        lengths = np.diff(found.offsets)
        table = answers_table(
            (one.column(ROW), attributes_at(one, found.left_sample, lengths)),
            (other.column(ROW), attributes_at(other, found.right_sample, lengths)),
            found,
        )
        return [table.add_column(0, "window", one.column("window"))]

    def flush(self) -> list[pa.Table]:
        """Count the rows that still wait: at the end of the frames no row can meet them."""
        for side in self.sides:
            if side.waiting is not None:
                nothing = np.zeros(len(side.waiting.end), np.bool_)
                self.counts["unmatched"] += side.keep(nothing)
        return []

    def _drop_passed(self, side: int) -> None:
        """Drop the rows of extents that the other side has gone past."""
        held, newest = self.sides[side].waiting, self.sides[1 - side].newest
        if held is not None:
            self.counts["unmatched"] += self.sides[side].keep(held.end >= newest[held.scope])

    def _forget(self) -> None:
        """Drop what waits in scopes that are over, and keys of which nothing waits."""
        over = self.scopes.take_over()
        if len(over):
            for side in self.sides:
                side.newest[over] = BEGINNING
                if side.waiting is not None:
                    gone = np.isin(side.waiting.scope, over)
                    self.counts["unmatched"] += side.keep(~gone)
        codes = [side.waiting.code for side in self.sides if side.waiting is not None]
        if len(self.index) > 2 * sum(map(len, codes)) + 1024:
            self.index.keep(np.concatenate([np.empty(0, np.int64), *codes]))

    def after_loading(self) -> None:
        super().after_loading()
        if not self.left.newest.size == self.right.newest.size == len(self.scopes):
            raise ValueError("both sides have the same scopes")
