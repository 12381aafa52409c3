"""The uncertain tuple as a column: alternatives of values or samples, and numbers read off them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.api.calls import is_column_of_spark
from sfumato.extras import needed

ALTERNATIVES = "alternatives"


def _engine(*given: Any) -> Any:
    """Return the module for columns of Spark, or for those in memory."""
    if all(map(_is_of_spark, given)):
        try:
            from sfumato.spark.model import alternatives as of_spark
        except ImportError as error:
            why = needed("a column of Spark", error)
            raise ImportError(why or str(error), name=error.name) from error
        return of_spark
    from sfumato.memory import alternatives as in_memory

    return in_memory


def _is_of_spark(given: Any) -> bool:
    if isinstance(given, list | tuple) and given:
        return all(map(is_column_of_spark, given))
    return is_column_of_spark(given)


def alternatives(
    values: Any,
    prob: Any = None,
    attributes: str | Sequence[str] | None = None,
    *,
    points: bool = False,
    normalize: bool = False,
) -> Any:
    """Alternatives from an array of values and an array of their probabilities, or of structs.

    values : a column of Spark, by name or F.col(...), or one in memory (Arrow array, pandas or
        Polars series, list, matrix), of arrays of numbers (`attributes`: the name they get, by
        default `value`); or of structs (`attributes`: the fields to take, by name); or, with
        ``points=True``, of arrays of coordinates (`attributes`: one name per coordinate)
    prob : an array column of as many probabilities. None: `values` are structs with a field `prob`.
        A field of `values` by its name, "scores.confidence" of "scores": they are structs with that
        field. Either way their other fields are the attributes, as they are, unless `attributes`
        names some of them
    normalize : scale the probabilities so that they sum to 1, whatever they sum to (scores,
        counts; a tuple that exists for sure). Else only a sum above 1, and by no more than 1e-6,
        is: what a model's single precision makes of 1

    Values of probability 0 (an underflow of a softmax) are left out: they are no alternatives. Of a
    map from values to probabilities take F.map_keys and F.map_values.
    Returns an ``array<struct<prob: double, ATTR: double, ...>>``, NULL where an array is NULL, as a
    Column or as an Arrow array; the Column is called `alternatives`, unless an alias says
    otherwise.
    Where the lengths differ the missing parts are NULL, and `sf.split_invalid` shows the row; so it
    does where a sum is beyond 1 + 1e-6, or a probability negative. Operators leave such rows out;
    of a stream a warning says so, of a static frame only `sf.split_invalid`, which with
    ``strict=True`` raises.

    Raises ValueError when `attributes` names nothing. Of columns that are something else Spark's
    error, when a frame takes the column, says what they must be and what to write.

    >>> models = spark.createDataFrame(
    ...     [([20.0, 25.0], [0.7, 0.2])], "values array<double>, scores array<double>"
    ... )
    >>> models.select(sf.alternatives("values", "scores", "celsius")).first()[0]
    [Row(prob=0.7, celsius=20.0), Row(prob=0.2, celsius=25.0)]
    """
    if attributes is not None:
        _check_names(attributes)
    return _engine(values).alternatives(
        values, prob, attributes, points=points, normalize=normalize
    )


def samples(
    mean: Any,
    sd: Any,
    n: int,
    distribution: str = "normal",
    attributes: str | Sequence[str] = "value",
) -> Any:
    """`n` equally likely alternatives of a reading whose error is known.

    mean : the reading, a column of Spark or in memory; for several attributes a list of columns
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
    the row as invalid and `sf.split_invalid` shows it. The column is called `alternatives`, unless
    an alias says otherwise.

    Raises ValueError for n < 1, for n above the bound on alternatives per row (the session's
    `sfumato.maxAlternatives`), for an unknown distribution, or for lists of different lengths.

    >>> readings.limit(1).select(sf.samples("celsius", 0.5, 2, attributes="celsius")).first()[0]
    [Row(prob=0.5, celsius=19.5), Row(prob=0.5, celsius=20.5)]
    """
    _check_names(attributes)
    return _engine(mean).samples(mean, sd, n, distribution, attributes)


def existence(column: Any = ALTERNATIVES) -> Any:
    """Probability that the tuple exists: Σ prob over its alternatives, at most 1.

    column : the alternatives: a column of Spark, or an Arrow array or a series; or a table with the
        column `alternatives`

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
    return _engine(column).existence(column)


def expected(attribute: str, column: Any = ALTERNATIVES, *, conditional: bool = False) -> Any:
    """Expected value of an attribute: Σ prob · attribute, an absent tuple counting as 0.

    column : as for `existence`
    conditional : divide by the existence, which gives the mean given that the tuple exists

    >>> [round(row[0], 6) for row in uncertain.select(sf.expected("celsius")).collect()]
    [20.0, 21.0, 23.0, 22.0]
    """
    _check_attribute("sf.expected(attribute, column)", attribute)
    return _engine(column).expected(attribute, column, conditional=conditional)


def stddev(attribute: str, column: Any = ALTERNATIVES, *, conditional: bool = False) -> Any:
    """Standard deviation of an attribute, an absent tuple counting as 0.

    column : as for `existence`
    conditional : of the attribute given that the tuple exists
    Computed from deviations, not from a difference of large squares.

    >>> [round(row[0], 2) for row in uncertain.select(sf.stddev("celsius")).collect()]
    [0.5, 0.5, 0.5, 0.5]
    """
    _check_attribute("sf.stddev(attribute, column)", attribute)
    return _engine(column).stddev(attribute, column, conditional=conditional)


def quantile(attribute: str, q: float, column: Any = ALTERNATIVES) -> Any:
    """The q-quantile of an attribute given that the tuple exists.

    column : as for `existence`
    The smallest of the alternatives' values v with Pr(attribute ≤ v | exists) ≥ q.
    q : in [0, 1]; 0 gives the smallest value, 1 the largest

    Raises ValueError for q out of range.

    >>> [round(row[0], 2) for row in uncertain.select(sf.quantile("celsius", 0.5)).collect()]
    [19.81, 20.81, 22.81, 21.81]
    """
    call = "sf.quantile(attribute, q, column)"
    _check_attribute(call, attribute)
    if isinstance(q, bool) or not isinstance(q, int | float | np.number):
        raise TypeError(f"`q` must be a number: {call}; got {_shown(q)}")
    if not 0 <= q <= 1:
        raise ValueError(f"`q` must lie in [0, 1]; got {q!r}")
    return _engine(column).quantile(attribute, q, column)


def _check_attribute(call: str, attribute: object) -> None:
    """Raise TypeError for an attribute that is not a name; the column comes last."""
    if not isinstance(attribute, str):
        raise TypeError(
            f"`attribute` must be the name of an attribute of the alternatives: {call}; got "
            f"{_shown(attribute)}"
        )


def _shown(given: object) -> str:
    """Return a value for an error, and the type of what would fill a page."""
    plain = given is None or isinstance(given, str | int | float)
    return f"{given!r:.80}" if plain else type(given).__name__


def _check_names(attributes: Any) -> None:
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
