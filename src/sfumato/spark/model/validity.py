"""Valid rows of Spark frames, and the reasons why others are invalid, as columns.

Spark compiles functions of whole arrays, but interprets lambdas per element. So lambdas only
determine the reason for rows that the compiled functions do not confirm as valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import NumericType
from pyspark.sql.window import Window, WindowSpec

from sfumato.limits import too_many
from sfumato.operators.arguments import ROUNDED
from sfumato.spark.model.alternatives import ALTERNATIVES, existence
from sfumato.spark.model.columns import column as column_of
from sfumato.tables.joins.metric import bounds_of
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
    require_order,
)

SparkFrame = Any  # the class in `frame`, which imports this file
Names = str | Sequence[str] | None

SUM_TOLERANCE = 1e-9  # sums of probabilities may exceed 1 by this rounding error; clipped to 1
FEW = 8  # sums of at most this many alternatives are written out


def invalid_reason(
    frame: SparkFrame, attributes: str | Sequence[str] | None = None, bounds: Bounds = ()
) -> Column:
    """Return the reason why a row's alternatives (or existence and values) are invalid, or NULL."""
    wanted = names("attributes", attributes)
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
    column, bound = F.col(ALTERNATIVES), frame.max_alternatives
    total = F.aggregate(column, F.lit(0.0), lambda acc, a: acc + a["prob"])
    many = F.concat(F.size(column).cast("string"), F.lit(too_many(bound)))
    valid = _are_valid(frame, attributes)
    for name, most, _ in bounds:
        valid &= largest(frame.values_of(name)) <= most
    wrong: list[tuple[Callable[[Column], Column], str]] = [
        (lambda a: a.isNull(), NULL_ALTERNATIVE),
        # NaN counts as greater than every number in Spark, so that `<= 1` excludes it.
        (lambda a: ~F.coalesce((a["prob"] > 0) & (a["prob"] <= 1), F.lit(False)), NO_PROBABILITY),
    ]
    for name in attributes:
        numeric = isinstance(frame.attribute_type(name), NumericType)
        wrong.append((partial(_lacks, name, numeric), no_attribute(name)))
    for name, most, text in bounds:
        wrong.append((partial(_is_beyond, name, most), f"an alternative's {text}"))
    reason = F.when(F.size(column) > bound, many).when(valid, F.lit(None).cast("string"))
    reason = reason.when(column.isNull() | (F.size(column) == 0), NO_ALTERNATIVES)
    for is_wrong, text in wrong:
        reason = reason.when(F.exists(column, is_wrong), text)
    above = F.concat(F.lit(ABOVE_ONE), total.cast("string"))
    return reason.when(total > 1.0 + SUM_TOLERANCE, above)


def _are_valid(frame: SparkFrame, attributes: list[str]) -> Column:
    """Return whether compiled functions confirm the alternatives as valid."""
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
            valid &= ~F.exists(ALTERNATIVES, partial(_lacks, name, False))
    return valid


def some_missing(values: Column) -> Column:
    """Return whether an array of doubles is NULL, or contains NULL or infinity."""
    # If an array contains NULL but not the searched element, the answer is NULL.
    return F.coalesce(F.array_contains(values, float("inf")), F.lit(True))


def largest(values: Column) -> Column:
    """Return the largest magnitude in an array of doubles, skipping NULL; NaN is largest."""
    return F.greatest(F.array_max(values), -F.array_min(values))


def _lacks(name: str, numeric: bool, of: Any) -> Column:
    value: Column = of[name]
    infinite = F.abs(value.cast("double")) >= F.lit(float("inf"))  # NaN is greater still
    return value.isNull() | infinite if numeric else value.isNull()


def _is_beyond(name: str, most: float, of: Any) -> Column:
    return F.abs(of[name].cast("double")) > most


def _reason_of_columns(frame: SparkFrame, attributes: list[str], bounds: Bounds) -> Column:
    reason = F.when(F.lit(False), F.lit(None).cast("string"))
    if "existence" in frame.columns:
        given = F.col("existence")
        exists = F.coalesce((given >= 0) & (given <= 1.0 + ROUNDED), F.lit(False))  # 0: absent
        reason = reason.when(~exists, NO_EXISTENCE)
    row = {name: column_of(name) for name in frame.columns}
    for name in attributes:
        numeric = isinstance(frame.type(name), NumericType)
        reason = reason.when(_lacks(name, numeric, row), no_value(name))
    for name, most, text in bounds:
        reason = reason.when(_is_beyond(name, most, row), text)
    return reason


def clipped(existence: Column) -> Column:
    """Return the probability that a row exists, clipped to 1."""
    given = existence.cast("double")
    return F.when(given > 1.0, 1.0).otherwise(given)


def split_by(df: DataFrame, mark: str) -> tuple[DataFrame, DataFrame]:
    """Return the rows where a boolean column is not true, and the rows where it is true."""
    marked = F.coalesce(F.col(mark), F.lit(False))
    return df.where(~marked), df.where(marked)


def split_rows(
    frame: SparkFrame,
    attributes: Names,
    key: Names,
    order: Names,
    metric: str,
    exclusive: str | None,
    strict: bool,
) -> tuple[DataFrame, DataFrame]:
    """Implement `split_invalid` for a Spark frame."""
    df, reasons = frame.df, [invalid_reason(frame, attributes, bounds_of(metric, attributes))]
    named = {"key": frame.resolved("key", key), "order": frame.resolved("order", order)}
    for argument, names_ in named.items():
        text = F.lit(f"{argument} is NULL")
        reasons += [F.when(column_of(name).isNull(), text) for name in names_]
    if exclusive is not None:
        if df.isStreaming:
            raise ValueError(
                "`exclusive` needs a static frame, as it looks at all rows of a rule; of a stream "
                "the metric sfumato_top_k_N counts the rows that are left out (`rejected`)"
            )
        require_order(order)
        rule = frame.one("exclusive", exclusive)
        members = Window.partitionBy(*map(column_of, [rule, *named["key"]]))
        earlier = members.orderBy(*map(column_of, named["order"]))
        earlier = earlier.rowsBetween(Window.unboundedPreceding, -1)
        above = _above_one(frame, F.coalesce(*reasons), earlier)
        reasons.append(F.when(column_of(rule).isNotNull(), above))
    reason = F.coalesce(*reasons)
    with_reason = df.withColumn("reason", reason)
    invalid = with_reason.where("reason IS NOT NULL")
    if strict:
        message = F.concat(F.lit("invalid row: "), reason)
        return df.where(F.when(reason.isNull(), True).otherwise(F.raise_error(message))), invalid
    if exclusive is None:
        return df.where(reason.isNull()), invalid
    # Spark accepts window functions only as columns.
    return with_reason.where("reason IS NULL").drop("reason"), invalid


def _above_one(frame: SparkFrame, reason: Column, earlier: WindowSpec) -> Column:
    """Return the reason of a row that raises the total probability of its rule above 1."""
    if frame.uncertain:
        exists = existence()
    else:
        exists = clipped(F.col("existence")) if "existence" in frame.columns else F.lit(1.0)
    exists = F.when(reason.isNull(), exists)

    def with_one_more(mass: Column, p: Column) -> Column:
        return F.when(mass + p <= 1.0 + SUM_TOLERANCE, mass + p).otherwise(mass)

    before = F.collect_list(exists).over(earlier)
    total = F.aggregate(before, F.lit(0.0), with_one_more) + exists
    text = F.concat(F.lit(RULE_ABOVE_ONE), total.cast("string"))
    return F.when(total > 1.0 + SUM_TOLERANCE, text)
