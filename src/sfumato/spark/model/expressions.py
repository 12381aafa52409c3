"""Expressions of users over a frame of Spark: those that operators compute, and the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegralType,
    NullType,
    NumericType,
    StructType,
    TimestampType,
)

from sfumato.spark.model.frame import SparkFrame, is_long_decimal, kind_of
from sfumato.spark.model.names import unquoted
from sfumato.spark.model.outside_text import check_expression, for_spark
from sfumato.spark.model.per_alternative import evaluated, type_of_values
from sfumato.tables.reading.expressions import Expression, Name, kind_alike
from sfumato.tables.reading.input import Cells, Computed, Values
from sfumato.tables.reading.parse import parsed
from sfumato.tables.reading.queried_frame import Computation, Expressions
from sfumato.tables.reading.types import Kind

LITERALS = ("true", "false", "null")
AS_NUMBERS = (NumericType, BooleanType, TimestampType, NullType)  # what a cast makes doubles of


class SparkExpressions(Expressions):
    """Expressions over a frame of Spark: any SQL that has no effect."""

    def __init__(self, frame: SparkFrame) -> None:
        self.frame = frame

    def check(self, argument: str, expression: str) -> None:
        check_expression(argument, expression, self.frame.df.sparkSession)

    def not_a_number(self, expression: str) -> str | None:
        kind = self._type_of(expression)
        return None if isinstance(kind, AS_NUMBERS) else kind.simpleString()

    def value_type(self, expression: str) -> tuple[DataType, Kind]:
        kind = self._type_of(expression)
        return kind, kind_of(kind)

    def more_digits(self, expression: str) -> str | None:
        kind = self._type_of(expression)
        return kind.simpleString() if is_long_decimal(kind) else None

    def _type_of(self, expression: str) -> DataType:
        """The type of an expression's values, before they are cast."""
        frame, name = self.frame, unquoted(expression.strip())
        if frame.uncertain and name in frame.attributes:
            return frame.attribute_type(name)
        if not frame.uncertain and name in frame.columns:
            return frame.type(name)
        if frame.uncertain:
            return type_of_values(frame.df, expression)
        safe = for_spark(expression, frame.df.sparkSession)
        return frame.df.select(F.expr(safe)).schema[0].dataType

    def computation(self, expressions: Sequence[str], arguments: Mapping[str, str]) -> Computation:
        df, cells, columns = self.frame.df, list[Cells](), dict[str, Any]()
        for i, text in enumerate(expressions):
            alike = self._alike(text, text in arguments)
            if alike is not None:
                cells.append(Values(alike))
                continue
            name = self.frame.free_name(f"__value{i}")
            cells.append(Computed(name))
            if self.frame.uncertain:
                columns[name] = evaluated(df, text), ArrayType(DoubleType())
            else:
                value = F.expr(for_spark(text, df.sparkSession)).cast("double")
                columns[name] = value, DoubleType()
        return Computation(cells, columns)

    def _alike(self, text: str, is_expression: bool) -> Expression | None:
        """Return an expression that is computed from rows as Spark computes it; else None."""
        if not is_expression:  # the attribute of a sf.Delta is a name as it stands
            expression: Expression = Name((text,))
        elif "--" in text:  # to Spark the rest is a comment
            return None
        else:
            try:
                expression = parsed("", text)
            except ValueError:
                return None
        if isinstance(expression, Name):
            return expression if self._is_number(expression) else None
        overflow = self.frame.df.sparkSession.conf.get("spark.sql.ansi.enabled") == "true"
        return expression if kind_alike(expression, self._kind, overflow) else None

    def _is_number(self, name: Name) -> bool:
        kind = self._type(name)
        return isinstance(kind, NumericType | BooleanType | TimestampType)

    def _kind(self, name: Name) -> str:
        kind = self._type(name)
        kinds = {IntegralType: "whole", DoubleType: "double", BooleanType: "truth"}
        return next((known for of, known in kinds.items() if isinstance(kind, of)), "")

    def _type(self, name: Name) -> DataType | None:
        """Return the type of a column or attribute, or of a field of it; None if not sure."""
        frame, first = self.frame, name.parts[0]
        if first.lower() in LITERALS:
            return None
        attribute, column = (self._meant(first, of) for of in (frame.attributes, frame.columns))
        kind: Any = None if column is None else frame.type(column)
        if attribute is not None:
            kind = frame.attribute_type(attribute)
        for part in name.parts[1:]:
            field = self._meant(part, kind.names) if isinstance(kind, StructType) else None
            kind = None if field is None else kind[field].dataType
        return kind

    def _meant(self, name: str, known: Sequence[str]) -> str | None:
        alike = [of for of in known if of.lower() == name.lower()]
        sure = alike == [name] or (len(alike) == 1 and not self.frame.tells_case_apart())
        return alike[0] if sure else None
