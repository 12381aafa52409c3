"""The disorder controller for frames: rows in order of event time, with late rows marked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sfumato.api.calls import (
    ColumnName,
    ColumnNames,
    engine_module,
    frame_of,
    public_function,
    refuse_shown_early,
    run,
)
from sfumato.tables.disorder.table_reorder import reorder_job, require_late_flags


@public_function('sf.reorder(df, event_time="ts", arrival="arrival", drop_ratio=0.01)', "df")
def reorder(
    df: Any,
    *,
    event_time: ColumnName,
    arrival: ColumnName,
    key: ColumnNames | None = None,
    source: ColumnNames | None = None,
    expected_sources: int | None = None,
    drop_ratio: float | None = None,
    slack: int | None = None,
    max_delay: str | timedelta | None = None,
    punctuation: ColumnName | None = None,
    estimator: str | None = None,
    max_buffer: int | None = None,
    max_buffer_total: int | None = None,
    max_ahead: str | timedelta | None = None,
    max_behind: str | timedelta | None = None,
    unique: ColumnNames | None = None,
    remember: str | timedelta | None = None,
    early: bool = False,
    idle_timeout: str | timedelta | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> Any:
    """Order rows by event time per key, and add the columns `late` and `punctuation`.

    Parameters
    ----------
    df
        A Spark DataFrame, or a table in memory with the whole stream. The result has the same type.
    event_time, arrival
        When the event happened, and when the row was received: timestamps, or whole microseconds.
        Wherever an argument names a column, write its name or a Column object.
    key
        Column(s); each key has a separate controller. None: one controller for the whole frame.
    source, expected_sources
        Column(s) that name the sources of a key (topics, devices), each with its own controller;
        and the number of sources that must have sent a row before rows of the key are emitted.
    drop_ratio
        Share of rows that may arrive too late to be ordered, in (0, 0.5].
    slack, max_delay
        Instead of `drop_ratio`: a number of rows to hold, or a fixed time to wait ("5 minutes").
    punctuation
        Instead of these three arguments: a time column; no later row has an earlier event time.
    estimator
        "conformal" (default) or "normal", for `drop_ratio`; alone: "max", the largest delay so far.
    max_buffer, max_buffer_total
        Maximum number of held rows, per controller or over all keys; the oldest are emitted.
    max_ahead, max_behind
        Rows whose event time is over `max_ahead` after or `max_behind` before arrival are late.
    unique, remember
        Column(s) that identify a row: its copies are late; and the minimum time to remember it.
    early
        Also emit each row on arrival (column `early`), for early answers. Not with `forget_after`.
    idle_timeout
        On a stream: a key or source without rows for this long no longer delays the others.
    forget_after
        Time to live of a key ("1 day"), longer than any delay. Not with `source`.
    name
        Name of the metrics, instead of the number N in ``sfumato_reorder_N``.

    Returns
    -------
    Each row once, with `late`, `punctuation` (a watermark) and, with `unique`, `duplicate`.

    Raises
    ------
    ValueError
        For columns that are missing or already exist, and settings that cannot be combined.

    Notes
    -----
    Cost: one shuffle by key. State: the held rows, and 2 to 4 KB per controller.
    More: page reference/functions/reorder of the documentation.

    References
    ----------
    Kim et al. (2006), sections 3 to 5. https://doi.org/10.1109/CIT.2006.33

    Examples
    --------
    >>> ordered = sf.reorder(readings, event_time="made", arrival="arrival", slack=1)
    >>> [(row.id, row.late) for row in ordered.collect()]
    [(1, False), (2, False), (4, False), (3, False)]
    """
    columns = event_time, arrival, key, source, unique, remember
    waits: dict[str, Any] = {"drop_ratio": drop_ratio, "slack": slack, "estimator": estimator}
    waits |= {"max_buffer": max_buffer, "max_buffer_total": max_buffer_total}
    waits |= {"max_delay": max_delay, "max_ahead": max_ahead, "max_behind": max_behind}
    limits = expected_sources, idle_timeout, forget_after
    return run(reorder_job(frame_of(df), *columns, waits, *limits, name, early, punctuation))


@public_function("sf.split_late(reordered)", "df")
def split_late(df: Any) -> tuple[Any, Any]:
    """Split a reordered frame into (on_time, late), with all columns.

    On a stream the results become two separate queries; the same rows are late in both. To compute
    both in one query, split each micro-batch in ``foreachBatch``, where it is persisted.
    More: page how-to/late-rows of the documentation.

    Parameters
    ----------
    df
        A frame that ``sf.reorder`` returned, or a micro-batch of it in ``foreachBatch``.

    Returns
    -------
    The rows that are on time, and the late rows.

    Raises
    ------
    ValueError
        For a frame without the column `late` that `sf.reorder` adds.

    Notes
    -----
    Cost: one filter per frame.

    Examples
    --------
    >>> ordered = sf.reorder(readings, event_time="made", arrival="arrival", slack=0)
    >>> on_time, late = sf.split_late(ordered)
    >>> on_time.count(), late.count()
    (3, 1)
    """
    frame = frame_of(df)
    require_late_flags(frame)
    refuse_shown_early(frame, "split_late")
    on_time, late = engine_module(frame).split_by(frame, "late")
    return on_time, late
