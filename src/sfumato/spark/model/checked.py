"""Valid rows of frames of Spark, and the others with the reason."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window

from sfumato.spark.model.columns import column as column_of
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.validity import invalid_reason, reason_of_rule
from sfumato.tables.joins.metric import bounds_of
from sfumato.tables.reading.validity import require_order

Names = str | Sequence[str] | None


def split_rows(
    frame: SparkFrame,
    attributes: Names,
    key: Names,
    order: Names,
    metric: str,
    exclusive: str | None,
    strict: bool,
) -> tuple[DataFrame, DataFrame]:
    """`split_invalid` of a frame of Spark."""
    df, reason = frame.df, _reason(frame, attributes, key, order, metric, exclusive)
    with_reason = df.withColumn("reason", reason)
    invalid = with_reason.where("reason IS NOT NULL")
    if strict:
        message = F.concat(F.lit("invalid row: "), reason)
        return df.where(F.when(reason.isNull(), True).otherwise(F.raise_error(message))), invalid
    if exclusive is None:
        return df.where(reason.isNull()), invalid
    # Spark takes functions of several rows as columns only.
    return with_reason.where("reason IS NULL").drop("reason"), invalid


def _reason(
    frame: SparkFrame,
    attributes: Names,
    key: Names,
    order: Names,
    metric: str,
    exclusive: str | None,
) -> Column:
    """Return why a row is invalid, NULL where it is valid."""
    df = frame.df
    reasons = [invalid_reason(df, attributes, bounds_of(metric, attributes))]
    for argument, given in (("key", key), ("order", order)):
        reasons += [
            F.when(column_of(name).isNull(), F.lit(f"{argument} is NULL"))
            for name in frame.resolved(argument, given)
        ]
    reason = F.coalesce(*reasons)
    if exclusive is None:
        return reason
    if df.isStreaming:
        raise ValueError(
            "`exclusive` needs a static frame, as it looks at all rows of a rule; of a stream the "
            "metric sfumato_top_k_N counts the rows that are left out (`rejected`)"
        )
    require_order(order)
    members = Window.partitionBy(
        *map(column_of, [frame.one("exclusive", exclusive), *frame.resolved("key", key)])
    )
    orders = [column_of(name) for name in frame.resolved("order", order)]
    return F.coalesce(reason, reason_of_rule(frame, exclusive, reason, members, orders))
