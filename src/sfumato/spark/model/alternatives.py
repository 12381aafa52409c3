"""The uncertain tuple as a Spark column: its construction, and measures of its alternatives.

All functions return Spark SQL expressions, which run in the JVM, on streaming and static frames.
Alternatives are an ``array<struct<prob: double, ATTR: double, ...>>``: mutually exclusive values
with probabilities. The remainder to 1 is the probability that the tuple does not exist.
"""

import math
import re
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sfumato.limits import MAX_ALTERNATIVES_SETTING, alternatives_bound
from sfumato.operators.arguments import RESCALED_SUM_TOLERANCE
from sfumato.operators.distributions.poisson_binomial import CERTAIN
from sfumato.tables.reading.tuples import ALTERNATIVES, WANTED_PROB, wanted_values

PROB = "prob"


def can_make_columns() -> bool:
    """Return whether Columns can be created; without Spark Connect, they need a session."""
    try:
        F.lit(None)
    except AssertionError:
        return False
    return True


def alternatives(
    values: str | Column,
    prob: str | Column | None,
    attributes: str | Sequence[str] | None,
    points: bool,
    normalize: bool,
) -> Column:
    names = [attributes] if isinstance(attributes, str) else attributes and list(attributes)
    field = None if prob is None else _field_of(values, prob)
    wanted = wanted_values(
        PROB if prob is None else field,
        None if names is None or isinstance(attributes, str) else names,
        points,
    )
    value = _element(values, wanted)
    if prob is None or (field is not None and names is None):
        given = F.transform(
            column_of(values), lambda a: _struct_as_alternative(a, field or PROB, names)
        )
        return _require_types(_scale_probabilities(given, normalize), value[field or PROB])
    names, parts = names or ["value"], [lambda v: v]
    if points or isinstance(attributes, list | tuple) or field is not None:
        parts = [_component(i if points else name) for i, name in enumerate(names)]

    def alternative(value: Column, weight: Column) -> Column:
        cells = [
            part(value).cast("double").alias(name) for name, part in zip(names, parts, strict=True)
        ]
        return F.struct(weight.cast("double").alias(PROB), *cells)

    given = F.zip_with(column_of(values), column_of(prob), alternative)
    taken = [part(value).cast("double") for part in parts]
    weight = _element(prob, WANTED_PROB).cast("double")
    return _require_types(_scale_probabilities(given, normalize), *taken, weight)


def _element(column: str | Column, wanted: str) -> Column:
    """Return an element for `_require_types`; Spark's errors about it show the `wanted` type."""
    return F.get(column_of(column), F.length(F.lit(wanted)))


def _require_types(made: Column, *elements: Column) -> Column:
    """Return `made` in an expression that Spark refuses if an element has the wrong type."""
    unknown = [element.isNull() for element in elements]
    never = reduce(lambda a, b: a & b, unknown, F.lit(False))
    return F.when(never, None).otherwise(made).alias(ALTERNATIVES)


def _field_of(values: str | Column, prob: str | Column) -> str | None:
    """Return the field that `prob` names in `values` ("score" in "scores.score"), or None."""
    whole, part = (re.sub(r"^Column<'(.*)'>$", r"\1", str(given)) for given in (values, prob))
    found = re.fullmatch(re.escape(whole) + r"(?:\.(\w+)|\.`([^`]+)`|\['?(\w+)'?\])", part)
    return None if found is None else next(filter(None, found.groups()))


def _struct_as_alternative(struct: Column, field: str, names: Sequence[str] | None) -> Column:
    """Return a struct as an alternative: `field` is the probability, `names` are the attributes."""
    weight = struct[field].cast("double")
    if names is not None:
        return F.struct(weight.alias(PROB), *(struct[name].alias(name) for name in names))
    whole = struct.withField(PROB, weight)
    return whole if field == PROB else whole.dropFields(f"`{field}`")


