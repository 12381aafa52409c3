"""The one reader of rows: a user's table under the fixed names of operators, without invalid rows.

The table is a part of a Spark frame, a table in memory, or the answers of an earlier operator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.laws.aggregate import LARGEST
from sfumato.tables.arrow import as_array
from sfumato.tables.operator import ROW, TIE
from sfumato.tables.reading.expressions import Expression, find_name, names_in
from sfumato.tables.reading.frame import EXISTENCE, MARKS, Frame
from sfumato.tables.reading.ties import ties_of
from sfumato.tables.reading.tuples import ALTERNATIVES, Tuples
from sfumato.tables.reading.types import as_doubles, floats_of, is_list
from sfumato.tables.reading.validity import Bounds, Reasons, why_invalid
from sfumato.windows import LONGEST

LATE, PUNCTUATION = MARKS


class Cells(ABC):
    """What an operator reads of each row under one fixed name."""

    @abstractmethod
    def of(self, tuples: Tuples) -> pa.Array:
        """Return the column for a table's rows."""

    @abstractmethod
    def names(self, frame: Frame) -> Iterator[str]:
        """Yield the columns of the frame that it reads."""


@dataclass(frozen=True)
class Column(Cells):
    """A column as it is."""

    name: str

    def of(self, tuples: Tuples) -> pa.Array:
        return as_array(tuples.table.column(self.name))

    def names(self, frame: Frame) -> Iterator[str]:
        yield self.name


class Doubles(Column):
    """A column of numbers as double."""

    def of(self, tuples: Tuples) -> pa.Array:
        return as_doubles(tuples.table.column(self.name), f"column `{self.name}`")


class Mark(Column):
    """A column of truth values; NULL is false."""

    def of(self, tuples: Tuples) -> pa.Array:
        return pc.fill_null(super().of(tuples), False)


class Computed(Column):
    """list<double>: values that the engine has computed, per alternative or per row."""

    def of(self, tuples: Tuples) -> pa.Array:
        column = super().of(tuples)
        return column if is_list(column.type) else tuples.lists(column)


@dataclass(frozen=True)
class Probabilities(Cells):
    """list<double>: of the alternatives; without alternatives `existence`, 1 where it is None."""

    existence: str | None = None

    def of(self, tuples: Tuples) -> pa.Array:
        return tuples.prob(self.existence)

    def names(self, frame: Frame) -> Iterator[str]:
        if frame.uncertain:
            yield ALTERNATIVES
        elif self.existence is not None:
            yield self.existence


@dataclass(frozen=True)
class Values(Cells):
    """list<double>: the values of an expression for every alternative."""

    expression: Expression

    def of(self, tuples: Tuples) -> pa.Array:
        return tuples.values(self.expression)

    def names(self, frame: Frame) -> Iterator[str]:
        if frame.uncertain:
            yield ALTERNATIVES
        for name in names_in(self.expression):
            if find_name(name.parts[0], frame.attributes) is None:
                yield find_name(name.parts[0], frame.columns) or name.parts[0]


@dataclass(frozen=True)
class Samples(Cells):
    """list<struct<prob, on0.., a..>>: the alternatives as the similarity join reads them.

    on : the attributes (without alternatives columns) that span the distance, as doubles. Another
        attribute i is `a{i}`, unchanged
    """

    on: tuple[str, ...]

    def of(self, tuples: Tuples) -> pa.Array:
        table = tuples.table
        exists = EXISTENCE if EXISTENCE in table.column_names else None
        columns = {"prob": tuples.prob(exists).flatten()}
        for i, name in enumerate(tuples.attributes if tuples.uncertain else self.on):
            given = tuples.fields[name] if tuples.uncertain else table.column(name)
            if name in self.on:
                columns[f"on{self.on.index(name)}"] = as_doubles(given, f"`on`: `{name}`")
            else:
                columns[f"a{i}"] = given
        return tuples.lists(pa.StructArray.from_arrays(list(columns.values()), list(columns)))

    def names(self, frame: Frame) -> Iterator[str]:
        if frame.uncertain:
            yield ALTERNATIVES
            return
        yield from self.on
        if EXISTENCE in frame.columns:
            yield EXISTENCE


