"""Uncertain tuples as a column: alternatives of values or samples, and statistics of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.api.calls import is_column_of_spark
from sfumato.extras import needed
from sfumato.limits import check_alternatives
from sfumato.operators.distributions.error_points import standard_points

ALTERNATIVES = "alternatives"
HALF_WIDTHS = {"uniform": math.sqrt(3.0), "triangular": math.sqrt(6.0)}  # in standard deviations


def _engine(*given: Any) -> Any:
    """Return the module for columns of Spark, or for those in memory."""
    if all(map(_is_of_spark, given)):
        try:
            from sfumato.spark.model import alternatives as of_spark
        except ImportError as error:
            why = needed("a Spark column", error)
            raise ImportError(why or str(error), name=error.name) from error
        if not of_spark.can_make_columns():
            raise ValueError(
                f"{given[0]!r} names a Spark column, but there is no Spark session: start one, or "
                'give a column in memory, like df["x"]'
            )
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
    """Build alternatives from arrays of values and of probabilities, or from arrays of structs.

    Parameters
    ----------
    values
        A column of Spark, by name or F.col(...), or one in memory (Arrow array, pandas or Polars
        series, list, matrix). It holds arrays of numbers, arrays of structs, or, with
        ``points=True``, arrays of coordinates.
    prob
        Array column with one probability per value. None: `values` are structs with a field `prob`.
        The name of a field of `values` ("scores.confidence" of the column "scores"; "confidence" in
        memory): `values` are structs with that field.
    attributes
        Numbers: the name they get, by default `value`. Coordinates: one name per coordinate.
        Structs: the fields to take, by name; None: all fields but the probability, unchanged.
    points
        Whether `values` are arrays of coordinates.
    normalize
        Scale the probabilities so that they sum to 1, whatever their sum is (scores, counts; a
        tuple that exists for sure). Otherwise only a sum above 1 by at most 1e-6 is scaled, the
        rounding error of a model in single precision.

    Returns
    -------
    A Column or an Arrow array of type ``array<struct<prob: double, ATTR: double, ...>>``, NULL
    where an array is NULL. The Column is called `alternatives`, unless an alias says otherwise.
    Values of probability 0 (an underflow of a softmax) are not alternatives and are removed.

    Raises
    ------
    ValueError, TypeError
        For `attributes` that name nothing, or that are not different names. For columns of another
        type Spark raises its error when a frame takes the column; the error says which type is
        needed and what to write.

    Notes
    -----
    Where lengths differ, the missing parts are NULL. `sf.split_invalid` shows such a row, and rows
    with a sum beyond 1 + 1e-6 or a negative probability. Operators skip these rows. A stream warns
    of them; for a static frame only `sf.split_invalid` reports them, and raises with
    ``strict=True``.
    For a map from values to probabilities use F.map_keys and F.map_values. In memory, for dicts,
    give their keys and their values as two lists.
    Cost: linear in the number of values, without state.

    Examples
    --------
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
    """Build `n` equally likely alternatives of a reading whose error is known.

    Parameters
    ----------
    mean
        The reading, a column of Spark or in memory; for several attributes a list of columns.
    sd
        Standard deviation of the error, a number or a column, in the reading's unit; for several
        attributes one each, or one for all.
    n
        Number of alternatives, at least 1; each gets probability 1/n. Several attributes need more
        alternatives than attributes, otherwise a warning says that their errors are correlated.
    distribution
        Distribution of the error, with mean zero: "normal", "uniform", "triangular" or
        "exponential".
    attributes
        Name of the attribute, or one name per attribute.

    Returns
    -------
    A column of alternatives, called `alternatives` unless an alias says otherwise; in memory an
    Arrow array, which pandas takes as `array.to_pylist()`. It is NULL where
    a reading or its sd is NULL, or the sd is negative ("unknown"); operators count such a row as
    invalid and `sf.split_invalid` shows it.

    Raises
    ------
    ValueError
        For n < 1, for n above the bound on alternatives per row (the session's
        `sfumato.maxAlternatives`), for an unknown distribution, or for lists of different lengths.
    TypeError
        For `attributes` that are not names.

    Notes
    -----
    The points are fixed, not drawn: the quantiles at (i + ½)/n, scaled. Every attribute has exactly
    its mean and sd (a single sample has the mean only). Errors of several attributes are
    uncorrelated; some errors that are not normal have a correlation of at most 0.05. For normal and
    uniform errors, a point with the sign of one error changed is a point too if n is at least 4
    (two attributes), 8 (three) or 2^(d + 2) (d attributes). For smaller n of at least 2d this holds
    for the point with all signs changed. A few uniform or exponential samples of several attributes
    may lie beyond the bounds of the error.
    Cost: n alternatives per row, without state.

    Examples
    --------
    >>> readings.limit(1).select(sf.samples("celsius", 0.5, 2, attributes="celsius")).first()[0]
    [Row(prob=0.5, celsius=19.5), Row(prob=0.5, celsius=20.5)]
    """
    _check_names(attributes)
    names = [attributes] if isinstance(attributes, str) else list(attributes)
    is_list = isinstance(mean, list | tuple | np.ndarray)
    several = not isinstance(attributes, str) or (is_list and _is_of_spark(mean))
    means = list(mean) if several and is_list else [mean]
    sds = list(sd) if several and isinstance(sd, list | tuple) else [sd] * len(means)
    if not len(names) == len(means) == len(sds):
        raise ValueError(
            "`mean`, `sd` and `attributes` must have the same length; "
            f"got {len(means)}, {len(sds)} and {len(names)}"
        )
    engine = _engine(mean)
    if isinstance(n, int):
        check_alternatives("n", n, engine.max_alternatives())
    return engine.samples(means, sds, standard_points(n, len(names), distribution), names)


