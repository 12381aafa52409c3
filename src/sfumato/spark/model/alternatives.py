"""The uncertain tuple as Spark columns: samples of a reading, and numbers off alternatives.

Everything here is a Spark SQL expression: it runs in the JVM, on streaming and static frames
alike, without Python workers. A tuple's alternatives are an
``array<struct<prob: double, ATTR: double, ...>>``: mutually exclusive values, each with its
probability; what their probabilities lack to 1 is the probability that the tuple does not exist.
"""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sfumato.error_points import standard_points
from sfumato.limits import SETTING, alternatives_bound, check_alternatives
from sfumato.operators.laws.poisson_binomial import CERTAIN, EXCESS

ALTERNATIVES = "alternatives"
PROB = "prob"


def samples(
    mean: str | Column | Sequence[str | Column],
    sd: float | str | Column | Sequence[float | str | Column],
    n: int,
    distribution: str = "normal",
    attributes: str | Sequence[str] = "value",
) -> Column:
    """`n` equally likely alternatives of a reading whose error is known.

    mean : the reading, a column; for several attributes a list of columns
    sd : standard deviation of the error, a number or a column, in the reading's unit; for
        several attributes one for each, or one for all
    n : number of alternatives, at least 1; each gets probability 1/n. Several attributes need more
        alternatives than attributes, else a warning says that their errors are correlated
    distribution : of the error, with mean zero: "normal", "uniform" or "exponential"
    attributes : the name of the attribute, or one name for each

    The points are fixed, not drawn. Every attribute has exactly its mean and sd (one sample: the
    mean alone): the quantiles at (i + ½)/n, scaled. Errors of several attributes are independent:
    uncorrelated (some errors that are not normal: correlated by at most 0.05). Of normal and
    uniform errors the mirror image of a point, the sign of one error changed, is a point too, where
    n is at least 4 (two attributes), 8 (three) or 2^(d + 2) (d attributes); for smaller n of at
    least 2d the image with all signs changed is. Few uniform or exponential samples of several
    attributes may lie beyond the bounds of the error.
    NULL where a reading or its sd is NULL, or the sd negative ("unknown"), so that operators count
    the row as invalid and `rejected` shows it. The column is called `alternatives`, unless an alias
    says otherwise.

    Raises ValueError for n < 1, for n above the bound on alternatives per row (the session's
    `sfumato.maxAlternatives`), for an unknown distribution, or for lists of different lengths.

    >>> readings.limit(1).select(sf.samples("celsius", 0.5, 2, attributes="celsius")).first()[0]
    [Row(prob=0.5, celsius=19.5), Row(prob=0.5, celsius=20.5)]
    """
    names = attribute_names(attributes)
    means: list[Any] = list(mean) if isinstance(mean, list | tuple) else [mean]
    sds: list[Any] = list(sd) if isinstance(sd, list | tuple) else [sd] * len(means)
    if not len(names) == len(means) == len(sds):
        raise ValueError(
            "`mean`, `sd` and `attributes` must be of one length; "
            f"got {len(means)}, {len(sds)} and {len(names)}"
        )
    if isinstance(n, int):
        check_alternatives("n", n, _bound_of_session())
    scores = standard_points(n, len(names), distribution)
    centres = [column_of(m).cast("double") for m in means]
    widths = [(F.lit(float(s)) if isinstance(s, int | float) else column_of(s)) for s in sds]
    missing = F.lit(False)
    for column in [*centres, *widths]:
        missing = missing | column.isNull()
    for column in widths:
        missing = missing | (column < 0.0)
    points = F.array(*(F.array(*(F.lit(float(z)) for z in row)) for row in scores))

    def alternative(point: Column) -> Column:
        cells = [(centres[d] + widths[d] * point[d]).alias(name) for d, name in enumerate(names)]
        return F.struct(F.lit(1.0 / n).alias("prob"), *cells)

    return F.when(~missing, F.transform(points, alternative)).alias(ALTERNATIVES)


def _bound_of_session() -> int:
    """Return the bound on alternatives per row in the active session."""
    session = SparkSession.getActiveSession()
    return alternatives_bound(SETTING, None if session is None else session.conf.get(SETTING, ""))


def existence(column: str | Column = ALTERNATIVES) -> Column:
    """Probability that the tuple exists: Σ prob over its alternatives, at most 1.

    The rule of all operators: summed with compensation; sums up to 1 + 1e-9 are rounding and
    clipped to 1; a sum of several that misses 1 by no more than the roundings of its terms (2⁻⁵²
    each) is 1, so that ten tenths are certain. NULL where the alternatives are NULL, and where
    their probabilities are invalid: not numbers in [0, 1], or with a greater sum.
    Inside an aggregate of Spark, as `F.min(sf.existence())`, give the aggregate an alias: Spark
    names it after the whole expression.
    Source: A, section 3; Neumaier (1974) for the compensation.

    >>> [round(row[0], 6) for row in uncertain.select(sf.existence()).collect()]
    [1.0, 1.0, 1.0, 1.0]
    """
    alternatives_ = column_of(column)
    start = F.struct(F.lit(0.0).alias("total"), F.lit(0.0).alias("lost"))
    terms = F.size(alternatives_)

    def rule(acc: Column) -> Column:
        total = F.nanvl(acc["total"] + acc["lost"], F.lit(None).cast("double"))
        total = F.when(total <= 1.0 + EXCESS, total)
        certain = (total > 1.0) | ((terms > 1) & (total >= F.lit(1.0) - terms * F.lit(2.0**-52)))
        return F.when(certain, 1.0).otherwise(total)

    def step(acc: Column, a: Column) -> Column:
        term = a["prob"].cast("double")
        return compensated(acc, F.when((term >= 0.0) & (term <= 1.0), term))

    return F.aggregate(alternatives_, start, step, rule).alias("existence")


