"""A streaming query over what there is now, and then its end: what operators hold comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from sfumato.spark.runtime.run_operator import ENDS_SETTING, THAT_END, same_numbers_again


def run_to_end(spark: SparkSession, start: Callable[[], StreamingQuery]) -> StreamingQuery:
    """Run a query until its sources have nothing new, then let out all that its operators hold.

    start : makes the frame, starts it with ``trigger(availableNow=True)`` and a checkpoint, and
        returns the query. It is called twice, with the same checkpoint

        def start():
            rows = sf.reorder(spark.readStream..., event_time="ts", arrival="at", drop_ratio=0.01)
            writer = rows.writeStream.option("checkpointLocation", state)
            return writer.trigger(availableNow=True).start(path)

        sf.run_to_end(spark, start)

    All rows are processed first. A second run then ends every operator of the query, one behind the
    other, in one micro-batch: the sinks have what they would have of the same rows as a static
    frame. The query may go on later, by this function, with new rows: those that are older than
    what came out now are late. Its checkpoint is not one of a query started in another way: Spark
    refuses to go on with another number of sources.

    Returns the query of the second run, which has ended. Raises what the query raises, TypeError if
    `start` returns none, and ValueError if it makes no operator: one that was made before it is not
    told of the end. Needs PySpark 4.2. Cost: a second start of the query.
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
        if THAT_END["made"] == before:
            query.stop()
            raise ValueError(
                "`start` must make the frame itself, from `spark.readStream` on: it called no "
                "operator of sfumato, and one that was made before it would not end"
            )
        query.awaitTermination()
    return query


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
