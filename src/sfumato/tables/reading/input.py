"""Rows of a user's table as an operator reads them: fixed names, ties, without the invalid rows.

The one reader of a row, whatever the row comes from: a frame of Spark, a table in memory, or the
answers of an earlier operator in the same step.
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
from sfumato.tables.reading.controlled import MARKS
from sfumato.tables.reading.expressions import Expression, found, names_in
from sfumato.tables.reading.frame import EXISTENCE, Frame
from sfumato.tables.reading.ties import ties_of
from sfumato.tables.reading.tuples import ALTERNATIVES, Tuples
from sfumato.tables.reading.types import as_doubles, floats_of, is_list
from sfumato.tables.reading.validity import Bounds, Reasons, invalid_tuples
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
class Named(Cells, ABC):
    """Cells of one column of the table."""

    name: str

    def names(self, frame: Frame) -> Iterator[str]:
        yield self.name


@dataclass(frozen=True)
class Column(Named):
    """A column as it is."""

    def of(self, tuples: Tuples) -> pa.Array:
        return as_array(tuples.table.column(self.name))


@dataclass(frozen=True)
class Doubles(Named):
    """A column of numbers as double."""

    def of(self, tuples: Tuples) -> pa.Array:
        return as_doubles(tuples.table.column(self.name), f"column `{self.name}`")


@dataclass(frozen=True)
class Mark(Named):
    """A column of truth values; NULL is false."""

    def of(self, tuples: Tuples) -> pa.Array:
        column = as_array(tuples.table.column(self.name))
        return pc.fill_null(column, False) if column.null_count else column


@dataclass(frozen=True)
class Computed(Named):
    """list<double>: values that the engine has computed, per alternative or per row."""

    def of(self, tuples: Tuples) -> pa.Array:
        column = as_array(tuples.table.column(self.name))
        return column if is_list(column.type) else tuples.lists(column)


@dataclass(frozen=True)
class Probabilities(Cells):
    """list<double>: those of the alternatives; without any `existence`, or 1 where it is None."""

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
            if found(name.parts[0], frame.attributes) is None:
                yield found(name.parts[0], frame.columns) or name.parts[0]


@dataclass(frozen=True)
class Samples(Cells):
    """list<struct<prob, on0.., a..>>: the alternatives as the similarity join reads them."""

    on: tuple[str, ...]

    def of(self, tuples: Tuples) -> pa.Array:
        return tuples.samples(self.on)

    def names(self, frame: Frame) -> Iterator[str]:
        if frame.uncertain:
            yield ALTERNATIVES
            return
        yield from self.on
        if EXISTENCE in frame.columns:
            yield EXISTENCE


@dataclass(frozen=True)
class Alternatives(Cells):
    """The alternatives as they are, NULL as none."""

    def of(self, tuples: Tuples) -> pa.Array:
        return tuples.lists_without_null()

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
    """Which rows take part; those that do not are counted.

    probabilities : those of the alternatives, or of the column `existence`, must be valid
    attributes : which must be present and finite; of rows without alternatives columns
    existence : the column of probabilities of rows without alternatives
    complete : fixed names of columns that must not be NULL
    bounded : of lists none of whose values may be beyond +-LARGEST, or NaN
    scored : and none of whose values may be NULL either
    timed : order0 is a time, which may not lie beyond 2**60 microseconds of 1970
    bounds : of attributes, as for `why_invalid`
    unless_late : rows marked late need not be valid
    without_order : why a row has no order, where that is not that a column is NULL
    max_alternatives : the bound on the alternatives of a row; None: that of tables in memory
    """

    probabilities: bool = False
    attributes: tuple[str, ...] = ()
    existence: str | None = "existence"
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
        """Whether there are rows that it leaves out."""
        return self.probabilities or bool(self.complete) or bool(self.bounded)

    def names(self, frame: Frame) -> Iterator[str]:
        """Yield the columns of the frame by which rows are valid, but for those that are read."""
        if self.probabilities:
            yield from Probabilities(self.existence if self._exists(frame) else None).names(frame)
            yield from () if frame.uncertain else self.attributes
        if self.unless_late and LATE in frame.columns:
            yield LATE

    def _exists(self, frame: Frame) -> bool:
        return self.existence in frame.columns

    def known(self, tuples: Tuples) -> Reasons:
        """Find what is wrong by the columns of the table."""
        if not self.probabilities:
            return Reasons(tuples.table.num_rows)
        given = (self.attributes, self.existence, self.bounds)
        return invalid_tuples(tuples, *given, self.max_alternatives)

    def read(self, rows: pa.Table) -> Reasons:
        """Find what is wrong by what the operator reads."""
        reasons = Reasons(rows.num_rows)
        for name in self.complete:
            cells = rows.column(name)
            if cells.null_count:
                column = name.rstrip("0123456789")
                given = self.without_order if column == "order" else ""
                missing = cells.is_null().to_numpy()
                reasons.add(missing, given or f"{column} is NULL")
        if self.timed:
            far = beyond(rows.column("order0"))
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
            reasons.add(of, "a value is missing or beyond 1e140" if self.scored
                        else "a value is not finite, or beyond 1e140")  # fmt: skip
        return reasons


EVERY_ROW = Rule()


@dataclass(frozen=True)
class ReadRows:
    """rows : what an operator takes    given : how many rows there were
    invalid : how many took no part, by reason
    """

    rows: pa.Table
    given: int
    invalid: Mapping[str, int]


@dataclass(frozen=True)
class Reading:
    """How an operator reads tables of one kind: plain values, for configurations.

    passed : the columns that come out again, as the struct `row` of c0, c1, ...
    order, key : the columns that become order0.., key0..
    values : what else the operator reads: (fixed name, what it is)
    tie : what decides between simultaneous rows; None: the operator takes rows in any order
    """

    passed: tuple[str, ...]
    order: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    values: tuple[tuple[str, Cells], ...] = ()
    rule: Rule = EVERY_ROW
    tie: Cells | None = field(default_factory=Ties)

    def columns(self, frame: Frame) -> list[str]:
        """Return the columns of the frame that are read, each once."""
        cells = [cells for _, cells in self.values] + ([] if self.tie is None else [self.tie])
        found = [*self.passed, *self.order, *self.key]
        found += [name for of in cells for name in of.names(frame)]
        return [*dict.fromkeys([*found, *self.rule.names(frame)])]

    def column(self, fixed: str) -> str:
        """Return the column that an operator reads as it is under a fixed name."""
        kind = fixed.rstrip("0123456789")
        if kind in ("order", "key"):
            return getattr(self, kind)[int(fixed.removeprefix(kind))]
        cells = self.tie if fixed == TIE else dict(self.values)[fixed]
        assert isinstance(cells, Named)
        return cells.name

    def read(self, table: pa.Table) -> ReadRows:
        """Return the rows under fixed names, without the invalid ones.

        table : with types as Spark has them (`spark_type`)
        Raises ValueError or TypeError for columns that are missing or of another type.
        Cost: O(bytes), vectorised.
        """
        given, tuples = table.num_rows, Tuples(table)
        wrong = self.rule.known(tuples)
        counts = self._left_out(table, wrong)
        out = wrong.invalid if counts else None
        if self.rule.probabilities:
            absent = tuples.absent(self.rule.existence)
            out = absent if out is None else out | absent
        if out is not None and out.any():
            tuples = Tuples(table.filter(pa.array(~out)))
        rows = self._projected(tuples)
        wrong = self.rule.read(rows)
        left_out = self._left_out(tuples.table, wrong)
        if left_out:
            rows = rows.filter(pa.array(~wrong.invalid))
            counts = {of: counts.get(of, 0) + left_out.get(of, 0) for of in {**counts, **left_out}}
        return ReadRows(rows, given, counts)

    def _left_out(self, table: pa.Table, wrong: Reasons) -> dict[str, int]:
        """Count the rows that are left out, by reason; `wrong` is then of these alone."""
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


def beyond(times: pa.ChunkedArray) -> np.ndarray:
    """bool[n]: times beyond 2**60 microseconds of 1970; not those that are NULL."""
    known = pc.fill_null(times.cast(pa.int64()), 0).to_numpy()
    found: np.ndarray = (known < -LONGEST) | (known > LONGEST)
    return found


def _struct(columns: Sequence[pa.ChunkedArray], rows: int) -> pa.Array:
    """The columns as one struct of c0, c1, ...; without any of one zero."""
    cells = [as_array(column) for column in columns] or [pa.array(np.zeros(rows, np.int32))]
    return pa.StructArray.from_arrays(cells, [f"c{i}" for i in range(len(cells))])


def marks_of(names: Sequence[str]) -> list[tuple[str, Cells]]:
    """Return the cells of a controller's columns, or of others that are read as they are."""
    return [(name, Mark(name) if name == LATE else Column(name)) for name in names]
