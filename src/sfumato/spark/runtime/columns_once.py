"""Columns that are read under several names: they cross to Python, and lie in chunks, once.

A frame has a column twice where its rows come out again and are sorted by it, say, and once more
for each operator of a chain that reads it. Spark gives Python each of them once, and lists of one
element as that element; from these and a layout, which rides in the chunk, the table is put
together again, without copying.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, StructField, StructType

from sfumato.tables.arrow import as_array

LAYOUT = b"sfumato"  # key of an Arrow schema's metadata


@dataclass(frozen=True)
class Single:
    """That a column has lists of one element each. of : what these are, as for any column"""

    of: Hashable


class Once:
    """A frame with every column once.

    frame : the columns   layout : for each column of the frame before, or field of its structs,
        [name, whether NULL is possible, name of a column here, or a list of such fields, or {"of":
        name of a column here, "nullable": whether NULL is possible} for lists of one; text
    """

    def __init__(self, frame: DataFrame, same: Mapping[str, Any], beside: str) -> None:
        """same : what each column is, by its name: equal where columns are, a mapping of a struct
        whose fields are told apart; a column that is not named is no other one
        beside : a column that is no part of the table, which stays as it is
        """
        self._chosen: dict[Hashable, str] = {}
        self._columns: list[Column] = [F.col(beside)]
        fields = [field for field in frame.schema.fields if field.name != beside]
        # Structs last: where a column is in one, too, it keeps its name.
        order = sorted(fields, key=lambda field: isinstance(same.get(field.name), Mapping))
        found = [self._part(field, same.get(field.name, field.name), ()) for field in order]
        self.layout = json.dumps(found)
        self.frame = frame.select(*self._columns)

    def _part(self, field: StructField, same: Any, within: tuple[str, ...]) -> list[Any]:
        path = (*within, field.name)
        if isinstance(same, Mapping):
            assert isinstance(field.dataType, StructType)
            inner = [self._part(f, same[f.name], path) for f in field.dataType.fields]
            return [field.name, field.nullable, inner]
        single = isinstance(same, Single)
        kind = same, field.dataType.json()
        if kind not in self._chosen:
            self._chosen[kind] = field.name if not within else f"__{len(self._chosen)}"
            cells = F.col(".".join(path))
            cells = F.get(cells, 0) if single else cells
            self._columns.append(cells.alias(self._chosen[kind]))
        chosen: Any = self._chosen[kind]
        if isinstance(field.dataType, ArrayType) and single:
            chosen = {"of": chosen, "nullable": field.dataType.containsNull}
        return [field.name, field.nullable, chosen]


def marked(table: pa.Table, layout: str) -> pa.Table:
    """A table of `Once`'s frame that says how it is put together."""
    return table.replace_schema_metadata({LAYOUT: layout})


def put_together(table: pa.Table) -> pa.Table:
    """The table that a frame gave before `Once`; one that says nothing of it as it is."""
    layout = (table.schema.metadata or {}).get(LAYOUT)
    if layout is None:
        return table
    columns = {name: as_array(table.column(name)) for name in table.column_names}
    parts = [_part(part, columns) for part in _parsed(layout)]
    return pa.table([array for _, array in parts], pa.schema([field for field, _ in parts]))


@lru_cache(256)
def _parsed(layout: bytes) -> list[Any]:
    parsed: list[Any] = json.loads(layout)
    return parsed


def _part(part: list[Any], columns: Mapping[str, pa.Array]) -> tuple[pa.Field, pa.Array]:
    name, nullable, of = part
    if isinstance(of, str):
        array = columns[of]
    elif isinstance(of, dict):
        cells = columns[of["of"]]
        kind = pa.list_(pa.field("element", cells.type, of["nullable"]))  # as Spark calls it
        array = pa.ListArray.from_arrays(np.arange(len(cells) + 1, dtype=np.int32), cells, kind)
    else:
        inner = [_part(each, columns) for each in of]
        arrays, fields = [array for _, array in inner], [field for field, _ in inner]
        array = pa.StructArray.from_arrays(arrays, fields=fields)
    return pa.field(name, array.type, nullable), array
