"""Pipeline files that write to and read from a Delta Lake table, killed in mid-stream."""

import json
import os
import subprocess
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine_cases import rows_of
from servers.fetched import PYSPARK_OF_DELTA
from servers.jars import NoRegistryError, added
from servers.other_pyspark import path_with
from servers.pipeline_process import ended, killed, started
from sfumato.cli.pipeline.permissions import CONNECTOR_SPARK_VERSIONS, CONNECTORS

FILES, ROWS = 8, 50  # source files, and rows per file
SETTINGS = """
[spark]
master = "local[2]"
jars = {jars}

[spark.settings]
"spark.sql.extensions" = "io.delta.sql.DeltaSparkSessionExtension"
"spark.sql.catalog.spark_catalog" = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
"spark.databricks.delta.snapshotPartitions" = "2"
"""
INTO = """
checkpoint = "state"
flush = true

[sources.readings]
format = "parquet"
path = "in"
schema = "id long, t timestamp, arrival timestamp"
options = { maxFilesPerTrigger = 1 }

[queries.ordered]
sql = "SELECT id, late FROM readings [WATTR t ARRIVAL arrival SLACK 20]"

[sinks.lake]
query = "ordered"
format = "delta"
path = "lake"
"""
OUT = """
checkpoint = "state-out"

[sources.lake]
format = "delta"
path = "lake"

[sinks.files]
query = "lake"
format = "json"
path = "files"
"""


def readings(number):
    """Return the rows of a file, a second apart; some arrive before older ones."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    second, kind = 1_000_000, pa.timestamp("us", tz="UTC")
    event = [(i - i * 7 % 5) * second for i in ids]
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "t": pa.array(event).cast(kind),
            "arrival": pa.array([i * second for i in ids]).cast(kind),
        }
    )


@pytest.fixture
def jars(monkeypatch):
    """Return the paths of Delta Lake's jars; processes use the PySpark version it is made for."""
    assert PYSPARK_OF_DELTA.startswith(CONNECTOR_SPARK_VERSIONS["delta"])
    try:
        found = added(CONNECTORS["delta"])
        monkeypatch.setenv("PYTHONPATH", path_with(PYSPARK_OF_DELTA))
    except NoRegistryError as error:
        pytest.skip(f"no Delta Lake: {error}")
    return found


@pytest.fixture
def settings(jars):
    return SETTINGS.format(jars=json.dumps(jars))


@pytest.mark.nightly
def test_a_table_has_each_row_once_through_a_kill_and_is_a_source(settings, tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        part = tmp_path / "in" / f"{number:02}.parquet"
        pq.write_table(readings(number), part)
        os.utime(part, (number, number))  # Spark reads the oldest first
    file, out = tmp_path / "into.toml", tmp_path / "out.toml"
    file.write_text(INTO + settings)
    out.write_text(OUT + settings)
    process = started(file, "--log", "text")
    until = time.monotonic() + 240
    log = tmp_path / "lake" / "_delta_log"
    while not (log / f"{2:020}.json").exists() and time.monotonic() < until:
        assert process.poll() is None, (tmp_path / "said.txt").read_text()[-3000:]
        time.sleep(0.05)
    killed(process)
    commits = len(list(log.glob("*.json")))
    assert 2 < commits < FILES, "killed in mid-stream"
    ended(started(file, "--once"), file)
    ended(started(out, "--once"), out)
    found = [
        json.loads(line)
        for part in (tmp_path / "files").glob("part-*.json")
        for line in part.read_text().splitlines()
    ]
    assert sorted(row["id"] for row in found) == list(range(FILES * ROWS))
    assert not any(row["late"] for row in found)


@pytest.mark.nightly
def test_a_table_of_early_answers_has_the_final_ones_at_the_end(jars, tmp_path):
    command = [sys.executable, "-m", "servers.delta_upserts", str(tmp_path), ",".join(jars)]
    subprocess.run(command, check=True, timeout=500, cwd=tmp_path)
    table, answers = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("table", "answers"))
    assert rows_of(table) == rows_of(answers.filter(answers["final"]))
