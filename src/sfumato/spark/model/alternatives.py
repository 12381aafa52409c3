"""The uncertain tuple as Spark columns: make alternatives, and read numbers off them.

Everything here is a Spark SQL expression: it runs in the JVM, on streaming and static frames
alike, without Python workers. A tuple's alternatives are an
``array<struct<prob: double, ATTR: double, ...>>``: mutually exclusive values, each with its
probability; what their probabilities lack to 1 is the probability that the tuple does not exist.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from sfumato.error_points import standard_points

ALTERNATIVES = "alternatives"
PROB = "prob"
ROUNDED = 1e-6  # a sum of single-precision probabilities may pass 1 by so much


def alternatives(
    values: str | Column,
    prob: str | Column | None = None,
    attributes: str | Sequence[str] | None = None,
    *,
    points: bool = False,
    normalize: bool = False,
) -> Column:
    """Alternatives from an array of values and an array of their probabilities, or of structs.

    values : an array column of numbers (`attributes`: the name they get, by default `value`); or of
        structs (`attributes`: the fields to take, by name); or, with ``points=True``, of arrays of
        coordinates (`attributes`: one name a coordinate)
    prob : an array column of as many probabilities. None: `values` are structs with a field `prob`.
        A field of `values` by its name, "scores.confidence" of "scores": they are structs with that
        field. Either way their other fields are the attributes, as they are, unless `attributes`
        names some of them
    normalize : scale the probabilities so that they sum to 1, whatever they sum to (scores,
        counts; a tuple that exists for sure). Else only a sum above 1, and by no more than 1e-6,
        is: what a model's single precision makes of 1

    Values of probability 0 (an underflow of a softmax) are left out: they are no alternatives. Of a
    map from values to probabilities take F.map_keys and F.map_values.
    Returns an ``array<struct<prob: double, ATTR: double, ...>>``, NULL where an array is NULL; the
    column is called `alternatives`, unless an alias says otherwise.
    Where the lengths differ the missing parts are NULL, and `rejected` will show the row; so it
    does where a sum is beyond 1 + 1e-6, or a probability negative. Operators leave such rows out;
    of a stream a warning says so, of a static frame nothing but `rejected`, or `checked` with
    ``strict=True``, which raises.

    Raises ValueError when `attributes` names nothing.

    >>> models = spark.createDataFrame(
    ...     [([20.0, 25.0], [0.7, 0.2])], "values array<double>, scores array<double>"
    ... )
    >>> models.select(sf.alternatives("values", "scores", "celsius")).first()[0]
    [Row(prob=0.7, celsius=20.0), Row(prob=0.2, celsius=25.0)]
    """
    names = None if attributes is None else _attribute_names(attributes)
    field = None if prob is None else _field_of(values, prob)
    if prob is None or (field is not None and names is None):
        given = F.transform(_column(values), lambda a: _as_it_is(a, field or PROB, names))
        return _summing_to_one(given, normalize).alias(ALTERNATIVES)
    names, parts = names or ["value"], [lambda v: v]
    if isinstance(attributes, list | tuple) or field is not None:
        parts = [_part(i if points else name) for i, name in enumerate(names)]

    def alternative(value: Column, weight: Column) -> Column:
        cells = [
            part(value).cast("double").alias(name) for name, part in zip(names, parts, strict=True)
        ]
        return F.struct(weight.cast("double").alias(PROB), *cells)

    given = F.zip_with(_column(values), _column(prob), alternative)
    return _summing_to_one(given, normalize).alias(ALTERNATIVES)


def _field_of(values: str | Column, prob: str | Column) -> str | None:
    """The field of `values` that `prob` names, "score" of "scores.score"; None where it is none."""
    whole, part = (re.sub(r"^Column<'(.*)'>$", r"\1", str(given)) for given in (values, prob))
    found = re.fullmatch(re.escape(whole) + r"(?:\.(\w+)|\.`([^`]+)`|\['?(\w+)'?\])", part)
    return None if found is None else next(filter(None, found.groups()))


def _as_it_is(struct: Column, field: str, names: Sequence[str] | None) -> Column:
    """A struct as an alternative: its `field` is the probability, others (`names`) stay."""
    weight = struct[field].cast("double")
    if names is not None:
        return F.struct(weight.alias(PROB), *(struct[name].alias(name) for name in names))
    whole = struct.withField(PROB, weight)
    return whole if field == PROB else whole.dropFields(f"`{field}`")


def _summing_to_one(given: Column, normalize: bool) -> Column:
    """The alternatives of a probability other than 0; their sum is 1 where it has to be."""

    def scaled(some: Column, total: Column) -> Column:
        if normalize:
            # Of what cannot be probabilities nothing is made.
            wrong = F.exists(some, lambda a: ~F.coalesce(a["prob"] > 0.0, F.lit(False)))
            scales = (total > 0.0) & (total < float("inf")) & ~wrong
        else:
            scales = (total > 1.0) & (total <= 1.0 + ROUNDED)
        by = F.when(scales, total).otherwise(1.0)
        return F.transform(some, lambda a: a.withField("prob", a["prob"] / by))

    some = F.filter(given, lambda a: a["prob"].isNull() | (a["prob"] != 0.0))
    return _once(some, lambda of: _once(_total(of), lambda total: scaled(of, total)))


def _once(value: Column, of: Callable[[Column], Column]) -> Column:
    """What a function makes of a value that is computed once, however often it is mentioned."""
    return F.transform(F.array(value), of)[0]


def _total(alternatives_: Column) -> Column:
    """The sum of the probabilities, with compensation."""
    start = F.struct(F.lit(0.0).alias("total"), F.lit(0.0).alias("lost"))
    return F.aggregate(alternatives_, start, _compensated, lambda acc: acc["total"] + acc["lost"])


def _compensated(acc: Column, a: Column) -> Column:
    term, total = a["prob"].cast("double"), acc["total"]
    larger = total + term
    lost = F.when(total >= term, (total - larger) + term).otherwise((term - larger) + total)
    return F.struct(larger.alias("total"), (acc["lost"] + lost).alias("lost"))


def _part(place: int | str) -> Callable[[Column], Column]:
    """A coordinate by its number, or a field by its name."""
    return lambda value: value[place] if isinstance(place, str) else F.get(value, F.lit(place))


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
    n : number of alternatives, at least 1; each gets probability 1/n
    distribution : of the error, with mean zero: "normal", "uniform" or "exponential"
    attributes : the name of the attribute, or one name for each

    The points are fixed, not drawn: for one attribute the quantiles at (i + ½)/n, for several
    (independent errors) the quantiles of the first n points of Halton's sequence. Few points
    understate the spread: for n = 10 normal quantiles have 0.94 of the standard deviation.
    NULL where a reading or its sd is NULL, so that `rejected` shows it. The column is called
    `alternatives`, unless an alias says otherwise.

    Raises ValueError for n < 1, an unknown distribution, or lists of different lengths.

    >>> readings.limit(1).select(sf.samples("celsius", 0.5, 2, attributes="celsius")).first()[0]
    [Row(prob=0.5, celsius=19.66275512490196), Row(prob=0.5, celsius=20.33724487509804)]
    """
    names = _attribute_names(attributes)
    means: list[Any] = list(mean) if isinstance(mean, list | tuple) else [mean]
    sds: list[Any] = list(sd) if isinstance(sd, list | tuple) else [sd] * len(means)
    if not len(names) == len(means) == len(sds):
        raise ValueError(
            "`mean`, `sd` and `attributes` must be of one length; "
            f"got {len(means)}, {len(sds)} and {len(names)}"
        )
    negative = [s for s in sds if isinstance(s, int | float) and not s >= 0]
    if negative:
        raise ValueError(
            f"`sd` must be at least 0, as a standard deviation is; got {negative[0]!r}"
        )
    scores = standard_points(n, len(names), distribution)
    centres = [_column(m).cast("double") for m in means]
    widths = [(F.lit(float(s)) if isinstance(s, int | float) else _column(s)) for s in sds]
    missing = F.lit(False)
    for column in [*centres, *widths]:
        missing = missing | column.isNull()
    points = F.array(*(F.array(*(F.lit(float(z)) for z in row)) for row in scores))

    def alternative(point: Column) -> Column:
        cells = [(centres[d] + widths[d] * point[d]).alias(name) for d, name in enumerate(names)]
        return F.struct(F.lit(1.0 / n).alias("prob"), *cells)

    return F.when(~missing, F.transform(points, alternative)).alias(ALTERNATIVES)


