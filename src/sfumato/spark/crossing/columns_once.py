"""Columns that are read under several names: they cross to Python, and lie in chunks, once.

A frame has a column twice where its rows come out again and are sorted by it, say, and once more
for each operator of a chain that reads it. Spark gives Python each of them once, lists of one
element as that element, and what is the same in all rows not at all; from these and a layout, which
rides in the chunk, the table is put together again, without copying.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Hashable, Iterator, Mapping
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from sfumato.spark.model.arrow_types import arrow_schema
from sfumato.spark.model.same import Constant, Field, Single, Whole
from sfumato.tables.arrow import as_array

LAYOUT = b"sfumato"  # key of an Arrow schema's metadata
CONSTANTS = {"int": "int32", "double": "double"}  # Arrow's names of the types they can have
Cells = Mapping[str, "Cells | Column"]  # columns by name, or fields of a struct that nobody makes


class Once:
    """A frame with every column once.

    frame : the columns   kinds : the schema of the table that is put together
    layout : for each column of that table, or field of its structs, [name, whether NULL is
        possible, cells], as text; the cells are the name of a column here; a list of such fields;
        {"value": number, "type": of Arrow}, or {"value": None, "type": see `_null_type`};
        {"of": cells, "nullable": whether NULL is possible} for lists of one; or
        {"list": name of a column here, "field": of its structs, "nullable": ...}
    """

    def __init__(
        self, frame: DataFrame, cells: Cells, same: Mapping[str, Any], beside: str
    ) -> None:
        """cells : the table's columns, of the frame
        same : what each is, by its name: equal where columns are, a mapping of a struct whose
        fields are told apart; a column that is not named is no other one
        beside : a column of the frame that is no part of the table, which stays as it is
        """
        self._spark = frame.sparkSession
        self._chosen: dict[Hashable, str] = {}
        self._columns: list[Column] = [F.col(beside)]
        self.kinds = _kinds(cells, iter(frame.select(*_columns(cells)).schema.fields))
        # Structs last: where a column is in one, too, it keeps its name.
        order = sorted(self.kinds.fields, key=lambda of: isinstance(same.get(of.name), Mapping))
        given = [(f, same.get(f.name, f.name), cells[f.name]) for f in order]
        self._lists = {of: found for each in given for of, found in _lists(*each)}
        self._parts = {field.name: self._part(field, *of) for field, *of in given}
        self.layout = json.dumps([self._parts[field.name] for field in order])
        self.frame = frame.select(*self._columns)

    def column(self, name: str) -> Column:
        """A column of the frame before, or a field of one that crosses whole, of this frame."""
        outer, *fields = name.split(".")
        _, _, of = self._parts[outer]
        assert isinstance(
            of, str
        )  # what rows are ordered and told apart by is neither row nor list
        return reduce(lambda column, each: column[each], fields, F.col(of))

    def _part(self, field: StructField, same: Any, cells: Any, *, inner: bool = False) -> list[Any]:
        kind: Any = field.dataType
        if isinstance(same, Mapping):
            parts = [self._part(f, same[f.name], cells[f.name], inner=True) for f in kind.fields]
            return [field.name, field.nullable, parts]
        if isinstance(same, Single) and isinstance(kind, ArrayType):
            one = StructField(field.name, kind.elementType)
            of = self._part(one, same.of, F.get(cells, 0), inner=inner)[2]
            return [field.name, field.nullable, {"of": of, "nullable": kind.containsNull}]
        if isinstance(same, Constant):
            found = {"value": same.value, "type": self._kind(field, same)}
            return [field.name, field.nullable, found]
        if isinstance(same, Field) and self._has(same, kind):
            lists = self._column(same.of, *self._lists[same.of])
            found = {"list": lists, "field": same.name, "nullable": kind.containsNull}
            return [field.name, field.nullable, found]
        chosen = self._column(same, kind, cells, "" if inner else field.name)
        return [field.name, field.nullable, chosen]

    def _kind(self, field: StructField, same: Constant) -> str:
        """The type of a constant, as text: of NULLs, of what the others of the column would be."""
        if same.value is not None:
            return CONSTANTS[field.dataType.simpleString()]
        schema = arrow_schema(StructType([field]), self._spark)
        return b64encode(schema.serialize().to_pybytes()).decode()

    def _has(self, same: Field, kind: ArrayType) -> bool:
        """Whether lists cross in which this field has just these values."""
        if same.of not in self._lists:
            return False
        structs: Any = self._lists[same.of][0].elementType
        return bool(structs[same.name].dataType == kind.elementType)

    def _column(self, same: Hashable, kind: DataType, cells: Column, name: str = "") -> str:
        """The name of the column that has these cells."""
        key = same, kind.json()
        if key not in self._chosen:
            self._chosen[key] = name or f"__{len(self._chosen)}"
            self._columns.append(cells.alias(self._chosen[key]))
        return self._chosen[key]


def _columns(cells: Cells) -> Iterator[Column]:
    """All columns, those of structs among them."""
    for of in cells.values():
        yield from _columns(of) if isinstance(of, Mapping) else [of]


def _kinds(cells: Cells, known: Iterator[StructField]) -> StructType:
    """The schema of cells; known : of their columns, in turn."""
    found = StructType()
    for name, of in cells.items():
        if isinstance(of, Mapping):
            found = found.add(name, _kinds(of, known), False)
        else:
            field = next(known)
            found = found.add(name, field.dataType, field.nullable)
    return found


def _lists(
    field: StructField, same: Any, cells: Any
) -> Iterator[tuple[Whole, tuple[ArrayType, Column]]]:
    """The whole columns of a frame that are lists of structs, in a column or in its fields."""
    kind: Any = field.dataType
    if isinstance(same, Mapping):
        for inner in kind.fields:
            yield from _lists(inner, same[inner.name], cells[inner.name])
    elif isinstance(same, Whole) and isinstance(getattr(kind, "elementType", None), StructType):
        yield same, (kind, cells)


def marked(table: pa.Table, layout: str) -> pa.Table:
    """A table of `Once`'s frame that says how it is put together."""
    return table.replace_schema_metadata({LAYOUT: layout})