def total_probability(alternatives: str) -> str:
    """Return SQL for the probability of some of a result's outcomes.

    The rule of certainty of all operators: a sum that misses 1 by at most 1e-12 is 1.
    """
    certain = f"if(`:s` >= {1.0 - CERTAIN!r}D, 1D, `:s`)"
    return f"aggregate({alternatives}, 0D, (`:s`, `:v`) -> `:s` + `:v`.prob, `:s` -> {certain})"


def expected(
    attribute: str, column: str | Column = ALTERNATIVES, *, conditional: bool = False
) -> Column:
    """Expected value of an attribute: Σ prob · attribute, an absent tuple counting as 0.

    conditional : divide by the existence, which gives the mean given that the tuple exists

    >>> [round(row[0], 6) for row in uncertain.select(sf.expected("celsius")).collect()]
    [20.0, 21.0, 23.0, 22.0]
    """
    _check_attribute(attribute)
    total = F.aggregate(
        column_of(column), F.lit(0.0), lambda acc, a: acc + a["prob"] * _number(a, attribute)
    )
    mean = F.try_divide(total, existence(column)) if conditional else total
    return mean.alias(f"expected_{attribute}")


def stddev(
    attribute: str, column: str | Column = ALTERNATIVES, *, conditional: bool = False
) -> Column:
    """Standard deviation of an attribute, an absent tuple counting as 0.

    conditional : of the attribute given that the tuple exists
    Computed from deviations, not from a difference of large squares.

    >>> [round(row[0], 2) for row in uncertain.select(sf.stddev("celsius")).collect()]
    [0.5, 0.5, 0.5, 0.5]
    """
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


def quantile(attribute: str, q: float, column: str | Column = ALTERNATIVES) -> Column:
    """The q-quantile of an attribute given that the tuple exists.

    The smallest of the alternatives' values v with Pr(attribute ≤ v | exists) ≥ q.
    q : in [0, 1]; 0 gives the smallest value, 1 the largest

    Raises ValueError for q out of range.

    >>> [round(row[0], 2) for row in uncertain.select(sf.quantile("celsius", 0.5)).collect()]
    [19.81, 20.81, 22.81, 21.81]
    """
    _check_attribute(attribute)
    if not isinstance(q, int | float) or not 0 <= q <= 1:
        raise ValueError(f"`q` must lie in [0, 1]; got {q!r}")
    alternatives_ = column_of(column)
    ordered = F.array_sort(
        F.transform(
            alternatives_,
            lambda a: F.struct(_number(a, attribute).alias("v"), a["prob"].alias("p")),
        )
    )
    # Sums of a few dozen doubles differ by some ulps with their order; 1e-12 absorbs that.
    level = F.lit(float(q)) * existence(column) - F.lit(1e-12)
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
    """An attribute of an alternative; a query of texts, which Spark would cast, says so."""
    value = alternative[attribute]
    refused = F.raise_error(
        f"the attribute `{attribute}` must be of numbers; it is string: its expected value, "
        "deviation and quantiles are not defined"
    )
    return F.when(F.typeof(value).startswith("string"), refused).otherwise(value)


def compensated(acc: Column, term: Column) -> Column:
    """One more probability in a sum with compensation (Neumaier), a step of `F.aggregate`."""
    total = acc["total"]
    larger = total + term
    lost = F.when(total >= term, (total - larger) + term).otherwise((term - larger) + total)
    return F.struct(larger.alias("total"), (acc["lost"] + lost).alias("lost"))


def _check_attribute(attribute: Any) -> None:
    if not isinstance(attribute, str):
        raise TypeError(
            f"`attribute` must be the name of an attribute of the alternatives, as text, like "
            f"'speed'; got {attribute!r:.80}"
        )


def column_of(column: str | Column) -> Column:
    """A column by its name, or as it is. Raises TypeError for anything else."""
    if isinstance(column, str):
        return F.col(column)
    if hasattr(column, "isNull"):  # a Column, of Connect too
        return column
    raise TypeError(
        f"a column is needed, by its name or as F.col(...); got {column!r:.80}: make it a column "
        "of the frame, as with withColumn or F.lit"
    )


def attribute_names(attributes: Any) -> list[str]:
    """Raise TypeError or ValueError for what cannot name attributes."""
    names = [attributes] if isinstance(attributes, str) else attributes
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"`attributes` must be a name, as text, or a list of names; got {attributes!r:.80}"
        )
    if not names:
        raise ValueError("`attributes` must name at least one attribute; got none")
    if "prob" in names or len({name.lower() for name in names}) < len(names):
        raise ValueError(
            "`attributes` must be different names, and none is `prob`, which every alternative "
            f"has; got {list(names)}"
        )
    return list(names)
