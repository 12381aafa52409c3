"""Resampling of a stream to a regular grid of event time, for frames."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sfumato.api.calls import ColumnName, ColumnNames, frame_of, public_function, run
from sfumato.tables.windows.table_resample import resample_job


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