def put_together(table: pa.Table) -> pa.Table:
    """The table that a frame gave before `Once`; one that says nothing of it as it is."""
    layout = (table.schema.metadata or {}).get(LAYOUT)
    if layout is None:
        return table
    columns = {name: as_array(table.column(name)) for name in table.column_names}
    parts = [_part(part, columns, table.num_rows) for part in _parsed(layout)]
    return pa.table([array for _, array in parts], pa.schema([field for field, _ in parts]))


@lru_cache(256)
def _parsed(layout: bytes) -> list[Any]:
    parsed: list[Any] = json.loads(layout)
    return parsed


def _part(part: list[Any], columns: Mapping[str, pa.Array], rows: int) -> tuple[pa.Field, pa.Array]:
    name, nullable, of = part
    array = _cells(of, columns, rows)
    return pa.field(name, array.type, nullable), array


def _cells(of: Any, columns: Mapping[str, pa.Array], rows: int) -> pa.Array:
    """The cells of a column, see `Once`."""
    if isinstance(of, str):
        return columns[of]
    if isinstance(of, list):
        inner = [_part(each, columns, rows) for each in of]
        arrays, fields = [array for _, array in inner], [field for field, _ in inner]
        return pa.StructArray.from_arrays(arrays, fields=fields)
    if "value" in of and of["value"] is None:
        return pa.nulls(rows, _null_type(of["type"]))
    if "value" in of:
        return pa.array(np.full(rows, of["value"]), of["type"])
    if "list" in of:
        lists = columns[of["list"]]
        cells = pc.struct_field(lists.values, of["field"])
        buffers, nulls = lists.buffers()[:2], lists.null_count
        kind = _list_type(cells, of)
        return pa.Array.from_buffers(kind, rows, buffers, nulls, lists.offset, [cells])
    cells = _cells(of["of"], columns, rows)
    places = np.arange(rows + 1, dtype=np.int32)
    return pa.ListArray.from_arrays(places, cells, _list_type(cells, of))


@lru_cache(256)
def _null_type(text: str) -> pa.DataType:
    """The type of the one column of a schema."""
    return pa.ipc.read_schema(pa.py_buffer(b64decode(text))).types[0]


def _list_type(cells: pa.Array, of: Mapping[str, Any]) -> pa.DataType:
    return pa.list_(pa.field("element", cells.type, of["nullable"]))  # as Spark calls it
