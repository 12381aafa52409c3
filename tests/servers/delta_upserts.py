"""A program: writes a stream's early answers to a Delta Lake table, with each micro-batch repeated.

python -m servers.delta_upserts FOLDER JARS, with the PySpark version that Delta Lake is made for.
Writes the table to FOLDER/table.parquet, and the answers of the same rows in memory to
FOLDER/answers.parquet.
"""

import sys
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import sfumato as sf
from engine_cases import CASES, ROWS, A
from streams import put_parts, stream_of

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


def main(folder: Path, jars: str) -> None:
    build = SparkSession.builder.master("local[2]").config("spark.jars", jars)
    build = build.config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    for name, value in DELTA.items():
        build = build.config(name, value)
    spark = sf.configure(build, cores=2, local_disk=True).getOrCreate()
    early, schema = CASES["early answers"], spark.createDataFrame(A).schema
    put_parts(folder / "in", A, [0, ROWS // 2, ROWS])
    spark.createDataFrame([], early(sf, spark.createDataFrame(A), None).schema).write.format(
        "delta"
    ).saveAsTable("newest")
    upsert = sf.ops.upsert_revisions("newest", key="room")

    def twice(batch, number):
        upsert(batch, number)
        upsert(batch, number)

    def start():
        answers = early(sf, stream_of(spark, folder / "in", schema), None)
        writer = answers.writeStream.foreachBatch(twice)
        writer = writer.option("checkpointLocation", str(folder / "state"))
        return writer.trigger(availableNow=True).start()

    sf.ops.run_to_end(spark, start)
    pq.write_table(spark.table("newest").toArrow(), folder / "table.parquet")
    pq.write_table(early(sf, A, None), folder / "answers.parquet")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
