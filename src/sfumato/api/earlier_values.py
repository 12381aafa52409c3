"""Latest known values before each row of a frame."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sfumato.api.calls import ColumnName, ColumnNames, frame_of, public_function, run
from sfumato.tables.imputation.table_earlier_values import earlier_values_job


@public_function('sf.earlier_values(df, ["celsius"], order="ts", key="sensor")', "df")
def earlier_values(
    df: Any,
    attributes: ColumnNames,
    *,
    order: ColumnName,
    key: ColumnNames | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> Any:
    """Add to each row its key's latest known values, as determinants for imputation.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory with the whole stream. The result has the same type.
    attributes
        Numeric column(s), by name or as Column objects (see `reorder`). NULL, NaN and infinite
        values are missing.
    order
        Column that orders the rows, a timestamp or a number; simultaneous rows are ordered by
        their contents. On streams it must not decrease from one micro-batch to the next
        (``sf.reorder`` ensures this). A row that arrives after newer rows gets the values known by
        then, with a negative age, and does not replace newer values.
    key
        Column(s) that identify a sensor, device or stream.
    forget_after
        Time to live of a key, "1 day" (a number in the unit of `order` if `order` is a number). A
        row that is more than `forget_after` later than the key's last row starts without known
        values. The state is deleted soon afterwards.
    name
        Name of the metrics, instead of the number N.

    Returns
    -------
    One row per input row: all columns of `df`, and for each attribute `earlier_ATTR`, its newest
    known value in earlier rows, and `age_ATTR`, the age of that value: in seconds if `order` is a
    timestamp, otherwise in the unit of `order`. Both are NULL before the first known value, and in
    rows without order or key. Values of rows without order or key are not kept.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for columns that are missing or have the wrong type.

    Notes
    -----
    The observed metrics ``sfumato_earlier_values_N`` have the counters `rows`, `invalid` (rows
    without order or key) and `out_of_order`.

    Downstream of sf.reorder, `order` must be its event time, the columns `late`, `punctuation` and
    arrival must still exist, and `key` must contain the controller's key. A late row is processed
    after the rows that its punctuation had released. Its values are not added to these rows, even
    in a static frame.

    The added columns can be determinants, as in ``earlier_x, age_x -> x : 0.01, 0.1 -> 0.02``. The
    repository needs the columns as well: apply this function to a static frame with the stream's
    past, including gaps; ``sf.impute`` uses its complete rows.

    More: page reference/functions/earlier_values of the documentation.
    Cost: one shuffle by key. State: 2 numbers per attribute and key.

    Examples
    --------
    >>> known = sf.earlier_values(readings, "celsius", order="arrival", key="sensor")
    >>> [(row.id, row.earlier_celsius) for row in known.orderBy("id").collect()]
    [(1, None), (2, None), (3, 20.0), (4, 23.0)]
    """
    return run(earlier_values_job(frame_of(df), attributes, order, key, forget_after, name))
