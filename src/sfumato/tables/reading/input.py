"""What an operator reads of a user's table: fixed names, ties, and without the invalid rows.

`Reading` says for Arrow tables what `sfumato.spark.runtime.run_operator.Input` says in Spark's
expressions; both make the same rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.laws.aggregate import LARGEST
from sfumato.tables.arrow import as_array
from sfumato.tables.operator import ROW, TIE
from sfumato.tables.reading.expressions import Expression
from sfumato.tables.reading.ties import ties_of
from sfumato.tables.reading.tuples import ALTERNATIVES, Tuples
from sfumato.tables.reading.types import as_doubles, floats_of
from sfumato.tables.reading.validity import Bounds, Reasons, why_invalid
from sfumato.windows import LONGEST

LATE, PUNCTUATION = "late", "punctuation"


class Cells(ABC):
    """What an operator reads of each row under one fixed name."""

    @abstractmethod
    def of(self, tuples: Tuples) -> pa.Array:
        """The column, of a table's rows."""


@dataclass(frozen=True)
class Column(Cells):
    """A column as it is."""

    name: str

    def of(self, tuples: Tuples) -> pa.Array:
        return as_array(tuples.table.column(self.name))


@dataclass(frozen=True)
class Doubles(Cells):
    """A column of numbers as double."""

    name: str

    def of(self, tuples: Tuples) -> pa.Array:
        return as_doubles(tuples.table.column(self.name), f"column `{self.name}`")


@dataclass(frozen=True)
class Mark(Cells):
    """A column of truth values; NULL is false."""

    name: str

    def of(self, tuples: Tuples) -> pa.Array:
        return pc.fill_null(as_array(tuples.table.column(self.name)), False)


@dataclass(frozen=True)
class Probabilities(Cells):
    """list<double>: those of the alternatives; without any `existence`, or 1 where it is None."""

    existence: str | None = None

    def of(self, tuples: Tuples) -> pa.Array:
        return tuples.prob(self.existence)


@dataclass(frozen=True)
class Values(Cells):
    """list<double>: the values of an expression for every alternative."""

    expression: Expression

    def of(self, tuples: Tuples) -> pa.Array:
        return tuples.values(self.expression)


@dataclass(frozen=True)
class Samples(Cells):
    """list<struct<prob, on0.., a..>>: the alternatives as the similarity join reads them."""

    on: tuple[str, ...]

    def of(self, tuples: Tuples) -> pa.Array:
        return tuples.samples(self.on)