def _scale_probabilities(given: Column, normalize: bool) -> Column:
    """Return the alternatives without probability 0, scaled to sum to 1 if required."""

    def scaled(some: Column, total: Column) -> Column:
        if normalize:
            # Do not scale numbers that are not valid probabilities.
            wrong = F.exists(some, lambda a: ~F.coalesce(a["prob"] > 0.0, F.lit(False)))
            scales = (total > 0.0) & (total < float("inf")) & ~wrong
        else:
            scales = (total > 1.0) & (total <= 1.0 + RESCALED_SUM_TOLERANCE)
        by = F.when(scales, total).otherwise(1.0)
        return F.transform(some, lambda a: a.withField("prob", a["prob"] / by))

    def total_of(some: Column) -> Column:
        return sum_over(some, lambda a: a["prob"].cast("double"), lambda of: of)

    some = F.filter(given, lambda a: a["prob"].isNull() | (a["prob"] != 0.0))
    return bind(some, lambda of: bind(total_of(of), lambda total: scaled(of, total)))


def bind(value: Column, of: Callable[[Column], Column]) -> Column:
    """Return `of(value)`, with the value computed only once even if `of` uses it repeatedly."""
    return F.transform(F.array(value), of)[0]


def sum_over(
    alternatives_: Column, term: Callable[[Column], Column], rule: Callable[[Column], Column]
) -> Column:
    """Return `rule` of the compensated sum (Neumaier) of `term` over the alternatives."""
    start = F.struct(F.lit(0.0).alias("total"), F.lit(0.0).alias("lost"))

    def step(acc: Column, a: Column) -> Column:
        total, added = acc["total"], term(a)
        larger = total + added
        lost = F.when(total >= added, (total - larger) + added).otherwise((added - larger) + total)
        return F.struct(larger.alias("total"), (acc["lost"] + lost).alias("lost"))

    return F.aggregate(alternatives_, start, step, lambda acc: rule(acc["total"] + acc["lost"]))


def _component(place: int | str) -> Callable[[Column], Column]:
    return lambda value: value[place] if isinstance(place, str) else F.get(value, F.lit(place))


def max_alternatives() -> int:
    session = SparkSession.getActiveSession()
    return alternatives_bound(
        MAX_ALTERNATIVES_SETTING,
        None if session is None else session.conf.get(MAX_ALTERNATIVES_SETTING, ""),
    )


def samples(
    means: Sequence[Any],
    sds: Sequence[Any],
    points: np.ndarray,
    names: Sequence[str],
    period: float | None = None,
    called: tuple[str, str] = ("mean", "sd"),
) -> Column:
    """Implement `samples` as a Spark column; see `memory.alternatives.samples`."""
    centres = [column_of(of, f"`{called[0]}` must be a column,").cast("double") for of in means]
    widths = [_number_or_column(called[1], of) for of in sds]
    missing = F.lit(False)
    for column in [*centres, *widths]:
        missing = missing | column.isNull()
    for column in widths:
        missing = missing | (column < 0.0)
    errors_of = list(zip(centres, widths, strict=True))
    errors = F.array(*(F.array(*(F.lit(float(z)) for z in row)) for row in points))

    def alternative(point: Column) -> Column:
        cells = [centre + width * point[d] for d, (centre, width) in enumerate(errors_of)]
        if period is not None:
            turn = cells[0] * F.lit(2.0 * math.pi / period)
            cells = [F.cos(turn), F.sin(turn)]
        cells = [cell.alias(name) for cell, name in zip(cells, names, strict=True)]
        return F.struct(F.lit(1.0 / len(points)).alias("prob"), *cells)

    return F.when(~missing, F.transform(errors, alternative)).alias(ALTERNATIVES)


def middle_and_half_width(low: Any, high: Any) -> tuple[Column, Column]:
    ends = (_number_or_column(name, end) for name, end in (("low", low), ("high", high)))
    start, end = (x.cast("double") * 0.5 for x in ends)
    return start + end, end - start


def _number_or_column(argument: str, given: Any) -> Column:
    if isinstance(given, int | float):
        return F.lit(float(given))
    return column_of(given, f"`{argument}` must be a number or a column,")


