"""Aggregates over windows, and resampling to a regular grid of event time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sfumato.api.calls import ColumnName, ColumnNames, frame_of, in_memory, public_function, run
from sfumato.tables.reading.extents import one_copy_window
from sfumato.tables.reading.frame import column_names
from sfumato.tables.reading.job import Job
from sfumato.tables.windows.table_resample import resample_job
from sfumato.tables.windows.table_windows import quantile_name as quantile_name
from sfumato.tables.windows.window_query import DEFAULT_LEVEL as DEFAULT_LEVEL
from sfumato.tables.windows.window_query import EARLY_COLUMNS as EARLY_COLUMNS
from sfumato.tables.windows.window_query import TIME_WINDOWS, WindowQuery
from sfumato.tables.windows.window_query import parse_aggregates as parse_aggregates
from sfumato.windows import Delta, Range, Rows, Session, window_of


@public_function(
    'sf.window_aggregate(df, {"mean": "avg(x)"}, window=sf.Range("1 minute"), order="ts")', "df"
)
def window_aggregate(
    df: Any,
    aggregates: Mapping[str, str],
    *,
    window: Rows | Range | Session | Delta,
    order: ColumnNames,
    key: ColumnNames | None = None,
    distribution: int | None = None,
    existence: ColumnName | None = None,
    quantiles: Sequence[float] = (),
    with_rows: bool = False,
    missed: bool = False,
    early: str | timedelta | None = None,
    level: float | None = None,
    unique: ColumnNames | None = None,
    version: ColumnName | None = None,
    shared: ColumnName | None = None,
    seed: int = 0,
    samples: int = 1000,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> Any:
    """Compute aggregates over windows: plain values for certain rows, distributions for others.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory with the whole stream. The result has the same type.
    aggregates
        {name: aggregate} of an expression x: "avg(x)", "count_if(x > 3)", "sum(x) FILTER (WHERE y)"
    window
        sf.Rows, sf.Range (or its length, "5 minutes"), sf.Session or sf.Delta.
    order, key
        The order of arrival or, for Range and Session, the event time; and column(s) of the key.
    distribution, quantiles
        Add each result's distribution, with at most `distribution` values; and its quantiles at the
        levels `quantiles`, as fields q05, q50, ...
    existence
        Column with the probability of each row, for a frame without alternatives.
    with_rows, missed
        Range and Session: return every row of an extent, with the extent's results; or also return
        each row that is in no extent, see `split_missed`.
    early, level
        Range: also emit revisions of open extents at multiples of `early` ("10 seconds"), with
        intervals at `level` (0.9) for the final answers. sf.reorder needs ``early=True``.
    unique, version, shared
        Range: per key and value of `unique`, an extent uses the row with the largest `version` that
        arrived before its completion. Rows with the same `shared` take the same alternative.
    seed, samples
        Seed and number of samples, for results with too many possible values to be exact.
    forget_after
        Time to live of a key ("1 day"), after which it starts with an empty window.
    name
        Name of the metrics, instead of the number N in ``sfumato_window_N``.

    Returns
    -------
    Rows, Delta: one row per input row that is not late, with its certain columns. Range, Session:
    one row per extent and key, with the key, `window`, `punctuation`, `late`. All have `held` and
    the results: values for certain rows, otherwise structs with `mean`, `stddev`, `existence`.

    Raises
    ------
    ValueError, TypeError
        For wrong arguments, `quantiles` or `distribution` of certain rows, or sums out of range.

    Notes
    -----
    Cost: one shuffle by key. State: the held tuples.
    More: page reference/functions/window_aggregate of the documentation.

    References
    ----------
    Dallachiesa et al. (2015), sections 4, 7.3, 8.1. https://doi.org/10.1007/s10115-014-0804-5
    Kim et al. (2006), section 6. https://doi.org/10.1109/CIT.2006.33

    Examples
    --------
    >>> window = sf.Rows(2)
    >>> means = sf.window_aggregate(readings, {"m": "avg(celsius)"}, window=window, order="arrival")
    >>> [(row.id, row.held, row.m) for row in means.orderBy("id").collect()]
    [(1, 1, 20.0), (2, 2, 20.5), (3, 2, 22.0), (4, 2, 22.5)]
    """
    how: dict[str, Any] = {"quantiles": quantiles, "seed": seed, "samples": samples}
    how |= {"early": early, "level": level, "with_rows": with_rows, "missed": missed}
    how |= {"unique": unique, "version": version, "shared": shared, "forget_after": forget_after}
    return aggregate(df, aggregates, window, order, key, existence, distribution, name=name, **how)


@public_function("sf.split_missed(means)", "df")
def split_missed(df: Any) -> tuple[Any, Any]:
    """Split the result of ``window_aggregate(..., missed=True)`` into (results, missed rows).

    Parameters
    ----------
    df
        The result, or a micro-batch of it in ``foreachBatch``, so that one query writes both parts.

    Returns
    -------
    The results without the column `missed`, and the missed rows with their original columns and
    `reason`: "late", "outside", "invalid", "absent", "outdated" or "unequal".

    Raises
    ------
    ValueError
        For a frame without the column `missed`.

    Notes
    -----
    Cost: one filter per frame.
    More: page reference/functions/split_missed of the documentation.

    Examples
    --------
    >>> window = sf.Range("4 seconds", slide="8 seconds")
    >>> sums = sf.window_aggregate(
    ...     readings, {"n": "count(*)"}, window=window, order="made", missed=True
    ... )
    >>> results, missed = sf.split_missed(sums)
    >>> [row.n for row in results.collect()], missed.select("id", "reason").orderBy("id").first()
    ([1], Row(id=1, reason='outside'))
    """
    frame = frame_of(df)
    if "missed" not in frame.columns:
        raise ValueError(
            "sf.split_missed expects the result of sf.window_aggregate(..., missed=True); got a "
            f"frame with the columns {', '.join(frame.columns)}"
        )
    if in_memory(frame):
        missed = frame.table.column("missed").combine_chunks()
        results = frame.table.filter(missed.is_null()).drop_columns(["missed"])
        rows = missed.filter(missed.is_valid())
        return results, pa.Table.from_struct_array(rows)
    results = df.where("missed IS NULL").drop("missed")
    return results, df.where("missed IS NOT NULL").select("missed.*")


def aggregate(
    df: Any,
    aggregates: Mapping[str, str],
    window: Rows | Range | Session | Delta,
    order: str | Sequence[str],
    key: str | Sequence[str] | None,
    existence: str | None,
    distribution: int | None,
    *,
    name: str | None = None,
    **how: Any,
) -> Any:
    """Return the result of `window_aggregate`. how : the other arguments of `WindowQuery`"""
    frame, window, placed = frame_of(df), window_of(window), None
    orders = column_names("order", order)
    meant = orders[0] if len(orders) == 1 else orders
    own = frame
    if isinstance(window, TIME_WINDOWS) and frame.is_uncertain_time(meant):
        if isinstance(window, Session):
            raise ValueError(
                f"`order` must be a certain event time for sf.Session; `{meant}` is an attribute "
                "of the alternatives: name a column of certain times, or use sf.Range"
            )
        own.require_uncertain_time(str(meant))
        order, placed, window = own.free_name("__extent_time"), window, one_copy_window(window)
        frame = own.by_extent(str(meant), order, placed)
    asked = (parse_aggregates(aggregates), window, order, key, existence, distribution)
    query = WindowQuery(frame, *asked, placed=placed, **how)
    unordered = query.missed or query.early is not None
    found = run(
        Job(
            "window_aggregate",
            "window",
            name,
            [query.input],
            query.settings,
            query.outputs,
            idle_timeout=query.idle_timeout_us,
            order=None if unordered else () if query.timed else query.orders,
        )
    )
    return found if placed is None else own.with_true_extents(found, placed)


@public_function('sf.resample(df, every="1 minute", order="ts", key="sensor")', "df")
def resample(
    df: Any,
    *,
    every: str | timedelta,
    order: ColumnName,
    key: ColumnNames | None = None,
    columns: ColumnNames | None = None,
    fill: str | None = "last",
    limit: str | timedelta | None = None,
    forget_after: str | timedelta | None = None,
    name: str | None = None,
) -> Any:
    """Emit one row per key at each point of a regular grid of event time.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory with the whole stream. The result has the same type.
    every
        Distance between grid points, "1 minute" or a timedelta. The points are the multiples of
        `every` since 1970-01-01 UTC.
    order
        Event time, a timestamp or whole microseconds. A stream needs ``sf.reorder`` upstream.
    key
        Column(s); each key has a grid from its first to its last row.
    columns
        Columns to resample; default: all others. `alternatives` and `existence` are always kept.
    fill
        "last": the values of the newest row. None: the same if the row is younger than `every`,
        otherwise NULL. "linear": linear interpolation between the neighbouring rows. "mean": the
        time-weighted mean since the last point.
    limit
        Maximum gap to fill; in longer gaps the columns are NULL. None for no maximum.
    forget_after
        Time to live of a key ("1 day"): a later row starts a new grid, without points in between.
    name
        Name of the metrics, instead of the number N in ``sfumato_resample_N``.

    Returns
    -------
    One row per key and grid point: the key columns, `order`, the columns, and `age`, the time since
    the key's newest row, in seconds if `order` is a timestamp, otherwise in the unit of `order`.
    Columns filled with "linear" or "mean" are double.

    Raises
    ------
    ValueError, TypeError
        For wrong arguments, for "linear" and "mean" of uncertain rows, and for a key that does not
        contain the key of the controller. The query fails over a union of two reordered frames.

    Notes
    -----
    A grid point is emitted when the key's first row at or after it arrives.
    Cost: one shuffle by key. State: the newest row per key.
    More: page reference/functions/resample of the documentation.

    Examples
    --------
    >>> grid = sf.resample(readings, every="4 s", order="made", key="sensor", columns="celsius")
    >>> rows = grid.where("sensor = 'a'").orderBy("made").collect()
    >>> [(row.made.second, row.celsius, row.age) for row in rows]
    [(0, 20.0, 0.0), (4, 22.0, 0.0), (8, 22.0, 4.0)]
    """
    return run(
        resample_job(frame_of(df), every, order, key, columns, fill, limit, forget_after, name)
    )
