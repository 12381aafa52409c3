"""Why a row is invalid: what its alternatives, existence or values have wrong, as Spark columns.

Spark compiles functions of whole arrays, and interprets lambdas for every element: these only say
what is wrong of rows that the former do not find to be valid.
"""

from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import NumericType
from pyspark.sql.window import Window, WindowSpec

from sfumato.limits import too_many
from sfumato.operators.arguments import ROUNDED
from sfumato.spark.model.alternatives import ALTERNATIVES, existence
from sfumato.spark.model.columns import column as column_of
from sfumato.spark.model.frame import SparkFrame
from sfumato.tables.reading.frame import names
from sfumato.tables.reading.validity import (
    ABOVE_ONE,
    NO_ALTERNATIVES,
    NO_EXISTENCE,
    NO_PROBABILITY,
    NULL_ALTERNATIVE,
    RULE_ABOVE_ONE,
    Bounds,
    no_attribute,
    no_value,
)

SUM_TOLERANCE = 1e-9  # sums of probabilities may pass 1 by so much: rounding, clipped to 1
FEW = 8  # alternatives, of which sums are written out


def invalid_reason(
    df: DataFrame, attributes: str | Sequence[str] | None = None, bounds: Bounds = ()
) -> Column:
    """Why a row's alternatives (or existence and values) are invalid; NULL where they are valid.

    attributes : as for `split_invalid`; an empty list: only the probabilities count
    bounds : of some attributes, as for `why_invalid` of tables
    """
    frame, wanted = SparkFrame(df), names("attributes", attributes)
    frame.require_tuples()
    if frame.uncertain:
        known = frame.attributes
        for name in wanted:
            if name not in known:
                raise ValueError(
                    f"`attributes` names `{name}`, which the alternatives lack; they have {known}"
                )
        return _reason_of_alternatives(frame, known if attributes is None else wanted, bounds)
    frame.resolved("attributes", wanted)
    return _reason_of_columns(frame, wanted, bounds)


def _reason_of_alternatives(frame: SparkFrame, attributes: list[str], bounds: Bounds) -> Column:
    column = F.col(ALTERNATIVES)
    total = F.aggregate(column, F.lit(0.0), lambda acc, a: acc + a["prob"])
    bound = frame.max_alternatives
    crowded = F.size(column) > bound
    many = F.concat(F.size(column).cast("string"), F.lit(too_many(bound)))
    valid = _are_valid(frame, attributes)
    for name, most, _ in bounds:
        valid &= largest(frame.values_of(name)) <= most
    reason = F.when(crowded, many).when(valid, F.lit(None).cast("string"))
    reason = reason.when(column.isNull() | (F.size(column) == 0), NO_ALTERNATIVES)
    reason = reason.when(F.exists(column, lambda a: a.isNull()), NULL_ALTERNATIVE)
    reason = reason.when(
        F.exists(column, lambda a: ~_is_probability(a["prob"])),
        NO_PROBABILITY,
    )
    for name in attributes:
        numeric = isinstance(frame.attribute_type(name), NumericType)
        reason = reason.when(
            F.exists(column, _lacks(name, numeric)),
            no_attribute(name),
        )
    for name, most, text in bounds:
        reason = reason.when(F.exists(column, _is_beyond(name, most)), f"an alternative's {text}")
    return reason.when(
        total > 1.0 + SUM_TOLERANCE,
        F.concat(F.lit(ABOVE_ONE), total.cast("string")),
    )


def _are_valid(frame: SparkFrame, attributes: list[str]) -> Column:
    """Whether alternatives are valid; not said of all that are."""
    prob = frame.values_of("prob")
    few = reduce(Column.__add__, [F.coalesce(F.get(prob, i), F.lit(0.0)) for i in range(FEW)])
    sums = (F.size(prob) <= FEW) & (few <= 1.0 + SUM_TOLERANCE)
    sums = sums | (F.size(prob) * F.array_max(prob) <= 1.0 + SUM_TOLERANCE)
    valid = ~some_missing(prob) & (F.array_min(prob) > 0) & (F.array_max(prob) <= 1) & sums
    for name in attributes:
        if isinstance(frame.attribute_type(name), NumericType):
            values = frame.values_of(name)
            valid &= ~some_missing(values) & (largest(values) < float("inf"))
        else:
            valid &= ~F.exists(ALTERNATIVES, _lacks(name, numeric=False))
    return valid


def some_missing(values: Column) -> Column:
    """Of an array of doubles: whether it, or a value in it, is NULL (or infinity)."""
    # Where an array has a NULL and not the element looked for, the answer is NULL.
    return F.coalesce(F.array_contains(values, float("inf")), F.lit(True))


def largest(values: Column) -> Column:
    """Of an array of doubles the largest magnitude; NaN, if it has one, which Spark has above all
    numbers. NULL is skipped."""
    return F.greatest(F.array_max(values), -F.array_min(values))


def _reason_of_columns(frame: SparkFrame, attributes: list[str], bounds: Bounds) -> Column:
    reason = F.when(F.lit(False), F.lit(None).cast("string"))
    if "existence" in frame.columns:
        reason = reason.when(~is_existence(F.col("existence")), NO_EXISTENCE)
    for name in attributes:
        numeric = isinstance(frame.type(name), NumericType)
        reason = reason.when(_is_missing(column_of(name), numeric), no_value(name))
    for name, most, text in bounds:
        reason = reason.when(F.abs(column_of(name).cast("double")) > most, text)
    return reason


def reason_of_rule(
    frame: SparkFrame, exclusive: str, reason: Column, members: WindowSpec, order: list[Column]
) -> Column:
    """Why a row is left out of its rule: with it, by some order, the probabilities sum to more
    than 1; else NULL.

    reason : why rows are invalid, which do not count    members : the rows of a rule
    """
    if frame.uncertain:
        exists = existence()
    else:
        exists = clipped(F.col("existence")) if "existence" in frame.columns else F.lit(1.0)
    exists = F.when(reason.isNull(), exists)

    def with_one_more(mass: Column, p: Column) -> Column:
        return F.when(mass + p <= 1.0 + SUM_TOLERANCE, mass + p).otherwise(mass)

    earlier = members.orderBy(*order).rowsBetween(Window.unboundedPreceding, -1)
    before = F.collect_list(exists).over(earlier)
    total = F.aggregate(before, F.lit(0.0), with_one_more) + exists
    text = F.concat(F.lit(RULE_ABOVE_ONE), total.cast("string"))
    bound = column_of(frame.one("exclusive", exclusive)).isNotNull()
    return F.when(bound & (total > 1.0 + SUM_TOLERANCE), text)


def is_existence(given: Column) -> Column:
    """Whether a number is a probability that a row exists, but for rounding; 0: it is absent."""
    return F.coalesce((given >= 0) & (given <= 1.0 + ROUNDED), F.lit(False))


def clipped(existence: Column) -> Column:
    """The probability that a row exists, at most 1."""
    given = existence.cast("double")
    return F.when(given > 1.0, 1.0).otherwise(given)


def _is_beyond(attribute: str, most: float) -> Callable[[Column], Column]:
    return lambda alternative: F.abs(alternative[attribute].cast("double")) > most


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


def split_by(df: DataFrame, mark: str) -> tuple[DataFrame, DataFrame]:
    """Return the rows where a column of truths is not true, and those where it is."""
    marked = F.coalesce(F.col(mark), F.lit(False))
    return df.where(~marked), df.where(marked)
