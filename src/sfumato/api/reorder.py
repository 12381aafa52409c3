"""Rows in event-time order, late ones marked: the disorder controller as a function of frames."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sfumato.api.calls import public
from sfumato.api.frames import frame_of, in_memory, run
from sfumato.duration import microseconds
from sfumato.operators.disorder.control import DisorderControl
from sfumato.tables.disorder.query import ReorderQuery, require_marked
from sfumato.tables.reading.job import Input, Job


@public('sf.reorder(df, event_time="ts", arrival="arrival", drop_ratio=0.01)', "df")
def reorder(
    df: Any,
    *,
    event_time: str,
    arrival: str,
    key: str | Sequence[str] | None = None,
    source: str | Sequence[str] | None = None,
    expected_sources: int | None = None,
    drop_ratio: float | None = None,
    slack: int | None = None,
    max_delay: str | timedelta | None = None,
    estimator: str | None = None,
    max_buffer: int | None = None,
    idle_timeout: str | timedelta | None = None,
    forget_after: str | timedelta | float | None = None,
    name: str | None = None,
) -> Any:
    """Rows in event-time order per key, with columns `late` and `punctuation` added.

    df : a DataFrame of Spark, streaming or static; or a pandas, Polars or Arrow table, the whole
        stream. The result is of the same kind
    event_time, arrival : columns of timestamps, or of whole numbers in microseconds: when it
        happened, and when it was received. Rows are taken in order of `arrival`, simultaneous
        ones in order of event time.
    key : one disorder controller a key; none: one for the whole frame
    source : the columns that name the sources a stream is made of (topics, partitions, devices,
        files): one controller for each source, of each key. A row is late only if it is late for
        its own source, so lateness does not depend on the pace at which sources are read; rows come
        out up to the least punctuation of the sources, in order of event time, source, arrival
    expected_sources : nothing comes out before so many sources have spoken (of each key). Without
        it sources count from the first micro-batch with a row of theirs
    drop_ratio : the share of rows that may come too late to be ordered, in (0, 0.5]; with it
        estimator "conformal" (the default; assumes nothing about the delays) or "normal"
        (assumes normal delays)
    slack : instead of `drop_ratio`: hold back a fixed number of rows
    max_delay : or: punctuation = newest event time less so much ("5 minutes")
    estimator : "max" needs none of them: as late as the largest difference of delays seen
    max_buffer : hold at most so many rows for the disorder of each key or source; the oldest come
        out first. Alone, rows are held until the buffer is full. Rows that wait for other sources
        are not bounded by it, and there is no bound on the total over keys
    idle_timeout : on a stream, a key or source that was silent for so long ("10 seconds") holds
        nothing back until it speaks again; where nobody is left, all rows come out
    forget_after : a key whose next row arrives later than this after its last one, "1 day", begins
        anew: first all that it holds comes out, in order, as at the end of a stream. Silent keys
        go soon after that. Longer than any row is delayed: a new controller knows no row of before,
        and event times may go back. Not with `source`
    name : of the metrics, instead of the number N

    `punctuation` (of event_time's type): no row with an event time below it is accepted any more,
    as known when the row came out, if the source that is behind is always read first; of a late
    row, what was known of its own source. A row that comes after its punctuation comes out at once
    with ``late = true``; so does a stale one (its delay is beyond a robust bound), and one without
    event time or arrival or with one beyond +-2**60 microseconds (punctuation NULL). One far in
    the future is held, and comes out as late once a later row contradicts it. A row that ties with
    the punctuation is not late, so a stream in order has no late row. Every row comes out exactly
    once: on a stream the last ones once later rows, or the idle timeout, release them; on a static
    frame all. Without a timeout, which rows are late and the sequence of the others is a function
    of each source's own sequence.

    A frame that was reordered before may be reordered again, by another key, say: `late` and
    `punctuation` are then those of the second controller.

    The observed metrics ``sfumato_reorder_N`` count rows, late (all that come out with ``late =
    true``), of them stale, after_idle (too late only because the timeout had let others pass) and
    invalid; future (incredibly early: held until their time or until a later row contradicts
    them), held (how many more are held than before the micro-batch), forced (by `max_buffer`) and
    out_of_order (arrivals before an earlier one of their source), and show the event time of the
    `oldest` row held, the least `punctuation`, its `lag` behind the newest row held (microseconds)
    and the `slowest` source, for which the oldest row waits.

    Cost: one shuffle by key; state: the rows held and, for each key, what its estimator
    remembers: 2 KB (slack, max) to some 53 KB (a drop ratio).
    Raises ValueError for columns the frame lacks or has already, and for settings that exclude
    each other. Source: C, sections 3 to 5; sources and clocks: this project.

    >>> ordered = sf.reorder(readings, event_time="made", arrival="arrival", slack=1)
    >>> [(row.id, row.late) for row in ordered.collect()]
    [(1, False), (2, False), (4, False), (3, False)]
    """
    query = ReorderQuery(frame_of(df), event_time, arrival, key, source)
    delay = None if max_delay is None else microseconds("max_delay", max_delay)
    control = DisorderControl(drop_ratio, slack, estimator, max_buffer, max_delay=delay)
    config = query.config(control, expected_sources, idle_timeout, forget_after)
    about = {"event_time": query.event, "source": query.sources}
    idle = config.idle_timeout
    return run(
        Job(
            "reorder",
            "reorder",
            name,
            [Input(query.frame, query.reading, about)],
            config,
            query.outputs(config),
            idle_timeout=None if idle is None else 1000 * idle,
            order=[query.event],
            late=True,
        )
    )


@public("sf.split_late(reordered)", "df")
def split_late(df: Any) -> tuple[Any, Any]:
    """(on_time, late): a reordered frame as two, with all columns; each row is in one of them.

    On a stream both are queries of their own once they are started, each with a controller of its
    own; both see the same rows late. In one query, which computes them once: split each micro-batch
    in ``foreachBatch``, where it is persisted (docs/running.md has the lines).
    Raises ValueError for a frame without a mark `late`, as `sf.reorder` adds it.

    >>> ordered = sf.reorder(readings, event_time="made", arrival="arrival", slack=0)
    >>> on_time, late = sf.split_late(ordered)
    >>> on_time.count(), late.count()
    (3, 1)
    """
    frame = frame_of(df)
    require_marked(frame)
    if in_memory(frame):
        from sfumato.memory.validity import split

        return split(frame, "late")
    from sfumato.spark.model.validity import split_by

    on_time, late = split_by(df, "late")
    return on_time, late
