"""Functions that change each row's alternatives: filter, prune, fuse."""

from __future__ import annotations

from typing import Any

from sfumato.api.calls import ColumnNames, engine_module, frame_of, public_function
from sfumato.limits import MAX_ALTERNATIVES_BOUND
from sfumato.operators.arguments import flag, share, whole
from sfumato.tables.reading.job import remember_answers
from sfumato.tables.reading.tuples import ALTERNATIVES, CONFLICT, PRUNED


@public_function('sf.where(df, "celsius > 30")', "df")
def where(df: Any, condition: str, *, name: str | None = None) -> Any:
    """Keep the alternatives that satisfy a condition, with their probabilities.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory with the whole stream. The result has the same type.
    condition
        Any Spark SQL condition over the alternatives' attributes (by their plain names) and the
        frame's other columns; in memory: comparisons, AND, OR, NOT, IS NULL, + - * / and
        parentheses. If an attribute and a column share a name, the attribute is used.
    name
        Name of the metrics, instead of the number N.

    Returns
    -------
    The frame without the tuples whose alternatives all fail the condition. If only some
    alternatives satisfy it, the tuple exists with a smaller probability. A comparison with NULL is
    not satisfied. A frame without alternatives is filtered as by ``DataFrame.where``.

    Raises
    ------
    TypeError
        For a condition that is not a string.
    ValueError
        For a condition that is not a single expression, or that calls functions that reach beyond
        the data (`reflect`, ...), unless the session's setting "sfumato.trustText" is "true". A
        condition that Spark cannot parse raises Spark's own error.

    Notes
    -----
    Invalid rows are skipped. A row is invalid if its probabilities are invalid, or if an attribute
    in the condition is not finite in one of the alternatives. If the condition keeps none of the
    alternatives, the row is also invalid if such an attribute is NULL in all of them. The observed
    metrics ``sfumato_where_N_input`` count rows and invalid rows (`invalid`).
    ``sf.split_invalid`` of the frame upstream finds these rows.
    Cost: linear in the number of alternatives, without state; on Spark it runs in the JVM.

    References
    ----------
    Dallachiesa et al. (2015), section 3, filter f_c(U). https://doi.org/10.1007/s10115-014-0804-5

    Examples
    --------
    >>> warm = sf.where(uncertain, "celsius > 21")
    >>> [(row.id, row.p) for row in warm.select("id", sf.existence().alias("p")).collect()]
    [(2, 0.5), (3, 1.0), (4, 1.0)]
    """
    if not isinstance(condition, str):
        kind = type(condition).__name__
        raise TypeError(f"`condition` must be a string, like 'celsius > 30'; got {kind}")
    frame = frame_of(df)
    kept = engine_module(frame).where(frame, condition, name)
    remember_answers(kept)
    return kept


@public_function("sf.prune(df, min_prob=0.01, top=5)", "df")
def prune(
    df: Any, *, min_prob: float = 0.0, top: int | None = None, normalize: bool = False
) -> Any:
    """Keep each row's likeliest alternatives, and report the probability of the others.

    Parameters
    ----------
    df
        A Spark DataFrame, streaming or static, or a pandas, Polars or Arrow table, with
        alternatives. The result has the same type.
    min_prob
        Alternatives with a smaller probability are removed.
    top
        Maximum number of alternatives per row; of equally probable alternatives, the first are
        kept. None for no maximum.
    normalize
        False: the existence of the row decreases by the removed probability. True: the remaining
        alternatives are scaled so that the existence does not change.

    Returns
    -------
    Every row of the frame, with at least its likeliest alternative, and the column `pruned`: the
    total probability of the removed alternatives, or NULL.

    Raises
    ------
    ValueError, TypeError
        For wrong arguments, a call with neither limit, and a frame without alternatives.

    Notes
    -----
    With ``normalize=False`` each remaining alternative has its true probability, and any answer
    Pr(...) over n rows is off by at most the sum of their `pruned`. With ``normalize=True`` the
    existence is kept, and answers are conditional on the removed alternatives being impossible.
    Cost: one sort of each row's alternatives, without state.
    More: page reference/functions/prune of the documentation.

    Examples
    --------
    >>> pruned = sf.prune(uncertain, top=3)
    >>> pruned.select("pruned", sf.existence().alias("exists")).first()
    Row(pruned=0.25, exists=0.75)
    """
    if top is None and not min_prob:
        raise ValueError(
            "`min_prob` or `top` must be given: write, for example, min_prob=0.01 or top=5"
        )
    least = share("min_prob", min_prob) if min_prob else 0.0
    most = MAX_ALTERNATIVES_BOUND if top is None else whole("top", top)
    frame = frame_of(df)
    if not frame.uncertain:
        raise ValueError(
            f"`df` must have the column `{ALTERNATIVES}`; it has {', '.join(frame.columns)}: "
            "create it with sf.alternatives or sf.samples"
        )
    _ = frame.attributes  # raises for a different type
    frame.require_free([PRUNED])
    engine = engine_module(frame)
    pruned = engine.prune(frame, least, most, flag("normalize", normalize))
    remember_answers(pruned)
    return pruned


@public_function('sf.fuse(df, ["front", "back"])', "df")
def fuse(df: Any, measurements: ColumnNames) -> Any:
    """Fuse several measurements of one object: the normalised product of their distributions.

    Parameters
    ----------
    df
        A Spark DataFrame, streaming or static, or a pandas, Polars or Arrow table. The result has
        the same type.
    measurements
        Columns of alternatives (see `alternatives`) with the same attributes, one per measurement.
        A NULL carries no information and is left out.

    Returns
    -------
    Every row of the frame, with two columns. `alternatives` has the values that are possible in all
    measurements, with probabilities proportional to the products of their probabilities.
    `conflict` is the probability that independent draws, one per measurement, are not all equal.

    Raises
    ------
    ValueError, TypeError
        For columns that are not alternatives, or that have different attributes or types.

    Notes
    -----
    This is Bayes' rule for measurements with independent errors and a uniform prior. To use a
    different prior, pass it as one more measurement. The remainder of a measurement, 1 - Σ prob, is
    the probability that the object does not exist, and is multiplied like the probability of a
    value. Only exactly equal values match: round numbers to a common grid first.
    The conflict is also high if the measurements agree but many values remain possible.
    Cost: per row, the number of alternatives of the first measurement times the total number.
    More: page reference/functions/fuse of the documentation.

    References
    ----------
    Shafer (1976), A mathematical theory of evidence: Dempster's rule, for single values.

    Examples
    --------
    >>> seen = readings.limit(1).selectExpr(
    ...     "array(named_struct('prob', 0.6D, 'x', 1D), named_struct('prob', 0.4D, 'x', 2D)) AS a",
    ...     "array(named_struct('prob', 0.9D, 'x', 1D), named_struct('prob', 0.1D, 'x', 3D)) AS b",
    ... )
    >>> sf.fuse(seen, ["a", "b"]).selectExpr("alternatives.x", "round(conflict, 2)").first()
    Row(x=[1.0], round(conflict, 2)=0.46)
    """
    frame = frame_of(df)
    columns = frame.resolve("measurements", measurements)
    if not columns:
        raise ValueError("`measurements` must name at least one column of alternatives; got none")
    frame.require_free([*({ALTERNATIVES} - set(columns)), CONFLICT])
    return engine_module(frame).fuse(frame, columns)
