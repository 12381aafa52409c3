"""The reader of rows: a user's table under the fixed names of operators, without invalid rows.

The table is part of a Spark frame, an in-memory table, or an earlier operator's answers.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.limits import MAX_TIME_US
from sfumato.operators.arguments import MAX_ABS_VALUE
from sfumato.operators.arrays import Bools
from sfumato.tables.arrow import as_array, as_numbers
from sfumato.tables.operator import ROW, TIE
from sfumato.tables.reading.expressions import ColumnRef, Expression, find_name, names_in
from sfumato.tables.reading.frame import EXISTENCE, LATE, PUNCTUATION, Frame
from sfumato.tables.reading.ties import hash_numbers, ties_of
from sfumato.tables.reading.tuples import ALTERNATIVES, UncertainTable
from sfumato.tables.reading.types import as_doubles, floats_of, is_list
from sfumato.tables.reading.validity import (
    RADIUS,
    Bounds,
    Reasons,
    has_invalid_radius,
    invalid_radius_reason,
    missing_attribute_reason,
    why_invalid,
)


class ColumnReader(ABC):
    """A column of values that an operator reads under one fixed name."""

    @abstractmethod
    def read(self, tuples: UncertainTable) -> pa.Array:
        """Return one value per row of a table."""

    @abstractmethod
    def names(self, frame: Frame) -> list[str]:
        """Return the frame's columns that are read."""


@dataclass(frozen=True)
class Column(ColumnReader):
    """A column, unchanged."""

    name: str

    def read(self, tuples: UncertainTable) -> pa.Array:
        return as_array(tuples.table.column(self.name))

    def names(self, frame: Frame) -> list[str]:
        return [self.name]


class Doubles(Column):
    """A numeric column as doubles."""

    def read(self, tuples: UncertainTable) -> pa.Array:
        return as_doubles(tuples.table.column(self.name), f"column `{self.name}`")


class BooleanColumn(Column):
    """A boolean column, with NULL as false."""

    def read(self, tuples: UncertainTable) -> pa.Array:
        return pc.fill_null(super().read(tuples), False)


@dataclass(frozen=True)
class Computed(Column):
    """Lists of values computed by the engine, per alternative or per row; see `Values`."""

    hashed: bool = False

    def read(self, tuples: UncertainTable) -> pa.Array:
        column = super().read(tuples)
        if self.hashed:
            flat = column.flatten() if is_list(column.type) else column
            return tuples.lists(hash_numbers(flat))
        return column if is_list(column.type) else tuples.lists(column)


@dataclass(frozen=True)
class Probabilities(ColumnReader):
    """list<double>: probabilities of alternatives. Without alternatives: `existence`, or 1."""

    existence: str | None = None

    def read(self, tuples: UncertainTable) -> pa.Array:
        return tuples.prob(self.existence)

    def names(self, frame: Frame) -> list[str]:
        plain = [] if self.existence is None else [self.existence]
        return [ALTERNATIVES] if frame.uncertain else plain


@dataclass(frozen=True)
class Values(ColumnReader):
    """list<double>: an expression's value for every alternative.

    exact : keep the values' own type    hashed : hash values to numbers, see `hash_numbers`
    """

    expression: Expression
    exact: bool = False
    hashed: bool = False

    def read(self, tuples: UncertainTable) -> pa.Array:
        if self.hashed:
            return tuples.lists(hash_numbers(tuples.evaluate(self.expression)))
        return tuples.values(self.expression, self.exact)

    def names(self, frame: Frame) -> list[str]:
        first = [name.parts[0] for name in names_in(self.expression)]
        plain = [name for name in first if find_name(name, frame.attributes) is None]
        plain = [find_name(name, frame.columns) or name for name in plain]
        return [*([ALTERNATIVES] if frame.uncertain else []), *plain]


