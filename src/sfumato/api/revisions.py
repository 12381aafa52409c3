"""Revisions of early answers: the newest revision per window, and tables of newest revisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sfumato.api.calls import ColumnNames, engine_module, frame_of, public_function
from sfumato.tables.reading.frame import Frame

REVISION_COLUMNS = ("window", "final", "revision")


@public_function('sf.ops.newest_revisions(batch, key="room")', "df")
def newest_revisions(df: Any, *, key: ColumnNames | None = None) -> Any:
    """Keep the newest revision of each window among early answers.

    Parameters
    ----------
    df
        Answers of ``sf.window_aggregate(..., early=...)``: a static Spark DataFrame, such as a
        micro-batch in ``foreachBatch``, or a pandas, Polars or Arrow table. The result has the
        same type.
    key
        The `key` of the window_aggregate, or None if it has none.

    Returns
    -------
    The row with the largest `revision` for each `key` and `window`, in no particular order.

    Raises
    ------
    ValueError
        For a stream, for a frame without the columns of early answers, for unknown columns, and for
        two rows with the same key, window and revision (on Spark, when the query runs).
    TypeError
        For arguments of the wrong type.

    Notes
    -----
    ``upsert_revisions`` writes these rows to a table that supports MERGE. For another target, such
    as a key-value store, call this function in ``foreachBatch`` and write the rows by `key` and
    `window`, unless the target has a larger `revision`. A micro-batch that is repeated after a
    failure then changes nothing.

    Cost: one shuffle by `key` and `window` on Spark, one sort in memory.
    More: page reference/functions/newest_revisions of the documentation.

    Examples
    --------
    >>> answers = sf.window_aggregate(
    ...     readings, {"n": "count(*)"}, window=sf.Range("1 minute"), order="made", early="20 s"
    ... )
    >>> newest = sf.ops.newest_revisions(answers)
    >>> answers.count() > newest.count() == newest.select("window").distinct().count()
    True
    """
    frame = frame_of(df)
    if frame.streams:
        raise ValueError(
            "`df` must be a static frame, because a stream has no newest revision; for a stream, "
            "call sf.ops.newest_revisions for each micro-batch, in foreachBatch"
        )
    by = [*_keys(frame, key), "window"]
    return engine_module(frame).newest_rows(frame, by)


def upsert_revisions(table: str, *, key: ColumnNames | None = None) -> Callable[[Any, int], None]:
    """Return a function for ``foreachBatch`` that keeps the newest revision per window in a table.

    Parameters
    ----------
    table
        Name of an existing table with the columns of the answers, in a format that supports MERGE,
        such as Delta Lake or Iceberg.
    key
        The `key` of the window_aggregate, or None if it has none.

    Returns
    -------
    A function of a micro-batch and its number. It inserts the newest revision of each new `key` and
    `window`, and updates rows with a smaller `revision`.

    Raises
    ------
    TypeError
        If `table` is not the name of a table.
    ValueError
        When the query runs, as for ``newest_revisions``. Spark's own errors, such as for a table
        without MERGE, are raised unchanged.

    Notes
    -----
    The table then has one row per `key` and `window`: the newest answer, which is final once
    `final` is true. A micro-batch that is repeated after a failure changes nothing.

    Cost: one MERGE per micro-batch.

    Examples
    --------
        upsert = sf.ops.upsert_revisions("totals", key="room")
        answers.writeStream.foreachBatch(upsert).option("checkpointLocation", state).start()
    """
    if not isinstance(table, str) or not table.strip():
        raise TypeError(f'`table` must be a table name, like "totals"; got {table!r:.80}')

    def upsert(batch: Any, number: int) -> None:
        from sfumato.spark.rows import merge_newer

        merge_newer(newest_revisions(batch, key=key), table, [*_keys(frame_of(batch), key)])

    return upsert


def _keys(frame: Frame, key: ColumnNames | None) -> list[str]:
    """Return the names of the keys. Raises ValueError or TypeError unless answers are early."""
    missing = [f"`{name}`" for name in REVISION_COLUMNS if name not in frame.columns]
    if missing:
        raise ValueError(
            f"`df` must contain early answers, but it has no column {', '.join(missing)}; it has "
            f"{', '.join(frame.columns)}: write sf.window_aggregate(..., early=...), and keep its "
            "columns `window`, `final` and `revision`"
        )
    if frame.kind("revision") != "whole":
        raise TypeError(
            "column `revision` of `df` must contain integers, as in early answers; it is "
            f"{frame.type_name('revision')}: keep the column that sf.window_aggregate returns"
        )
    return frame.resolve("key", key)
