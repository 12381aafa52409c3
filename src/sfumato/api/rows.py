"""Functions that keep, split or combine rows, without an operator: `where`, `union` and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfumato.api.calls import ColumnName, ColumnNames, engine_module, frame_of, public_function
from sfumato.limits import MAX_ALTERNATIVES_BOUND
from sfumato.operators.arguments import flag, share, whole
from sfumato.tables.reading.frame import EXISTENCE, Frame
from sfumato.tables.reading.job import (
    check_union,
    draw_readings_apart,
    remember_answers,
    union_metadata,
)
from sfumato.tables.reading.tuples import ALTERNATIVES, CONFLICT, PRUNED
from sfumato.tables.reading.user_warnings import (
    REPEATED_KEY,
    SHARED_KEY,
    warn_of_separate_draws,
)
from sfumato.tables.reading.worlds import Draw, Merge


@public_function('sf.where(df, "celsius > 30")', "df")
def where(df: Any, condition: str, *, name: str | None = None) -> Any:
    """Keep the alternatives that satisfy a condition, with their probabilities.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory with the whole stream. The result has the same type.
    condition
        Any Spark SQL condition over the alternatives' attributes (by their plain names) and the
        frame's other columns; in memory: comparisons, BETWEEN, IN, IS NULL, AND, OR, NOT, + - * /,
        abs, sqrt and parentheses. If an attribute and a column share a name, the attribute is used.
    name
        Name of the metrics, instead of the number N in ``sfumato_where_N_input``.

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
    Invalid rows are left out, and counted by the metrics ``sfumato_where_N_input``. A row is
    invalid if its probabilities are invalid, or if an attribute in the condition is not finite in
    one of the alternatives. ``sf.split_invalid`` of the frame upstream finds these rows.
    More: page reference/functions/where of the documentation.
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
        A Spark DataFrame, or a table in memory, with alternatives. The result has the same type.
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
    pruned = engine_module(frame).prune(frame, least, most, flag("normalize", normalize))
    remember_answers(pruned)
    return pruned


