"""The order in which rows come to an operator, as columns by which Spark sorts them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import reduce
from typing import Any, cast

from pyspark.sql import Column, DataFrame, Window
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

from sfumato.tables.arrival_order import Arrival
from sfumato.tables.operator import TIE

PLACE = "__place"  # of a row in the frame, as it is
PROGRESS = "__progress"  # how far event time had come in a row's scope


def placed(frame: DataFrame) -> DataFrame:
    """The frame with a column PLACE; before anything that moves rows."""
    return frame.withColumn(PLACE, F.monotonically_increasing_id())


def sort_keys(
    frame: DataFrame, arrival: Arrival, together: Sequence[str]
) -> tuple[DataFrame, list[Column]]:
    """(frame, keys): rows with a PLACE in order of these keys come as `arrival` says.

    together : columns of which rows that share an operator have the same values
    The frame may have a column more. The last two keys are the tie and the place; where several
    sides are sorted together, the side comes before these.
    """
    names = list(arrival.columns)
    if arrival.scope is not None:
        frame = frame.withColumn(PROGRESS, _progress([*together, *arrival.scope]))
        names = [PROGRESS, *names]
    keys = [_number(frame, name) for name in names]
    keys.append(F.col(TIE) if arrival.tied else F.lit(0))
    if arrival.needed:
        lacks = [_lacks(frame, name, arrival.within) for name in arrival.needed]
        lacking = reduce(lambda a, b: a | b, lacks)
        keys = [F.when(~lacking, key) for key in keys]  # NULL comes first
    return frame, [*keys, F.col(PLACE)]


def _progress(scope: Sequence[str]) -> Column:
    """What `progress_of` computes of a table: the punctuation of a row in order; of a late row that
    of the rows in order of its scope before it, the greatest."""
    known = F.when(~F.col("late"), F.col("punctuation"))
    before = Window.partitionBy(*scope).orderBy(PLACE)
    return F.coalesce(known, F.max(known).over(before.rowsBetween(Window.unboundedPreceding, 0)))


def _kind(frame: DataFrame, name: str) -> DataType:
    kind: Any = frame.schema
    for field in name.split("."):
        kind = kind[field].dataType
    return cast(DataType, kind)


def _number(frame: DataFrame, name: str) -> Column:
    """A column as operators compare it: see `as_numbers`."""
    column, kind = F.col(name), _kind(frame, name)
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, DateType):
        return F.unix_date(column).cast("long")
    if isinstance(kind, IntegralType | BooleanType):
        return column.cast("long")
    if isinstance(kind, FloatType | DoubleType | DecimalType):
        return column.cast("double")
    return column  # a timestamp without time zone


def _lacks(frame: DataFrame, name: str, within: int | None) -> Column:
    """Whether a row lacks this column, or has a number or time in it that is out of range."""
    column, kind = F.col(name), _kind(frame, name)
    lacks = column.isNull()
    if isinstance(kind, FloatType | DoubleType):
        lacks = lacks | F.isnan(column)
    if within is None:
        return lacks
    if isinstance(kind, TimestampNTZType):
        begin = F.lit("1970-01-01").cast("timestamp_ntz")
        span = F.lit(timedelta(microseconds=within))
        return lacks | (column <= begin - span) | (column >= begin + span)
    number = _number(frame, name)
    return lacks | (number <= F.lit(-within)) | (number >= F.lit(within))