def existence(column: str | Column = ALTERNATIVES) -> Column:
    alternatives_ = column_of(column)
    terms, most = F.size(alternatives_), 1.0 + RESCALED_SUM_TOLERANCE

    def term(a: Column) -> Column:
        prob = a["prob"].cast("double")
        return F.when((prob >= 0.0) & (prob <= most), prob)

    def rule(total: Column) -> Column:
        total = F.nanvl(total, F.lit(None).cast("double"))
        total = F.when(total <= most, total)
        certain = (total > 1.0) | ((terms > 1) & (total >= F.lit(1.0) - terms * F.lit(2.0**-52)))
        return F.when(certain, 1.0).otherwise(total)

    return sum_over(alternatives_, term, rule).alias("existence")


def total_probability(alternatives: str) -> str:
    """Return SQL for the total probability of an array of outcomes."""
    certain = f"if(`:s` >= {1.0 - CERTAIN!r}D, 1D, `:s`)"
    return f"aggregate({alternatives}, 0D, (`:s`, `:v`) -> `:s` + `:v`.prob, `:s` -> {certain})"


def expected(attribute: str, column: str | Column, *, conditional: bool = False) -> Column:
    total = F.aggregate(
        column_of(column), F.lit(0.0), lambda acc, a: acc + a["prob"] * _number(a, attribute)
    )
    mean = F.try_divide(total, existence(column)) if conditional else total
    return mean.alias(f"expected_{attribute}")


def stddev(attribute: str, column: str | Column, *, conditional: bool = False) -> Column:
    mean = expected(attribute, column, conditional=conditional)
    alternatives_ = column_of(column)
    spread = F.aggregate(
        alternatives_,
        F.lit(0.0),
        lambda acc, a: (
            acc + a["prob"] * (_number(a, attribute) - mean) * (_number(a, attribute) - mean)
        ),
    )
    if conditional:
        variance = F.try_divide(spread, existence(column))
    else:
        variance = spread + (F.lit(1.0) - existence(column)) * mean * mean
    return F.sqrt(variance).alias(f"stddev_{attribute}")


def quantile(attribute: str, q: float, column: str | Column) -> Column:
    alternatives_ = column_of(column)
    ordered = F.array_sort(
        F.transform(
            alternatives_,
            lambda a: F.struct(_number(a, attribute).alias("v"), a["prob"].alias("p")),
        )
    )
    # The sum of a few dozen doubles varies by some ulps with their order; 1e-12 covers this.
    level = F.lit(float(q) * (1.0 - 1e-12)) * existence(column)
    start = F.struct(F.lit(0.0).alias("mass"), F.lit(None).cast("double").alias("v"))

    def step(acc: Column, a: Column) -> Column:
        found = (acc["mass"] >= level) & acc["v"].isNotNull()
        return F.struct(
            (acc["mass"] + a["p"]).alias("mass"),
            F.when(found, acc["v"]).otherwise(a["v"].cast("double")).alias("v"),
        )

    found = F.aggregate(ordered, start, step, lambda acc: acc["v"])
    found = F.when(level.isNotNull(), found)
    return found.alias(f"quantile_{attribute}")


def _number(alternative: Column, attribute: str) -> Column:
    """Return an attribute of an alternative; a string, which Spark would cast, raises an error."""
    value = alternative[attribute]
    refused = F.raise_error(
        f"the attribute `{attribute}` must be numeric; it is a string, for which an expected "
        "value, deviation and quantiles are not defined"
    )
    return F.when(F.typeof(value).startswith("string"), refused).otherwise(value)


def column_of(column: str | Column, wanted: str = "a column must be") -> Column:
    """Return a column given as a Column or by name. Raises TypeError for other types.

    wanted : the first words of the error
    """
    if isinstance(column, str):
        return F.col(column)
    if hasattr(column, "isNull"):  # a Column, classic or Connect
        return column
    raise TypeError(
        f"{wanted} given by name or as F.col(...); got {column!r:.80}. Add it to the "
        "frame as a column, for example with withColumn, or write F.lit(...)"
    )
