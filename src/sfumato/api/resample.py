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
        whole stream. The result is of the same kind.
    every
        Distance of the grid points, "1 minute" or a timedelta: the multiples of it since 1970 UTC.
    order
        Event time, a timestamp or whole microseconds. On streams the rows of a key must come in
        this order (``sf.reorder`` ensures this): a row that is older than its key's newest row is
        left out and counted as late, as are rows flagged late.
    key
        Column(s); each of their values has a grid, from its first to its last row.
    columns
        Columns to resample; default: all others. `alternatives` and `existence` are always carried.
    fill
        "last": the values of the key's newest row. None: these while the row is younger than
        `every`, else NULL. "linear": on the line between the neighbouring rows. "mean": the mean
        over (point - every, point], weighted by time; each value holds until the key's next row,
        and NULL does not count.
    limit
        Largest gap that is filled; None: any. "last" and "mean": a value holds for so long.
        "linear": longest time between the two rows. Beyond it the columns are NULL.
    forget_after
        Time to live of a key, "1 day": a row that comes later than this after the key's last one
        begins a new grid, without points between.
    name
        Name of the metrics, instead of the number N.

    Returns
    -------
    A row per key and grid point: the key columns, `order`, the columns, and `age`: the time since
    the key's newest row, 0 for a row at the grid point; in seconds if `order` is a timestamp, else
    in its unit. Columns of "linear" and "mean" are double.

    Raises
    ------
    ValueError, TypeError
        For wrong arguments, for "linear" and "mean" of uncertain rows, and for a key that does not
        contain the key of the controller. The query fails over a union of two reordered frames.

    Notes
    -----
    The first row of a key at or after a grid point emits the point, so results do not depend on
    micro-batches. With several rows at a grid point, the first is the newest there. Results are in
    order within each key. NULL in a row stays NULL: use fill=None and ``sf.impute``. Alternatives
    are repeated, so points are not independent; operators warn of this.
    The integral over a cell is its "mean" times `every`, if values are known all the time.

    ``sfumato_resample_N`` counts rows, invalid (no order), late, out_of_order, and skipped: points
    in gaps of more than 1,000,000 points, which are not emitted.
    Cost: one shuffle by key. State: the newest row of each key. References: this project.

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
