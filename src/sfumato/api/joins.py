"""Joins of streams by distance, and by the newest earlier row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import combinations
from typing import Any

from sfumato.api.calls import (
    ColumnName,
    ColumnNames,
    engine_module,
    frame_of,
    in_memory,
    public_function,
    run,
)
from sfumato.api.imputation import Imputation
from sfumato.operators.arguments import whole
from sfumato.operators.joins.arrivals import StreamWindow, require_one
from sfumato.tables.joins.similarity_query import (
    NEGLIGIBLE_MEMBER,
    STREAMS,
    JoinQuery,
    check_same_columns,
    check_streams,
)
from sfumato.tables.joins.table_asof_join import DEFAULT_MIN_PROBABILITY, asof_join_job


@public_function(
    'sf.similarity_join(left, right, on="x", within=0.5, probability=0.8, '
    'window=sf.Rows(500), order="ts")',
    "left",
    "right",
)
def similarity_join(
    left: Any,
    right: Any,
    *,
    on: ColumnNames,
    within: float | ColumnName | Mapping[str, float],
    probability: float,
    window: StreamWindow | Sequence[StreamWindow],
    order: ColumnNames,
    key: ColumnNames | None = None,
    strategy: str = "auto",
    output: str = "append",
    alternatives: bool = True,
    metric: str = "euclidean",
    idle_timeout: str | timedelta | None = None,
    impute: Imputation | Mapping[str, Any] | None = None,
    how: str = "inner",
    forget_after: str | timedelta | float | None = None,
    tasks: int | None = None,
    name: str | None = None,
) -> Any:
    """Find the pairs of tuples of two streams that are close with at least a given probability.

    Parameters
    ----------
    left, right
        Spark DataFrames, or tables in memory with the whole streams. The result has this type.
    on
        Attributes or columns of both frames: numbers have a distance, strings must be equal.
    within
        Maximum distance, above 0 and inclusive; a dict of distances; or a radius column.
    probability
        Minimum probability of a pair, in (0, 1].
    window
        sf.Rows(500), sf.Range("10 minutes"), sf.Delta(5, on="x"), or a pair for left and right.
    order, key
        Column(s) of both frames: the order of arrival, and the columns that must be equal.
    strategy, tasks
        "nested", "index", "sort" or "auto", and the number of tasks that share a key's work.
    output
        "append", or "changes": also emit a pair with "-" when one of its tuples leaves its window.
    alternatives
        False omits the column `alternatives`, which may have thousands of entries per pair.
    metric
        "euclidean", or "haversine": `on` = [longitude, latitude] in degrees, `within` in metres.
    idle_timeout, forget_after
        Time without rows after which a side no longer delays the other; time to live of a key.
    impute
        `sf.Imputation`, or its arguments as a dict: impute missing attributes during the join.
    how
        "inner", or "left", "right", "full": also emit the tuples of a side that have no partner.
    name
        Name of the metrics, instead of the number N in ``sfumato_join_N``.

    Returns
    -------
    One row per pair: `left`, `right`, `probability`, `alternatives` (that match), maybe `change`.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for columns that are missing or have the wrong type.

    Notes
    -----
    The probability is exact: it sums the possible worlds in which both tuples exist and are close.
    Cost: one shuffle by key. State: tuples of the windows, rows waiting for the other side.
    More: page reference/functions/similarity_join of the documentation.

    References
    ----------
    Dallachiesa et al. (2015), sections 5 and 6. https://doi.org/10.1007/s10115-014-0804-5
    Lian and Chen (2009), CIKM, pages 857-866; with `impute` Ren et al. (2019), CIKM.

    Examples
    --------
    >>> by = dict(on="celsius", within=0.5, probability=0.2, window=sf.Rows(3), order="arrival")
    >>> other = uncertain.selectExpr("id + 10 AS id", "arrival", "alternatives")
    >>> pairs = sf.similarity_join(uncertain, other, **by)
    >>> sorted((row.left.id, row.right.id, round(row.probability, 2)) for row in pairs.collect())
    [(1, 11, 0.62), (2, 12, 0.62), (3, 13, 0.62), (4, 14, 0.62)]
    """
    asked = (on, within, probability, window, order, key, strategy, output, alternatives, metric)
    imputation = None if impute is None else Imputation.of(impute)
    frames = frame_of(left, "left"), frame_of(right, "right")
    query = JoinQuery(frames, "similarity_join", *asked, forget_after, tasks, imputation, how)
    return run(_in_one_task(query).job(name, idle_timeout))


@public_function(
    'sf.self_join(df, on="x", within=0.5, probability=0.8, window=sf.Range("10 minutes"), '
    'order="ts")',
    "df",
)
def self_join(
    df: Any,
    *,
    on: ColumnNames,
    within: float | ColumnName | Mapping[str, float],
    probability: float,
    window: StreamWindow,
    order: ColumnNames,
    key: ColumnNames | None = None,
    strategy: str = "auto",
    output: str = "append",
    alternatives: bool = True,
    metric: str = "euclidean",
    forget_after: str | timedelta | float | None = None,
    tasks: int | None = None,
    name: str | None = None,
) -> Any:
    """Find the pairs of tuples of one stream that are close with at least a given probability.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory with the whole stream. The result has the same type.
    on, ..., name
        As for ``sf.similarity_join``.

    Returns
    -------
    One row per pair, with the columns of ``sf.similarity_join``. Each arriving tuple is matched
    with the earlier tuples in the window. Every pair is emitted once: `left` is the arriving tuple,
    `right` an earlier tuple. No tuple is paired with itself.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for columns that are missing or have the wrong type.

    Notes
    -----
    The metrics ``sfumato_self_join_N`` have the same counters as a join's metrics. Downstream of
    sf.reorder, with its event time as `order`, late rows are left out and counted.
    Cost: as much as a join of two streams with half the rows each. One shuffle by `key`, of `tasks`
    copies of the rows; the stream is read once. State: the rows of the window.

    References
    ----------
    Dallachiesa et al. (2015), sections 5 and 6. https://doi.org/10.1007/s10115-014-0804-5
    Lian and Chen (2009), Efficient join processing on uncertain data streams, CIKM.

    Examples
    --------
    >>> pairs = sf.self_join(
    ...     uncertain, on="celsius", within=1.0, probability=0.4, window=sf.Rows(3), order="arrival"
    ... )
    >>> sorted((row.left.id, row.right.id, round(row.probability, 2)) for row in pairs.collect())
    [(2, 1, 0.62), (4, 2, 0.62), (4, 3, 0.62)]
    """
    require_one(window)
    asked = (on, within, probability, window, order, key, strategy, output, alternatives, metric)
    query = JoinQuery([frame_of(df)], "self_join", *asked, forget_after, tasks)
    return run(_in_one_task(query).job(name))


@public_function(
    'sf.neighbours(df, on="x", within=0.5, window=sf.Range("10 minutes"), order="ts")',
    "df",
    "other",
)
def neighbours(
    df: Any,
    *,
    other: Any = None,
    on: ColumnNames,
    within: float | ColumnName | Mapping[str, float],
    window: StreamWindow,
    order: ColumnNames,
    key: ColumnNames | None = None,
    fewer_than: int | None = None,
    aggregates: Mapping[str, str] | None = None,
    quantiles: Sequence[float] = (),
    distribution: int | None = None,
    metric: str = "euclidean",
    idle_timeout: str | timedelta | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> Any:
    """Count or aggregate the earlier tuples in the window that are close to each tuple.

    A tuple with few neighbours is a distance-based outlier: ``fewer_than=3`` gives the probability
    that it has fewer than 3.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory with the whole stream. The result has the same type.
    other
        A frame of the same kind whose tuples are counted; None for `df` itself.
    on, within, order, key, metric, idle_timeout, forget_after, name
        As for ``sf.similarity_join``. The metrics are ``sfumato_neighbours_N``. `idle_timeout`
        needs two frames.
    window
        As for ``sf.self_join``: the tuples of the last `length`, or the newest `rows` that exist,
        without the tuple itself; with `other`, tuples of that frame. The `confidence` of sf.Rows
        has no effect.
    fewer_than
        At least 1; adds the column `probability`, Pr(fewer neighbours than this number).
    aggregates, quantiles, distribution
        As for ``sf.window_aggregate``, over the neighbours: ``{"best": "max(score)"}``. Uncertain
        neighbours need a time window.

    Returns
    -------
    One row per valid input row that may exist and is not late: all its columns, and `neighbours`,
    with the mean, stddev and `distribution` of their number (an array of prob and value, for
    ``sf.quantile("value", 0.9, "neighbours.distribution")``); with `fewer_than`, `probability`;
    with `aggregates`, their results: structs, or plain values if all rows are certain.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for columns that are missing or have the wrong type.

    Notes
    -----
    All answers are exact, conditional on the tuple's existence, and final: the row is emitted when
    it arrives, with its neighbours among the tuples then in its window. Both frames are aligned as
    in ``sf.similarity_join``, and must have no reading in common.
    More: page reference/functions/neighbours of the documentation.
    Cost: one shuffle by `key`. Per alternative of a row, the squared number of its possible
    neighbours; more in count windows. State: the tuples of the window.

    References
    ----------
    Dallachiesa et al. (2015), section 1 (outliers). https://doi.org/10.1007/s10115-014-0804-5

    Examples
    --------
    >>> counted = sf.neighbours(
    ...     uncertain, on="celsius", within=1.0, window=sf.Rows(3), order="arrival", fewer_than=1
    ... )
    >>> [(row.id, round(row.probability, 2)) for row in counted.orderBy("id").collect()]
    [(1, 1.0), (2, 0.38), (3, 0.94), (4, 0.06)]
    """
    require_one(window)
    if fewer_than is not None:
        whole("fewer_than", fewer_than)
    if other is None and idle_timeout is not None:
        raise ValueError(
            "`idle_timeout` needs two frames: give `other`, or leave `idle_timeout` out"
        )
    frames = [frame_of(df)] if other is None else [frame_of(df), frame_of(other, "other")]
    asked = (on, within, NEGLIGIBLE_MEMBER, window, order, key, "auto", "append", False, metric)
    query = JoinQuery(frames, "neighbours", *asked, forget_after, 1)
    how = fewer_than, aggregates, distribution, quantiles
    return run(query.neighbours_job(name, idle_timeout, *how))


@public_function(
    'sf.join_streams({"a": a, "b": b}, on="x", within=0.5, probability=0.8, '
    'window=sf.Rows(500), order="ts")',
    "streams",
)
def join_streams(streams: Mapping[str, Any], *, name: str | None = None, **options: Any) -> Any:
    """Find pairs of tuples of different streams that are close with at least a given probability.

    Parameters
    ----------
    streams
        {name: frame}, at least two, all from Spark or all in memory, with the same columns and
        types.
    name
        Name of the metrics; the join of the streams `a` and `b` is named NAME_a_b.
    options
        The keyword arguments of ``sf.similarity_join``, including `impute`.

    Returns
    -------
    One row per pair: `left_stream` and `right_stream`, the names of the two streams, followed by
    the columns of ``sf.similarity_join``. Every two streams are joined with separate windows, the
    stream that comes first in `streams` on the left; no stream is joined with itself.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for columns that are missing or have the wrong type.

    Notes
    -----
    Cost: n (n - 1) / 2 joins of two streams, in one query: each row is shuffled and held n - 1
    times.

    References
    ----------
    Ren et al. (2019), section 5.2 (n streams). CIKM.

    Examples
    --------
    >>> streams = {of: uncertain.where(f"sensor = '{of}'") for of in "ab"}
    >>> window = {"window": sf.Rows(3), "order": "arrival"}
    >>> pairs = sf.join_streams(streams, on="celsius", within=1.0, probability=0.4, **window)
    >>> [(row.left_stream, row.right_stream, round(row.probability, 2)) for row in pairs.collect()]
    [('a', 'b', 0.62), ('a', 'b', 0.62)]
    """
    check_streams(streams)
    frames = {stream: frame_of(given, stream) for stream, given in streams.items()}
    check_same_columns(frames)
    if options.get("impute") is not None:
        options["impute"] = Imputation.of(options["impute"])  # read once for all pairs
    parts = []
    for (one, left), (other, right) in combinations(streams.items(), 2):
        called = None if name is None else f"{name}_{one}_{other}"
        part = similarity_join(left, right, name=called, **options)
        parts.append((part, dict(zip(STREAMS, (one, other), strict=True))))
    return engine_module(next(iter(frames.values()))).concatenate(parts)


def _in_one_task(query: JoinQuery) -> JoinQuery:
    """Return the query, with one task for tables in memory, where `tasks` is only checked."""
    if in_memory(query.frames[0]):
        query.tasks = 1
    return query


@public_function('sf.asof_join(left, right, order="ts", key="sensor")', "left", "right")
def asof_join(
    left: Any,
    right: Any,
    *,
    order: ColumnName,
    key: ColumnNames | None = None,
    within: str | timedelta | None = None,
    probability: float = DEFAULT_MIN_PROBABILITY,
    how: str = "left",
    idle_timeout: str | timedelta | None = None,
    forget_after: str | timedelta | None = None,
    name: str | None = None,
) -> Any:
    """Pair each row with the newest earlier row of another stream.

    Parameters
    ----------
    left, right
        Spark DataFrames, or tables in memory with the whole streams. The result has this type.
    order
        Event time, a column of both frames: a timestamp or whole microseconds.
    key
        Column(s) of both frames whose values must be equal.
    within
        Maximum age of the right row, inclusive: "10 seconds"; None for any age.
    probability
        Minimum probability of a row of the result, in (0, 1].
    how
        "left" or "inner". "left" also returns left rows that have no earlier right row, with NULL.
    idle_timeout
        A side without rows for this long no longer delays the other side.
    forget_after
        Time to live of a key ("1 day"), after which it starts without earlier rows.
    name
        Name of the metrics, instead of the number N in ``sfumato_asof_N``.

    Returns
    -------
    `left` and `right` (structs of all columns), with one row per left row. If right rows have
    alternatives or a column `existence`: one row per candidate, with the `probability` that it is
    the newest existing row, and one row with NULL and the probability that no candidate exists.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for columns that are missing or have the wrong type.

    Notes
    -----
    Cost: one shuffle by key. State: the newest right row per key, and waiting rows.
    More: page reference/functions/asof_join of the documentation.

    References
    ----------
    Dallachiesa et al. (2015), section 3. https://doi.org/10.1007/s10115-014-0804-5

    Examples
    --------
    >>> a, b = (readings.where(f"sensor = '{of}'") for of in "ab")
    >>> found = sf.asof_join(a, b, order="made", within="5 s").orderBy("left.id")
    >>> [(row.left.id, row.right and row.right.id) for row in found.collect()]
    [(1, None), (3, None), (4, 2)]
    """
    frames = frame_of(left, "left"), frame_of(right, "right")
    return run(
        asof_join_job(
            *frames, order, key, within, probability, how, idle_timeout, forget_after, name
        )
    )
