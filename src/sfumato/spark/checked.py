"""Valid rows, and the others with the reason: nothing invalid passes, nothing is lost."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sfumato.spark.model.entrance import public
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.validity import invalid_reason


@public("sf.checked(df)", "df")
def checked(
    df: DataFrame, attributes: str | Sequence[str] | None = None, *, strict: bool = False
) -> DataFrame:
    """The rows with valid alternatives, or a valid `existence`, unchanged.

    Valid: at least one alternative; every prob finite, > 0 and ≤ 1; their sum ≤ 1 + 1e-9; every
    attribute present and, if a number, finite. A frame without alternatives: `existence`, where
    there is such a column, in (0, 1], and the named value columns present and finite.

    attributes : the attributes (or value columns) to look at; None: all attributes of the
        alternatives, no value column
    strict : raise at the first invalid row, when the frame runs, instead of leaving it out
    The rows left out are those of `rejected` with the same arguments.

    >>> sf.checked(readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")).count()
    3
    """
    reason = invalid_reason(df, attributes)
    if strict:
        message = F.concat(F.lit("invalid row: "), reason)
        return df.where(F.when(reason.isNull(), True).otherwise(F.raise_error(message)))
    return df.where(reason.isNull())


@public("sf.rejected(df)", "df")
def rejected(df: DataFrame, attributes: str | Sequence[str] | None = None) -> DataFrame:
    """The rows that `checked` leaves out, whole, with a column `reason`: text.

    >>> readings = readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")
    >>> sf.rejected(readings).collect()
    [Row(id=2, existence=1.5, reason='existence is not a number in (0, 1]')]
    """
    SparkFrame(df).require_free(["reason"])
    return df.withColumn("reason", invalid_reason(df, attributes)).where("reason is not null")
