"""Uncertain tuples as a column of alternatives: construction, and statistics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sfumato.calls import is_spark_instance
from sfumato.extras import missing_extra_message
from sfumato.limits import check_alternatives
from sfumato.operators.distributions.error_points import standard_points
from sfumato.tables.reading.user_warnings import warn_user

ALTERNATIVES = "alternatives"
HALF_WIDTHS = {"uniform": math.sqrt(3.0), "triangular": math.sqrt(6.0)}  # in standard deviations
SCALED = ("limit", "scale")  # arguments of `below` and `above`


def _engine(given: Any) -> Any:
    """Return the module for Spark columns, or the module for columns in memory."""
    if _is_of_spark(given):
        try:
            from sfumato.spark.model import alternatives as of_spark
        except ImportError as error:
            why = missing_extra_message("a Spark column", error)
            raise ImportError(why or str(error), name=error.name) from error
        if not of_spark.can_make_columns():
            raise ValueError(
                f"{given!r} names a Spark column, but there is no Spark session: start one, or "
                'give a column in memory, like df["x"]'
            )
        return of_spark
    if is_spark_instance(given, "DataFrame"):
        raise TypeError(
            "expected a column, or a table in memory; got a Spark DataFrame. Write, for example, "
            'df.select(sf.expected("x"))'
        )
    from sfumato.memory import alternatives as in_memory

    return in_memory


def _is_of_spark(given: Any) -> bool:
    """Return whether all given columns are Spark columns, or strings, which may name one."""
    several = given if isinstance(given, list | tuple) and given else [given]
    return all(isinstance(one, str) or is_spark_instance(one, "Column") for one in several)


def alternatives(
    values: Any,
    prob: Any = None,
    attributes: str | Sequence[str] | None = None,
    *,
    points: bool = False,
    normalize: bool = False,
) -> Any:
    """Build alternatives from arrays of values and probabilities, or from arrays of structs.

    Parameters
    ----------
    values
        A Spark column, by name or as F.col(...), or a column in memory (Arrow array, pandas or
        Polars series, list, matrix). It holds arrays of numbers, arrays of structs, or, with
        ``points=True``, arrays of coordinates.
    prob
        Array column with one probability per value. If `values` are structs that include the
        probability: the name of that field ("scores.confidence" for the column "scores";
        "confidence" in memory), or None for the field `prob`.
    attributes
        For numbers: the name of the attribute, by default `value`. For coordinates: one name per
        coordinate. For structs: the names of the fields to keep, or None to keep all fields except
        the probability, with their types.
    points
        Whether `values` are arrays of coordinates.
    normalize
        Scale the probabilities so that they sum to 1: for scores, counts, or a tuple that certainly
        exists. By default a sum is scaled only if it exceeds 1 by at most 1e-6, the rounding error
        of a single-precision model.

    Returns
    -------
    A Column or an Arrow array of type ``array<struct<prob: double, ATTR: double, ...>>``, NULL
    where an array is NULL. The Column is named `alternatives` unless you give it an alias.
    Values with probability 0 (such as a softmax underflow) are removed.

    Raises
    ------
    ValueError, TypeError
        For `attributes` that are empty, not names, or not distinct. For a column of the wrong type,
        Spark raises its own error when the column is used; the error gives the required type and
        what to write.

    Notes
    -----
    If the lengths of the arrays differ, the missing parts are NULL. Such a row is invalid, as is a
    row with a negative probability or a sum above 1 + 1e-6; `sf.split_invalid` returns such rows.
    For a map from values to probabilities, use F.map_keys and F.map_values. For dicts in memory,
    pass the keys and the values as two lists.
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
    return _engine(values).alternatives(values, prob, attributes, points, normalize)


