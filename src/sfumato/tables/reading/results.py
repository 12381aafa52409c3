"""The columns of a result: fixed names in an operator's answers, users' names in the result.

Fixed names keep names of users apart from what the operator needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sfumato.operators.arrays import offsets_of
from sfumato.tables.arrow import as_array, fields_of
from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.types import is_list, lengths_of

NUMBER, WHOLE, TEXT, TRUTH = "double", "long", "string", "boolean"


@dataclass(frozen=True)
class Field:
    """A field of a struct.

    name : as users see it    fixed : as the operator calls it; None: the same
    kind : as of `Output`    metadata : of the field
    """

    name: str
    kind: Any
    fixed: str | None = None
    metadata: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Struct:
    """The type of a struct with these fields."""

    parts: tuple[Field, ...]


@dataclass(frozen=True)
class ListOf:
    """The type of a list with elements of this type."""

    kind: Any


@dataclass(frozen=True)
class Output:
    """A column of a result.

    name : as users see it
    source : the column of the answers, under its fixed name, and then a field of it
    kind : its type: NUMBER, WHOLE, TEXT, TRUTH, `Struct`, `ListOf`, or a type of the frame's
    metadata : of the column    default : in place of NULL
    cast : the type of the frame's that it gets in the result; None: `kind`
    """

    name: str
    source: tuple[str, ...]
    kind: Any
    metadata: Mapping[str, Any] | None = None
    default: Any = None
    cast: Any = None


def passed(
    frame: Frame,
    names: Sequence[str],
    of: str | None = None,
    *,
    prefix: str = "c",
    taken: Sequence[str] = (),
) -> list[Output]:
    """Return the columns that pass through an operator.

    of : the struct of the answers that has them; None: they are columns of the answers
    prefix : their fixed names are this and a number
    taken : names of other columns; a column of such a name gets a number
    """
    outer = () if of is None else (of,)
    return [
        Output(title, (*outer, f"{prefix}{i}"), frame.type(name), frame.metadata(name))
        for i, (title, name) in enumerate(zip(without(names, taken), names, strict=True))
    ]


def row_of(frame: Frame, names: Sequence[str]) -> Struct:
    """Return the type of a struct of some columns of a frame; without columns it has one of 0."""
    parts = [
        Field(name, frame.type(name), f"c{i}", frame.metadata(name)) for i, name in enumerate(names)
    ]
    return Struct(tuple(parts) or (Field("col1", "int", "c0"),))


def pairs_of(*sides: Sequence[Field]) -> ListOf:
    """Return the type of the alternatives of a pair: `prob`, and attributes of both sides."""
    return ListOf(Struct((Field("prob", NUMBER), *(part for side in sides for part in side))))


def without(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """Return the names; a name that is `taken`, in any case, gets the least free number.

    >>> without(["a", "Held", "held_1"], ["held"])
    ['a', 'Held_2', 'held_1']
    """
    known = {name.lower() for name in taken}
    used = known | {name.lower() for name in names}
    out = []
    for name in names:
        free = name
        if name.lower() in known:
            numbered = (f"{name}_{n}" for n in range(1, len(used) + 2))
            free = next(other for other in numbered if other.lower() not in used)
            used.add(free.lower())
        out.append(free)
    return out


@dataclass(frozen=True)
class ResultColumn:
    """A column of an Arrow result.

    source : as of `Output`
    field : its name, type and metadata in the result; nested types have users' names
    """

    source: tuple[str, ...]
    field: pa.Field


def result_table(answers: Sequence[pa.Table], columns: Sequence[ResultColumn]) -> pa.Table:
    """Return the answers of an operator, in their order, as a table of these columns."""
    schema = pa.schema([column.field for column in columns])
    parts = [_result_part(table, columns, schema) for table in answers if table.num_rows]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _result_part(table: pa.Table, columns: Sequence[ResultColumn], schema: pa.Schema) -> pa.Table:
    arrays = []
    for column in columns:
        array = as_array(table.column(column.source[0]))
        for name in column.source[1:]:
            array = fields_of(array)[name]
        arrays.append(relabelled(array, column.field.type))
    return pa.table(arrays, schema=schema)


def relabelled(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the array as another type of the same shape, whose fields may have other names."""
    if array.type.equals(kind, check_metadata=True):
        return array
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(kind):
        cells = [
            relabelled(cell, field.type) for cell, field in zip(array.flatten(), kind, strict=True)
        ]
        return pa.StructArray.from_arrays(cells, fields=list(kind), mask=mask)
    if is_list(kind):
        offsets = pa.array(offsets_of(lengths_of(array)), pa.int32())
        flat = relabelled(array.flatten(), kind.value_type)
        return pa.ListArray.from_arrays(offsets, flat, type=kind, mask=mask)
    if pa.types.is_dictionary(array.type):
        values = relabelled(array.dictionary, kind)
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    # A time is cut off at the microsecond, as Spark does.
    return array.cast(kind, safe=not (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)))
