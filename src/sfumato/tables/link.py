"""How the answers of an operator become the rows of a later one in a chain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.tables.arrow import as_array, fields_of
from sfumato.tables.operator import ROW

INVALID = "__invalid"
LATE = "late"
COUNTED = ("rows", "invalid")  # of the rows that a link passes on

Path = tuple[str, ...]  # a column of a step's answers or of their `row`, and fields within it
COMPARISONS = {"<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


@dataclass(frozen=True)
class Taken:
    """A column of a step's answers, and the type it is cast to, if it is not empty."""

    path: Path
    cast: str = ""

    def of(self, answers: pa.Table) -> pa.Array:
        """Its cells."""
        found = _found(answers, self.path)
        return found.cast(self.cast, safe=False) if self.cast else found


@dataclass(frozen=True)
class Condition:
    """Which answers go on: those whose number at `path` compares so with another; NULL does not."""

    path: Path
    sign: str
    number: float

    def holds(self, answers: pa.Table) -> pa.Array:
        """bool of each answer."""
        return COMPARISONS[self.sign](_found(answers, self.path), self.number)


@dataclass(frozen=True)
class Link:
    """How answers of a step become rows of a later one.

    step : the number of the step that gives the answers
    carried : the struct among what `row` carried through it: columns of ours, computed before;
        empty if its answers are not the rows that came in
    taken : column -> what it is of the answers; `row.NAME` is a field of the later step's `row`
    where : which answers go on
    fields : for a column of lists of structs among them, what the fields are called
    validated : whether the carried columns say, in `__invalid`, which rows take no part; these are
        counted, unless it is NULL: the row is absent, with existence 0
    spares_late : rows that are late need not be valid
    """

    step: int
    carried: str
    taken: Mapping[str, Taken] = field(default_factory=dict)
    where: tuple[Condition, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    validated: bool = False
    spares_late: bool = False

    def rows(self, answers: pa.Table) -> pa.Table:
        """The rows that the later step reads, those that take no part among them."""
        for condition in self.where:
            answers = answers.filter(condition.holds(answers))
        columns = fields_of(_found(answers, (self.carried,))) if self.carried else {}
        parts: dict[str, pa.Array] = {}
        for name, taken in self.taken.items():
            outer, _, inner = name.partition(".")
            column = taken.of(answers)
            if name in self.fields:
                column = _with_fields(column, self.fields[name])
            (parts if inner else columns)[inner or outer] = column
        if parts:
            before = fields_of(columns[ROW]) if ROW in columns else {}
            columns[ROW] = _struct(before | parts)
        return pa.table(columns)

    def valid(self, rows: pa.Table) -> tuple[np.ndarray, int]:
        """bool[n]: which rows are included; and how many others are invalid."""
        invalid = rows.column(INVALID)
        if self.spares_late:
            invalid = pc.and_not(invalid, rows.column(LATE))
        valid = pc.fill_null(pc.invert(invalid), False).to_numpy()
        return valid, pc.sum(invalid).as_py() or 0


def _found(answers: pa.Table, path: Path) -> pa.Array:
    """The column of a path; its first name is a column, or a field of the column `row`."""
    at = path if path[0] in answers.column_names else (ROW, *path)
    array = as_array(answers.column(at[0]))
    for name in at[1:]:
        array = pc.struct_field(array, name)
    return array


def _with_fields(lists: pa.ListArray, names: Sequence[str]) -> pa.ListArray:
    of = lists.type.value_type
    kinds = [of.field(i).type for i in range(of.num_fields)]
    return lists.view(pa.list_(pa.struct(list(zip(names, kinds, strict=True)))))


def _struct(columns: Mapping[str, pa.Array]) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(columns.values()), list(columns))