def samples(
    mean: Any,
    sd: Any,
    n: int,
    distribution: str = "normal",
    attributes: str | Sequence[str] = "value",
) -> Any:
    """Build `n` equally likely alternatives for a reading with a known error.

    Parameters
    ----------
    mean
        The reading, a Spark column or a column in memory; for several attributes a list of columns.
    sd
        Standard deviation of the error, a number or a column, in the reading's unit; for several
        attributes one each, or one for all.
    n
        Number of alternatives, at least 1; each gets probability 1/n. Several attributes need more
        alternatives than attributes; with fewer, a warning reports that the errors are correlated.
    distribution
        Distribution of the error, with mean zero: "normal", "uniform", "triangular" or
        "exponential".
    attributes
        Name of the attribute, or one name per attribute.

    Returns
    -------
    A column of alternatives, named `alternatives` unless you give it an alias; in memory an Arrow
    array (for a pandas column, use `array.to_pylist()`). It is NULL where a reading or its sd is
    NULL, or the sd is negative ("unknown"). Operators treat such a row as invalid, and
    `sf.split_invalid` shows it.

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
    its mean and sd (a single sample has the mean only).
    More: page reference/functions/samples of the documentation.
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
    return engine.samples(means, sds, _points(engine, n, distribution, len(names)), names)


def between(
    low: Any,
    high: Any,
    n: int,
    distribution: str = "uniform",
    attribute: str = "value",
) -> Any:
    """Build `n` equally likely alternatives for a value that lies in a known interval.

    Parameters
    ----------
    low, high
        Ends of the interval: Spark columns or columns in memory; one of them may be a number.
    n
        Number of alternatives, at least 1; each gets probability 1/n.
    distribution
        Distribution within the interval: "uniform", or "triangular" with its peak in the middle.
    attribute
        Name of the attribute.

    Returns
    -------
    A column of alternatives, named `alternatives` unless you give it an alias. It is NULL where an
    end is NULL or the ends are reversed. Operators treat such a row as invalid and
    `sf.split_invalid` shows it.

    Raises
    ------
    ValueError
        For an unknown distribution, and for n out of range, as in `samples`.
    TypeError
        For an attribute that is not a name.

    Notes
    -----
    The points are the quantiles at (i + ½)/n, scaled, and lie within the interval. Their mean and
    their standard deviation are exact. A single alternative is the middle.
    Cost: n alternatives per row, without state.

    Examples
    --------
    >>> from pyspark.sql import functions as F
    >>> interval = sf.between(F.lit(10.0), F.lit(20.0), 2, attribute="age")
    >>> [round(a.age, 2) for a in readings.limit(1).select(interval).first()[0]]
    [12.11, 17.89]
    """
    if distribution not in HALF_WIDTHS:
        raise ValueError(f'`distribution` must be "uniform" or "triangular"; got {distribution!r}')
    columns = [end for end in (low, high) if not isinstance(end, int | float)]
    if not columns:
        raise TypeError(f"`low` or `high` must be a column; got {low!r} and {high!r}")
    call = "sf.between(low, high, n, distribution, attribute)"
    engine, points = _standard(call, columns[0], n, distribution, attribute)
    middle, half = engine.middle_and_half_width(low, high)
    return engine.samples([middle], [half], points / HALF_WIDTHS[distribution], [attribute])


def below(limit: Any, scale: Any, n: int, attribute: str = "value") -> Any:
    """Build `n` equally likely alternatives for a value that lies below a known limit.

    Parameters
    ----------
    limit
        The limit, such as a detection limit: a Spark column or a column in memory.
    scale
        Mean distance of the value from the limit, a number or a column.
    n, attribute
        As for `between`.

    Returns
    -------
    A column of alternatives, as from `between`. It is NULL where `limit` or `scale` is NULL, or
    `scale` is negative.

    Raises
    ------
    ValueError, TypeError
        As in `between`.

    Notes
    -----
    The distance from the limit has an exponential distribution, whose mean and standard deviation
    are exactly `scale` (a single alternative has the mean only). If the value also has a lower end,
    such as 0 for a concentration, use `between`.
    Cost: n alternatives per row, without state.

    Examples
    --------
    >>> censored = sf.below("celsius", 2.0, 3, "celsius")
    >>> [round(a.celsius, 2) for a in readings.limit(1).select(censored).first()[0]]
    [19.86, 18.91, 15.23]
    """
    call = "sf.below(limit, scale, n, attribute)"
    engine, points = _standard(call, limit, n, "exponential", attribute)
    return engine.samples([limit], [scale], -1.0 - points, [attribute], called=SCALED)


def above(limit: Any, scale: Any, n: int, attribute: str = "value") -> Any:
    """Build `n` equally likely alternatives for a value that lies above a known limit.

    The counterpart of `below`: for a saturated sensor, or a lifetime that has not ended.

    Parameters
    ----------
    limit, scale, n, attribute
        As for `below`.

    Returns
    -------
    A column of alternatives, as from `below`.

    Raises
    ------
    ValueError, TypeError
        As in `between`.

    Notes
    -----
    Cost: n alternatives per row, without state.

    Examples
    --------
    >>> censored = sf.above("celsius", 2.0, 3, "celsius")
    >>> [round(a.celsius, 2) for a in readings.limit(1).select(censored).first()[0]]
    [20.14, 21.09, 24.77]
    """
    call = "sf.above(limit, scale, n, attribute)"
    engine, points = _standard(call, limit, n, "exponential", attribute)
    return engine.samples([limit], [scale], 1.0 + points, [attribute], called=SCALED)


def circular(
    angle: Any,
    sd: Any,
    n: int,
    period: float = 360.0,
    distribution: str = "normal",
    attributes: Sequence[str] = ("cos", "sin"),
) -> Any:
    """Build `n` equally likely alternatives for a value that wraps: an angle, an hour, a longitude.

    Each alternative is a point on the unit circle, so that 359° and 1° are near each other.

    Parameters
    ----------
    angle
        The reading, a Spark column or a column in memory.
    sd
        Standard deviation of the error, a number or a column, in the reading's unit; 0 with n = 1
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
    A column of alternatives, as from `samples`.

    Raises
    ------
    ValueError, TypeError
        As in `samples`; ValueError also for a period that is not positive.

    Notes
    -----
    A join whose `within` is 2·sin(π·d/period) finds exactly the pairs of angles that differ by at
    most d. The mean direction is atan2(mean sine, mean cosine) · period / 2π.
    More: page how-to/intervals of the documentation.
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
    called = ("angle", "sd")
    return engine.samples([angle], [sd], points, list(attributes), float(period), called)


