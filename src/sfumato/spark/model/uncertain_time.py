"""Event times that are uncertain: a tuple's alternatives go to the extents that they may lie in.

An extent holds, of each tuple, the alternatives whose time lies in it; what their probabilities
lack to 1 is that the tuple is elsewhere, or nowhere. Within one extent tuples are as independent as
before, so the laws of its aggregates are exact. So each tuple becomes one row for each extent that
it may be in, with these alternatives only, and extents that overlap become ones that tumble, each
as long as the slide, in which those rows lie.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType, TimestampType

from sfumato.limits import most_placed
from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.frame import SparkFrame, kind_of
from sfumato.spark.model.names import column, named
from sfumato.spark.model.validity import invalid_reason
from sfumato.tables.windows.query import extents_per_row, tumbling
from sfumato.windows import LONGEST, Range


def by_extent(frame: SparkFrame, order: str, window: Range) -> tuple[DataFrame, str, Range]:
    """(rows, order, window): one row a tuple and extent it may be in, and the extents' window.

    Invalid tuples stay one row, without order. Raises ValueError or TypeError for what cannot be.
    """
    df, extents_of = frame.df, tumbling(window)
    kind = frame.attribute_type(order)
    if kind_of(kind) not in ("timestamp", "whole"):
        raise TypeError(
            f"`order` names the attribute `{order}`, an uncertain event time: it must be a "
            f"timestamp or whole microseconds; got {kind.simpleString()}"
        )
    if frame.streams and not frame.has_punctuations:
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
    extents = F.flatten(F.transform(given, lambda a: _extents_of(microseconds(a), window)))
    lacking = F.exists(given, lambda a: microseconds(a).isNull())
    valid = invalid_reason(df, []).isNull() & ~F.coalesce(lacking, F.lit(True))
    valid &= F.size(given) <= most_placed(extents_per_row(window))
    at = frame.free_name("__extent_time")
    spread = df.select("*", F.explode_outer(F.when(valid, F.array_distinct(extents))).alias(at))
    extent = F.col(at)

    def holds(alternative: Column) -> Column:
        first, last = _span_of(microseconds(alternative), window)
        return extent.between(first, last)

    inside = F.filter(given, holds)
    last = extent * F.lit(window.slide_us) + F.lit(window.slide_us - 1)  # its last microsecond
    rows = spread.withColumns(
        {
            ALTERNATIVES: F.when(extent.isNull(), given).otherwise(inside),
            at: F.timestamp_micros(last) if stamped else last,
        }
    )
    return rows, at, extents_of


def _extents_of(time: Column, window: Range) -> Column:
    """Numbers of the extents that a time lies in: extent i ends at (i + 1) * slide."""
    return F.sequence(*_span_of(time, window))


def _span_of(time: Column, window: Range) -> tuple[Column, Column]:
    """The first and the last of these numbers."""
    slide = F.lit(window.slide_us)
    return _floor(time, slide), _floor(time + F.lit(window.length_us), slide) - 1


def _floor(time: Column, slide: Column) -> Column:
    """The slides in a time, rounded down; in whole numbers, because a quotient would be inexact."""
    return F.call_function("div", time - F.pmod(time, slide), slide)


def true_extents(answers: DataFrame, window: Range) -> DataFrame:
    """The answers over the extents of `by_extent`, with the extents that are meant as `window`."""
    field = answers.schema["window"]
    assert isinstance(field.dataType, StructType)
    end = F.col("window")["end"]
    if isinstance(field.dataType["end"].dataType, TimestampType):
        start = F.timestamp_micros(F.unix_micros(end) - F.lit(window.length_us))
    else:
        start = end - F.lit(window.length_us)
    extent = F.struct(start.alias("start"), end.alias("end"))
    return answers.withColumn("window", named(extent, "window", field.metadata))
