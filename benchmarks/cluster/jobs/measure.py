"""Submitted to a cluster: does what is asked of it, so that two applications can take turns.

measure.py FOLDER NAME     reads FOLDER/NAME/N.ask, a JSON object, and writes N.answer
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import sfumato as sf


def session(partitions: int) -> SparkSession:
    builder = SparkSession.builder.appName("measure")
    for name, value in sf.ops.settings(cores=partitions, local_disk=True).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def extents(rows: DataFrame, asked: dict[str, Any]) -> DataFrame:
    ordered = sf.reorder(rows, event_time="event", arrival="arrival", key="device", drop_ratio=0.01)
    return sf.window_aggregate(
        ordered, {"m": "avg(x)"}, window=sf.Range("5 minutes"), order="event", key="device"
    )


def join(rows: DataFrame, asked: dict[str, Any]) -> DataFrame:
    """Without key; the rows of even and of odd numbers."""
    return sf.similarity_join(
        rows.where("number % 2 = 0"), rows.where("number % 2 = 1"), on=["x", "y", "z"],
        within=9.0, probability=0.49995, window=sf.Rows(asked["window"]), order="number",
        alternatives=False, tasks=asked["tasks"],
    )  # fmt: skip


QUERIES = {"extents": extents, "join": join}


def measured(spark: SparkSession, folder: Path, asked: dict[str, Any]) -> list[float]:
    """Seconds of each micro-batch of a query that reads one file each."""
    source = str(folder / asked["source"])
    schema = spark.read.parquet(source).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(source)
    spark.conf.set("spark.sql.shuffle.partitions", str(asked["partitions"]))
    checkpoint = folder / "checkpoint"
    shutil.rmtree(checkpoint, ignore_errors=True)
    writer = QUERIES[asked["query"]](stream, asked).writeStream.format("noop")
    writer = writer.option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return [p["durationMs"]["triggerExecution"] / 1e3 for p in query.recentProgress]


def main() -> None:
    folder = Path(sys.argv[1])
    mine = folder / sys.argv[2]
    spark = session(1)
    (mine / "ready").touch()
    number = 0
    while True:
        ask = mine / f"{number}.ask"
        if not ask.exists():
            time.sleep(0.05)
            continue
        asked = json.loads(ask.read_text())
        if asked.get("query") is None:
            break
        times = measured(spark, folder, asked)
        unfinished = mine / f"{number}.part"
        unfinished.write_text(json.dumps(times))
        unfinished.rename(mine / f"{number}.answer")
        number += 1
    spark.stop()


if __name__ == "__main__":
    main()
