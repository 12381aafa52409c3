"""Spark alone: its watermark and windows, as a stream of files and as a static frame."""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
from engine import measure

DELAY = "2 minutes"


@cache
def session() -> Any:
    from pyspark.sql import SparkSession

    build = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    settings = {
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in settings.items():
        build = build.config(name, value)
    return build.getOrCreate()


def means(rows: Any) -> Any:
    from pyspark.sql import functions

    late = rows.withWatermark("ts", DELAY)
    windows = late.groupBy(functions.window("ts", "10 minutes", "1 minute"), "k")
    return windows.agg(
        functions.sum("v").alias("s"),
        functions.avg("v").alias("m"),
        functions.count("*").alias("n"),
    )


def floor(rows: Any) -> Any:
    """Shuffle both sides of a join and pass them twice through Python, as rows and as pairs."""
    sides = rows.where("side = 0").unionAll(rows.where("side = 1")).repartition(2, "side")

    def same(batches: Any) -> Any:
        yield from batches

    pairs = sides.mapInArrow(same, sides.schema).selectExpr("struct(*) left", "struct(*) right")
    return pairs.mapInArrow(same, pairs.schema)


def stream(folder: Path, files: int, job: Any, answers: Path | None) -> None:
    """Run once over all files, with `files` files per micro-batch."""
    spark = session()
    source = str(folder / "files")
    schema = spark.read.parquet(source).schema
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", files).parquet(source)
    place = Path(tempfile.mkdtemp())
    writer = job(rows).writeStream.outputMode("append").trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    if answers is None:
        writer.format("noop").start().awaitTermination()
    else:
        writer.format("parquet").start(str(place / "out")).awaitTermination()
        keep(spark.read.parquet(str(place / "out")), answers)
    shutil.rmtree(place, ignore_errors=True)


def static(folder: Path, job: Any, answers: Path | None) -> None:
    out = job(session().read.parquet(str(folder / "all.parquet")))
    if answers is None:
        out.write.format("noop").mode("overwrite").save()
    else:
        keep(out, answers)


def keep(out: Any, answers: Path) -> None:
    from pyarrow.parquet import write_table

    windows = "CAST(k AS bigint) k", "unix_millis(window.end) AS end", "s", "n"
    pairs = "left.id AS a", "right.id AS b"
    kept = out.selectExpr(*(windows if "window" in out.columns else pairs))
    write_table(pa.Table.from_pandas(kept.toPandas()), answers)


if __name__ == "__main__":
    measure(
        "pyspark",
        {
            "means": lambda folder, answers: stream(folder, 1, means, answers),
            "means_5": lambda folder, answers: stream(folder, 5, means, answers),
            "static": lambda folder, answers: static(folder, means, answers),
            "first": lambda folder, answers: static(folder, means, answers),
            "floor": lambda folder, answers: stream(folder, 2, floor, answers),
        },
    )
