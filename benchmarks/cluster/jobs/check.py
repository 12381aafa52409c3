"""A job for a cluster: runs parts by name, and prints each outcome as one line of JSON.

check.py FOLDER PART...    FOLDER/in has Parquet files of `chaos.readings`
"""

import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import sfumato as sf
from benchmarks.sink_files import compared, rounded


def session() -> SparkSession:
    """Build a session without a master, which spark-submit provides."""
    builder = SparkSession.builder.appName("check")
    for name, value in sf.ops.settings(cores=2, local_disk=True).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def rows(frame: DataFrame) -> Counter[str]:
    found = frame.selectExpr("to_json(struct(*)) AS row").collect()
    return Counter(json.dumps(rounded(json.loads(row.row)), sort_keys=True) for row in found)


def first_look(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Run the Python code of the page about the first look on this cluster."""
    code = (folder / "first_look.py").read_text().replace('.master("local[2]")', "")
    found: dict[str, Any] = {}
    exec(compile(code, "first-look.md", "exec"), found)
    by_function = rows(found["pairs"].selectExpr("left.id l", "right.id r", "probability p"))
    by_sql = rows(sf.sql(spark, found["query"]).toDF("l", "r", "p"))
    return {"pairs": sorted(by_function), **compared(by_function, by_sql)}


def extents(frame: DataFrame) -> DataFrame:
    ordered = sf.reorder(
        frame, event_time="event", arrival="arrival", key="device", drop_ratio=0.02
    )
    return sf.window_aggregate(
        ordered, {"total": "sum(x)", "n": "count(*)"}, key="device", order="event",
        window=sf.Range("60 seconds", slide="20 seconds"),
    )  # fmt: skip


def stream(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Run a stream over the files, one per micro-batch; workers may be killed meanwhile."""
    plain = spark.read.parquet(str(folder / "in"))
    files = spark.readStream.schema(plain.schema).option("maxFilesPerTrigger", 1)

    def start() -> Any:
        writer = extents(files.parquet(str(folder / "in"))).writeStream.format("parquet")
        writer = writer.option("path", str(folder / "out"))
        writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
        return writer.trigger(availableNow=True).start()

    sf.ops.run_to_end(spark, start)
    got = rows(spark.read.parquet(str(folder / "out")))
    return compared(rows(extents(plain)), got)


ADAPTIVE = "spark.sql.adaptive"
EAGER = {  # Spark splits and joins partitions wherever it can
    f"{ADAPTIVE}.enabled": "true",
    f"{ADAPTIVE}.advisoryPartitionSizeInBytes": "2KB",
    f"{ADAPTIVE}.coalescePartitions.minPartitionSize": "1KB",
    f"{ADAPTIVE}.coalescePartitions.parallelismFirst": "false",
    f"{ADAPTIVE}.skewJoin.enabled": "true",
    f"{ADAPTIVE}.skewJoin.skewedPartitionFactor": "1.1",
    f"{ADAPTIVE}.skewJoin.skewedPartitionThresholdInBytes": "1KB",
    f"{ADAPTIVE}.forceOptimizeSkewedJoin": "true",
    f"{ADAPTIVE}.optimizeSkewsInRebalancePartitions.enabled": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "8",
}


def skew(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Aggregate between two Spark joins, nine tenths of the rows with one key, with adaptive plans
    and without.
    """
    plain = spark.read.parquet(str(folder / "in"))
    skewed = plain.withColumn("device", with_hot_key("device"))
    names = spark.createDataFrame([("hot", 1), ("d0", 2), ("d1", 3)], "device string, place int")

    def made() -> Counter[str]:
        here = skewed.join(names, "device")
        return rows(extents(here).join(names, "device"))

    before = {name: spark.conf.get(name, None) for name in EAGER}
    spark.conf.set(f"{ADAPTIVE}.enabled", "false")
    expected = made()
    for name, value in EAGER.items():
        spark.conf.set(name, value)
    got = made()
    for name, value in before.items():
        spark.conf.unset(name) if value is None else spark.conf.set(name, value)
    return compared(expected, got)


def with_hot_key(key: str) -> Any:
    """Return `key`, replaced with "hot" in nine of ten rows."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.when(F.col("id") % 10 < 9, "hot").otherwise(F.col(key))


def hot_key(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Join by key, with nearly all rows in one key: with one task per key, and with two."""
    plain = spark.read.parquet(str(folder / "in")).withColumn("device", with_hot_key("device"))

    def pairs(tasks: int) -> Counter[str]:
        found = sf.similarity_join(
            plain.where("id % 2 = 0"), plain.where("id % 2 = 1"), on="x", within=0.05,
            probability=0.4, window=sf.Rows(200), order=["arrival", "id"], key="device",
            tasks=tasks,
        )  # fmt: skip
        return rows(found.selectExpr("left.id l", "right.id r", "probability p"))

    return compared(pairs(1), pairs(2))


def main() -> None:
    folder = Path(sys.argv[1])
    spark = session()
    for name in sys.argv[2:]:
        part = {"first_look": first_look, "stream": stream, "skew": skew, "hot_key": hot_key}[name]
        begun = time.monotonic()
        found = part(spark, folder)
        found |= {"part": name, "seconds": round(time.monotonic() - begun, 1)}
        print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
