"""Latest known values before each row of a stream, for frames."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sfumato.api.calls import ColumnName, ColumnNames, frame_of, public, run
from sfumato.tables.imputation.table_earlier_values import earlier_values_job


@public('sf.earlier_values(df, ["celsius"], order="ts", key="sensor")', "df")
def earlier_values(
    df: Any,
    attributes: ColumnNames,
    *,
    order: ColumnName,
    key: ColumnNames | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> Any:
    """Add to each row the latest known values of its key's earlier rows: determinants for
    imputation.

    Parameters
    ----------
    df
        A DataFrame of Spark, streaming or static, or a pandas, Polars or Arrow table that is the
        whole stream. The result has the same type.
    attributes
        Column(s) of numbers, by name or as Column objects (see `reorder`), in which NULL (NaN,
        infinite) is a missing value.
    order
        Column that orders the rows, a timestamp or a number; simultaneous rows are in an order of
        their contents. On streams it must not decrease from one micro-batch to the next
        (``sf.reorder`` ensures this): a row that comes after later ones gets the values known by
        then, with a negative age, and replaces no newer value.
    key
        Column(s) that identify a sensor, device or stream.
    forget_after
        Time to live of a key, "1 day" (in the unit of `order` where that is a number): a row that
        comes later than this after the key's last one starts with no known values. The state is
        deleted soon afterwards.
    name
        Name of the metrics, instead of the number N.

    Returns
    -------
    A row per input row: all columns of `df`, and per attribute `earlier_ATTR`, its newest known
    value among the rows before, and `age_ATTR`, the age of that value: in seconds where `order` is
    a timestamp, else in its unit. Both are NULL before the first known value, and in rows without
    order or key, whose values are not kept either.

    Raises
    ------
    ValueError, TypeError
        For values out of range, and for columns that are missing or have another type.

    Notes
    -----
    The observed metrics ``sfumato_earlier_values_N`` count rows, invalid (no order or no key) and
    out_of_order.

    Downstream of sf.reorder, `order` must be its event time, its columns `late`, `punctuation` and
    arrival must be there, and `key` must contain the key of the controller. A late row takes its
    place after the rows that its punctuation had released: these rows did not know it, even in a
    static frame.

    A sensor that read 20.5 a minute ago reads about the same now. A dependency states how far:
    "earlier_temperature, age_temperature -> temperature : 0.01, 0.1 -> 0.02". The repository needs
    these columns as well: apply this function to a static frame with the stream's past, gaps
    included; ``sf.impute`` uses its complete rows.

    More: page reference/functions/earlier_values of the documentation.
    Cost: one shuffle by key. State: 2 numbers per attribute and key.

    Examples
    --------
    >>> known = sf.earlier_values(readings, "celsius", order="arrival", key="sensor")
    >>> [(row.id, row.earlier_celsius) for row in known.orderBy("id").collect()]
    [(1, None), (2, None), (3, 20.0), (4, 23.0)]
    """
    return run(earlier_values_job(frame_of(df), attributes, order, key, forget_after, name))