@dataclass(frozen=True)
class Alternatives(Cells):
    """The alternatives as they are; an empty list for NULL."""

    def of(self, tuples: Tuples) -> pa.Array:
        if not tuples.column.null_count:
            return tuples.column
        return pa.ListArray.from_arrays(tuples.offsets, tuples.flat)

    def names(self, frame: Frame) -> Iterator[str]:
        yield ALTERNATIVES


@dataclass(frozen=True)
class Ties(Cells):
    """int64: a hash of some columns, which decides between simultaneous rows; None: of all."""

    columns: tuple[str, ...] | None = None

    def of(self, tuples: Tuples) -> pa.Array:
        table = tuples.table
        return ties_of(table if self.columns is None else table.select(list(self.columns)))

    def names(self, frame: Frame) -> Iterator[str]:
        yield from frame.columns if self.columns is None else self.columns


@dataclass(frozen=True)
class Rule:
    """Which rows are valid; the others are counted and left out.

    probabilities : those of the alternatives, or of the column `existence`, must be valid
    attributes : must be present and finite; without alternatives they are columns
    existence : the column of probabilities of rows without alternatives
    complete : fixed names of columns that must not be NULL
    bounded : fixed names of lists whose values must be within +-LARGEST
    scored : these values must not be NULL either
    timed : order0 is a time within 2**60 microseconds of 1970
    bounds : of attributes, as for `why_invalid`
    unless_late : rows marked late need not be valid
    without_order : why a row has no order, where the reason is not that a column is NULL
    max_alternatives : the bound on the alternatives of a row; None: that of tables in memory
    """

    probabilities: bool = False
    attributes: tuple[str, ...] = ()
    existence: str | None = EXISTENCE
    complete: tuple[str, ...] = ()
    bounded: tuple[str, ...] = ()
    scored: bool = False
    timed: bool = False
    bounds: Bounds = ()
    unless_late: bool = False
    without_order: str = ""
    max_alternatives: int | None = None

    @property
    def checks(self) -> bool:
        """Whether rows may be invalid."""
        return self.probabilities or bool(self.complete) or bool(self.bounded)

    def names(self, frame: Frame) -> Iterator[str]:
        """Yield the columns of the frame that only this rule reads."""
        if self.probabilities:
            existence = self.existence if self.existence in frame.columns else None
            yield from Probabilities(existence).names(frame)
            yield from () if frame.uncertain else self.attributes
        if self.unless_late and LATE in frame.columns:
            yield LATE

    def check_table(self, tuples: Tuples) -> Reasons:
        """Return the reasons that the columns of the table show."""
        if not self.probabilities:
            return Reasons(tuples.table.num_rows)
        given = (self.attributes, self.existence, self.bounds)
        return why_invalid(tuples, *given, self.max_alternatives)

    def check_rows(self, rows: pa.Table) -> Reasons:
        """Return the reasons that the columns under fixed names show."""
        reasons = Reasons(rows.num_rows)
        for name in self.complete:
            cells = rows.column(name)
            if cells.null_count:
                column = name.rstrip("0123456789")
                given = self.without_order if column == "order" else ""
                reasons.add(cells.is_null().to_numpy(), given or f"{column} is NULL")
        if self.timed:
            known = pc.fill_null(rows.column("order0").cast(pa.int64()), 0).to_numpy()
            far = (known < -LONGEST) | (known > LONGEST)
            reasons.add(far, "order is beyond 2**60 microseconds of 1970")
        for name in self.bounded:
            lists = as_array(rows.column(name))
            flat = lists.flatten()
            wrong = ~(np.abs(floats_of(flat)) <= LARGEST)
            if not wrong.any():
                continue
            if not self.scored and flat.null_count:
                wrong &= flat.is_valid().to_numpy(zero_copy_only=False)
            of = np.zeros(rows.num_rows, np.bool_)
            of[pc.list_parent_indices(lists).to_numpy()[wrong]] = True
            wrong_how = "missing or" if self.scored else "not finite, or"
            reasons.add(of, f"a value is {wrong_how} beyond 1e140")
        return reasons


