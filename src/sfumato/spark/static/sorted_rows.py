"""The rows of static frames in the order in which an operator takes them: sorted by Spark, which
spills to disk where memory is short. The rows of several sides are sorted together."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from functools import reduce
from typing import TYPE_CHECKING, Any

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

from sfumato.spark.crossing.buckets import BUCKET, RawRows

if TYPE_CHECKING:  # a process next to the driver imports this, and must not import kernels
    from sfumato.tables.arrival_order import Arrival
    from sfumato.tables.reading.chain import ChainConfig, Feed

SIDE_COLUMN = "__side"
PLACE_COLUMN = "__place"  # of a row in the user's frame


def sorted_rows(
    sides: Sequence[RawRows], config: ChainConfig, buckets: int, partitions: int
) -> DataFrame:
    """Return the rows, each bucket's in one partition and in order.

    The columns are BUCKET, SIDE where there are several sides, and those of all sides. Buckets are
    dealt out evenly: a hash might put 20 of 32 into one of two partitions. The number of partitions
    is given, so that Spark does not join small ones later: the work of an operator does not follow
    from the number of rows.
    """
    together = [BUCKET] if buckets > partitions else []  # else each partition is of one bucket
    # Before anything that moves rows.
    placed = [
        side.frame.withColumn(PLACE_COLUMN, F.monotonically_increasing_id()) for side in sides
    ]
    keys = [sort_keys(side, *config.reads(number)) for number, side in enumerate(sides)]
    if len(sides) == 1:
        rows = placed[0].repartitionById(partitions, BUCKET)
        rows = rows.sortWithinPartitions(*together, *keys[0])
        return rows.select(BUCKET, *sides[0].kinds)
    most = max(map(len, keys))
    each = [_side(*of, most) for of in zip(range(len(sides)), placed, keys, strict=True)]
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), each)
    *columns, tie, place = _sorts(most)
    rows = rows.repartitionById(partitions, BUCKET)
    rows = rows.sortWithinPartitions(*together, *columns, SIDE_COLUMN, tie, place)
    return rows.select(
        BUCKET, SIDE_COLUMN, *dict.fromkeys(name for of in sides for name in of.kinds)
    )


def _side(side: int, rows: DataFrame, keys: Sequence[Column], most: int) -> DataFrame:
    """Return the rows of a side, with `most` columns to sort by."""
    *columns, tie, place = keys
    filled = [*columns, *[F.lit(None).cast("long")] * (most - len(keys)), tie, place]
    sorts = (key.alias(name) for key, name in zip(filled, _sorts(most), strict=True))
    return rows.select("*", F.lit(side).alias(SIDE_COLUMN), *sorts).drop(PLACE_COLUMN)


def _sorts(number: int) -> list[str]:
    return [f"__sort{i}" for i in range(number)]


def sort_keys(rows: RawRows, feed: Feed, arrival: Arrival) -> list[Column]:
    """Return the keys by which rows, with a PLACE, are sorted so that they come as `arrival` says.

    The last two keys are the tie and the place; where several sides are sorted together, the side
    comes before these.
    """
    assert feed.reading is not None

    def read(name: str) -> tuple[Column, DataType]:
        """Return what the operator reads under a fixed name, or a field of it, and its type."""
        outer, *fields = name.split(".")
        raw = rows.columns[feed.reading.column(outer)]  # type: ignore[union-attr]
        column, kind = F.col(raw), rows.kinds[raw]
        for field in fields:
            structs: Any = kind
            column, kind = column[field], structs[field].dataType
        return column, kind

    keys = [_number(*read(name)) for name in arrival.columns]
    for i, name in enumerate(arrival.columns):
        if name in arrival.of_late:
            keys[i] = F.when(read("late")[0], keys[i])
    keys.append(F.col(rows.columns[feed.reading.column("__tie")]) if arrival.tied else F.lit(0))
    if arrival.needed:
        missing = [_is_missing(*read(name), arrival.within) for name in arrival.needed]
        unusable = reduce(lambda a, b: a | b, missing)
        keys = [F.when(~unusable, key) for key in keys]  # NULL comes first
    return [*keys, F.col(PLACE_COLUMN)]


def _number(column: Column, kind: DataType) -> Column:
    """Return a column as operators compare it: see `as_numbers`."""
    if isinstance(kind, TimestampType):
        return F.unix_micros(column)
    if isinstance(kind, DateType):
        return F.unix_date(column).cast("long")
    if isinstance(kind, IntegralType | BooleanType):
        return column.cast("long")
    if isinstance(kind, FloatType | DoubleType | DecimalType):
        return column.cast("double")
    return column  # a timestamp without time zone


def _is_missing(column: Column, kind: DataType, within: int | None) -> Column:
    """Return whether a row has no such value, or a number or time that is out of range."""
    missing = column.isNull()
    if isinstance(kind, FloatType | DoubleType):
        missing = missing | F.isnan(column)
    if within is None:
        return missing
    if isinstance(kind, TimestampNTZType):
        begin = F.lit("1970-01-01").cast("timestamp_ntz")
        span = F.lit(timedelta(microseconds=within))
        return missing | (column <= begin - span) | (column >= begin + span)
    number = _number(column, kind)
    return missing | (number <= F.lit(-within)) | (number >= F.lit(within))
