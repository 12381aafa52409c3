"""Submitted to a cluster: parts by name, each a line of JSON with what came of it.

check.py FOLDER PART...    FOLDER/in has Parquet files of `chaos.readings`
"""

from __future__ import annotations

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
    """Without a master: spark-submit says where it is."""
    builder = SparkSession.builder.appName("check")
    for name, value in sf.ops.settings(cores=2, local_disk=True).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def rows(frame: DataFrame) -> Counter[str]:
    found = frame.selectExpr("to_json(struct(*)) AS row").collect()
    return Counter(json.dumps(rounded(json.loads(row.row)), sort_keys=True) for row in found)


def first_look(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """The first look's Python, on this cluster."""
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
    """The stream of the files, one a micro-batch; whoever likes kills workers meanwhile."""
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
EAGER = {  # Spark splits and joins partitions wherever it may
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
    """Nine tenths of the rows in one key, between Spark's own joins: adaptive plans or not."""
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
    """Nine of ten rows have the key "hot"."""
    from pyspark.sql import functions as F  # noqa: N812

    return F.when(F.col("id") % 10 < 9, "hot").otherwise(F.col(key))


def hot_key(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A join by key of which one key has nearly all rows: by one task per key, and by two."""
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
