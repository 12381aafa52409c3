"""The filter operator over frames of Spark."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import NumericType

from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.names import named
from sfumato.spark.model.outside_text import check_expression, for_spark
from sfumato.spark.model.per_alternative import attribute, kept, mentioned
from sfumato.spark.model.validity import invalid_reason, largest
from sfumato.spark.runtime.invalid_row_warnings import warn_of_invalid_rows
from sfumato.spark.runtime.run import metrics_name
from sfumato.tables.reading.validity import no_attribute

LEFT = "__left"  # the alternatives that satisfy the condition
REASON = "__reason"  # why a row is invalid


def where(df: DataFrame, condition: str, name: str | None = None) -> DataFrame:
    """`where` of a frame of Spark."""
    check_expression("condition", condition, df.sparkSession)
    condition = for_spark(condition, df.sparkSession)
    attributes = mentioned(df, condition)
    if not attributes:
        return df.where(condition)
    left = F.coalesce(F.size(LEFT), F.lit(0)) > 0
    reason = F.when(left, _reason_where_kept(df, attributes))
    reason = reason.otherwise(invalid_reason(df, attributes))
    if df.isStreaming:
        warn_of_invalid_rows(df.sparkSession)
    metrics = metrics_name("where", name)
    counted = (
        df.withColumn(LEFT, kept(df, condition))
        .withColumn(REASON, reason)
        .observe(
            f"{metrics}_input",
            *metrics.identity("input"),
            *_counted_invalid(F.col(REASON)),
        )
    )
    some = counted.where(left & F.col(REASON).isNull())
    said = df.schema[ALTERNATIVES].metadata
    return some.withColumn(ALTERNATIVES, named(F.col(LEFT), ALTERNATIVES, said)).drop(LEFT, REASON)


def _reason_where_kept(df: DataFrame, attributes: list[str]) -> Column:
    """Why a row of which the condition keeps alternatives is invalid; NULL where it is valid.

    An attribute that is NULL in other alternatives does not matter: the condition left those out.
    """
    frame, reason = SparkFrame(df), invalid_reason(df, [])
    for name in attributes:
        if isinstance(frame.attribute_type(name), NumericType):
            infinite = largest(attribute(df, name)) >= float("inf")  # NaN is greater still
            text = no_attribute(name)
            reason = F.coalesce(reason, F.when(infinite, text))
    return reason


def _counted_invalid(reason: Column) -> list[Column]:
    """What is observed of the rows: how many, how many invalid ones, their commonest reason.

    reason : text; what it says behind the last "to", a number, does not count
    """
    invalid = reason.isNotNull()
    kind = F.regexp_replace(reason, r" to \S+$", " to more than 1")
    return [
        F.count(F.lit(1)).alias("rows"),
        F.coalesce(F.sum(invalid.cast("long")), F.lit(0)).alias("invalid"),
        F.mode(F.when(invalid, kind)).alias("reason"),
    ]
