"""What a function passed to foreachBatch may do with a micro-batch of answers."""

from contextlib import suppress

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf


def started(spark, folder, write):
    """Run a reorder over two micro-batches to its end, passing each to `write`."""
    source = folder / "in"
    if not source.exists():
        for first in (0, 50):
            ids = spark.range(first, first + 50).select(
                "id",
                F.timestamp_micros(F.col("id") * 10).alias("event"),
                F.timestamp_micros(F.col("id") * 10 + F.col("id") % 7 * 15).alias("arrival"),
            )
            ids.coalesce(1).write.mode("append").parquet(str(source))
    schema = "id long, event timestamp, arrival timestamp"
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
    ordered = sf.reorder(rows, event_time="event", arrival="arrival", key="id", slack=0)
    writer = ordered.writeStream.foreachBatch(write)
    writer = writer.option("checkpointLocation", str(folder / write.__name__))
    return writer.trigger(availableNow=True).start()


@pytest.mark.nightly
@pytest.mark.spark
def test_a_persisted_batch_may_be_used_as_often_as_wanted(spark, tmp_path):
    out = str(tmp_path / "out")

    def persisted(batch, number):
        batch.persist()
        assert not batch.isEmpty()
        on_time, late = sf.split_late(batch)
        for name, part in (("on-time", on_time), ("late", late)):
            part.write.mode("overwrite").parquet(f"{out}/{name}/batch={number}")
        batch.unpersist()

    started(spark, tmp_path, persisted).awaitTermination()
    on_time, late = (spark.read.parquet(f"{out}/{name}") for name in ("on-time", "late"))
    assert late.isEmpty()
    assert sorted(row.id for row in on_time.collect()) == list(range(100))


@pytest.mark.nightly
@pytest.mark.spark
def test_a_second_action_on_what_is_not_persisted_gives_the_same_or_an_error(spark, tmp_path):
    counts = []

    def twice(batch, number):
        counts.append(batch.count())
        counts.append(batch.count())

    query = started(spark, tmp_path, twice)
    with suppress(StreamingQueryException):
        query.awaitTermination()
    error = query.exception()
    assert error is None or "state" in str(error).lower()
    assert counts == [50, 50, 50, 50][: len(counts)]


@pytest.mark.nightly
@pytest.mark.spark
def test_an_action_that_leaves_partitions_out_is_found(spark, tmp_path):
    def first(batch, number):  # the other partitions' state is not kept
        if number == 0:
            batch.limit(1).collect()
        else:
            batch.count()

    with pytest.raises(Exception, match=r"(?i)state|commit|partition"):
        started(spark, tmp_path, first).awaitTermination()
