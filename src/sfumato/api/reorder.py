"""Ordering of rows by event time, with late rows marked: the disorder controller for frames."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sfumato.api.calls import ColumnName, ColumnNames, frame_of, in_memory, public, run
from sfumato.tables.disorder.reorder_job import reorder_job, require_marked


@public('sf.reorder(df, event_time="ts", arrival="arrival", drop_ratio=0.01)', "df")
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
    estimator: str | None = None,
    max_buffer: int | None = None,
    max_ahead: str | timedelta | None = None,
    max_behind: str | timedelta | None = None,
    unique: ColumnNames | None = None,
    idle_timeout: str | timedelta | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> Any:
    """Order rows by event time per key, and add the columns `late` and `punctuation`.

    Parameters
    ----------
    df
        A DataFrame of Spark, streaming or static, or a pandas, Polars or Arrow table that is the
        whole stream. The result is of the same kind.
    event_time, arrival
        When the event happened and when the row was received: timestamps, or whole numbers in
        microseconds. Rows are read in order of `arrival`, simultaneous rows in order of event time.
        Here and in every argument that names a column, write its name or a Column object (in memory
        ``pl.col("x")``). An expression is a temporary column; it is in the result only if it has an
        alias, under that name.
    key
        Column(s); one disorder controller per key. None: one controller for the whole frame.
    source
        Column(s) that name the sources of a stream (topics, partitions, devices, files): one
        controller per source and key. A row is late only if it is late for its own source, so
        lateness does not depend on how fast the sources are read. Rows are emitted up to the lowest
        punctuation of the sources, in order of event time, source, arrival.
    expected_sources
        Emit nothing for a key before this many sources have sent a row. None: a source counts from
        the first micro-batch that contains a row of it.
    drop_ratio
        Share of rows that may arrive too late to be ordered, in (0, 0.5]. The estimator is then
        "conformal" (the default; assumes nothing about the delays) or "normal" (assumes normal
        delays).
    slack
        Instead of `drop_ratio`: buffer a fixed number of rows.
    max_delay
        Instead of these: the punctuation is the newest event time minus this ("5 minutes").
    estimator
        See `drop_ratio`; "max" needs none of these three, and waits for the largest difference of
        delays seen.
    max_buffer
        Buffer at most this many rows for the disorder of each key or source; the oldest are emitted
        first. Alone, rows are buffered until the buffer is full. Rows that wait for other sources
        are not bounded by it, and the total over keys has no bound.
    max_ahead, max_behind
        Rows whose event time is further after their arrival ("1 hour"), or further before it
        ("7 days"), are late at once and move no punctuation.
    unique
        Column(s) that identify a row. Of the rows of a key and source with the same values, the
        first that arrives stays; later ones are emitted at once as late, with ``duplicate = true``,
        and change nothing else. A row with a NULL among them is never a duplicate. A row is
        remembered until the punctuation has passed its event time, when a copy of it is late in any
        case, and at least for `forget_after`.
    idle_timeout
        On a stream: a key or source that has been silent for this long ("10 seconds") no longer
        delays the others until it sends a row again. When all are silent, all rows are emitted.
    forget_after
        Time to live of a key, "1 day". If its next row arrives later than this after its last one,
        all rows that it buffers are emitted first, in order, as at the end of a stream, and a new
        controller starts. The state of a silent key is deleted soon afterwards. Choose a time
        longer than any delay: a new controller knows no earlier row, and event times may go back.
        Not with `source`.
    name
        Name of the metrics, instead of the number N.

    Returns
    -------
    The rows, each emitted exactly once: on a stream the last ones once later rows or the idle
    timeout release them, on a static frame all. `duplicate` is present with `unique` only.
    `punctuation` (of event_time's type): no row with an event time below it is accepted any more,
    as known when the row was emitted, if the slowest source is always read first. For a late row it
    is the punctuation of the row's source.

    ``late = true``, emitted at once: rows that come after their punctuation, stale rows (the delay
    is beyond a robust bound), and rows whose event time or arrival is NULL or beyond +-2**60
    microseconds (punctuation NULL). A row far in the future is buffered, and emitted as late once a
    later row contradicts it. A row equal to the punctuation is not late, so a stream in order has
    no late row. Without a timeout, which rows are late and the sequence of the other rows are a
    function of each source's own sequence.

    Raises
    ------
    ValueError
        For columns that are not in the frame or are there already, and for settings that exclude
        each other.

    Notes
    -----
    A reordered frame may be reordered again, for example by another key: `late` and `punctuation`
    then come from the second controller.

    The observed metrics ``sfumato_reorder_N`` count rows, late (all rows with ``late = true``), of
    them stale, after_idle (late only because the timeout had released other rows), duplicates and
    invalid; future (incredibly early: buffered until their time or until a later row contradicts
    them, or beyond `max_ahead`), held (change of the number of buffered rows in the micro-batch),
    forced (by `max_buffer`) and out_of_order (arrivals before an earlier one of their source). They
    show the event time of the `oldest` buffered row, the lowest `punctuation`, its `lag` after the
    newest buffered row (microseconds) and the `slowest` source, for which the oldest row waits.

    Cost: one shuffle by key. State: the buffered rows and, per key, the estimator's memory: 2 KB
    (slack, max) to 4 KB (a drop ratio).
    References: Kim et al. (2006), sections 3 to 5; sources and clocks are this project's own: see
    the page of papers.

    Examples
    --------
    >>> ordered = sf.reorder(readings, event_time="made", arrival="arrival", slack=1)
    >>> [(row.id, row.late) for row in ordered.collect()]
    [(1, False), (2, False), (4, False), (3, False)]
    """
    columns = event_time, arrival, key, source, unique
    waits: dict[str, Any] = {"drop_ratio": drop_ratio, "slack": slack, "estimator": estimator}
    waits |= {"max_buffer": max_buffer, "max_delay": max_delay}
    waits |= {"max_ahead": max_ahead, "max_behind": max_behind}
    limits = expected_sources, idle_timeout, forget_after
    return run(reorder_job(frame_of(df), *columns, waits, *limits, name))


@public("sf.split_late(reordered)", "df")
def split_late(df: Any) -> tuple[Any, Any]:
    """Split a reordered frame into (on_time, late), with all columns; each row is in one of them.

    On a stream the results are two separate queries once they are started, each with its own
    controller; both see the same rows as late. To compute both in one query, split each micro-batch
    in ``foreachBatch``, where it is persisted (docs/running.md has the lines).

    Raises
    ------
    ValueError
        For a frame without the column `late` that `sf.reorder` adds.

    Examples
    --------
    >>> ordered = sf.reorder(readings, event_time="made", arrival="arrival", slack=0)
    >>> on_time, late = sf.split_late(ordered)
    >>> on_time.count(), late.count()
    (3, 1)
    """
    frame = frame_of(df)
    require_marked(frame)
    if in_memory(frame):
        from sfumato.memory.rows import split

        return split(frame, "late")
    from sfumato.spark.rows import split_by

    on_time, late = split_by(df, "late")
    return on_time, late
