"""What of a frame a window aggregate reads, and the columns of its answers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegralType,
    LongType,
    NullType,
    NumericType,
    StructField,
    StructType,
    TimestampType,
)

from sfumato.spark.model.frame import SparkFrame, is_long_decimal
from sfumato.spark.model.names import Passed, Result, unquoted
from sfumato.spark.model.outside_text import check_expression, for_spark
from sfumato.spark.model.per_alternative import evaluated, type_of_values
from sfumato.tables.reading.controlled import controlled_by
from sfumato.tables.reading.expressions import Expression, Name, kind_alike
from sfumato.tables.reading.frame import ADDED
from sfumato.tables.reading.input import Cells, Computed, Values
from sfumato.tables.reading.parse import parsed
from sfumato.tables.windows.extents import ExtentTableConfig
from sfumato.tables.windows.query import WindowQuery
from sfumato.tables.windows.results import quantile_name
from sfumato.tables.windows.window_aggregate import RowWindowTableConfig
from sfumato.windows import Range

LITERALS = ("true", "false", "null")
AS_NUMBERS = (NumericType, BooleanType, TimestampType, NullType)  # what a cast makes doubles of


@dataclass(frozen=True)
class WindowPlan(WindowQuery):
    """What of the frame the operator reads, and what it gives."""

    frame: SparkFrame

    def check_expressions(self) -> None:
        for w in self.wanted:
            if w.expression is not None:
                argument = f"aggregates[{w.name!r}]" if w.name else "by"
                check_expression(argument, w.expression, self.frame.df.sparkSession)
        if self.existence is not None:
            self.frame.require_numbers("existence", [self.frame.one("existence", self.existence)])

    def not_a_number(self, expression: str) -> str | None:
        kind = self._type_of(expression)
        return None if isinstance(kind, AS_NUMBERS) else kind.simpleString()

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

    @property
    def time_type(self) -> DataType:
        """The type of the answers' times."""
        return LongType() if self.time == "long" else self.frame.type(self.orders[0])

    @property
    def row_passed(self) -> Passed:
        """The columns that travel to the operator with each row."""
        return Passed(self.frame.schema, self.carried(members=False))

    @cached_property
    def value_cells(self) -> list[Cells]:
        names = self._names_of_computed
        known = enumerate(zip(self.expressions, self._parsed, strict=True))
        return [Computed(names[i]) if of is None else Values(of) for i, (_, of) in known]

    @property
    def computed(self) -> dict[str, tuple[Column, DataType]]:
        """The values that only Spark computes, with their types, by names that are free."""
        df, found = self.frame.df, dict[str, tuple[Column, DataType]]()
        for i, text in enumerate(self.expressions):
            if self._parsed[i] is None and self.frame.uncertain:
                values = evaluated(df, text)
                found[self._names_of_computed[i]] = values, ArrayType(DoubleType())
            elif self._parsed[i] is None:
                value = F.expr(for_spark(text, df.sparkSession)).cast("double")
                found[self._names_of_computed[i]] = value, DoubleType()
        return found

    @cached_property
    def _names_of_computed(self) -> list[str]:
        return [self.frame.free_name(f"__value{i}") for i in range(len(self.expressions))]

    @cached_property
    def _parsed(self) -> list[Expression | None]:
        """The expressions, None for those that only Spark computes."""
        asked = {w.expression for w in self.wanted}
        return [self._alike(text, text in asked) for text in self.expressions]

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

    def answers(self, settings: RowWindowTableConfig | ExtentTableConfig) -> StructType:
        """The columns that the operator gives, under fixed names."""
        passed = Passed(self.frame.schema, self.passed(settings.members))
        if isinstance(self.window, Range):
            time = self.time_type
            extent = StructType().add("start", time).add("end", time)
            fields = passed.named("c" if settings.members else "key")
            fields = fields.add("window", extent).add("held", LongType())
            fields = fields.add("punctuation", time).add("late", LongType())
        else:
            fields = passed.named().add("held", LongType())
        for i in range(len(self.wanted)):
            fields = fields.add(f"result{i}", self._result("value", settings))
        if "accuracy" not in self.added or settings.whole:
            return fields
        return fields.add("accuracy", _accuracy([f"result{i}" for i in range(len(self.wanted))]))

    def results(self, settings: RowWindowTableConfig | ExtentTableConfig) -> list[Result]:
        """The columns of the result, made of those."""
        added = [name for name in self.added if name != "accuracy" or not settings.whole]
        prefix = "c" if self.of_rows or settings.members else "key"
        passed = Passed(self.frame.schema, self.passed(settings.members))
        said = {ADDED: "true"}
        metadata = {"held": said, "window": controlled_by(self.in_order_within)}
        found = passed.results(prefix=prefix, taken=added)
        found += [Result(n, (n,), None, metadata.get(n)) for n in added if n != "accuracy"]
        of_results = {**said, **self.said_of_results}
        for i, w in enumerate(self.wanted):
            kind = self._result(self.field(w), settings)
            found.append(Result(w.name, (f"result{i}",), kind, of_results))
        if "accuracy" not in added:
            return found
        accuracy = _accuracy([w.name for w in self.wanted])
        return [*found, Result("accuracy", ("accuracy",), accuracy, said)]

    def _result(self, field: str, settings: RowWindowTableConfig | ExtentTableConfig) -> DataType:
        if self.distribution is not None and not settings.whole:
            return _pairs(field)
        parts = ["mean", "stddev", "existence", *map(quantile_name, settings.quantiles)]
        result = StructType([StructField(part, DoubleType()) for part in parts])
        if self.distribution is not None:
            result = result.add("alternatives", _pairs("value")).add("moved", DoubleType())
        if self.distribution is not None or settings.quantiles:
            result = result.add("error", DoubleType())
        return result


def _accuracy(names: Sequence[str]) -> StructType:
    number = StructType().add("moved", DoubleType()).add("error", DoubleType())
    return StructType([StructField(name, number) for name in names])


def _pairs(field: str) -> ArrayType:
    return ArrayType(StructType().add("prob", DoubleType()).add(field, DoubleType()))
