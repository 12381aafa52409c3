"""The filter operator over Spark frames."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import NumericType

from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.columns import named, quoted
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.outside_text import check_expression, for_spark
from sfumato.spark.model.validity import invalid_reason, largest
from sfumato.spark.runtime.invalid_row_warnings import warn_of_invalid_rows
from sfumato.spark.runtime.run import metrics_name
from sfumato.tables.reading.validity import no_attribute

LEFT = "__left"  # the alternatives that satisfy the condition
REASON_COLUMN = "__reason"  # why a row is invalid


def where(df: DataFrame, condition: str, name: str | None = None) -> DataFrame:
    """Implement `where` for a Spark frame."""
    check_expression("condition", condition, df.sparkSession)
    condition = for_spark(condition, df.sparkSession)
    frame = SparkFrame(df)
    attributes = frame.mentioned(condition)
    if not attributes:
        return df.where(condition)
    left = F.coalesce(F.size(LEFT), F.lit(0)) > 0
    reason = F.when(left, _reason_where_kept(frame, attributes))
    reason = reason.otherwise(invalid_reason(frame, attributes))
    if df.isStreaming:
        warn_of_invalid_rows(df.sparkSession)
    metrics = metrics_name("where", name)
    counted = (
        df.withColumn(LEFT, _kept(frame, condition))
        .withColumn(REASON_COLUMN, reason)
        .observe(
            f"{metrics}_input",
            *metrics.identity("input"),
            *_counted_invalid(F.col(REASON_COLUMN)),
        )
    )
    some = counted.where(left & F.col(REASON_COLUMN).isNull())
    column = named(F.col(LEFT), ALTERNATIVES, df.schema[ALTERNATIVES].metadata)
    return some.withColumn(ALTERNATIVES, column).drop(LEFT, REASON_COLUMN)


def _kept(frame: SparkFrame, condition: str) -> Column:
    """Return the alternatives that satisfy a condition; see `SparkFrame.mentioned`."""
    bound = f"({condition}\n)"
    for name in frame.mentioned(condition):
        bound = f"exists(array(`:a`.{quoted(name)}), {quoted(name)} -> {bound})"
    return F.expr(f"filter({quoted(ALTERNATIVES)}, `:a` -> {bound})")


def _reason_where_kept(frame: SparkFrame, attributes: list[str]) -> Column:
    """Return why a row's remaining alternatives are invalid; NULL if they are valid."""
    reason = invalid_reason(frame, [])
    for name in attributes:
        if isinstance(frame.attribute_type(name), NumericType):
            infinite = largest(frame.values_of(name)) >= float("inf")  # NaN is greater still
            text = no_attribute(name)
            reason = F.coalesce(reason, F.when(infinite, text))
    return reason


def _counted_invalid(reason: Column) -> list[Column]:
    """Return the observed columns: rows, invalid rows, most common reason (without its number)."""
    invalid = reason.isNotNull()
    kind = F.regexp_replace(reason, r" to \S+$", " to more than 1")
    return [
        F.count(F.lit(1)).alias("rows"),
        F.coalesce(F.sum(invalid.cast("long")), F.lit(0)).alias("invalid"),
        F.mode(F.when(invalid, kind)).alias("reason"),
    ]
