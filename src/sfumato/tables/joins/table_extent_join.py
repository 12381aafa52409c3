"""Two windowed streams joined extent by extent: the operator, and the job of `extent_join`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.duration import microseconds
from sfumato.limits import MAX_ALTERNATIVES
from sfumato.operators.arguments import distance, share
from sfumato.operators.arrays import Bools, Ints, longer, spans
from sfumato.operators.joins.answers import pair_matches
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Array, Declaration, Optional, Part, Record
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrival_order import Arrival
from sfumato.tables.arrow import SavedTable, as_array, as_numbers, joined
from sfumato.tables.joins.table_join import (
    ALTERNATIVES,
    answers_table,
    attributes_at,
    samples_of,
)
from sfumato.tables.keys import KeyIndex
from sfumato.tables.operator import ROW, TableConfig, TableOperator
from sfumato.tables.reading.frame import Frame, check_keys, names
from sfumato.tables.reading.job import Input, Job
from sfumato.tables.reading.results import NUMBER, Field, Output, pairs_of, row_of
from sfumato.tables.reading.rows import Alternatives, Cells, Column, Reading
from sfumato.tables.reading.user_warnings import PAIRS, SHARED_KEY
from sfumato.tables.row_store import BufferedRows
from sfumato.tables.scope import BEGINNING, Scopes, joined_scope


@dataclass(frozen=True, kw_only=True)
class ExtentJoinTableConfig(TableConfig):
    """Settings of an extent join over tables.

    scope : numbers of the keys within which extents are in order
    on : the attributes of the distance; none: every pair of rows is a match
    within, probability : as for `SimilarityJoin`; None without `on`
    forget_after : microseconds; rows of an expired scope, see `Scopes`, remain unmatched
    max_alternatives : bound on the pairs of alternatives per answer, see `matching_pairs`
    """

    scope: tuple[int, ...] = ()
    on: tuple[str, ...] = ()
    within: float | None = None
    probability: float | None = None
    max_alternatives: int = field(default=MAX_ALTERNATIVES, metadata=CHANGEABLE)

    kind, version = "extent join table", 3
    counters = ("rows", "pairs", "unmatched")

    def __post_init__(self) -> None:
        require_together(self.on or None, self.within, self.probability)
        if self.on:
            distance("within", self.within)
            share("probability", self.probability)

    def arrival(self, side: int = 0) -> Arrival:
        return Arrival(("window.end",), tied=False)

    def make(self) -> TableExtentJoin:
        return TableExtentJoin(self)


def require_together(*given: object) -> None:
    """Raise ValueError if some arguments are given and others are None."""
    if len({value is None for value in given}) > 1:
        raise ValueError("`on`, `within` and `probability` go together: give all three or none")


@dataclass
class ExtentRows(BufferedRows):
    """Rows of one side that may still match rows of the other side.

    end : int64[n], of their extents, microseconds    code, scope : int64[n]
    matched : bool[n], whether they have been in an answer
    """

    end: Ints
    code: Ints
    scope: Ints
    matched: Bools

    layout: ClassVar[Mapping[str, Declaration]] = {
        "rows": SavedTable("waiting"),
        "end": Array(int, "waiting"),
        "code": Array(int, "waiting", low=0),
        "scope": Array(int, "waiting", low=0, high="scopes"),
        "matched": Array(bool, "waiting"),
    }


class ExtentSide(Stateful):
    """One side: the newest extent end of each scope, and the waiting rows."""

    state = {"newest": Array(int, "scopes"), "waiting": Optional(Record(ExtentRows))}

    def __init__(self) -> None:
        self.newest = np.empty(0, np.int64)
        self.waiting: ExtentRows | None = None

    def add(self, fresh: ExtentRows) -> None:
        self.waiting = fresh if self.waiting is None else self.waiting.then(fresh)

    def keep(self, wanted: Bools) -> int:
        """Drop the rows that are not `wanted`; return the number of unmatched rows among them."""
        if self.waiting is None or wanted.all():
            return 0
        unmatched = int((~wanted & ~self.waiting.matched).sum())
        self.waiting = self.waiting.where(wanted)
        return unmatched

    def before_saving(self) -> None:
        if self.waiting is not None and not len(self.waiting.end):
            self.waiting = None


class TableExtentJoin(TableOperator):
    """Pairs of rows with equal keys and equal extent ends, for the keys of one bucket.

    Tables of a side have the columns row (a struct), window (start, end), key0.. and, with `on`,
    alternatives. On each side the extents of a scope are in order, so a row waits until the other
    side has passed its extent.
    """

    config: ExtentJoinTableConfig
    state = {"scopes": Part(), "left": Part(), "right": Part()}

    def __init__(self, config: ExtentJoinTableConfig) -> None:
        super().__init__(config)
        self.index = KeyIndex()  # a key is kept while its rows wait
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
        self._drop_passed()
        return outputs

    def _read(self, rows: pa.Table, side: int) -> ExtentRows:
        end = as_numbers(as_array(rows.column("window")).field("end"))
        scope = self.scopes.encode(rows)
        code = self.index.encode(rows.select([f"key{i}" for i in range(self.config.keys)]))
        if self.config.on:  # NULL alternatives match nothing
            place = rows.column_names.index(ALTERNATIVES)
            given = rows.column(place)
            known = pc.coalesce(given, pa.scalar([], given.type))
            rows = rows.set_column(place, ALTERNATIVES, known)
        for of in self.sides:
            of.newest = longer(of.newest, len(self.scopes), BEGINNING)
        if len(end):
            np.maximum.at(self.sides[side].newest, scope, end)
            self.scopes.note(side, scope, int(end.max()))
        self.counts["rows"] += len(end)
        return ExtentRows(rows.select(self.kept), end, code, scope, np.zeros(len(end), bool))

    def _pairs(self, fresh: ExtentRows, side: int) -> list[pa.Table]:
        """Return the pairs of one side's fresh rows with the other side's waiting rows."""
        other = self.sides[1 - side].waiting
        if other is None or not len(other.end) or not len(fresh.end):
            return []
        ends = np.unique(np.concatenate([other.end, fresh.end]))
        keys = max(self.index.size, 1)  # without key columns, no codes are stored and all are 0
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
        return self._tables(sides, at)

    def _tables(self, sides: list[pa.Table], at: list[Ints]) -> list[pa.Table]:
        """Return pairs of rows; with `on`, only pairs that are probably within the distance."""
        config, found = self.config, None
        if config.within is not None and config.probability is not None:
            left, right = (samples_of(table, config.on) for table in sides)
            limits = config.within, config.probability, config.max_alternatives
            found = pair_matches(left, right, (at[0], at[1]), *limits)
            at = [of[found.arrival] for of in at]
        self.counts["pairs"] += len(at[0])
        if not len(at[0]):
            return []
        one, other = (table.take(pa.array(of)) for table, of in zip(sides, at, strict=True))
        if found is None:
            table = pa.table({"left": one.column(ROW), "right": other.column(ROW)})
        else:
            lengths = np.diff(found.offsets)
            table = answers_table(
                (one.column(ROW), attributes_at(one, found.left_sample, lengths)),
                (other.column(ROW), attributes_at(other, found.right_sample, lengths)),
                found,
            )
        return [table.add_column(0, "window", one.column("window"))]

    def flush(self) -> list[pa.Table]:
        """Count the rows that still wait: at the end of the frames they remain unmatched."""
        for side in self.sides:
            if side.waiting is not None:
                nothing = np.zeros(len(side.waiting.end), np.bool_)
                self.counts["unmatched"] += side.keep(nothing)
        return []

    def _drop_passed(self) -> None:
        """Drop rows of passed extents and expired scopes, and keys without waiting rows."""
        for side, other in (self.sides, self.sides[::-1]):
            if (held := side.waiting) is not None:
                self.counts["unmatched"] += side.keep(held.end >= other.newest[held.scope])
        over = self.scopes.take_over()
        if len(over):
            for side in self.sides:
                side.newest[over] = BEGINNING
                if side.waiting is not None:
                    self.counts["unmatched"] += side.keep(~np.isin(side.waiting.scope, over))
        codes = [side.waiting.code for side in self.sides if side.waiting is not None]
        if len(self.index) > 2 * sum(map(len, codes)) + 1024:
            self.index.keep(np.concatenate([np.empty(0, np.int64), *codes]))

    def after_loading(self) -> None:
        super().after_loading()
        if not self.left.newest.size == self.right.newest.size == len(self.scopes):
            raise ValueError("both sides have the same scopes")


def extent_join_job(
    left: Frame,
    right: Frame,
    key: str | Sequence[str] | None,
    on: str | Sequence[str] | None,
    within: float | None,
    probability: float | None,
    forget_after: str | timedelta | None,
    name: str | None,
) -> Job:
    """Return the job of `extent_join`. Raises ValueError or TypeError for invalid arguments."""
    attributes, frames = names("on", on), {"left": left, "right": right}
    require_together(on, within, probability)
    for side, frame in frames.items():
        called = f"the {side} {frame.noun}"
        if not frame.is_extents:
            raise ValueError(
                f"{called} has no column `window` of extents: make it with "
                f"{frame.prefix}window_aggregate(..., window=sf.Range(...))"
            )
        missing = [a for a in attributes if a not in frame.attributes]
        if missing:
            raise ValueError(
                f"`on` names {missing}, which are not in the alternatives of {called}; they "
                f"have {frame.attributes}"
            )
    values: list[tuple[str, Cells]] = [("window", Column("window"))]
    values += [(ALTERNATIVES, Alternatives())] if attributes else []
    outputs = [Output("window", ("window",), left.type("window"), left.metadata("window"))]
    inputs, keys, fields = [], [], []
    for side, frame in frames.items():
        keys.append(frame.keys(f"key of the {side} {frame.noun}", key))
        reading = Reading(tuple(frame.columns), (), tuple(keys[-1]), tuple(values), tie=None)
        inputs.append(Input(frame, reading, light=True))
        outputs.append(Output(side, (side,), row_of(frame, frame.columns)))
        fields.append([Field(f"{side}_{a}", frame.attribute_type(a)) for a in frame.attributes])
    if attributes:
        for title, kind in ((ALTERNATIVES, pairs_of(*fields)), ("probability", NUMBER)):
            outputs.append(Output(title, (title,), kind, {SHARED_KEY: PAIRS}))
    forgotten = None
    if forget_after is not None:
        check_keys(keys[0])
        forgotten = float(microseconds("forget_after", forget_after))
    config = ExtentJoinTableConfig(
        keys=len(keys[0]),
        scope=joined_scope(keys[0], left.says("window") or [], right.says("window") or []),
        on=tuple(attributes),
        within=within,
        probability=probability,
        forget_after=forgotten,
        max_alternatives=left.max_alternatives,
    )
    return Job("extent_join", "extents", name, inputs, config, outputs)
