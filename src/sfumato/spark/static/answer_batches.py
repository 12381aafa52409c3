"""Answers to static frames on their way to Spark: a list of them in a row, and figures beside it.

What is observed costs something a row, and so does a second way through Python, which would make
rows of a binary cell; a list Spark unfolds itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructType

from sfumato.spark.crossing.chunks import batches_of

ANSWERS = "__answers"  # counters have names of their own
# What figures are for Spark and for Arrow, by what Spark calls them.
TYPES: dict[str, tuple[DataType, pa.DataType]] = {
    "long": (LongType(), pa.int64()),
    "string": (StringType(), pa.string()),
    "array<long>": (ArrayType(LongType()), pa.list_(pa.int64())),
}


def answer_type(given: StructType, kinds: Mapping[str, str]) -> StructType:
    """The columns: ANSWERS, a list of structs, or NULL; and figures, by name."""
    columns = StructType().add(ANSWERS, ArrayType(given, containsNull=False))
    for name, kind in kinds.items():
        columns = columns.add(name, TYPES[kind][0])
    return columns


def answer_batches(
    found: Iterable[tuple[list[pa.Table], dict[str, Any] | None]],
    given: StructType,
    kinds: Mapping[str, str],
) -> Iterator[pa.RecordBatch]:
    """The rows of `answer_type` for (answers, figures), each a batch.

    All batches have one schema, and only answers say which, so that figures wait for the first.
    """
    figures = [pa.field(name, TYPES[kind][1]) for name, kind in kinds.items()]
    names, schema, waiting = given.names, None, list[dict[str, Any]]()
    for tables, numbers in found:
        for table in tables:
            for batch in batches_of(table.select(names)):
                rows = batch.to_struct_array()
                lists = pa.ListArray.from_arrays(
                    [0, len(rows)], rows, pa.list_(pa.field("element", rows.type, False))
                )
                schema = pa.schema([pa.field(ANSWERS, lists.type), *figures])
                yield _batch(lists, {}, schema)
        waiting += [] if numbers is None else [numbers]
        if schema is not None:
            yield from (_batch(None, of, schema) for of in waiting)
            waiting = []
    if waiting:
        element = pa.field("element", pa.struct(list(arrow_schema(given))), False)
        schema = pa.schema([pa.field(ANSWERS, pa.list_(element)), *figures])
        yield from (_batch(None, of, schema) for of in waiting)


def _batch(lists: pa.Array | None, figures: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    first = pa.nulls(1, schema.field(0).type) if lists is None else lists
    rest = [pa.array([figures.get(field.name)], field.type) for field in list(schema)[1:]]
    return pa.RecordBatch.from_arrays([first, *rest], schema=schema)


def arrow_schema(given: StructType) -> pa.Schema:
    """What PySpark makes of the columns for Arrow, times in UTC."""
    asks = "timezone" in inspect.signature(to_arrow_schema).parameters  # not in PySpark 4.1
    zone: dict[str, Any] = {"timezone": "UTC"} if asks else {}
    return to_arrow_schema(given, **zone)
