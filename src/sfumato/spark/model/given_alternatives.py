"""Alternatives as a Spark column, of arrays of values and of probabilities, or of structs."""

import re
from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from sfumato.operators.laws.poisson_binomial import ROUNDED
from sfumato.spark.model.alternatives import (
    ALTERNATIVES,
    PROB,
    attribute_names,
    column_of,
    compensated,
)
from sfumato.tables.reading.wanted_values import WANTED_PROB, wanted_values


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

    Raises ValueError when `attributes` names nothing. Of columns that are something else Spark's
    error, when a frame takes the column, says what they must be and what to write.

    >>> models = spark.createDataFrame(
    ...     [([20.0, 25.0], [0.7, 0.2])], "values array<double>, scores array<double>"
    ... )
    >>> models.select(sf.alternatives("values", "scores", "celsius")).first()[0]
    [Row(prob=0.7, celsius=20.0), Row(prob=0.2, celsius=25.0)]
    """
    names = None if attributes is None else attribute_names(attributes)
    field = None if prob is None else _field_of(values, prob)
    wanted = wanted_values(
        PROB if prob is None else field,
        None if names is None or isinstance(attributes, str) else names,
        points,
    )
    value = _element(values, wanted)
    if prob is None or (field is not None and names is None):
        given = F.transform(column_of(values), lambda a: _as_it_is(a, field or PROB, names))
        return _of_types(_summing_to_one(given, normalize), value[field or PROB])
    names, parts = names or ["value"], [lambda v: v]
    if points or isinstance(attributes, list | tuple) or field is not None:
        parts = [_part(i if points else name) for i, name in enumerate(names)]

    def alternative(value: Column, weight: Column) -> Column:
        cells = [
            part(value).cast("double").alias(name) for name, part in zip(names, parts, strict=True)
        ]
        return F.struct(weight.cast("double").alias(PROB), *cells)

    given = F.zip_with(column_of(values), column_of(prob), alternative)
    taken = [part(value).cast("double") for part in parts]
    weight = _element(prob, WANTED_PROB).cast("double")
    return _of_types(_summing_to_one(given, normalize), *taken, weight)


def _element(column: str | Column, wanted: str) -> Column:
    """An element of an array column, for `_of_types`; what the column must be is part of it."""
    return F.get(column_of(column), F.length(F.lit(wanted)))


def _of_types(made: Column, *elements: Column) -> Column:
    """`made`, beside what is never computed: a frame with other columns is refused by Spark while
    it reads that, in words that quote what is wanted, and not while it reads `made`."""
    unknown = [element.isNull() for element in elements]
    never = reduce(lambda a, b: a & b, unknown, F.lit(False))
    return F.when(never, None).otherwise(made).alias(ALTERNATIVES)


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

    def step(acc: Column, a: Column) -> Column:
        return compensated(acc, a["prob"].cast("double"))

    return F.aggregate(alternatives_, start, step, lambda acc: acc["total"] + acc["lost"])


def _part(place: int | str) -> Callable[[Column], Column]:
    """A coordinate by its number, or a field by its name."""
    return lambda value: value[place] if isinstance(place, str) else F.get(value, F.lit(place))