def existence(column: str | Column = ALTERNATIVES) -> Column:
    """Probability that the tuple exists: Σ prob over its alternatives, at most 1.

    The rule of all operators: summed with compensation; sums up to 1 + 1e-9 are rounding and
    clipped to 1 (greater ones are invalid, see `rejected`); a sum of several that misses 1 by no
    more than the roundings of its terms (2⁻⁵² each) is 1, so that ten tenths are certain. NULL
    where the alternatives are NULL. Source: A, section 3; Neumaier (1974) for the compensation.

    >>> [round(row[0], 6) for row in uncertain.select(sf.existence()).collect()]
    [1.0, 1.0, 1.0, 1.0]
    """
    alternatives_ = _column(column)
    start = F.struct(F.lit(0.0).alias("total"), F.lit(0.0).alias("lost"))
    terms = F.size(alternatives_)

    def rule(acc: Column) -> Column:
        total = acc["total"] + acc["lost"]
        certain = (total > 1.0) | ((terms > 1) & (total >= F.lit(1.0) - terms * F.lit(2.0**-52)))
        return F.when(certain, 1.0).otherwise(total)

    return F.aggregate(alternatives_, start, _compensated, rule).alias("existence")


def expected(
    attribute: str, column: str | Column = ALTERNATIVES, *, conditional: bool = False
) -> Column:
    """Expected value of an attribute: Σ prob · attribute, an absent tuple counting as 0.

    conditional : divide by the existence, which gives the mean given that the tuple exists

    >>> [round(row[0], 6) for row in uncertain.select(sf.expected("celsius")).collect()]
    [20.0, 21.0, 23.0, 22.0]
    """
    _check_attribute(attribute)
    total = F.aggregate(_column(column), F.lit(0.0), lambda acc, a: acc + a["prob"] * a[attribute])
    mean = F.try_divide(total, existence(column)) if conditional else total
    return mean.alias(f"expected_{attribute}")