def between(low: Any, high: Any, n: int, shape: str = "uniform", attribute: str = "value") -> Any:
    """Build `n` equally likely alternatives of a value that is known to lie in an interval.

    Parameters
    ----------
    low, high
        Ends of the interval: columns of Spark or in memory, at most one of them a number.
    n
        Number of alternatives, at least 1; each gets probability 1/n.
    shape
        Distribution within the interval: "uniform", or "triangular" with its peak in the middle.
    attribute
        Name of the attribute.

    Returns
    -------
    A column of alternatives, called `alternatives` unless an alias says otherwise. It is NULL where
    an end is NULL or the ends are reversed; operators count such a row as invalid and
    `sf.split_invalid` shows it.

    Raises
    ------
    ValueError
        For wrong numbers and shapes, as `samples` does.
    TypeError
        For an attribute that is not a name.

    Notes
    -----
    The points are the quantiles at (i + ½)/n, scaled, and lie within the interval. Mean and
    standard deviation are exactly those of the shape, for an interval of length w: the middle, and
    w/√12 (uniform) or w/√24 (triangular). A single alternative is the middle.
    Cost: n alternatives per row, without state.

    Examples
    --------
    >>> from pyspark.sql import functions as F
    >>> interval = sf.between(F.lit(10.0), F.lit(20.0), 2, attribute="age")
    >>> [round(a.age, 2) for a in readings.limit(1).select(interval).first()[0]]
    [12.11, 17.89]
    """
    if shape not in HALF_WIDTHS:
        raise ValueError(f'`shape` must be "uniform" or "triangular"; got {shape!r}')
    if not (_is_column(low) or _is_column(high)):
        raise TypeError(f"`low` or `high` must be a column; got {low!r} and {high!r}")
    call = "sf.between(low, high, n, shape, attribute)"
    engine, points = _shaped(call, low if _is_column(low) else high, n, shape, attribute)
    middle, half = engine.middle_and_half(low, high)
    return engine.samples([middle], [half], points / HALF_WIDTHS[shape], [attribute])


def below(limit: Any, scale: Any, n: int, attribute: str = "value") -> Any:
    """Build `n` equally likely alternatives of a value that is known to lie below a limit.

    Parameters
    ----------
    limit
        The limit, such as a detection limit: a column of Spark or in memory.
    scale
        Mean distance of the value from the limit, a number or a column.
    n, attribute
        As for `between`.

    Returns
    -------
    A column of alternatives, as `between` returns it. It is NULL where `limit` or `scale` is NULL,
    or `scale` is negative.

    Raises
    ------
    ValueError, TypeError
        As `between` does.

    Notes
    -----
    The distance from the limit has an exponential distribution, the least informative one with this
    mean: its mean and its standard deviation are exactly `scale` (a single alternative has the mean
    only). No alternative lies beyond the limit. Where the value also has a lower end, such as 0 for
    a concentration, use `between`.
    Cost: n alternatives per row, without state.

    Examples
    --------
    >>> censored = sf.below("celsius", 2.0, 3, "celsius")
    >>> [round(a.celsius, 2) for a in readings.limit(1).select(censored).first()[0]]
    [19.86, 18.91, 15.23]
    """
    call = "sf.below(limit, scale, n, attribute)"
    engine, points = _shaped(call, limit, n, "exponential", attribute)
    return engine.samples([limit], [scale], -1.0 - points, [attribute])