@dataclass(frozen=True)
class Samples(ColumnReader):
    """list<struct<prob, on0.., a..>>: the alternatives as the similarity join reads them.

    Attributes that are not in `on` are unchanged, with the name a{i} for attribute i.
    on : attributes of the distance (columns, for rows without alternatives), read as doubles
    texts : places in `on` of attributes that are read as strings
    """

    on: tuple[str, ...]
    texts: tuple[int, ...] = ()

    def read(self, tuples: UncertainTable) -> pa.Array:
        table = tuples.table
        exists = EXISTENCE if EXISTENCE in table.column_names else None
        columns = {"prob": tuples.prob(exists).flatten()}
        for i, name in enumerate(tuples.attributes if tuples.uncertain else self.on):
            given = tuples.fields[name] if tuples.uncertain else table.column(name)
            if name in self.on:
                place = self.on.index(name)
                text = place in self.texts
                called = f"`on`: `{name}`"
                columns[f"on{place}"] = (
                    as_array(given).cast(pa.string()) if text else as_doubles(given, called)
                )
            else:
                columns[f"a{i}"] = given
        return tuples.lists(pa.StructArray.from_arrays(list(columns.values()), list(columns)))

    def names(self, frame: Frame) -> list[str]:
        exists = [EXISTENCE] if EXISTENCE in frame.columns else []
        return [ALTERNATIVES] if frame.uncertain else [*self.on, *exists]


@dataclass(frozen=True)
class Alternatives(ColumnReader):
    """The alternatives, with NULL as an empty list."""

    def read(self, tuples: UncertainTable) -> pa.Array:
        if not tuples.column.null_count:
            return tuples.column
        return pa.ListArray.from_arrays(tuples.offsets, tuples.flat)

    def names(self, frame: Frame) -> list[str]:
        return [ALTERNATIVES]


@dataclass(frozen=True)
class Ties(ColumnReader):
    """int64: a hash of `columns` (None for all), which orders simultaneous rows."""

    columns: tuple[str, ...] | None = None

    def read(self, tuples: UncertainTable) -> pa.Array:
        table = tuples.table
        return ties_of(table if self.columns is None else table.select(list(self.columns)))

    def names(self, frame: Frame) -> list[str]:
        return [*(frame.columns if self.columns is None else self.columns)]


@dataclass(frozen=True)
class Rule:
    """The conditions for valid rows; other rows are counted and left out.

    probabilities : whether alternatives, or the column `existence`, are checked
    attributes : attributes, or columns of certain rows, that must be present and finite
    existence : the probability column of rows without alternatives
    complete : fixed names of columns that must not be NULL
    bounded_values : fixed names of lists whose values must be within ±MAX_ABS_VALUE
    scored : whether values in `bounded_values` must not be NULL
    timed : whether order0 must be a time within 2**60 microseconds of 1970
    bounds : maximum magnitudes of attributes, see `why_invalid`
    radius : the column that is read as RADIUS, whose values must be finite and at least 0
    unless_late : whether rows flagged late may be invalid
    duplicate : the column that flags rows to ignore without counting them, or None
    early_copy : the column that flags early copies of rows, which are not counted
    without_order : the reason why a row has no order, if the reason is not a NULL column
    arrival : the arrival column that a controller needs to order rows, or None
    keeps_absent : whether rows with existence 0 are read
    max_alternatives : maximum per row; None for the maximum of in-memory tables
    """

    probabilities: bool = False
    attributes: tuple[str, ...] = ()
    existence: str | None = EXISTENCE
    complete: tuple[str, ...] = ()
    bounded_values: tuple[str, ...] = ()
    scored: bool = False
    timed: bool = False
    bounds: Bounds = ()
    radius: str | None = None
    unless_late: bool = False
    duplicate: str | None = None
    early_copy: str | None = None
    without_order: str = ""
    max_alternatives: int | None = None
    keeps_absent: bool = field(default=False, metadata={"fingerprint": "added"})
    arrival: str | None = field(default=None, metadata={"fingerprint": "added"})

    @property
    def checks(self) -> bool:
        return self.probabilities or bool(self.complete) or bool(self.bounded_values)

    def names(self, frame: Frame) -> list[str]:
        found = [LATE] if self.unless_late and LATE in frame.columns else []
        if self.probabilities:
            existence = self.existence if self.existence in frame.columns else None
            plain = [] if frame.uncertain else self.attributes
            found = [*Probabilities(existence).names(frame), *plain, *found]
        others = (self.duplicate, self.early_copy, self.arrival)
        return [*found, *(name for name in others if name is not None)]

    def check_table(self, tuples: UncertainTable) -> Reasons:
        """Return why rows are invalid, judged by the columns with the table's own names."""
        reasons = Reasons(tuples.table.num_rows)
        if self.probabilities:
            given = (self.attributes, self.existence, self.bounds)
            reasons = why_invalid(tuples, *given, self.max_alternatives)
        if self.arrival is not None and (cells := tuples.table.column(self.arrival)).null_count:
            reasons.add(cells.is_null().to_numpy(), "arrival is NULL")
        return reasons

    def check_rows(self, rows: pa.Table, missing: Mapping[str, str]) -> Reasons:
        """Return why rows are invalid, by columns with fixed names, as the keys of `missing`."""
        reasons = Reasons(rows.num_rows)
        for name in self.complete:
            cells = rows.column(name)
            if cells.null_count:
                column = name.rstrip("0123456789")
                given = self.without_order if column == "order" else ""
                reasons.add(cells.is_null().to_numpy(), given or f"{column} is NULL")
        if self.timed:
            known = pc.fill_null(rows.column("order0").cast(pa.int64()), 0).to_numpy()
            far = (known < -MAX_TIME_US) | (known > MAX_TIME_US)
            reasons.add(far, "order is more than 2**60 microseconds from 1970")
        if self.radius is not None:
            reasons.add(has_invalid_radius(rows, RADIUS), invalid_radius_reason(self.radius))
        for name in self.bounded_values:
            lists = as_array(rows.column(name))
            flat = lists.flatten()
            numbers = floats_of(flat)
            wrong = ~(np.abs(numbers) <= MAX_ABS_VALUE)
            if not wrong.any():
                continue
            if not self.scored and flat.null_count:
                wrong &= flat.is_valid().to_numpy(zero_copy_only=False)
            parents = pc.list_parent_indices(lists).to_numpy()
            reason = f"a value is {'missing or ' if self.scored else ''}not finite"
            unknown = wrong & ~np.isfinite(numbers), missing.get(name, reason)
            for which, text in (unknown, (wrong, "a value is beyond 1e140")):
                of = np.zeros(rows.num_rows, np.bool_)
                of[parents[which]] = True
                reasons.add(of, text)
        return reasons