@dataclass(frozen=True)
class ReadRows:
    """Rows for an operator.

    given : how many rows there were    invalid : how many were left out, by reason
    """

    rows: pa.Table
    given: int
    invalid: Mapping[str, int]


@dataclass(frozen=True)
class Reading:
    """How an operator reads tables of one kind: plain values, for configurations.

    passed : the columns that are emitted again, as the struct `row` of c0, c1, ...
    order, key : the columns that become order0.., key0..
    values : what else the operator reads: (fixed name, cells)
    tie : what decides between simultaneous rows; None: the operator takes rows in any order
    """

    passed: tuple[str, ...]
    order: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    values: tuple[tuple[str, Cells], ...] = ()
    rule: Rule = field(default_factory=Rule)
    tie: Cells | None = field(default_factory=Ties)

    def columns(self, frame: Frame) -> list[str]:
        """Return the columns of the frame that are read, each once."""
        cells = [cells for _, cells in self.values] + ([] if self.tie is None else [self.tie])
        read = [name for of in cells for name in of.names(frame)]
        every = [*self.passed, *self.order, *self.key, *read, *self.rule.names(frame)]
        return [*dict.fromkeys(every)]

    def column(self, fixed: str) -> str:
        """Return the column that an operator reads as it is under a fixed name."""
        kind = fixed.rstrip("0123456789")
        if kind in ("order", "key"):
            return getattr(self, kind)[int(fixed.removeprefix(kind))]
        cells = self.tie if fixed == TIE else dict(self.values)[fixed]
        assert isinstance(cells, Column)
        return cells.name

    def read(self, table: pa.Table) -> ReadRows:
        """Return the rows under fixed names, without the invalid ones.

        table : with types as Spark has them (`spark_type`)
        Raises ValueError or TypeError for columns that are missing or of another type.
        Cost: O(bytes), vectorised.
        """
        given, tuples = table.num_rows, Tuples(table)
        wrong = self.rule.check_table(tuples)
        counts = self._left_out(table, wrong)
        out = wrong.invalid if counts else None
        if self.rule.probabilities:
            absent = tuples.absent(self.rule.existence)
            out = absent if out is None else out | absent
        if out is not None and out.any():
            tuples = Tuples(table.filter(pa.array(~out)))
        rows = self._projected(tuples)
        wrong = self.rule.check_rows(rows)
        left_out = self._left_out(tuples.table, wrong)
        if left_out:
            rows = rows.filter(pa.array(~wrong.invalid))
            counts = {of: counts.get(of, 0) + left_out.get(of, 0) for of in {**counts, **left_out}}
        return ReadRows(rows, given, counts)

    def _left_out(self, table: pa.Table, wrong: Reasons) -> dict[str, int]:
        """Count the rows that are left out, by reason; removes the others from `wrong`."""
        if not wrong.texts:
            return {}
        if self.rule.unless_late:
            late = pc.fill_null(as_array(table.column(LATE)), False)
            wrong.number[late.to_numpy(zero_copy_only=False)] = -1
        return wrong.counts()

    def _projected(self, tuples: Tuples) -> pa.Table:
        table = tuples.table
        columns = {ROW: _struct([table.column(name) for name in self.passed], table.num_rows)}
        for fixed, names in (("order", self.order), ("key", self.key)):
            columns |= {f"{fixed}{i}": table.column(name) for i, name in enumerate(names)}
        columns |= {fixed: cells.of(tuples) for fixed, cells in self.values}
        if self.tie is not None:
            columns[TIE] = self.tie.of(tuples)
        return pa.table(columns)


def _struct(columns: Sequence[pa.ChunkedArray], rows: int) -> pa.Array:
    """Return the columns as one struct of c0, c1, ...; without columns as one zero."""
    cells = [as_array(column) for column in columns] or [pa.array(np.zeros(rows, np.int32))]
    return pa.StructArray.from_arrays(cells, [f"c{i}" for i in range(len(cells))])


def marks_of(names: Sequence[str]) -> list[tuple[str, Cells]]:
    """Return the cells of a controller's columns, or of others that are read as they are."""
    return [(name, Mark(name) if name == LATE else Column(name)) for name in names]
