"""Answers to static frames on their way to Spark: a list of them in a row, and figures beside it.

What is observed costs something a row, and so does a second way through Python, which would make
rows of a binary cell; a list Spark unfolds itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.types import ArrayType, StructField, StructType

from sfumato.spark.crossing.chunks import batches_of
from sfumato.spark.crossing.figures import Figures
from sfumato.spark.model.arrow_types import arrow_schema

ANSWERS = "__answers"  # counters have names of their own


def answer_type(given: StructType, figures: Figures) -> StructType:
    """The columns: ANSWERS, a list of structs, or NULL; and figures."""
    answers = StructField(ANSWERS, ArrayType(given, containsNull=False))
    return StructType([answers, *figures.columns])


def answer_batches(
    found: Iterable[tuple[list[pa.Table], dict[str, Any] | None]],
    given: StructType,
    figures: Figures,
) -> Iterator[pa.RecordBatch]:
    """The rows of `answer_type` for (answers, figures), each a batch.

    All batches have one schema, and only answers say which, so that figures wait for the first.
    """
    names, schema, waiting = given.names, None, list[dict[str, Any]]()
    for tables, numbers in found:
        for table in tables:
            for batch in batches_of(table.select(names)):
                rows = batch.to_struct_array()
                lists = pa.ListArray.from_arrays(
                    [0, len(rows)], rows, pa.list_(pa.field("element", rows.type, False))
                )
                schema = pa.schema([pa.field(ANSWERS, lists.type), *figures.fields])
                yield _batch(lists, {}, schema)
        waiting += [] if numbers is None else [figures.cells(numbers)]
        if schema is not None:
            yield from (_batch(None, of, schema) for of in waiting)
            waiting = []
    if waiting:
        element = pa.field("element", pa.struct(list(arrow_schema(given))), False)
        schema = pa.schema([pa.field(ANSWERS, pa.list_(element)), *figures.fields])
        yield from (_batch(None, of, schema) for of in waiting)


def _batch(lists: pa.Array | None, cells: Mapping[str, Any], schema: pa.Schema) -> pa.RecordBatch:
    first = pa.nulls(1, schema.field(0).type) if lists is None else lists
    rest = [pa.array([cells.get(field.name)], field.type) for field in list(schema)[1:]]
    return pa.RecordBatch.from_arrays([first, *rest], schema=schema)
