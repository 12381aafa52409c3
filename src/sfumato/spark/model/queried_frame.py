"""A frame of Spark over which expressions are computed, and whose event times may be uncertain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
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

from sfumato.limits import most_placed
from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.columns import column, named, quoted, unquoted
from sfumato.spark.model.frame import SparkFrame, is_long_decimal, kind_of
from sfumato.spark.model.outside_text import check_expression, for_spark
from sfumato.spark.model.validity import invalid_reason
from sfumato.tables.reading.expressions import ColumnRef, Expression, kind_alike, parse_expression
from sfumato.tables.reading.job import Computation, Expressions, QueriedFrame
from sfumato.tables.reading.rows import Cells, Computed, Values
from sfumato.tables.reading.types import Kind
from sfumato.tables.windows.window_query import extents_per_row, tumbling
from sfumato.windows import LONGEST, Range

LITERALS = ("true", "false", "null")
AS_NUMBERS = (NumericType, BooleanType, TimestampType, NullType)  # types that a cast makes doubles


class QueriedSparkFrame(SparkFrame, QueriedFrame):
    """A frame of Spark whose expressions and uncertain event times are known."""

    @property
    def expressions(self) -> SparkExpressions:
        return SparkExpressions(self)

    def by_extent(self, order: str, window: Range) -> tuple[QueriedSparkFrame, str, Range]:
        extents_of, kind = tumbling(window), self.attribute_type(order)
        if kind_of(kind) not in ("timestamp", "whole"):
            raise TypeError(
                f"`order` names the attribute `{order}`, an uncertain event time: it must be a "
                f"timestamp or whole microseconds; got {kind.simpleString()}"
            )
        if self.streams and not self.has_punctuations:
            raise ValueError(
                f"`order` names the attribute `{order}`, an uncertain event time: on a stream put "
                "sf.reorder before, by the earliest time that a tuple may have"
            )
        stamped = isinstance(kind, TimestampType)

        def microseconds(alternative: Column) -> Column:
            time = alternative[order]
            time = F.unix_micros(time) if stamped else time.cast("long")
            return F.when(time.between(-LONGEST, LONGEST), time)

        given = column(ALTERNATIVES)

        def extents_of_time(alternative: Column) -> Column:
            return F.sequence(*_span_of(microseconds(alternative), window))

        extents = F.flatten(F.transform(given, extents_of_time))
        missing = F.exists(given, lambda a: microseconds(a).isNull())
        valid = invalid_reason(self.df, []).isNull() & ~F.coalesce(missing, F.lit(True))
        valid &= F.size(given) <= most_placed(extents_per_row(window))
        at = self.free_name("__extent_time")
        placed = F.explode_outer(F.when(valid, F.array_distinct(extents)))
        extent = F.col(at)

        def is_inside(alternative: Column) -> Column:
            return extent.between(*_span_of(microseconds(alternative), window))

        last = extent * F.lit(window.slide_us) + F.lit(window.slide_us - 1)  # its last microsecond
        inside = F.when(extent.isNull(), given).otherwise(F.filter(given, is_inside))
        end = F.timestamp_micros(last) if stamped else last
        rows = self.df.select("*", placed.alias(at)).withColumns({ALTERNATIVES: inside, at: end})
        return QueriedSparkFrame(rows), at, extents_of

    def with_true_extents(self, answers: DataFrame, window: Range) -> DataFrame:
        field: Any = answers.schema["window"]
        end = F.col("window")["end"]
        start = end - F.lit(window.length_us)
        if isinstance(field.dataType["end"].dataType, TimestampType):
            start = F.timestamp_micros(F.unix_micros(end) - F.lit(window.length_us))
        extent = F.struct(start.alias("start"), end.alias("end"))
        return answers.withColumn("window", named(extent, "window", field.metadata))


def _span_of(time: Column, window: Range) -> tuple[Column, Column]:
    """Return the first and last number of the extents with a time: i ends at (i + 1) * slide."""
    slide = F.lit(window.slide_us)
    return _floor(time, slide), _floor(time + F.lit(window.length_us), slide) - 1


def _floor(time: Column, slide: Column) -> Column:
    """Return the slides in a time, rounded down; exact, as a quotient of doubles would not be."""
    return F.call_function("div", time - F.pmod(time, slide), slide)


class SparkExpressions(Expressions):
    """Expressions over a frame of Spark: any SQL without effects."""

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

    def computation(self, expressions: Sequence[str], arguments: Mapping[str, str]) -> Computation:
        cells, columns = list[Cells](), dict[str, Any]()
        for i, text in enumerate(expressions):
            alike = self._alike(text, text in arguments)
            if alike is not None:
                cells.append(Values(alike))
                continue
            name = self.frame.free_name(f"__value{i}")
            cells.append(Computed(name))
            columns[name] = self._evaluated(text)
        return Computation(cells, columns)

    def _type_of(self, expression: str) -> DataType:
        """Return the type of an expression's values, before they are cast."""
        frame, name = self.frame, unquoted(expression.strip())
        if frame.uncertain and name in frame.attributes:
            return frame.attribute_type(name)
        if not frame.uncertain and name in frame.columns:
            return frame.type(name)
        safe = for_spark(expression, frame.df.sparkSession)
        if not frame.uncertain:
            return frame.df.select(F.expr(safe)).schema[0].dataType
        lists: Any = frame.df.select(self._per_alternative(safe, "({}\n)")).schema[0].dataType
        element: DataType = lists.elementType
        return element

    def _evaluated(self, text: str) -> tuple[Column, DataType]:
        """Return the values of an expression: a double per row, or an array per alternative."""
        frame = self.frame
        safe = for_spark(text, frame.df.sparkSession)
        value = F.expr(safe)  # is one expression by itself
        if not frame.uncertain:
            return value.cast("double"), DoubleType()
        name = unquoted(safe.strip())
        if name in frame.attributes and isinstance(frame.attribute_type(name), NumericType):
            return frame.values_of(name), ArrayType(DoubleType())
        return self._per_alternative(safe, "CAST(({}\n) AS DOUBLE)"), ArrayType(DoubleType())

    def _per_alternative(self, safe: str, form: str) -> Column:
        """Return an array: a safe expression, in a form, for every alternative.

        Spark itself resolves the names, see `SparkFrame.mentioned`.
        """
        bound = form.format(safe)
        for name in self.frame.mentioned(safe):
            bound = f"transform(array(`:a`.{quoted(name)}), {quoted(name)} -> {bound})[0]"
        return F.expr(f"transform({quoted(ALTERNATIVES)}, `:a` -> {bound})")

    def _alike(self, text: str, is_expression: bool) -> Expression | None:
        """Return an expression that is computed from rows as Spark computes it; else None."""
        if not is_expression:  # the attribute of a sf.Delta is a name as it stands
            expression: Expression = ColumnRef((text,))
        elif "--" in text:  # to Spark the rest is a comment
            return None
        else:
            try:
                expression = parse_expression("", text)
            except ValueError:
                return None
        if isinstance(expression, ColumnRef):
            known = isinstance(self._type(expression), NumericType | BooleanType | TimestampType)
            return expression if known else None
        overflow = self.frame.df.sparkSession.conf.get("spark.sql.ansi.enabled") == "true"
        return expression if kind_alike(expression, self._kind, overflow) else None

    def _kind(self, name: ColumnRef) -> str:
        kind = self._type(name)
        kinds = {IntegralType: "whole", DoubleType: "double", BooleanType: "truth"}
        return next((known for of, known in kinds.items() if isinstance(kind, of)), "")

    def _type(self, name: ColumnRef) -> DataType | None:
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
