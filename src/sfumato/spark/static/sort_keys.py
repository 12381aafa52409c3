"""The order in which rows come to an operator, as columns by which Spark sorts them."""

from __future__ import annotations

from datetime import timedelta
from functools import reduce
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    TimestampNTZType,
    TimestampType,
)

from sfumato.spark.crossing.columns_once import Once
from sfumato.tables.arrival_order import Arrival
from sfumato.tables.operator import TIE

PLACE = "__place"  # of a row in the frame, as it is


def placed(frame: DataFrame) -> DataFrame:
    """The frame with a column PLACE; before anything that moves rows."""
    return frame.withColumn(PLACE, F.monotonically_increasing_id())


def sort_keys(once: Once, arrival: Arrival) -> list[Column]:
    """The keys by which the rows of `once`, with a PLACE, are sorted so that they come as `arrival`
    says.

    The last two keys are the tie and the place; where several sides are sorted together, the side
    comes before these.
    """
    keys = [_number(once.column(name), _kind(once, name)) for name in arrival.columns]
    for i, name in enumerate(arrival.columns):
        if name in arrival.of_late:
            keys[i] = F.when(once.column("late"), keys[i])
    keys.append(once.column(TIE) if arrival.tied else F.lit(0))
    if arrival.needed:
        lacks = [_lacks(once, name, arrival.within) for name in arrival.needed]
        lacking = reduce(lambda a, b: a | b, lacks)
        keys = [F.when(~lacking, key) for key in keys]  # NULL comes first
    return [*keys, F.col(PLACE)]


def _kind(once: Once, name: str) -> DataType:
    kind: Any = once.kinds
    for field in name.split("."):
        kind = kind[field].dataType
    return cast(DataType, kind)


def _number(column: Column, kind: DataType) -> Column:
    """A column as operators compare it: see `as_numbers`."""
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, DateType):
        return F.unix_date(column).cast("long")
    if isinstance(kind, IntegralType | BooleanType):
        return column.cast("long")
    if isinstance(kind, FloatType | DoubleType | DecimalType):
        return column.cast("double")
    return column  # a timestamp without time zone


def _lacks(once: Once, name: str, within: int | None) -> Column:
    """Whether a row lacks this column, or has a number or time in it that is out of range."""
    column, kind = once.column(name), _kind(once, name)
    lacks = column.isNull()
    if isinstance(kind, FloatType | DoubleType):
        lacks = lacks | F.isnan(column)
    if within is None:
        return lacks
    if isinstance(kind, TimestampNTZType):
        begin = F.lit("1970-01-01").cast("timestamp_ntz")
        span = F.lit(timedelta(microseconds=within))
        return lacks | (column <= begin - span) | (column >= begin + span)
    number = _number(column, kind)
    return lacks | (number <= F.lit(-within)) | (number >= F.lit(within))
