"""Aggregates over windows of uncertain tuples, for frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from sfumato.api.calls import ColumnName, ColumnNames, frame_of, in_memory, public_function, run
from sfumato.tables.reading.extents import one_copy_window
from sfumato.tables.reading.frame import column_names
from sfumato.tables.reading.job import Job
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
        {result name: aggregate}, such as "avg(x)" or "quantile(x, 0.9)", where x is an expression.
    window
        sf.Rows, sf.Range (or its length, "5 minutes"), sf.Session or sf.Delta.
    order, key
        Column(s) with the order of arrival, for Range and Session the event time; and the keys.
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
        For wrong arguments, `quantiles` or `distribution` of certain rows, or too large exact sums.

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
