"""The first look's Python runs as printed, in a process of its own, on real Spark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.spark
def test_the_first_look_runs_as_printed(tmp_path):
    from sfumato.cli.java import use_java

    blocks = BLOCK.findall((ROOT / "docs" / "tutorials" / "first-look.md").read_text())
    assert len(blocks) == 2
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(use_java())},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    tables = [t for t in done.stdout.split("\n\n") if t.strip()]
    by_function, by_sql = (
        re.findall(r"^\|\s*(\d+)\|\s*(\d+)\|", t, re.M) for t in (tables[1], tables[3])
    )
    assert by_function == by_sql
    assert ("1", "1") in by_function


@pytest.mark.slow
@pytest.mark.spark
def test_the_toll_example_runs_as_printed_and_charges_the_congested_highway(tmp_path):
    from sfumato.cli.java import use_java

    (code,) = BLOCK.findall((ROOT / "docs" / "toll.md").read_text())
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "JAVA_HOME": str(use_java())},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    tolls = re.findall(r"^\|\s*(\d+)\|\s*(\w)\|\s*(\d)\|", done.stdout, re.M)
    assert {(highway, vehicle) for _, highway, vehicle in tolls} == {("B", "1"), ("B", "3")}
    ends = sorted({int(until) for until, *_ in tolls})
    assert 480 <= ends[0] <= 540
    assert ends == list(range(ends[0], ends[-1] + 1, 30))
