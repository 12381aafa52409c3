"""As-of joins of frames: each row with the newest earlier row of another stream."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sfumato.api.calls import ColumnName, ColumnNames, frame_of, public_function, run
from sfumato.tables.joins.table_asof_join import DEFAULT_MIN_PROBABILITY, asof_join_job


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
        Spark DataFrames, streaming or static, or pandas, Polars or Arrow tables that are the whole
        streams. The result has the type of `left`.
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
