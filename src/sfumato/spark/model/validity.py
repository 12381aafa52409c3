"""Why a row is invalid: what its alternatives, existence or values have wrong, as Spark columns."""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import NumericType

from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.spark.model.frame import SparkFrame
from sfumato.spark.model.names import column as column_of
from sfumato.tables.reading.names import names

SUM_TOLERANCE = 1e-9  # sums of probabilities may pass 1 by so much: rounding, clipped to 1


def invalid_reason(df: DataFrame, attributes: str | Sequence[str] | None = None) -> Column:
    """Why a row's alternatives (or existence and values) are invalid; NULL where they are valid.

    attributes : as for `checked`; an empty list: only the probabilities count
    """
    frame, wanted = SparkFrame(df), names("attributes", attributes)
    if frame.uncertain:
        known = frame.attributes
        for name in wanted:
            if name not in known:
                raise ValueError(
                    f"`attributes` names `{name}`, which the alternatives lack; they have {known}"
                )
        return _reason_of_alternatives(frame, known if attributes is None else wanted)
    frame.resolved("attributes", wanted)
    return _reason_of_columns(frame, wanted)


def _reason_of_alternatives(frame: SparkFrame, attributes: list[str]) -> Column:
    column = F.col(ALTERNATIVES)
    total = F.aggregate(column, F.lit(0.0), lambda acc, a: acc + a["prob"])
    reason = F.when(column.isNull() | (F.size(column) == 0), "no alternatives")
    reason = reason.when(F.exists(column, lambda a: a.isNull()), "an alternative is NULL")
    reason = reason.when(
        F.exists(column, lambda a: ~_is_probability(a["prob"])),
        "an alternative's prob is not a number in (0, 1]",
    )
    for name in attributes:
        numeric = isinstance(frame.attribute_type(name), NumericType)
        reason = reason.when(
            F.exists(column, _lacks(name, numeric)),
            f"an alternative's {name} is missing or not finite",
        )
    return reason.when(
        total > 1.0 + SUM_TOLERANCE,
        F.concat(F.lit("the probabilities sum to "), total.cast("string")),
    )


def _reason_of_columns(frame: SparkFrame, attributes: list[str]) -> Column:
    reason = F.when(F.lit(False), F.lit(None).cast("string"))
    if "existence" in frame.columns:
        reason = reason.when(
            ~_is_probability(F.col("existence")), "existence is not a number in (0, 1]"
        )
    for name in attributes:
        numeric = isinstance(frame.type(name), NumericType)
        reason = reason.when(
            _is_missing(column_of(name), numeric), f"{name} is missing or not finite"
        )
    return reason


def _lacks(attribute: str, numeric: bool) -> Callable[[Column], Column]:
    return lambda alternative: _is_missing(alternative[attribute], numeric)


def _is_probability(p: Column) -> Column:
    # NaN counts as greater than every number in Spark, so that `<= 1` excludes it.
    return F.coalesce((p > 0) & (p <= 1), F.lit(False))


def _is_missing(value: Column, numeric: bool) -> Column:
    if not numeric:
        return value.isNull()
    infinite = F.abs(value.cast("double")) >= F.lit(float("inf"))  # NaN is greater still
    return value.isNull() | infinite
