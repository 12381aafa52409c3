"""`run_to_end`, which flushes a streaming query's operators at the end of its available data."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from sfumato.spark.runtime.run import (
    EMPTY_BATCHES_SETTING,
    ENDS_SETTING,
    STREAM_STEPS,
    reuse_numbers,
)

OPERATOR = "transformWithState"  # prefix of Spark's name for sfumato's operators
WAITING = ("Waiting for data to arrive", "Waiting for next trigger")  # status of a Spark query
MAX_ENDS = 5  # maximum number of starts with an end; one suffices unless new rows arrive
SECONDS_BETWEEN_LOOKS, LOOKS = 2, 3  # consecutive checks of a waiting query before it is stopped
OTHER_SOURCES = "sources in the checkpoint offsets"  # part of Spark's error for a changed number


def run_to_end(spark: SparkSession, start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Run a query until its sources have no new data, then emit all rows held by its operators.

    Parameters
    ----------
    spark
        The session.
    start
        Function that builds the frame, starts it with ``trigger(availableNow=True)`` and a
        checkpoint, and returns the query. The function is called twice, with the same checkpoint,
        and up to four more times while several micro-batches of new rows arrive before a start. If
        the query has no operator with state (``sf.where``; ``sf.impute`` without `order`), it is
        called once.

    Returns
    -------
    The query of the last run, which has ended.

    Raises
    ------
    TypeError
        If `spark` is not a session, or `start` is not a function or does not return a query.
    ValueError
        If the query has an operator with state that was built before `start` was called, and so
        cannot receive the end of the stream; or if the checkpoint belongs to a query with a
        different number of sources; or if `start` sets no checkpoint, or not the same one twice; or
        if the query waits for more rows, because its trigger is not ``availableNow``. The query's
        own errors are also raised.

    Notes
    -----
    All rows are processed first. A second run then flushes every operator of the query, upstream
    operators first, in one micro-batch. The sinks then have the same rows as for a static frame.
    The query may be continued later with new rows, by calling this function again, for example
    every night. The checkpoint cannot be shared with a query started in another way.
    More: page how-to/end-of-stream of the documentation.

    Requires PySpark 4.2 or later if an operator keeps state. Cost: a second start of the query.

    Examples
    --------
        def start():
            rows = sf.reorder(spark.readStream..., event_time="ts", arrival="at", drop_ratio=0.01)
            writer = rows.writeStream.option("checkpointLocation", state)
            return writer.trigger(availableNow=True).start(path)

        sf.ops.run_to_end(spark, start)
    """
    if not hasattr(spark, "streams"):
        raise TypeError(f"`spark` must be a SparkSession; got {type(spark).__name__}")
    if not callable(start):
        raise TypeError(
            "`start` must be a function that creates the frame and starts its query; got "
            f"{type(start).__name__}"
        )
    first = None
    for last in (False, *[True] * MAX_ENDS):
        before = STREAM_STEPS["ending"]
        with ending(spark, last):
            query = start()
        if not hasattr(query, "awaitTermination"):
            raise TypeError(
                "`start` must return the streaming query that it started; got "
                f"{type(query).__name__}"
            )
        if first is not None and query.id != first:  # otherwise, rows would be processed twice
            query.stop()
            raise ValueError(
                "the second start of the query did not continue the first, because `start` sets no "
                'checkpoint, or a different one each time: write .option("checkpointLocation", '
                "folder) with the same folder. The sink has the rows of the first run, and perhaps "
                "some of them twice, but not the rows that operators still held"
            )
        first = query.id
        try:
            _await_end(query)
        except StreamingQueryException as error:
            if OTHER_SOURCES not in str(error):
                raise
            raise ValueError(
                "the checkpoint has a different number of sources: the query was started without "
                "run_to_end, which adds a source, or its sources were changed. Continue the query "
                "as before, or use a new checkpoint folder"
            ) from error
        if STREAM_STEPS["ending"] == before:
            _require_stateless(query)
            return query
        # The end is in the first micro-batch of a run, so it does not reach the rows of others.
        if last and sum(each.numInputRows > 0 for each in query.recentProgress) < 2:
            return query
    return query


def _await_end(query: StreamingQuery) -> None:
    """Wait until the query has ended; stop it and raise ValueError if it waits for more rows."""
    waits = 0
    while not query.awaitTermination(SECONDS_BETWEEN_LOOKS):
        status = query.status
        idle = status["message"] in WAITING and not status["isTriggerActive"]
        waits = waits + 1 if idle else 0
        if waits == LOOKS:
            query.stop()
            raise ValueError(
                "the query that `start` returned waits for more rows, so it does not end: write "
                ".trigger(availableNow=True) before .start(...)"
            )


def _require_stateless(query: StreamingQuery) -> None:
    """Raise ValueError if the query has a sfumato operator that was built before it started."""
    for progress in query.recentProgress:
        if any(of.operatorName.startswith(OPERATOR) for of in progress.stateOperators):
            raise ValueError(
                "`start` must create the whole frame, including `spark.readStream`: the query has "
                "a sfumato operator that was created outside `start`, so the rows held by this "
                "operator were not emitted. Create the frame in `start`, and use a new checkpoint "
                "folder"
            )


@contextmanager
def ending(spark: SparkSession, last: bool) -> Iterator[None]:
    """Create streams in this context that can end; in the `last` run, they end.

    After any other run, operators are created again, under the same metrics names.
    """
    ends = changed_setting(spark, ENDS_SETTING, str(last).lower())
    with changed_setting(spark, EMPTY_BATCHES_SETTING), ends, reuse_numbers(not last):
        yield


@contextmanager
def changed_setting(spark: SparkSession, name: str, value: str | None = None) -> Iterator[None]:
    """Restore a setting after this context. value : its value in the context, if it changes."""
    before = spark.conf.get(name, None)
    if value is not None:
        spark.conf.set(name, value)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, before)
