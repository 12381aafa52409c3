"""The functions under Spark Connect: a client without JVM, a real server."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CLIENT = """
import sfumato as sf
from sfumato.cli.java import use_java
from sfumato.spark.settings import settings
use_java()
from pyspark.sql import SparkSession, functions as F

builder = SparkSession.builder.remote("local[2]")
for name, value in settings(2, local_disk=True).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
assert "connect" in type(spark).__module__, type(spark)

rows = spark.range(40).select(
    "id", F.timestamp_micros(F.col("id") * 10).alias("event"),
    F.timestamp_micros(F.col("id") * 10 + F.col("id") % 7 * 15).alias("arrival"),
    sf.samples(F.col("id") % 5, 0.1, 4, attributes="x").alias("alternatives"),
)
late = sf.reorder(rows, event_time="event", arrival="arrival", slack=3)
print("reordered", late.count(), late.where("late").count())
pairs = sf.similarity_join(
    rows, rows, on="x", within=0.5, probability=0.9, window=sf.Rows(10), order="id"
)
print("pairs", sf.where(pairs, "left_x > 3.5").count())
best = sf.top_k(
    rows, [sf.Top(2, every="100 us"), sf.Top(5, every="200 us")], by="x",
    window=sf.Range("100 us"), order="event"
)
print("ranked", best.where("query = 'top_2'").count(), best.count())
lacking = rows.select("id", (F.col("id") % 5).cast("double").alias("x"),
    F.when(F.col("id") % 3 > 0, F.col("id") % 5 + 0.5).alias("y"))
how = dict(repository=lacking.where("y IS NOT NULL"), dependencies="x -> y : 0 -> 0.1",
    method="plain")
imputed = sf.impute(lacking, attributes="y", **how)
print("imputed", sf.where(imputed, "y > 2").count())
fused = sf.similarity_join(lacking, lacking, on="y", within=0.1, probability=0.9,
    window=sf.Rows(10), order="id", impute=dict(attributes="y", **how))
print("fused", fused.count())
rows.write.parquet({folder!r} + "/in")
stream = spark.readStream.schema(rows.schema).parquet({folder!r} + "/in")
query = (
    sf.reorder(stream, event_time="event", arrival="arrival", slack=3)
    .writeStream.format("parquet").option("path", {folder!r} + "/out")
    .option("checkpointLocation", {folder!r} + "/checkpoint").trigger(availableNow=True).start()
)
query.awaitTermination()
print("streamed", spark.read.parquet({folder!r} + "/out").count())
"""


@pytest.mark.slow
@pytest.mark.spark
def test_static_and_streaming_operators_run_through_a_connect_client(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", CLIENT.format(folder=str(tmp_path))],
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_TESTING": "1",
        },  # the server takes a free port
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    lines = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    total, late = map(int, lines["reordered"].split())
    assert total == 40
    assert late > 0
    assert int(lines["pairs"]) > 0
    # 400 microseconds: at 100, 200, 300 and 400 the best two, at 200 and 400 the best five
    assert lines["ranked"].split() == ["8", "18"]
    assert int(lines["imputed"]) == 24  # of every five rows those with y = 2.5, 3.5 and 4.5
    # A left row meets the right ones 5 and 10 before it, a right row its equal and that 5 before.
    assert int(lines["fused"]) == (35 + 30) + (40 + 35)
    assert int(lines["streamed"]) == 40 - 3  # the sort buffer still holds three rows