@dataclass(frozen=True)
class ReadRows:
    """Rows for an operator.

    row_count : number of all rows    invalid : number of invalid rows per reason
    dropped : `row`, keys and `reason` ("invalid", "absent") of rows that are left out, if requested
    """

    rows: pa.Table
    row_count: int
    invalid: Mapping[str, int]
    dropped: pa.Table | None = None


@dataclass(frozen=True)
class Reading:
    """The way an operator reads tables of one kind, as plain values for configurations.

    passthrough : the columns that are emitted again, as the struct `row` of c0, c1, ...
    order, key : the columns that become order0.., key0..
    values : other columns that the operator reads: (fixed name, reader)
    tie : the order of simultaneous rows; None if the operator accepts any order
    ties_by_order : whether ties matter only for rows with equal `order0`
    keeps_dropped : whether dropped rows are kept for `TableOperator.process_dropped`
    """

    passthrough: tuple[str, ...]
    order: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    values: tuple[tuple[str, ColumnReader], ...] = ()
    rule: Rule = field(default_factory=Rule)
    tie: ColumnReader | None = field(default_factory=Ties)
    keeps_dropped: bool = False
    ties_by_order: bool = False

    def columns(self, frame: Frame) -> list[str]:
        ties = [] if self.tie is None else self.tie.names(frame)
        return [*dict.fromkeys([*self.passthrough, *self.uses(frame), *ties])]

    def uses(self, frame: Frame) -> list[str]:
        """Return the columns that are read, except to pass them on or to break ties."""
        read = [name for _, cells in self.values for name in cells.names(frame)]
        return [*self.order, *self.key, *read, *self.rule.names(frame)]

    def column(self, fixed: str) -> str:
        """Return the column that an operator reads unchanged under a fixed name."""
        kind = fixed.rstrip("0123456789")
        if kind in ("order", "key"):
            return getattr(self, kind)[int(fixed.removeprefix(kind))]
        cells = self.tie if fixed == TIE else dict(self.values)[fixed]
        assert isinstance(cells, Column)
        return cells.name

    def read(self, table: pa.Table, whole: bool = False) -> ReadRows:
        """Return the valid rows. whole : whether the table has all of the operator's rows"""
        if self.rule.duplicate is not None:
            flags = pc.fill_null(as_array(table.column(self.rule.duplicate)), False)
            table = table.filter(pc.invert(flags))
        given, tuples = int(self._is_counted(table).sum()), UncertainTable(table)
        wrong = self.rule.check_table(tuples)
        counts = Counter(self._count_left_out(table, wrong))
        out, dropped = wrong.invalid, list[pa.Table]()
        if self.rule.probabilities and not self.rule.keeps_absent:
            out |= tuples.absent(self.rule.existence)
        if out.any():
            dropped += self._dropped_rows(table, out, wrong.invalid)
            tuples = UncertainTable(table.filter(pa.array(~out)))
        rows = self._project(tuples, whole)
        wrong = self.rule.check_rows(rows, self._missing_reasons(tuples))
        counts.update(self._count_left_out(tuples.table, wrong))
        out = wrong.invalid
        if out.any():
            dropped += self._dropped_rows(tuples.table, out, out)
            rows = rows.filter(pa.array(~out))
        return ReadRows(rows, given, counts, pa.concat_tables(dropped) if dropped else None)

    def _missing_reasons(self, tuples: UncertainTable) -> dict[str, str]:
        """Return the reasons of `split_invalid` for missing values, by fixed name."""
        found = {}
        for fixed, cells in self.values if self.rule.bounded_values else ():
            if isinstance(cells, Values) and isinstance(cells.expression, ColumnRef):
                name = ".".join(cells.expression.parts)
                own = find_name(name, tuples.attributes)
                found[fixed] = missing_attribute_reason(own or name, *([] if own else [""]))
        return found

    def _dropped_rows(self, table: pa.Table, dropped: Bools, invalid: Bools) -> list[pa.Table]:
        if not self.keeps_dropped:
            return []
        reasons = pa.array(np.where(invalid[dropped], "invalid", "absent"), pa.string())
        columns = self._passthrough_columns(table.filter(pa.array(dropped)))
        return [pa.table(columns | {"reason": reasons})]

    def _passthrough_columns(self, table: pa.Table) -> dict[str, Any]:
        cells = [as_array(table.column(name)) for name in self.passthrough]
        cells = cells or [pa.array(np.zeros(table.num_rows, np.int32))]  # a struct needs a field
        row = pa.StructArray.from_arrays(cells, [f"c{i}" for i in range(len(cells))])
        return {ROW: row} | {f"key{i}": table.column(name) for i, name in enumerate(self.key)}

    def _count_left_out(self, table: pa.Table, wrong: Reasons) -> dict[str, int]:
        """Count rows left out per reason; clear the reasons of late rows that may be invalid."""
        if not wrong.texts:
            return {}
        if self.rule.unless_late:
            late = pc.fill_null(as_array(table.column(LATE)), False)
            wrong.number[late.to_numpy(zero_copy_only=False)] = -1
        return wrong.counts(self._is_counted(table))

    def _is_counted(self, table: pa.Table) -> Bools:
        if self.rule.early_copy is None:
            return np.ones(table.num_rows, np.bool_)
        return as_numbers(table.column(self.rule.early_copy)) == 0

    def _project(self, tuples: UncertainTable, whole: bool) -> pa.Table:
        table = tuples.table
        columns = self._passthrough_columns(table)
        columns |= {f"order{i}": table.column(name) for i, name in enumerate(self.order)}
        columns |= {fixed: cells.read(tuples) for fixed, cells in self.values}
        if self.tie is not None:
            untied = whole and self.ties_by_order and not columns["order0"].null_count
            if untied:
                numbers = as_numbers(columns["order0"])
                untied = bool((numbers[1:] > numbers[:-1]).all())
            zeros = np.zeros(table.num_rows, np.int64)
            columns[TIE] = pa.array(zeros) if untied else self.tie.read(tuples)
        return pa.table(columns)


def controller_readers() -> list[tuple[str, ColumnReader]]:
    """Return the readers of a controller's columns, under their own names."""
    return [(LATE, BooleanColumn(LATE)), (PUNCTUATION, Column(PUNCTUATION))]
