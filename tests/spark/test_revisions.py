"""A stream's revisions in a target that holds each window's newest revision."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812

import sfumato as sf
from engine_cases import CASES, ROWS, A, B, rows_of
from streams import put_parts, stream_of

pytestmark = pytest.mark.spark
EARLY = CASES["early answers"]


@pytest.mark.parametrize("mode", ["append", "update"])
def test_a_target_of_newest_revisions_has_the_answers_at_the_end(spark, tmp_path, mode):
    schema, target, sizes = spark.createDataFrame(A).schema, {}, []

    def upsert(batch, number):
        newest = sf.ops.newest_revisions(batch, key="room")
        sizes.append((batch.count(), newest.count()))
        for row in newest.collect():
            known = target.get((row.room, row.window))
            if known is None or known.revision < row.revision:
                target[row.room, row.window] = row

    put_parts(tmp_path / "in", A, [0, ROWS // 2, ROWS])

    def start():
        answers = EARLY(sf, stream_of(spark, tmp_path / "in", schema), None)
        writer = answers.writeStream.foreachBatch(upsert).outputMode(mode)
        writer = writer.option("checkpointLocation", str(tmp_path / "state"))
        return writer.trigger(availableNow=True).start()

    sf.ops.run_to_end(spark, start)
    static = EARLY(sf, spark.createDataFrame(A), None)
    found = spark.createDataFrame(list(target.values()), static.schema).toArrow()
    assert rows_of(found) == rows_of(sf.ops.newest_revisions(EARLY(sf, A, B), key="room"))
    assert any(rows > newest for rows, newest in sizes)
    with pytest.raises(ValueError, match=r"all columns of the `key` of .*; got None"):
        sf.ops.newest_revisions(static)
    unknown = static.withColumn("window", F.col("window").alias("window", metadata={}))
    with pytest.raises(PySparkException, match="same key, window and revision"):
        sf.ops.newest_revisions(unknown).collect()


def test_a_stream_is_refused(spark, tmp_path):
    stream = EARLY(sf, stream_of(spark, tmp_path, spark.createDataFrame(A).schema), None)
    with pytest.raises(ValueError, match=r"`df` must be a static frame.*in foreachBatch"):
        sf.ops.newest_revisions(stream)