def _standard(
    call: str, column: Any, n: int, distribution: str, attribute: str
) -> tuple[Any, np.ndarray]:
    """Return a column's engine, and `n` points of a distribution with mean 0 and sd 1."""
    _check_attribute(call, attribute)
    _check_names(attribute)
    engine = _engine(column)
    return engine, _points(engine, n, distribution)


def _points(engine: Any, n: int, distribution: str, attributes: int = 1) -> np.ndarray:
    if isinstance(n, int):
        check_alternatives("n", n, engine.max_alternatives())
    points = standard_points(n, attributes, distribution)
    if 1 < n <= attributes:
        warn_user(
            f"{n} samples of {attributes} attributes have correlated errors: for uncorrelated "
            f"errors, `n` must be at least {attributes + 1}"
        )
    return points


def existence(column: Any = ALTERNATIVES) -> Any:
    """Return the probability that a tuple exists: Σ prob over its alternatives, at most 1.

    Parameters
    ----------
    column
        The alternatives: a Spark column, an Arrow array or a series; or a table with the column
        `alternatives`.

    Returns
    -------
    A column of doubles. It is NULL where the alternatives are NULL, and where their probabilities
    are invalid: not numbers in [0, 1], or with a sum above 1 + 1e-6.

    Raises
    ------
    TypeError
        For anything that is not a column of alternatives or a table.

    Notes
    -----
    All operators use this rule. The sum is compensated. It counts as 1 if it exceeds 1 by at most
    1e-6, or differs from 1 only by the rounding errors of its terms: a tuple with ten alternatives
    of probability 0.1 certainly exists.
    More: page reference/semantics/values of the documentation.
    Inside a Spark aggregate, such as `F.min(sf.existence())`, give the aggregate an alias: Spark
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
    """Return an attribute's expected value, Σ prob · attribute; an absent tuple has the value 0.

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
    A column of doubles. It is NULL where the alternatives are NULL or invalid, see `existence`.

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
    """Return an attribute's standard deviation; an absent tuple has the value 0.

    Parameters
    ----------
    attribute, column
        As for `expected`.
    conditional
        Return the standard deviation given that the tuple exists.

    Returns
    -------
    A column of doubles. It is NULL where the alternatives are NULL or invalid, see `existence`.

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

    The quantile is the smallest value v of the alternatives with Pr(attribute ≤ v | exists) ≥ q.

    Parameters
    ----------
    attribute
        Name of the attribute.
    q
        A probability in [0, 1]; 0 gives the smallest value, 1 the largest.
    column
        As for `existence`.

    Returns
    -------
    A column of doubles. It is NULL where the alternatives are NULL or invalid, see `existence`.

    Raises
    ------
    ValueError, TypeError
        For q out of range, and for arguments of the wrong type.

    Notes
    -----
    Cost: one sort of each row's alternatives, without state.

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
    if not isinstance(attribute, str):
        raise TypeError(
            f"`attribute` must be the name of an attribute of the alternatives, as in {call}; got "
            f"{_preview(attribute)}"
        )


def _preview(given: object) -> str:
    """Return a value as text for an error, or its type if the value may be long."""
    plain = given is None or isinstance(given, str | int | float)
    return f"{given!r:.80}" if plain else type(given).__name__


def _check_names(attributes: Any) -> None:
    """Raise TypeError or ValueError unless `attributes` can name attributes."""
    names = [attributes] if isinstance(attributes, str) else attributes
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(
            f"`attributes` must be a name (a string) or a list of names; got {attributes!r:.80}"
        )
    if not names:
        raise ValueError("`attributes` must name at least one attribute; got none")
    if "prob" in names or len({name.lower() for name in names}) < len(names):
        raise ValueError(
            "`attributes` must be different names other than `prob`, which every alternative has "
            f"already; got {list(names)}"
        )