@dataclass(frozen=True)
class Alternatives(Cells):
    """The alternatives as they are, NULL as none."""

    def of(self, tuples: Tuples) -> pa.Array:
        return tuples.lists_without_null()


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

    @property
    def checks(self) -> bool:
        """Whether there are rows that it leaves out."""
        return self.probabilities or bool(self.complete) or bool(self.bounded)

    def known(self, table: pa.Table) -> Reasons:
        """What is wrong by the columns of the table."""
        if not self.probabilities:
            return Reasons(table.num_rows)
        return why_invalid(table, self.attributes, self.existence, self.bounds)

    def absent(self, table: pa.Table) -> np.ndarray:
        """bool[n]: rows of existence 0, which are valid and have no effect."""
        if not self.probabilities:
            return np.zeros(table.num_rows, np.bool_)
        return Tuples(table).absent(self.existence)

    def read(self, rows: pa.Table) -> Reasons:
        """What is wrong by what the operator reads."""
        reasons = Reasons(rows.num_rows)
        for name in self.complete:
            lacking = as_array(rows.column(name)).is_null().to_numpy(zero_copy_only=False)
            column = name.rstrip("0123456789")
            given = self.without_order if column == "order" else ""
            reasons.add(lacking, given or f"{column} is NULL")
        if self.timed:
            far = beyond(rows.column("order0"))
            reasons.add(far, "order is beyond 2**60 microseconds of 1970")
        for name in self.bounded:
            lists = as_array(rows.column(name))
            values = floats_of(lists.flatten())
            wrong = ~(np.abs(values) <= LARGEST)
            if not self.scored:
                wrong &= lists.flatten().is_valid().to_numpy(zero_copy_only=False)
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
    """

    passed: tuple[str, ...]
    order: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    values: tuple[tuple[str, Cells], ...] = ()
    rule: Rule = EVERY_ROW

    def read(self, table: pa.Table) -> ReadRows:
        """The rows under fixed names, without the invalid ones.

        table : with types as Spark has them (`spark_type`); all its columns make the ties
        Raises ValueError or TypeError for columns that lack, or that are not what is read.
        Cost: of its bytes; nothing a row in Python.
        """
        wrong = self.rule.known(table)
        counts = self._left_out(table, wrong)
        out = wrong.invalid | self.rule.absent(table)
        taken = table.filter(pa.array(~out)) if out.any() else table
        rows = self._projected(taken)
        wrong = self.rule.read(rows)
        for reason, count in self._left_out(rows, wrong).items():
            counts[reason] = counts.get(reason, 0) + count
        return ReadRows(_without(rows, wrong), table.num_rows, counts)

    def _left_out(self, table: pa.Table, wrong: Reasons) -> dict[str, int]:
        """How many rows are left out, by reason; `wrong` is then of these alone."""
        if self.rule.unless_late and wrong.texts:
            late = pc.fill_null(as_array(table.column(LATE)), False)
            wrong.number[late.to_numpy(zero_copy_only=False)] = -1
        return wrong.counts()

    def _projected(self, table: pa.Table) -> pa.Table:
        tuples = Tuples(table)
        columns = {ROW: _struct([table.column(name) for name in self.passed], table.num_rows)}
        for fixed, names in (("order", self.order), ("key", self.key)):
            columns |= {f"{fixed}{i}": table.column(name) for i, name in enumerate(names)}
        columns |= {fixed: cells.of(tuples) for fixed, cells in self.values}
        columns[TIE] = ties_of(table)
        return pa.table(columns)


def beyond(times: pa.ChunkedArray) -> np.ndarray:
    """bool[n]: times beyond 2**60 microseconds of 1970; not those that are NULL."""
    known = pc.fill_null(times.cast(pa.int64()), 0).to_numpy()
    found: np.ndarray = (known < -LONGEST) | (known > LONGEST)
    return found


def _without(table: pa.Table, wrong: Reasons) -> pa.Table:
    invalid = wrong.invalid
    return table.filter(pa.array(~invalid)) if invalid.any() else table


def _struct(columns: Sequence[pa.ChunkedArray], rows: int) -> pa.Array:
    """The columns as one struct of c0, c1, ...; without any of one zero."""
    cells = [as_array(column) for column in columns] or [pa.array(np.zeros(rows, np.int32))]
    return pa.StructArray.from_arrays(cells, [f"c{i}" for i in range(len(cells))])


def of_window(
    passed: Sequence[str],
    order: Sequence[str],
    key: Sequence[str],
    expressions: Sequence[Expression],
    existence: str | None = None,
    columns: Mapping[str, str] | None = None,
    scored: bool = False,
) -> Reading:
    """How the operators of windows and rankings read a table.

    expressions : of value0, value1, ...
    existence : the column of probabilities of rows without alternatives; None: they exist
    columns : what else they read as it is: fixed name -> column (late, punctuation, rule, ...)
    scored : a NULL value makes its row an invalid one
    """
    values: list[tuple[str, Cells]] = [("prob", Probabilities(existence))]
    values += [(f"value{i}", Values(e)) for i, e in enumerate(expressions)]
    values += [(fixed, Column(name)) for fixed, name in (columns or {}).items()]
    rule = Rule(
        probabilities=True,
        existence=existence,
        complete=tuple(f"order{i}" for i in range(len(order))),
        bounded=tuple(f"value{i}" for i in range(len(expressions))),
        scored=scored,
    )
    return Reading(tuple(passed), tuple(order), tuple(key), tuple(values), rule)


def of_join(
    passed: Sequence[str],
    order: Sequence[str],
    key: Sequence[str],
    on: Sequence[str],
    aligned: bool = False,
    timed: bool = False,
    bounds: Bounds = (),
) -> Reading:
    """How the similarity join reads the table of one side.

    aligned : with the late rows and punctuations of a disorder controller
    timed : a window goes by the order, which is a time
    bounds : of the columns `on`, as for `why_invalid`
    """
    values: list[tuple[str, Cells]] = [(ALTERNATIVES, Samples(tuple(on)))]
    rule = Rule(
        probabilities=True,
        attributes=tuple(on),
        complete=_all_complete(order, key),
        timed=timed,
        bounds=tuple(bounds),
        unless_late=aligned,
    )
    values += _of_controller() if aligned else []
    return Reading(tuple(passed), tuple(order), tuple(key), tuple(values), rule)


def of_incomplete_join(
    passed: Sequence[str],
    order: Sequence[str],
    key: Sequence[str],
    imputed: Sequence[str],
    aligned: bool = False,
    timed: bool = False,
) -> Reading:
    """`of_join` for a side with missing values: `imputed`, in the imputer's order."""
    values: list[tuple[str, Cells]] = [(f"value{i}", Doubles(n)) for i, n in enumerate(imputed)]
    values += _of_controller() if aligned else []
    rule = Rule(complete=_all_complete(order, key), timed=timed, unless_late=aligned)
    return Reading(tuple(passed), tuple(order), tuple(key), tuple(values), rule)


def _all_complete(order: Sequence[str], key: Sequence[str]) -> tuple[str, ...]:
    orders = [f"order{i}" for i in range(len(order))]
    return (*orders, *(f"key{i}" for i in range(len(key))))


def _of_controller() -> list[tuple[str, Cells]]:
    return [(LATE, Mark(LATE)), (PUNCTUATION, Column(PUNCTUATION))]
