"""Spark SQL text evaluated for every alternative, its attributes meant by their plain names."""

import re
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, DoubleType, NumericType

from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.names import quoted, unquoted
from sfumato.spark.model.outside_text import for_spark

WORD = re.compile(r"\w+")


def mentioned(df: DataFrame, text: str) -> list[str]:
    """The attributes of the frame's alternatives whose names occur in `text`."""
    words = set(WORD.findall(text.lower()))
    return [name for name in SparkFrame(df).attributes if set(WORD.findall(name.lower())) <= words]


def kept(df: DataFrame, condition: str) -> Column:
    """The alternatives that satisfy a condition."""
    # Spark itself resolves the names: each attribute is a lambda variable bound to its value by a
    # higher-order function over an array of one, so that the text is parsed as it stands. The line
    # break ends a trailing comment.
    bound = f"({condition}\n)"
    for name in mentioned(df, condition):
        bound = f"exists(array(`:a`.{quoted(name)}), {quoted(name)} -> {bound})"
    return F.expr(f"filter({quoted(ALTERNATIVES)}, `:a` -> {bound})")


def attribute(df: DataFrame, name: str) -> Column:
    """array<double>: an attribute, or `prob`, of every alternative; NULL where it has none."""
    # The field of an array of structs is compiled; a lambda is interpreted for every alternative.
    values = F.col(ALTERNATIVES).getField(name)
    is_double = isinstance(SparkFrame(df).attribute_type(name), DoubleType)
    return values if is_double else values.cast("array<double>")


def evaluated(df: DataFrame, expression: str) -> Column:
    """array<double>: the value of an expression for every alternative; NULL where it has none."""
    expression = for_spark(expression, df.sparkSession)
    F.expr(expression)  # is one expression by itself
    frame, name = SparkFrame(df), unquoted(expression.strip())
    if name in frame.attributes and isinstance(frame.attribute_type(name), NumericType):
        return attribute(df, name)
    return _transformed(df, expression, f"CAST(({expression}\n) AS DOUBLE)")


def type_of_values(df: DataFrame, expression: str) -> DataType:
    """The type of an expression's values, before they are cast."""
    expression = for_spark(expression, df.sparkSession)
    values: Any = df.select(_transformed(df, expression, f"({expression}\n)")).schema[0].dataType
    element: DataType = values.elementType
    return element


def _transformed(df: DataFrame, expression: str, bound: str) -> Column:
    """The array of what `bound` is for every alternative; expression : what it is made of"""
    for name in mentioned(df, expression):
        bound = f"transform(array(`:a`.{quoted(name)}), {quoted(name)} -> {bound})[0]"
    return F.expr(f"transform({quoted(ALTERNATIVES)}, `:a` -> {bound})")
