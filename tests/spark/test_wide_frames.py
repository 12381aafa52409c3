"""The time to plan frames with many columns does not double with each column."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sfumato as sf

TESTS = Path(__file__).resolve().parents[1]
TIMEOUT = 400  # seconds for two dozen plans; a plan that doubles per column never ends


@pytest.mark.nightly
def test_every_function_plans_static_frames_of_300_columns(tmp_path):
    command = [sys.executable, str(TESTS / "wide_frames.py"), str(tmp_path)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT, env=dict(os.environ), check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    planned = done.stdout.splitlines()
    assert len(planned) == 28
    assert all(line.startswith(("file: ", "hashed: ")) for line in planned)


@pytest.mark.parametrize("columns", [3, 12])
def test_spark_derives_no_condition_from_the_hash_of_all_columns(spark, capsys, columns):
    """An Expand passes no conditions on: the hash is computed below it, and named above."""
    numbers = [f"id * {i} AS c{i}" for i in range(columns)]
    rows = spark.range(5).selectExpr("id", "timestamp_seconds(id) AS at", *numbers)
    found = sf.earlier_values(rows, "c1", order="at")
    found.where("id > 1").explain("extended")
    optimized = capsys.readouterr().out.split("== Optimized Logical Plan ==")[1]
    lines = optimized.split("== Physical Plan ==")[0].splitlines()
    expand = next(i for i, line in enumerate(lines) if "Expand [[" in line)
    hashed = [i for i, line in enumerate(lines) if re.search(r"xxhash64\(([^,]+, ){3,}", line)]
    assert hashed
    assert min(hashed) > expand  # a printed plan starts with what is computed last
    assert [row.id for row in found.where("id > 2").orderBy("id").collect()] == [3, 4]