def above(limit: Any, scale: Any, n: int, attribute: str = "value") -> Any:
    """Build `n` equally likely alternatives of a value that is known to lie above a limit.

    It is `below` with the other sign, for a saturated sensor or a lifetime that has not ended.

    Parameters
    ----------
    limit, scale, n, attribute
        As for `below`.

    Returns
    -------
    As for `below`.

    Raises
    ------
    ValueError, TypeError
        As `between` does.

    Notes
    -----
    The distance from the limit has an exponential distribution, as for `below`.
    Cost: n alternatives per row, without state.

    Examples
    --------
    >>> censored = sf.above("celsius", 2.0, 3, "celsius")
    >>> [round(a.celsius, 2) for a in readings.limit(1).select(censored).first()[0]]
    [20.14, 21.09, 24.77]
    """
    call = "sf.above(limit, scale, n, attribute)"
    engine, points = _shaped(call, limit, n, "exponential", attribute)
    return engine.samples([limit], [scale], 1.0 + points, [attribute])


def circular(
    angle: Any,
    sd: Any,
    n: int,
    period: float = 360.0,
    distribution: str = "normal",
    attributes: Sequence[str] = ("cos", "sin"),
) -> Any:
    """Build `n` equally likely alternatives of a value that wraps: an angle, an hour, a longitude.

    Each alternative is a point on the unit circle, so that 359° and 1° are near each other.

    Parameters
    ----------
    angle
        The reading, a column of Spark or in memory.
    sd
        Standard deviation of its error, a number or a column, in the reading's unit; 0 with n = 1
        for a reading without error.
    n
        Number of alternatives, at least 1; each gets probability 1/n.
    period
        The full circle in the reading's unit: 360 for degrees, 24 for hours.
    distribution
        Distribution of the error, as for `samples`, before it is wrapped around the circle.
    attributes
        Names of the two coordinates, the cosine and the sine.

    Returns
    -------
    A column of alternatives, as `samples` returns it.

    Raises
    ------
    ValueError, TypeError
        As `samples` does; ValueError for a period that is not positive.

    Notes
    -----
    Two angles that differ by d have the distance 2·sin(π·d/period) along the chord; it grows with d
    up to half a period, so a join with this `within` finds exactly the pairs within d.
    The mean direction is atan2(mean sine, mean cosine) · period / 2π. The page on angles and hours
    shows joins, windows and the mean direction, and their limits.
    Cost: n alternatives per row, without state.

    Examples
    --------
    >>> from pyspark.sql import functions as F
    >>> night = sf.circular(F.lit(23.0), 0, 1, period=24.0)
    >>> [(round(a.cos, 2), round(a.sin, 2)) for a in readings.limit(1).select(night).first()[0]]
    [(0.97, -0.26)]
    """
    listed = isinstance(attributes, Sequence) and not isinstance(attributes, str)
    if not listed or len(attributes) != 2:
        raise ValueError(
            f"`attributes` must be two names, for the cosine and the sine; got {attributes!r:.80}"
        )
    if isinstance(period, bool) or not isinstance(period, int | float) or not 0 < period < math.inf:
        raise ValueError(f"`period` must be a positive number; got {period!r:.80}")
    _check_names(attributes)
    engine = _engine(angle)
    points = _points(engine, n, distribution)
    return engine.samples([angle], [sd], points, list(attributes), float(period))


def _shaped(call: str, column: Any, n: int, shape: str, attribute: str) -> tuple[Any, np.ndarray]:
    """Return the engine of a column, and the `n` points of a shape with mean 0 and sd 1."""
    _check_attribute(call, attribute)
    _check_names(attribute)
    engine = _engine(column)
    return engine, _points(engine, n, shape)


def _points(engine: Any, n: int, distribution: str) -> np.ndarray:
    if isinstance(n, int):
        check_alternatives("n", n, engine.max_alternatives())
    return standard_points(n, 1, distribution)


def _is_column(given: Any) -> bool:
    return not isinstance(given, int | float)


def existence(column: Any = ALTERNATIVES) -> Any:
    """Return the probability that a tuple exists: Σ prob over its alternatives, at most 1.

    Parameters
    ----------
    column
        The alternatives: a column of Spark, an Arrow array or a series; or a table with the column
        `alternatives`.

    Returns
    -------
    A column of doubles. NULL where the alternatives are NULL and where their probabilities are
    invalid: not numbers in [0, 1], or with a greater sum.

    Raises
    ------
    TypeError
        For anything that is not a column of alternatives or a table.

    Notes
    -----
    All operators use this rule. The sum is compensated. Sums up to 1 + 1e-9 are rounding errors and
    are clipped to 1. A sum of several probabilities that misses 1 by at most the rounding errors of
    its terms (2⁻⁵² each) is 1, so ten tenths are certain.
    Inside an aggregate of Spark, as `F.min(sf.existence())`, give the aggregate an alias: Spark
    names it after the whole expression.
    Cost: linear in the number of alternatives, without state.

    References
    ----------
    Dallachiesa et al. (2015), section 3. https://doi.org/10.1007/s10115-014-0804-5
    Neumaier (1974), the compensated sum. ZAMM 54, pages 39-51.

    Examples
    --------
    >>> [round(row[0], 6) for row in uncertain.select(sf.existence()).collect()]
    [1.0, 1.0, 1.0, 1.0]
    """
    return _engine(column).existence(column)


