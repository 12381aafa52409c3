"""The functions in a declarative pipeline of Spark: defined at module level, run by its command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

SPEC = """
name: readings
catalog: spark_catalog
database: default
storage: {storage}
libraries:
  - glob:
      include: transformations/**
configuration:
{settings}
"""

TRANSFORMATIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession, functions as F

import sfumato as sf

spark = SparkSession.active()
schema = "id long, event timestamp, arrival timestamp"
source = spark.readStream.schema(schema).parquet({source!r})
ordered = sf.reorder(source, event_time="event", arrival="arrival", slack=3)
uncertain = spark.read.schema(schema).parquet({source!r}).select(
    "id", sf.samples(F.col("id").cast("double"), 1.0, 4, attributes="x").alias("alternatives")
)
high = sf.where(uncertain, "x > 50").select("id", sf.existence())

@dp.table
def in_order():
    return ordered

@dp.materialized_view
def above():
    return high
"""


@pytest.mark.slow
@pytest.mark.spark
def test_state_and_filters_run_in_a_declarative_pipeline(tmp_path):
    from sfumato.cli.java import use_java
    from sfumato.spark.settings import settings

    use_java()
    ids = np.arange(100)
    stamp = pa.timestamp("us", tz="UTC")
    rows = pa.table(
        {
            "id": ids,
            "event": pa.array(ids * 10).cast(stamp),
            "arrival": pa.array(ids * 10 + ids % 7 * 15).cast(stamp),
        }
    )
    source = tmp_path / "in"
    source.mkdir()
    pq.write_table(rows, source / "rows.parquet")
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "readings.py").write_text(
        TRANSFORMATIONS.format(source=str(source))
    )
    chosen = settings(2, local_disk=True)
    del chosen["spark.python.unix.domain.socket.enabled"]  # only before a session starts
    (tmp_path / "spark-pipeline.yml").write_text(
        SPEC.format(
            storage=(tmp_path / "storage").as_uri(),
            settings="\n".join(f'  {name}: "{value}"' for name, value in chosen.items()),
        )
    )
    command = Path(sys.executable).with_name("spark-pipelines")
    done = subprocess.run(
        [str(command), "run", "--spec", "spark-pipeline.yml"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_TESTING": "1",  # the server takes a free port
            "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]

    def stored(name):
        files = (tmp_path / "spark-warehouse" / name).glob("part-*.parquet")
        return pa.concat_tables([pq.read_table(file) for file in files])

    came_out = stored("in_order")
    assert 90 <= came_out.num_rows < 100  # the others are held until later rows come
    assert set(came_out.column("id").to_pylist()) <= set(range(100))
    punctual = came_out.filter(pc.invert(came_out.column("late")))
    assert punctual.column("event").to_pylist() == sorted(punctual.column("event").to_pylist())
    above = stored("above").to_pydict()
    expected = {50: 0.5, 51: 0.75, 52: 1.0, 49: 0.25}
    known = dict(zip(above["id"], above["existence"], strict=True))
    assert {i: known[i] for i in expected} == expected
    assert min(known) == 49
    assert len(known) == 51
