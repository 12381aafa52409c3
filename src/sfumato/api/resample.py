"""Resampling of a stream to a regular grid of event time, for frames."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sfumato.api.calls import ColumnName, ColumnNames, frame_of, public, run
from sfumato.tables.windows.table_resample import resample_job


@public('sf.resample(df, every="1 minute", order="ts", key="sensor")', "df")
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
        A DataFrame of Spark, streaming or static, or a pandas, Polars or Arrow table that is the
        whole stream. The result has the same type.
    every
        Distance of the grid points, "1 minute" or a timedelta: the multiples of it since 1970 UTC.
    order
        Event time, a timestamp or whole microseconds. A stream needs ``sf.reorder`` upstream.
    key
        Column(s); each of their values has a grid, from its first to its last row.
    columns
        Columns to resample; default: all others. `alternatives` and `existence` are always carried.
    fill
        "last": the values of the newest row. None: these if the row is younger than `every`, else
        NULL. "linear": on the line between the neighbouring rows. "mean": the mean since the last
        point, weighted by time.
    limit
        Maximum gap that is filled; None: any. Beyond it the columns are NULL.
    forget_after
        Time to live of a key ("1 day"): a later row begins a new grid, without points between.
    name
        Name of the metrics, instead of the number N in ``sfumato_resample_N``.

    Returns
    -------
    A row per key and grid point: the key columns, `order`, the columns, and `age`: the time since
    the newest row of the key, in seconds if `order` is a timestamp, else in its unit. Columns of
    "linear" and "mean" are double.

    Raises
    ------
    ValueError, TypeError
        For wrong arguments, for "linear" and "mean" of uncertain rows, and for a key that does not
        contain the key of the controller. The query fails over a union of two reordered frames.

    Notes
    -----
    The first row of a key at or after a grid point emits the point.
    Cost: one shuffle by key. State: the newest row of each key.
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