def expected(attribute: str, column: Any = ALTERNATIVES, *, conditional: bool = False) -> Any:
    """Return the expected value of an attribute: Σ prob · attribute; an absent tuple counts as 0.

    Parameters
    ----------
    attribute
        Name of the attribute.
    column
        As for `existence`.
    conditional
        Divide by the existence: the mean given that the tuple exists.

    Returns
    -------
    A column of doubles. NULL where the alternatives are NULL or invalid, see `existence`.

    Raises
    ------
    TypeError
        For an attribute that is not a name.

    Notes
    -----
    Cost: linear in the number of alternatives, without state.

    Examples
    --------
    >>> [round(row[0], 6) for row in uncertain.select(sf.expected("celsius")).collect()]
    [20.0, 21.0, 23.0, 22.0]
    """
    _check_attribute("sf.expected(attribute, column)", attribute)
    return _engine(column).expected(attribute, column, conditional=conditional)


def stddev(attribute: str, column: Any = ALTERNATIVES, *, conditional: bool = False) -> Any:
    """Return the standard deviation of an attribute; an absent tuple counts as 0.

    It is computed from deviations, not from a difference of large squares.

    Parameters
    ----------
    attribute
        Name of the attribute.
    column
        As for `existence`.
    conditional
        Return the standard deviation given that the tuple exists.

    Returns
    -------
    A column of doubles. NULL where the alternatives are NULL or invalid, see `existence`.

    Raises
    ------
    TypeError
        For an attribute that is not a name.

    Notes
    -----
    Cost: linear in the number of alternatives, without state.

    Examples
    --------
    >>> [round(row[0], 2) for row in uncertain.select(sf.stddev("celsius")).collect()]
    [0.5, 0.5, 0.5, 0.5]
    """
    _check_attribute("sf.stddev(attribute, column)", attribute)
    return _engine(column).stddev(attribute, column, conditional=conditional)


def quantile(attribute: str, q: float, column: Any = ALTERNATIVES) -> Any:
    """Return the q-quantile of an attribute given that the tuple exists.

    It is the smallest of the alternatives' values v with Pr(attribute ≤ v | exists) ≥ q.

    Parameters
    ----------
    attribute
        Name of the attribute.
    q
        In [0, 1]; 0 gives the smallest value, 1 the largest.
    column
        As for `existence`.

    Returns
    -------
    A column of doubles. NULL where the alternatives are NULL or invalid, see `existence`.

    Raises
    ------
    ValueError, TypeError
        For q out of range, and for arguments of other types.

    Notes
    -----
    Cost: a sort of the alternatives of each row, without state.

    Examples
    --------
    >>> [round(row[0], 2) for row in uncertain.select(sf.quantile("celsius", 0.5)).collect()]
    [19.81, 20.81, 22.81, 21.81]
    """
    call = "sf.quantile(attribute, q, column)"
    _check_attribute(call, attribute)
    if isinstance(q, bool) or not isinstance(q, int | float | np.number):
        raise TypeError(f"`q` must be a number, as in {call}; got {_preview(q)}")
    if not 0 <= q <= 1:
        raise ValueError(f"`q` must lie in [0, 1]; got {q!r}")
    return _engine(column).quantile(attribute, q, column)


def _check_attribute(call: str, attribute: object) -> None:
    """Raise TypeError for an attribute that is not a name; the column comes last."""
    if not isinstance(attribute, str):
        raise TypeError(
            f"`attribute` must be the name of an attribute of the alternatives, as in {call}; got "
            f"{_preview(attribute)}"
        )


def _preview(given: object) -> str:
    """Return a value for an error, or its type if the value may be long."""
    plain = given is None or isinstance(given, str | int | float)
    return f"{given!r:.80}" if plain else type(given).__name__


def _check_names(attributes: Any) -> None:
    """Raise TypeError or ValueError for what cannot name attributes."""
    names = [attributes] if isinstance(attributes, str) else attributes
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"`attributes` must be a name (a string) or a list of names; got {attributes!r:.80}"
        )
    if not names:
        raise ValueError("`attributes` must name at least one attribute; got none")
    if "prob" in names or len({name.lower() for name in names}) < len(names):
        raise ValueError(
            "`attributes` must be different names without `prob`, which every alternative already "
            f"has; got {list(names)}"
        )
