"""Streaming queries over what there is now, up to the end: operators emit all that they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from sfumato.spark.runtime.run import ENDS_SETTING, THAT_END, same_numbers_again

OPERATOR = "transformWithState"  # what Spark calls an operator of sfumato begins so


def run_to_end(spark: SparkSession, start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Run a query until its sources have nothing new, then emit all that its operators hold.

    Parameters
    ----------
    spark
        The session.
    start
        Function that builds the frame, starts it with ``trigger(availableNow=True)`` and a
        checkpoint, and returns the query. It is called twice, with the same checkpoint; once, if
        the query has no operator that keeps state (``sf.where``, ``sf.impute``), which holds
        nothing.

    Returns
    -------
    The query of the last run, which has ended.

    Raises
    ------
    TypeError
        If `start` is not a function, or does not return a query.
    ValueError
        If the query has an operator with state that was built before `start` was called, and is
        therefore not told of the end. Errors of the query are raised, too.

    Notes
    -----
    All rows are processed first. A second run then ends every operator of the query, upstream ones
    first, in one micro-batch: the sinks have what they would have for the same rows as a static
    frame. The query may continue later, by this function, with new rows, night after night. What
    was emitted at an end is not emitted again: rows older than those emitted by a reorder are late,
    and rows of a window that was open at an end, and was emitted then, are late for it. Both are
    counted as `late`. The checkpoint cannot be shared with a query started in another way: Spark
    refuses to continue with another number of sources.

    Needs PySpark 4.2 where an operator keeps state. Cost: a second start of the query.

    Examples
    --------
        def start():
            rows = sf.reorder(spark.readStream..., event_time="ts", arrival="at", drop_ratio=0.01)
            writer = rows.writeStream.option("checkpointLocation", state)
            return writer.trigger(availableNow=True).start(path)

        sf.ops.run_to_end(spark, start)
    """
    if not callable(start):
        raise TypeError(
            "`start` must be a function that makes the frame and starts its query; "
            f"got {type(start).__name__}"
        )
    for last in (False, True):
        before = THAT_END["made"]
        with ending(spark, last):
            query = start()
        if not hasattr(query, "awaitTermination"):
            raise TypeError(
                "`start` must return the streaming query that it started; "
                f"got {type(query).__name__}"
            )
        query.awaitTermination()
        if THAT_END["made"] == before:
            _require_stateless(query)
            return query
    return query


def _require_stateless(query: StreamingQuery) -> None:
    """Raise ValueError for a query with an operator of sfumato that was made before it started."""
    for progress in query.recentProgress:
        if any(of.operatorName.startswith(OPERATOR) for of in progress.stateOperators):
            raise ValueError(
                "`start` must make the frame itself, from `spark.readStream` on: the query has an "
                "operator of sfumato that was made before, and what it holds was not emitted. Make "
                "the frame in `start`, and begin with a new checkpoint folder"
            )


@contextmanager
def ending(spark: SparkSession, last: bool) -> Iterator[None]:
    """Streams made in here can end, and do in their next run with availableNow if it is the `last`.

    Operators made when it is not are made again, so their metrics will have the same names.
    """
    before = spark.conf.get(ENDS_SETTING, None)
    spark.conf.set(ENDS_SETTING, str(last).lower())
    try:
        with same_numbers_again(not last):
            yield
    finally:
        if before is None:
            spark.conf.unset(ENDS_SETTING)
        else:
            spark.conf.set(ENDS_SETTING, before)
