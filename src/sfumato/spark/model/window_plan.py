"""What of a frame a window aggregate reads, and the columns of its answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    NullType,
    NumericType,
    StructField,
    StructType,
    TimestampType,
)

from sfumato.operators.laws.aggregate import LARGEST
from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.frame import ADDED, SparkFrame, is_long_decimal
from sfumato.spark.model.names import Passed, column, named, renamed, unquoted
from sfumato.spark.model.outside_text import check_expression, for_spark
from sfumato.spark.model.per_alternative import attribute, evaluated, type_of_values
from sfumato.spark.model.same import Constant, Field, Single, Whole
from sfumato.spark.model.validity import (
    absent_or,
    clipped,
    invalid_reason,
    is_existence,
    largest,
)
from sfumato.tables.link import Taken
from sfumato.tables.reading.controlled import controlled_by
from sfumato.tables.reading.validity import NO_EXISTENCE
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

    def row_passed(self, members: bool = False) -> Passed:
        """Columns that travel to the operator with each row."""
        return Passed(self.frame.schema, self.carried(members))

    def values(self) -> Mapping[str, Column]:
        """What the operator reads beside keys and order, by fixed name."""
        read = {"prob": self._prob()}
        read |= {f"value{i}": self._values(e) for i, e in enumerate(self.expressions)}
        return read | {fixed: column(name) for fixed, name in self.others.items()}

    @property
    def same(self) -> dict[str, Any]:
        """What those are that other windows may read too, see `Input`."""
        found: dict[str, Any] = {fixed: Whole(name) for fixed, name in self.others.items()}
        found |= {f"value{i}": self._same(e) for i, e in enumerate(self.expressions)}
        if self.frame.uncertain:
            return found | {"prob": Field(Whole(ALTERNATIVES), "prob")}
        given = self.existence_column
        return found | {"prob": Single(Constant(1.0) if given is None else Whole(given))}

    def _same(self, expression: str) -> Any:
        text = expression.strip()
        name = unquoted(text)
        if self.frame.uncertain:
            is_field = name in self.frame.attributes and isinstance(
                self.frame.attribute_type(name), NumericType
            )
            return Field(Whole(ALTERNATIVES), name) if is_field else ("values", text)
        # Other texts without backquotes may mean something else to Spark, as 1 and TRUE do.
        is_name = name != text or (name.isidentifier() and name.lower() not in LITERALS)
        return Single(Whole(name) if is_name and name in self.frame.columns else ("value", text))

    def invalid(self) -> Column:
        """Rows that are invalid by what the operator reads: without order, not finite."""
        lacking = F.lit(False)
        for i in range(len(self.orders)):
            lacking = lacking | F.col(f"order{i}").isNull()
        for i in range(len(self.expressions)):
            lacking = lacking | F.coalesce(self._unusable(F.col(f"value{i}")), F.lit(False))
        return lacking

    def _unusable(self, values: Column) -> Column:
        """Whether one of a row's values makes it an invalid one; NULL is skipped."""
        return largest(values) > F.lit(LARGEST)

    def reason(self) -> Column:
        """Why a row is invalid by columns of the frame; else NULL."""
        # Of the values NULL is skipped, so that count(*) depends on nothing else that is asked for.
        if self.frame.uncertain:
            return invalid_reason(self.frame.df, [])
        if self.existence_column is None:
            return F.lit(None).cast("string")
        invalid = ~is_existence(column(self.existence_column))
        return absent_or(F.when(invalid, NO_EXISTENCE), self.existence_column)

    def _prob(self) -> Column:
        if self.frame.uncertain:
            return attribute(self.frame.df, "prob")
        given = self.existence_column
        return F.array(F.lit(1.0) if given is None else clipped(column(given)))

    def _values(self, expression: str) -> Column:
        if self.frame.uncertain:
            return evaluated(self.frame.df, expression)
        safe = for_spark(expression, self.frame.df.sparkSession)
        return F.array(F.expr(safe).cast("double"))

    def passing(self, members: bool) -> tuple[dict[str, Taken], list[str] | None]:
        """Where answers have the columns that are added, and the columns of rows that pass if they
        are rows: see `Passing`."""
        rows = self.row(members)
        whole = self.of_rows or members
        at = {} if whole else {name: f"key{i}" for i, name in enumerate(self.keys)}
        at |= {name: name for name in self.added}
        at |= {w.name: f"result{i}" for i, w in enumerate(self.wanted)}
        return {name: Taken((place,)) for name, place in at.items()}, rows if whole else None

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

    def columns(self, settings: RowWindowTableConfig | ExtentTableConfig) -> list[Column]:
        """The columns of the result, made of those."""
        added = [name for name in self.added if name != "accuracy" or not settings.whole]
        prefix = "c" if self.of_rows or settings.members else "key"
        passed = Passed(self.frame.schema, self.passed(settings.members))
        own = passed.columns(prefix=prefix, taken=added)
        fixed = {name: F.col(name) for name in added if name != "accuracy"}
        said = {ADDED: "true"}
        fixed["held"] = named(fixed["held"], "held", said)
        if "window" in fixed:
            fixed["window"] = named(fixed["window"], "window", controlled_by(self.in_order_within))
        of_results = {**said, **self.said_of_results}
        results = [
            renamed(f"result{i}", w.name, self._result(self.field(w), settings), of_results)
            for i, w in enumerate(self.wanted)
        ]
        if "accuracy" not in added:
            return [*own, *fixed.values(), *results]
        accuracy = _accuracy([w.name for w in self.wanted])
        return [*own, *fixed.values(), *results, renamed("accuracy", "accuracy", accuracy, said)]

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
