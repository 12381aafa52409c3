"""The columns of a result as types of Spark: under fixed names, and under users' names again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from sfumato.spark.model.names import Result
from sfumato.tables.reading.outputs import NUMBER, TEXT, TRUTH, WHOLE, ListOf, Output, Struct

PLAIN: dict[str, DataType] = {
    NUMBER: DoubleType(),
    WHOLE: LongType(),
    TEXT: StringType(),
    TRUTH: BooleanType(),
    "int": IntegerType(),
}


def type_of(kind: Any, *, fixed: bool) -> DataType:
    """Return the type of an `Output`, its fields under fixed names or users'."""
    if isinstance(kind, Struct):
        fields = []
        for part in kind.parts:
            of = type_of(part.kind, fixed=fixed)
            if fixed:
                fields.append(StructField(part.fixed or part.name, of))
            else:  # an operator may leave any field out, so that none is NOT NULL
                fields.append(StructField(part.name, of, True, dict(part.metadata or {})))
        return StructType(fields)
    if isinstance(kind, ListOf):
        return ArrayType(type_of(kind.kind, fixed=fixed))
    known: DataType = PLAIN[kind] if isinstance(kind, str) else kind
    return known


def answers_of(outputs: Sequence[Output]) -> StructType:
    """Return the columns that the operator gives, under fixed names."""
    columns: dict[str, Any] = {}
    for output in outputs:
        first, kind = output.source[0], type_of(output.kind, fixed=True)
        if len(output.source) == 1:
            columns[first] = kind
        else:
            columns.setdefault(first, StructType()).add(output.source[1], kind)
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def results_of(outputs: Sequence[Output]) -> list[Result]:
    """Return the columns of the result, made of the answers."""
    found = []
    for output in outputs:
        named = type_of(output.kind, fixed=False)
        kind = named if isinstance(output.kind, Struct | ListOf) else output.cast
        found.append(Result(output.name, output.source, kind, output.metadata, output.default))
    return found
