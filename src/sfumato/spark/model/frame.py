"""The schema of a frame of Spark: the columns, their types, the order of the rows."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegralType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sfumato.limits import MAX_ALTERNATIVES_SETTING, alternatives_bound
from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.tables.reading.frame import Frame
from sfumato.tables.reading.types import EXACT_DIGITS, Kind

NAME_WORD = re.compile(r"\w+")
KIND_OF_TYPE: dict[Any, Kind] = {
    TimestampType: "timestamp",
    TimestampNTZType: "timestamp_ntz",
    IntegralType: "whole",
    NumericType: "number",
    NullType: "number",  # a column of nothing but NULL
    DateType: "date",
    BooleanType: "truth",
    StringType: "text",
}


class SparkFrame(Frame):
    """A frame of Spark. Where Spark ignores case, as it does by default, neither do names."""

    noun, prefix, filtered = "frame", "sf.", "`where('not late')`"
    ungroupable = "Spark cannot group by column {}: make a text or a struct of it, as with to_json"
    of_text = ": to_timestamp({}) makes one of it"

    def __init__(self, df: DataFrame) -> None:
        self.df, self.schema, self.columns = df, df.schema, df.columns

    @property
    def streams(self) -> bool:  # type: ignore[override]
        return self.df.isStreaming

    @property
    def described(self) -> str:
        return self.schema.simpleString()

    @property
    def attributes(self) -> list[str]:
        if not self.uncertain:
            return []
        kind = self.type(ALTERNATIVES)
        element = kind.elementType if isinstance(kind, ArrayType) else None
        if not isinstance(element, StructType) or "prob" not in element.names:
            raise TypeError(
                f"column `{ALTERNATIVES}` must be array<struct<prob: double, ATTR: double, ...>>; "
                f"got {kind.simpleString()}: make it with sf.alternatives or sf.samples"
            )
        return [name for name in element.names if name != "prob"]

    def attribute_type(self, name: str) -> DataType:
        """Return the type of an attribute of the alternatives."""
        array: Any = self.type(ALTERNATIVES)
        return array.elementType[name].dataType

    def values_of(self, attribute: str) -> Column:
        """Return array<double>: an attribute, or `prob`, of every alternative; NULL if missing."""
        # The field of an array of structs is compiled; a lambda is interpreted per alternative.
        values = F.col(ALTERNATIVES).getField(attribute)
        is_double = isinstance(self.attribute_type(attribute), DoubleType)
        return values if is_double else values.cast("array<double>")

    def mentioned(self, text: str) -> list[str]:
        """Return the attributes whose names occur in a text.

        In an expression each is bound to its value by a lambda over an array of one, so that Spark
        resolves the names and the text stays as it is. A line break then ends a trailing comment.
        """
        words = set(NAME_WORD.findall(text.lower()))
        return [name for name in self.attributes if set(NAME_WORD.findall(name.lower())) <= words]

    def attribute_kind(self, name: str) -> Kind:
        return kind_of(self.attribute_type(name))

    def attribute_shown(self, name: str) -> str:
        return self.attribute_type(name).simpleString()

    def type(self, name: str) -> DataType:
        return self.schema[name].dataType

    def shown(self, name: str) -> str:
        return self.type(name).simpleString()

    def metadata(self, name: str) -> dict[str, str]:
        return self.schema[name].metadata

    def kind(self, name: str) -> Kind:
        return kind_of(self.type(name))

    def has_more_digits(self, name: str) -> bool:
        return is_long_decimal(self.type(name))

    def is_groupable(self, name: str) -> bool:
        return _groupable(self.type(name))

    @property
    def max_alternatives(self) -> int:
        return alternatives_bound(
            MAX_ALTERNATIVES_SETTING, self.df.sparkSession.conf.get(MAX_ALTERNATIVES_SETTING, "")
        )

    def collation(self, name: str) -> str | None:
        found = re.search(r"\bcollate (\w+)", self.shown(name))
        return None if found is None or found[1] == "UTF8_BINARY" else found[1]

    def tells_case_apart(self) -> bool:
        return self.df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"

    def is_hashable(self, name: str) -> bool:
        return not re.search(r"\b(map<|variant)", self.shown(name))


def is_long_decimal(kind: DataType) -> bool:
    """Return whether a type has decimal numbers with more digits than a double keeps."""
    return isinstance(kind, DecimalType) and kind.precision > EXACT_DIGITS


def kind_of(kind: DataType) -> Kind:
    """Return the kind of a type's values."""
    return next((name for of, name in KIND_OF_TYPE.items() if isinstance(kind, of)), "")


def _groupable(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_groupable(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _groupable(kind.elementType)
    plain = kind.simpleString()  # intervals of months do not go to Python
    return not isinstance(kind, MapType) and not re.match("variant|interval( year| month|$)", plain)
