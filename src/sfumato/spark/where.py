"""The filter operator: keep the alternatives that satisfy a condition."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import NumericType

from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.entrance import public
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


@public('sf.where(df, "celsius > 30")', "df")
def where(df: DataFrame, condition: str, *, name: str | None = None) -> DataFrame:
    """Keep the alternatives that satisfy `condition`, with their probabilities.

    condition : any Spark SQL condition over the alternatives' attributes (by their plain names)
        and the frame's other columns. Where both have a name, the attribute is meant.
    name : of the metrics, instead of the number N
    A tuple left without alternatives disappears; one left with fewer exists with less
    probability. A comparison with NULL is not satisfied. Invalid rows are left out, whatever the
    condition keeps of them: rows whose probabilities are invalid, or where an attribute that the
    condition mentions is not finite, or NULL in all alternatives. The observed metrics
    ``sfumato_where_N_input`` count rows and invalid rows (`invalid`), and ``sf.rejected`` of the
    frame upstream gives them. A frame without alternatives is filtered as by ``DataFrame.where``.

    Runs in the JVM, as a higher-order function. Source: A, section 3, filter f_c(U).
    Raises TypeError for a condition that is no text, ValueError for one that is not one expression
    or calls what reaches beyond the data (`reflect`, ...; unless the session's setting
    "sfumato.trustText" is "true"), and Spark's own errors for one it cannot read.

    >>> warm = sf.where(uncertain, "celsius > 21")
    >>> [(row.id, row.p) for row in warm.select("id", sf.existence().alias("p")).collect()]
    [(2, 0.5), (3, 1.0), (4, 1.0)]
    """
    if not isinstance(condition, str):
        kind = type(condition).__name__
        raise TypeError(f"`condition` must be Spark SQL text, like 'celsius > 30'; got {kind}")
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
    counted = (
        df.withColumn(LEFT, kept(df, condition))
        .withColumn(REASON, reason)
        .observe(
            f"{metrics_name('where', name)}_input",
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
