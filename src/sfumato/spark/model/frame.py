"""A Spark frame: its schema, expressions over its columns, and uncertain event times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    IntegralType,
    LongType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sfumato.limits import MAX_ALTERNATIVES_SETTING, alternatives_bound
from sfumato.operators.arrays import offsets_of
from sfumato.spark.model.columns import arrow_schema, computed, table_of, with_alias
from sfumato.spark.model.declared_frame import is_connected
from sfumato.spark.model.untrusted_sql import check_expression, for_spark
from sfumato.sql_tokens import free_name, quote_name, unquote_name
from sfumato.tables.reading.expressions import ColumnRef, Expression, parse_expression, spark_kind
from sfumato.tables.reading.extents import spread_over_extents
from sfumato.tables.reading.frame import Frame, ReadExpression
from sfumato.tables.reading.job import origins_of
from sfumato.tables.reading.rows import ColumnReader, Computed, Values
from sfumato.tables.reading.tuples import ALTERNATIVES
from sfumato.tables.reading.types import EXACT_DIGITS
from sfumato.windows import Range

NAME_WORD = re.compile(r"\w+")
QUOTED_PART = re.compile(r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
# Structs in Arrow that Spark does not hash; also within arrays and structs, but not field names.
NOT_HASHABLE = re.compile(r"(?:^|[:<,])(?:variant|geometry|geography)(?:$|[(>,])")
LITERALS = ("true", "false", "null")
READ_AS_DOUBLES = (NumericType, BooleanType, TimestampType, TimestampNTZType)
AS_DOUBLE = "CAST(({}\n) AS DOUBLE)"
NTZ_AS_DOUBLE = "timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01', ({}\n)) / 1e6D"
"""Seconds since 1970: Spark does not cast a TIMESTAMP_NTZ to a number."""
# Types for which Arrow computes expressions as Spark does.
KIND_IN_ARROW = {IntegralType: "whole", DoubleType: "double", BooleanType: "truth"}
CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"  # in the metadata of CHAR(n), whose values are padded
CONDITION_PREFIX = re.compile(r"^\s*\[[A-Z_.]+\]\s*")
SQLSTATE_TAIL = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)


def reason_of(error: AnalysisException) -> str:
    """Return the text of a Spark error, without its condition, state and plan."""
    return SQLSTATE_TAIL.sub("", CONDITION_PREFIX.sub("", str(error))).strip()


class SparkFrame(Frame):
    """A Spark frame. Names ignore case if Spark does, which is the default."""

    noun, filtered = "frame", "`where('not late')`"
    ungroupable = (
        "Spark cannot group by column {}: convert it to text or to a struct, as with to_json"
    )
    of_text = ": convert it with to_timestamp({})"

    def __init__(self, df: DataFrame) -> None:
        self.df = self.user_object = df
        self.schema, self.columns = df.schema, df.columns

    @property
    def streams(self) -> bool:  # type: ignore[override]
        return self.df.isStreaming

    @property
    def semantic_hash(self) -> int | None:
        return None if is_connected(self.df) else self.df.semanticHash()

    def shares_rows_with(self, other: Any) -> bool:
        if self.df is other.df or is_connected(self.df):  # does not query a remote Spark
            return self.df is other.df
        return self.df.sameSemantics(other.df)

    @property
    def max_alternatives(self) -> int:
        given = self.df.sparkSession.conf.get(MAX_ALTERNATIVES_SETTING, "")
        return alternatives_bound(MAX_ALTERNATIVES_SETTING, given)

    def type(self, name: str) -> DataType:
        return self.schema[name].dataType

    def attribute_type(self, name: str, column: str = ALTERNATIVES) -> DataType:
        array: Any = self.type(column)
        return array.elementType[name].dataType

    def arrow_type(self, kind: DataType) -> pa.DataType:
        return _arrow_type(kind) or pa.map_(pa.string(), pa.string())  # also not hashable

    def text_of(self, kind: DataType) -> str:
        return kind.simpleString()

    def metadata(self, name: str) -> dict[str, str]:
        return self.schema[name].metadata

    def is_groupable(self, name: str) -> bool:
        return super().is_groupable(name) and not NOT_HASHABLE.search(self.type_name(name))

    def check_passed(self, names: Sequence[str]) -> None:
        """Raise TypeError for a column that Spark cannot pass to Python."""
        for name in names:
            if _arrow_type(self.type(name)) is None:
                shown = f"`{name}`, which is {self.type_name(name)}"
                wrong = f"Spark cannot pass the column {shown}, to Python workers"
                raise TypeError(f"{wrong}: convert it to a string, or drop it")

    def has_more_digits(self, name: str) -> bool:
        return _is_long_decimal(self.type(name))

    def collation(self, name: str) -> str | None:
        found = re.search(r"\bcollate (\w+)", self.type_name(name))
        return None if found is None or found[1] == "UTF8_BINARY" else found[1]

    def is_case_sensitive(self) -> bool:
        return self.df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"

    @property
    def has_answers(self) -> bool:
        """Return whether rows were computed from uncertain rows and have no probabilities left."""
        return self.certain and origins_of(self) is not None

    def values_of(self, attribute: str) -> Column:
        """Return an attribute, or `prob`, per alternative as array<double>; NULL if missing."""
        # Spark compiles the field of an array of structs, but interprets a lambda per alternative.
        values = F.col(ALTERNATIVES).getField(attribute)
        is_double = isinstance(self.attribute_type(attribute), DoubleType)
        return values if is_double else values.cast("array<double>")

    def mentioned(self, text: str) -> list[str]:
        """Return the attributes whose names occur in an expression."""
        words = set(NAME_WORD.findall(text.lower()))
        return [name for name in self.attributes if set(NAME_WORD.findall(name.lower())) <= words]

    def bind_attributes(self, text: str, form: str, bind: str) -> str:
        """Return an expression over the alternative `:a`, with its attributes as lambda variables.

        Spark resolves the variables, so the text is unchanged, except for names with a dot, which
        Spark does not find among variables. A line break ends a trailing comment.
        form : the text around the expression;  bind : the call that binds {0}, a one-element array,
        to {1}, a lambda
        """
        given = [*self.attributes, *self.columns]
        variables = {n: n.replace(".", ":") if "." in n else n for n in self.mentioned(text)}
        dotted = {
            quote_name(name).lower(): quote_name(free_name(variable, given))
            for name, variable in variables.items()
            if name != variable
        }
        bound = form.format(QUOTED_PART.sub(lambda m: dotted.get(m[0].lower(), m[0]), text))
        for name in variables:
            quoted = quote_name(name)
            variable = dotted.get(quoted.lower(), quoted)
            bound = bind.format(f"array(`:a`.{quoted})", f"{variable} -> {bound}")
        return bound

    def check_expression(self, argument: str, expression: str) -> None:
        hint = self.quoting_hint(expression)
        check_expression(argument, expression, self.df.sparkSession, hint)

    def expression_type(self, expression: str, argument: str = "") -> DataType:
        try:
            return self._analysed_type(expression)
        except AnalysisException as error:
            if argument and (error.getCondition() or "").startswith("DATATYPE_MISMATCH"):
                reason = reason_of(error)
                raise ValueError(f"Spark cannot compute `{argument}`: {reason}") from error
            raise

    def _analysed_type(self, expression: str) -> DataType:
        name = unquote_name(expression.strip())
        if self.uncertain and name in self.attributes:
            return self.attribute_type(name)
        if not self.uncertain and name in self.columns:
            return self.type(name)
        safe = for_spark(expression, self.df.sparkSession)
        if not self.uncertain:
            return self.df.select(F.expr(safe)).schema[0].dataType
        lists: Any = self.df.select(self._per_alternative(safe, "({}\n)")).schema[0].dataType
        element: DataType = lists.elementType
        return element

    def rounded_type(self, expression: str) -> str | None:
        kind = self.expression_type(expression)
        return kind.simpleString() if _is_long_decimal(kind) else None

    def computation(
        self, expressions: Sequence[ReadExpression]
    ) -> tuple[list[ColumnReader], dict[str, Any]]:
        cells, columns = list[ColumnReader](), dict[str, Any]()
        for i, of in enumerate(expressions):
            alike = self._alike(of.text, of.argument is not None)
            if alike is not None:
                cells.append(Values(alike, of.exact, of.hashed))
                continue
            name = self.free_name(f"__value{i}")
            cells.append(Computed(name, of.hashed))
            columns[name] = self._evaluated(of)
        return cells, columns

    def _evaluated(self, of: ReadExpression) -> tuple[Column, DataType]:
        """Return an expression's column, with a value per row or an array per row, and its type.

        Exact values are read only from certain rows. Hashed values become strings.
        """
        safe = for_spark(of.text, self.df.sparkSession)
        value = F.expr(safe)  # has been checked to be one expression
        if of.exact:
            return value, self.expression_type(of.text)
        if of.hashed and not self.uncertain:
            return value.cast("string"), StringType()
        if of.hashed:
            return self._per_alternative(safe, "CAST(({}\n) AS STRING)"), ArrayType(StringType())
        in_spark = AS_DOUBLE
        if isinstance(self.expression_type(of.text), TimestampNTZType):
            in_spark = NTZ_AS_DOUBLE
        if not self.uncertain:
            return F.expr(in_spark.format(safe)), DoubleType()
        name = unquote_name(safe.strip())
        if name in self.attributes and isinstance(self.attribute_type(name), NumericType):
            return self.values_of(name), ArrayType(DoubleType())
        return self._per_alternative(safe, in_spark), ArrayType(DoubleType())

    def _per_alternative(self, safe: str, form: str) -> Column:
        """Return an array of a checked expression's values, formatted by `form`."""
        bound = self.bind_attributes(safe, form, "transform({}, {})[0]")
        return F.expr(f"transform({quote_name(ALTERNATIVES)}, `:a` -> {bound})")

    def _alike(self, text: str, is_expression: bool) -> Expression | None:
        """Return the expression if Arrow computes it as Spark does; otherwise None."""
        if not is_expression:  # the attribute of sf.Delta is a plain name
            expression: Expression = ColumnRef((text,))
        elif "--" in text:  # a comment in Spark
            return None
        else:
            try:
                expression = parse_expression("", text)
            except ValueError:
                return None
        if isinstance(expression, ColumnRef):
            return expression if isinstance(self._type_of(expression), READ_AS_DOUBLES) else None
        overflow = self.df.sparkSession.conf.get("spark.sql.ansi.enabled") == "true"
        kind = spark_kind(expression, self._kind_in_arrow, overflow)
        return expression if kind not in ("", "text") else None

    def _kind_in_arrow(self, name: ColumnRef) -> str:
        kind = self._type_of(name)
        if isinstance(kind, StringType):
            column = self._find_name(name.parts[0], self.columns)
            is_padded = column is not None and CHAR_TYPE in self.metadata(column)
            return "" if is_padded or kind != StringType() else "text"
        return next((known for of, known in KIND_IN_ARROW.items() if isinstance(kind, of)), "")

    def _type_of(self, name: ColumnRef) -> DataType | None:
        """Return the type of a column, attribute or field; None if it is unknown or ambiguous."""
        first, *fields = name.parts
        if first.lower() in LITERALS:
            return None
        attribute, column = (self._find_name(first, of) for of in (self.attributes, self.columns))
        kind: Any = None if column is None else self.type(column)
        if attribute is not None:
            kind = self.attribute_type(attribute)
        for part in fields:
            found = self._find_name(part, kind.names) if isinstance(kind, StructType) else None
            kind = None if found is None else kind[found].dataType
        return kind

    def _find_name(self, name: str, known: Sequence[str]) -> str | None:
        alike = [of for of in known if of.lower() == name.lower()]
        sure = alike == [name] or (len(alike) == 1 and not self.is_case_sensitive())
        return alike[0] if sure else None

    def by_extent(self, attribute: str, order: str, window: Range) -> SparkFrame:
        kind, most = self.attribute_type(attribute), self.max_alternatives
        each = self.free_name("__extent")
        time = kind if isinstance(kind, TimestampType) else LongType()
        fields = StructType().add(order, time).add(ALTERNATIVES, self.type(ALTERNATIVES))

        def extents(rows: pa.Array) -> pa.Array:
            row, times, lists = spread_over_extents(table_of(rows), attribute, window, most)
            offsets = offsets_of(np.bincount(row, minlength=len(rows)))
            structs = pa.StructArray.from_arrays([times, lists], [order, ALTERNATIVES])
            return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), structs)

        placed = F.explode(computed(extents, ArrayType(fields), F.col(ALTERNATIVES)))
        rows = self.df.withColumn(each, placed)
        added = {name: F.col(each)[name] for name in fields.names}
        return SparkFrame(rows.withColumns(added).drop(each))

    def with_true_extents(self, answers: DataFrame, window: Range) -> DataFrame:
        field: Any = answers.schema["window"]
        end = F.col("window")["end"]
        start = end - F.lit(window.length_us)
        if isinstance(field.dataType["end"].dataType, TimestampType):
            start = F.timestamp_micros(F.unix_micros(end) - F.lit(window.length_us))
        extent = F.struct(start.alias("start"), end.alias("end"))
        return answers.withColumn("window", with_alias(extent, "window", field.metadata))


def _is_long_decimal(kind: DataType) -> bool:
    return isinstance(kind, DecimalType) and kind.precision > EXACT_DIGITS


@cache
def _arrow_type(kind: DataType) -> pa.DataType | None:
    try:
        return arrow_schema(StructType().add("of", kind)).field("of").type
    except TypeError:  # such as intervals of months
        return None
