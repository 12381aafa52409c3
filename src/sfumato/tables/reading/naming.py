"""Columns under users' names again: what an operator answers under fixed ones, for Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from sfumato.operators.arrays import offsets_of
from sfumato.tables.arrow import as_array, fields_of
from sfumato.tables.reading.types import is_list, lengths_of


@dataclass(frozen=True)
class Shown:
    """A column of a result.

    source : the answers' column under its fixed name, and then fields of structs
    field : its name, type and metadata in the result; names in nested types are users' too
    """

    source: tuple[str, ...]
    field: pa.Field


def shown(answers: Sequence[pa.Table], columns: Sequence[Shown]) -> pa.Table:
    """The answers of an operator, in their order, as a table of these columns."""
    schema = pa.schema([column.field for column in columns])
    parts = [_part(table, columns, schema) for table in answers if table.num_rows]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _part(table: pa.Table, columns: Sequence[Shown], schema: pa.Schema) -> pa.Table:
    arrays = []
    for column in columns:
        array = as_array(table.column(column.source[0]))
        for name in column.source[1:]:
            array = fields_of(array)[name]
        arrays.append(relabelled(array, column.field.type))
    return pa.table(arrays, schema=schema)


def relabelled(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The array as another type of the same shape, whose fields may have other names."""
    if array.type.equals(kind, check_metadata=True):
        return array
    if pa.types.is_struct(kind):
        cells = [
            relabelled(cell, field.type) for cell, field in zip(array.flatten(), kind, strict=True)
        ]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(cells, fields=list(kind), mask=mask)
    if is_list(kind):
        offsets = pa.array(offsets_of(lengths_of(array)), pa.int32())
        mask = array.is_null() if array.null_count else None
        flat = relabelled(array.flatten(), kind.value_type)
        return pa.ListArray.from_arrays(offsets, flat, type=kind, mask=mask)
    if pa.types.is_dictionary(array.type):
        values = relabelled(array.dictionary, kind)
        return pa.DictionaryArray.from_arrays(array.indices, values).dictionary_decode()
    # Of a time the part of a microsecond is cut off, as Spark does.
    return array.cast(kind, safe=not (pa.types.is_timestamp(kind) or pa.types.is_duration(kind)))


def without(names: Sequence[str], taken: Sequence[str]) -> list[str]:
    """The names; those `taken` (Spark does not tell case apart) with the least number that is free.

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
