"""Valid rows, and the others with the reason: nothing invalid passes, nothing is lost."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.window import Window

from sfumato.spark.model.entrance import public
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.names import column as column_of
from sfumato.spark.model.validity import invalid_reason, reason_of_rule
from sfumato.tables.joins.metric import bounds_of
from sfumato.tables.reading.validity import require_order

_REASON = "__sfumato_reason"


@public("sf.checked(df)", "df")
def checked(
    df: DataFrame,
    attributes: str | Sequence[str] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    metric: str = "euclidean",
    rules: str | None = None,
    strict: bool = False,
) -> DataFrame:
    """The rows with valid alternatives, or a valid `existence`, unchanged.

    Valid: at least one alternative; every prob finite, > 0 and ≤ 1; their sum ≤ 1 + 1e-9; every
    attribute present and, if a number, finite. A frame without alternatives: `existence`, where
    there is such a column, in [0, 1 + 1e-6], and the named value columns present and finite.

    attributes : the attributes (or value columns) to look at; None: all attributes of the
        alternatives, no value column
    key, order : columns that must not be NULL, as `key` and `order` of the operator that reads the
        rows (windows and rankings group NULL keys as any other: leave `key` out for these)
    metric : "haversine" for rows that a join with this metric reads: `attributes` are its longitude
        and latitude, which must lie from -180 to 180 and from -90 to 90
    rules : of a static frame the column of rules of a ranking: the rows, by `order`, with which the
        probabilities of their rule (for each `key`) sum to more than 1 are invalid. A ranking
        leaves them out if its window holds the whole frame
    strict : raise at the first invalid row, when the frame runs, instead of leaving it out
    The rows left out are those of `rejected` with the same arguments.

    >>> sf.checked(readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")).count()
    3
    """
    reason = _reason(df, attributes, key, order, metric, rules)
    if strict and rules is not None:
        raise ValueError(
            "`strict` looks at one row at a time, `rules` at several: give one of them"
        )
    if strict:
        message = F.concat(F.lit("invalid row: "), reason)
        return df.where(F.when(reason.isNull(), True).otherwise(F.raise_error(message)))
    if rules is None:
        return df.where(reason.isNull())
    # Spark takes functions of several rows as columns only.
    return df.withColumn(_REASON, reason).where(F.col(_REASON).isNull()).drop(_REASON)


@public("sf.rejected(df)", "df")
def rejected(
    df: DataFrame,
    attributes: str | Sequence[str] | None = None,
    *,
    key: str | Sequence[str] | None = None,
    order: str | Sequence[str] | None = None,
    metric: str = "euclidean",
    rules: str | None = None,
) -> DataFrame:
    """The rows that `checked` leaves out, whole, with a column `reason`: text.

    An operator skips the rows with invalid alternatives or existence, and others that it cannot
    read: name its value columns of a frame without alternatives, its `key` (of a join) and its
    `order` to find these too. `metric` and `rules` are those of `checked`.

    >>> readings = readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")
    >>> sf.rejected(readings).collect()
    [Row(id=2, existence=1.5, reason='existence is not a number in [0, 1]')]
    """
    SparkFrame(df).require_free(["reason"])
    reason = _reason(df, attributes, key, order, metric, rules)
    return df.withColumn("reason", reason).where("reason is not null")


def _reason(
    df: DataFrame,
    attributes: str | Sequence[str] | None,
    key: str | Sequence[str] | None,
    order: str | Sequence[str] | None,
    metric: str,
    rules: str | None,
) -> Column:
    """Return why a row is invalid, NULL where it is valid."""
    frame = SparkFrame(df)
    reasons = [invalid_reason(df, attributes, bounds_of(metric, attributes))]
    for argument, given in (("key", key), ("order", order)):
        reasons += [
            F.when(column_of(name).isNull(), F.lit(f"{argument} is NULL"))
            for name in frame.resolved(argument, given)
        ]
    reason = F.coalesce(*reasons)
    if rules is None:
        return reason
    if df.isStreaming:
        raise ValueError(
            "`rules` needs a static frame, as it looks at all rows of a rule; of a stream the "
            "metric sfumato_top_k_N counts the rows that are left out (`rejected`)"
        )
    require_order(order)
    members = Window.partitionBy(
        *map(column_of, [frame.one("rules", rules), *frame.resolved("key", key)])
    )
    orders = [column_of(name) for name in frame.resolved("order", order)]
    return F.coalesce(reason, reason_of_rule(frame, rules, reason, members, orders))