@public_function('sf.fuse(df, ["front", "back"])', "df")
def fuse(df: Any, measurements: ColumnNames) -> Any:
    """Fuse several measurements of one object: the normalised product of their distributions.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory. The result has the same type.
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
    This is Bayes' rule for measurements with independent errors and a uniform prior. Only exactly
    equal values match: round numbers to a common grid first.
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


@public_function("sf.split_invalid(df)", "df")
def split_invalid(
    df: Any,
    attributes: ColumnNames | None = None,
    *,
    key: ColumnNames | None = None,
    order: ColumnNames | None = None,
    metric: str = "euclidean",
    within: ColumnName | None = None,
    exclusive: ColumnName | None = None,
    strict: bool = False,
) -> tuple[Any, Any]:
    """Split a frame into (valid, invalid): the rows that operators read, and the rows left out.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory with the whole stream. The results have the same
        type.
    attributes
        Attributes (or value columns) to check, by name or as Column objects (see `reorder`). None:
        all attributes of the alternatives, no value column.
    key, order
        Columns that must not be NULL: `key` and `order` of the operator that reads the rows.
        Windows and rankings treat NULL as a key: leave out `key` for these operators.
    metric
        "haversine" for rows that a join with this metric reads: `attributes` are its longitude and
        latitude, which must lie from -180 to 180 and from -90 to 90.
    within
        Radius column, as `within` of a join: its values must be finite and at least 0.
    exclusive
        Static frames only: the column given to a ranking as `exclusive`. Per `key`, in the order of
        `order`, a row is invalid if it raises the sum of the probabilities of rows that exclude
        each other above 1. A ranking leaves out the same rows if its window holds the whole frame.
    strict
        Raise an error at the first invalid row, when the valid rows are read.

    Returns
    -------
    Two frames; each row is in one of them. The valid rows are unchanged. The invalid rows have an
    additional string column, `reason`. On a stream the results become two separate queries.

    A row is valid if it has at least one alternative; every prob is finite, > 0 and ≤ 1; their sum
    is ≤ 1 + 1e-6; and every attribute is present and, if a number, finite. In a frame without
    alternatives, a column `existence` must lie in [0, 1 + 1e-6], and the given value columns must
    be present and finite.

    Raises
    ------
    ValueError
        For `strict` together with `exclusive`, and for a frame that has a column `reason`.

    Notes
    -----
    Cost: one pass over the rows for each frame that is read. Only `exclusive` needs a shuffle.

    Examples
    --------
    >>> readings = readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")
    >>> valid, invalid = sf.split_invalid(readings)
    >>> valid.count(), invalid.collect()
    (3, [Row(id=2, existence=1.5, reason='existence is not a number in [0, 1]')])
    """
    return _split(df, attributes, key, order, metric, within, exclusive, strict)


@public_function("sf.ops.checked(df)", "df")
def checked(
    df: Any,
    attributes: ColumnNames | None = None,
    *,
    key: ColumnNames | None = None,
    order: ColumnNames | None = None,
    metric: str = "euclidean",
    within: ColumnName | None = None,
    exclusive: ColumnName | None = None,
    strict: bool = False,
) -> Any:
    """Return the valid rows, for SQL and pipelines, where a step returns one table.

    Parameters
    ----------
    df, attributes, key, order, metric, within, exclusive, strict
        As in `sf.split_invalid`, which describes errors and costs.

    Returns
    -------
    The first frame of `sf.split_invalid`.

    Examples
    --------
    >>> readings = readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")
    >>> sf.ops.checked(readings).count()
    3
    """
    return _split(df, attributes, key, order, metric, within, exclusive, strict)[0]


@public_function("sf.ops.rejected(df)", "df")
def rejected(
    df: Any,
    attributes: ColumnNames | None = None,
    *,
    key: ColumnNames | None = None,
    order: ColumnNames | None = None,
    metric: str = "euclidean",
    within: ColumnName | None = None,
    exclusive: ColumnName | None = None,
) -> Any:
    """Return the invalid rows with their reasons, for SQL and pipelines.

    Parameters
    ----------
    df, attributes, key, order, metric, within, exclusive
        As in `sf.split_invalid`, which describes errors and costs.

    Returns
    -------
    The second frame of `sf.split_invalid`: whole rows, with a column `reason`.

    Examples
    --------
    >>> readings = readings.selectExpr("id", "IF(id = 2, 1.5D, 0.5D) AS existence")
    >>> sf.ops.rejected(readings).select("id").collect()
    [Row(id=2)]
    """
    return _split(df, attributes, key, order, metric, within, exclusive, False)[1]


def _split(df: Any, *given: Any) -> tuple[Any, Any]:
    """Return the result of `split_invalid`, whose other arguments are `given` in order."""
    *_, exclusive, strict = given
    if strict and exclusive is not None:
        raise ValueError(
            "`strict` and `exclusive` cannot be combined: `strict` checks rows one by one, "
            "`exclusive` checks several together. Give one of them"
        )
    frame = frame_of(df)
    frame.require_free(["reason"])
    found: tuple[Any, Any] = engine_module(frame).split_rows(frame, *given)
    return found


@public_function("sf.union(indoor, outdoor)", "df", "other")
def union(df: Any, other: Any) -> Any:
    """Return the rows of two frames, and record which uncertain readings they have in common.

    Parameters
    ----------
    df, other
        Two Spark DataFrames, streaming or static, or two pandas, Polars or Arrow tables, with the
        same columns of the same types, in any order. The result has the type of `df`.

    Returns
    -------
    All rows of both frames, with the columns in the order of `df`.

    Raises
    ------
    ValueError
        For different columns, rows in order of event time (apply ``sf.reorder`` to the union), and
        different numbers of drawn worlds.
    TypeError
        For columns of different types.

    Notes
    -----
    If both frames are known to contain the same uncertain readings, later operators refuse the rows
    (unless they pass ``sf.assume_independent``). The union of different frames is exact.
    More: page reference/semantics/sharing of the documentation.
    Cost: the same as for the engine's own union.

    Examples
    --------
    >>> cool, warm = sf.where(uncertain, "celsius < 22"), sf.where(uncertain, "celsius > 25")
    >>> sf.union(cool, warm).count() == cool.count() + warm.count()
    True
    """
    first, second = frame_of(df), frame_of(other, "other")
    check_union(first, second)
    if draw_readings_apart(first, second):
        warn_of_separate_draws("union")
    columns = first.columns
    marks = union_metadata((first, second), zip(columns, columns, strict=True))
    metadata = dict(zip(columns, marks, strict=True))
    found = engine_module(first).union(first, second, metadata)
    remember_answers(found)
    return found


@public_function('sf.draw_worlds(df, 1000, source="thermometers", id="id")', "df")
def draw_worlds(df: Any, n: int, *, source: str, id: ColumnNames, name: str | None = None) -> Any:
    """Draw possible worlds: one certain row per tuple and world in which the tuple exists.

    Any chain of operators is correct within a world, even if its rows share readings.
    ``sf.merge_worlds`` counts the answers over all worlds.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory, with alternatives or a column `existence`. The
        result has the same type.
    n
        Number of worlds, at most 1,000,000. The error of an answer is proportional to 1/√n.
    source
        Name of the set of tuples, such as the topic. A tuple with the same source and id takes the
        same alternative in every call, even in another query. Different tuples need different
        sources or ids.
    id
        Column(s) that identify a tuple. The width of an integer type does not matter.
    name
        Name of the metrics, instead of the number N in ``sfumato_draw_worlds_N_input``.

    Returns
    -------
    The certain columns of the frame, a column per attribute, and `world`, from 0 to n - 1.

    Raises
    ------
    ValueError, TypeError
        For wrong arguments, for rows that share readings, and for filtered or pruned alternatives:
        draw the readings, then filter the drawn rows.

    Notes
    -----
    Operators require `world` in their `key`. Draws depend only on source, id and world, so they are
    the same for any split into micro-batches, after a restart, and in memory.
    Cost: each row becomes up to n rows; no state is kept.
    More: page reference/functions/draw_worlds of the documentation.

    References
    ----------
    Jampani et al. (2008), MCDB: a Monte Carlo approach to managing uncertain data, SIGMOD.

    Examples
    --------
    >>> drawn = sf.draw_worlds(uncertain, 100, source="readings", id="id")
    >>> warm = drawn.where("celsius > 21")
    >>> found = sf.merge_worlds(warm, key="id")
    >>> [(row.id, row.existence) for row in found.orderBy("id").collect()]
    [(2, 0.37), (3, 1.0), (4, 1.0)]
    """
    frame = frame_of(df)
    draw = Draw.of(frame, n, source, id)
    return engine_module(frame).draw_worlds(frame, draw, name)


@public_function('sf.merge_worlds(answers, key=["window"], columns=["n"])', "df")
def merge_worlds(
    df: Any, *, key: ColumnNames, columns: ColumnNames | None = None, n: int | None = None
) -> Any:
    """Count answers over the drawn worlds: their probability, and the distribution of values.

    Parameters
    ----------
    df
        Answers of operators over rows from ``sf.draw_worlds``, as a static Spark DataFrame, or a
        pandas, Polars or Arrow table. The result has the same type.
    key
        Columns that identify an answer within a world, such as `window`, or `id` for a ranking.
    columns
        Value columns, whose joint distribution is returned; None for only the probability of the
        answer.
    n
        Number of worlds; only needed if the frame no longer has it, for example after it was
        written to a file.

    Returns
    -------
    One row per answer: the columns of `key`, a probability and its maximum `error` (with a
    confidence of 99%; 0.05 for 1,000 worlds). With `columns` the probability is in the uncertain
    tuple `alternatives`, otherwise it is `existence`.

    Raises
    ------
    ValueError, TypeError
        For wrong arguments, for a stream, and if a world has several answers with the same `key`
        (on Spark, when the query runs).

    Notes
    -----
    A stream cannot be merged, because the worlds' answers may arrive at different times: write them
    with a sink, and merge the table. Merged answers share readings, so operators refuse them.
    Cost: two shuffles by `key` on Spark; at most `n` answers per key.
    More: page reference/functions/merge_worlds of the documentation.

    References
    ----------
    Massart (1990), The tight constant in the Dvoretzky-Kiefer-Wolfowitz inequality, Annals of
    Probability 18.

    Examples
    --------
    >>> drawn = sf.draw_worlds(uncertain, 100, source="readings", id="id")
    >>> warmest = sf.top_k(
    ...     drawn, 1, by="celsius", window=sf.Range("1 hour"), order="arrival", key="world"
    ... )
    >>> found = sf.merge_worlds(warmest.select("time", "row.id", "world"), key=["time", "id"])
    >>> [(row.id, row.existence, round(row.error, 2)) for row in found.orderBy("id").collect()]
    [(3, 0.96, 0.16), (4, 0.04, 0.16)]
    """
    frame = frame_of(df)
    merge = Merge.of(frame, key, columns, n)
    return engine_module(frame).merge_worlds(frame, merge)


@public_function("sf.assume_independent(pairs)", "df")
def assume_independent(df: Any) -> Any:
    """Treat rows that may share readings as independent, which makes results approximate.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory: pairs of a join, answers of a ranking or of
        overlapping windows, rows of ``sf.impute`` with `order`; or one of two frames that contain
        the same readings. The result has the same type.

    Returns
    -------
    The same rows, which operators accept. ``sf.explain`` and EXPLAIN show the assumption.

    Raises
    ------
    ValueError
        For certain rows.

    Notes
    -----
    The error of the results is unknown; ``sf.draw_worlds`` leads to answers with a known error.
    More: page reference/semantics/sharing of the documentation.
    Cost: none; only the columns' metadata changes.

    Examples
    --------
    >>> pairs = sf.self_join(
    ...     uncertain, on="celsius", within=1.0, probability=0.4, window=sf.Rows(3), order="arrival"
    ... )
    >>> sf.assume_independent(pairs).count() == pairs.count()
    True
    """
    frame = frame_of(df)
    marks = SHARED_KEY, REPEATED_KEY
    columns = [n for n in frame.columns if any(frame.metadata(n).get(mark) for mark in marks)]
    if not columns and not frame.certain:
        columns = [ALTERNATIVES if frame.uncertain else EXISTENCE]
    if not columns:
        raise ValueError(
            "assume_independent is needed only for uncertain rows, and the "
            f"{frame.noun} has neither `alternatives` nor `existence`: leave the call out"
        )
    return engine_module(frame).assume_independent(frame, columns)


REVISION_COLUMNS = ("window", "final", "revision")


@public_function('sf.ops.newest_revisions(batch, key="room")', "df")
def newest_revisions(df: Any, *, key: ColumnNames | None = None) -> Any:
    """Keep the newest revision of each window among early answers.

    Parameters
    ----------
    df
        Answers of ``sf.window_aggregate(..., early=...)``: a static Spark DataFrame, such as a
        micro-batch in ``foreachBatch``, or a pandas, Polars or Arrow table. The result has the
        same type.
    key
        The `key` of the window_aggregate, or None if it has none.

    Returns
    -------
    The row with the largest `revision` for each `key` and `window`, in no particular order.

    Raises
    ------
    ValueError
        For a stream, for a frame without the columns of early answers, for unknown columns, and for
        two rows with the same key, window and revision (on Spark, when the query runs).
    TypeError
        For arguments of the wrong type.

    Notes
    -----
    ``upsert_revisions`` writes these rows to a table that supports MERGE.
    Cost: one shuffle by `key` and `window` on Spark, one sort in memory.
    More: page reference/functions/newest_revisions of the documentation.

    Examples
    --------
    >>> answers = sf.window_aggregate(
    ...     readings, {"n": "count(*)"}, window=sf.Range("1 minute"), order="made", early="20 s"
    ... )
    >>> newest = sf.ops.newest_revisions(answers)
    >>> answers.count() > newest.count() == newest.select("window").distinct().count()
    True
    """
    frame = frame_of(df)
    if frame.streams:
        raise ValueError(
            "`df` must be a static frame, because a stream has no newest revision; for a stream, "
            "call sf.ops.newest_revisions for each micro-batch, in foreachBatch"
        )
    by = [*_keys(frame, key), "window"]
    return engine_module(frame).newest_rows(frame, by)


def upsert_revisions(table: str, *, key: ColumnNames | None = None) -> Callable[[Any, int], None]:
    """Return a function for ``foreachBatch`` that keeps the newest revision per window in a table.

    Parameters
    ----------
    table
        Name of an existing table with the columns of the answers, in a format that supports MERGE,
        such as Delta Lake or Iceberg.
    key
        The `key` of the window_aggregate, or None if it has none.

    Returns
    -------
    A function of a micro-batch and its number. It inserts the newest revision of each new `key` and
    `window`, and updates rows with a smaller `revision`.

    Raises
    ------
    TypeError
        If `table` is not the name of a table.
    ValueError
        When the query runs, as for ``newest_revisions``. Spark's own errors, such as for a table
        without MERGE, are raised unchanged.

    Notes
    -----
    The table then has one row per `key` and `window`: the newest answer, which is final once
    `final` is true. A micro-batch that is repeated after a failure changes nothing.

    Cost: one MERGE per micro-batch.

    Examples
    --------
        upsert = sf.ops.upsert_revisions("totals", key="room")
        answers.writeStream.foreachBatch(upsert).option("checkpointLocation", state).start()
    """
    if not isinstance(table, str) or not table.strip():
        raise TypeError(f'`table` must be a table name, like "totals"; got {table!r:.80}')

    def upsert(batch: Any, number: int) -> None:
        from sfumato.spark.rows import merge_newer

        merge_newer(newest_revisions(batch, key=key), table, [*_keys(frame_of(batch), key)])

    return upsert


def _keys(frame: Frame, key: ColumnNames | None) -> list[str]:
    """Return the names of the keys. Raises ValueError or TypeError unless answers are early."""
    missing = [f"`{name}`" for name in REVISION_COLUMNS if name not in frame.columns]
    if missing:
        raise ValueError(
            f"`df` must contain early answers, but it has no column {', '.join(missing)}; it has "
            f"{', '.join(frame.columns)}: write sf.window_aggregate(..., early=...), and keep its "
            "columns `window`, `final` and `revision`"
        )
    if frame.kind("revision") != "whole":
        raise TypeError(
            "column `revision` of `df` must contain integers, as in early answers; it is "
            f"{frame.type_name('revision')}: keep the column that sf.window_aggregate returns"
        )
    keys = frame.resolve("key", key)
    if not frame.has_one_row_per_extent(keys):
        raise ValueError(
            "`key` must have all columns of the `key` of sf.window_aggregate, because each of its "
            f"values has its own newest revision; got {', '.join(keys) or None}"
        )
    return keys
