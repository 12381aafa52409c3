"""Answers to static frames on their way to Spark: rows with an answer, and rows with figures."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructType

from sfumato.spark.runtime.chunks import batches_of

ANSWER, FIGURES = "answer", "figures"
# What figures are for Spark and for Arrow, by what Spark calls them.
TYPES: dict[str, tuple[DataType, pa.DataType]] = {
    "long": (LongType(), pa.int64()),
    "string": (StringType(), pa.string()),
    "array<long>": (ArrayType(LongType()), pa.list_(pa.int64())),
}


def answer_type(given: StructType, kinds: Mapping[str, str]) -> StructType:
    """The columns: a struct ANSWER, or NULL, and a list FIGURES of one struct, or NULL."""
    figures = StructType()
    for name, kind in kinds.items():
        figures = figures.add(name, TYPES[kind][0])
    return StructType().add(ANSWER, given).add(FIGURES, ArrayType(figures))


def answer_batches(
    found: Iterable[tuple[list[pa.Table], dict[str, Any] | None]],
    given: StructType,
    kinds: Mapping[str, str],
) -> Iterator[pa.RecordBatch]:
    """The rows of `answer_type` for (answers, figures).

    All batches have one schema, and only answers say which, so that figures wait for the first.
    """
    figures = pa.list_(pa.struct([(name, TYPES[kind][1]) for name, kind in kinds.items()]))
    names, kind, waiting = given.names, None, list[dict[str, Any]]()
    for tables, numbers in found:
        for table in tables:
            for batch in batches_of(table.select(names)):
                answer = batch.to_struct_array()
                kind = answer.type
                yield _batch(answer, pa.nulls(len(answer), figures))
        waiting += [] if numbers is None else [numbers]
        if waiting and kind is not None:
            yield _batch(pa.nulls(len(waiting), kind), pa.array([[w] for w in waiting], figures))
            waiting = []
    if waiting:
        nothing = pa.nulls(len(waiting), pa.struct(list(arrow_schema(given))))
        yield _batch(nothing, pa.array([[w] for w in waiting], figures))


def _batch(answer: pa.Array, figures: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([answer, figures], [ANSWER, FIGURES])


def arrow_schema(given: StructType) -> pa.Schema:
    """What PySpark makes of the columns for Arrow, times in UTC."""
    asks = "timezone" in inspect.signature(to_arrow_schema).parameters  # not in PySpark 4.1
    zone: dict[str, Any] = {"timezone": "UTC"} if asks else {}
    return to_arrow_schema(given, **zone)
