"""What the benchmarks of Spark's path run for comparison is an operator as Spark runs it today."""

import pyarrow as pa
import pyarrow.parquet as pq

from spark_path import echo, stream_of


def test_an_echo_gives_every_row_back(spark, tmp_path):
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "in" / "a.parquet")
    out = echo(stream_of(spark, str(tmp_path / "in")))
    query = (
        out.writeStream.format("memory")
        .queryName("echoed")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert sorted(row.x for row in spark.table("echoed").collect()) == [1, 2, 3]