def stddev(
    attribute: str, column: str | Column = ALTERNATIVES, *, conditional: bool = False
) -> Column:
    """Standard deviation of an attribute, an absent tuple counting as 0.

    conditional : of the attribute given that the tuple exists
    Computed from deviations, not from a difference of large squares.

    >>> [round(row[0], 2) for row in uncertain.select(sf.stddev("celsius")).collect()]
    [0.42, 0.42, 0.42, 0.42]
    """
    mean = expected(attribute, column, conditional=conditional)
    alternatives_ = _column(column)
    spread = F.aggregate(
        alternatives_,
        F.lit(0.0),
        lambda acc, a: acc + a["prob"] * (a[attribute] - mean) * (a[attribute] - mean),
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
    [19.84, 20.84, 22.84, 21.84]
    """
    _check_attribute(attribute)
    if not isinstance(q, int | float) or not 0 <= q <= 1:
        raise ValueError(f"`q` must lie in [0, 1]; got {q!r}")
    alternatives_ = _column(column)
    ordered = F.array_sort(
        F.transform(
            alternatives_, lambda a: F.struct(a[attribute].alias("v"), a["prob"].alias("p"))
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
    return found.alias(f"quantile_{attribute}")


def _check_attribute(attribute: Any) -> None:
    if not isinstance(attribute, str):
        raise TypeError(
            f"`attribute` must be the name of an attribute of the alternatives, as text, like "
            f"'speed'; got {attribute!r:.80}"
        )


def _column(column: str | Column) -> Column:
    if isinstance(column, str):
        return F.col(column)
    if hasattr(column, "isNull"):  # a Column, of Connect too
        return column
    raise TypeError(
        f"a column is needed, by its name or as F.col(...); got {column!r:.80}: make it a column "
        "of the frame, as with withColumn or F.lit"
    )


def _attribute_names(attributes: Any) -> list[str]:
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
