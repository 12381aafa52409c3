"""What an import loads, and the messages where an extra is not installed.

The tests run in separate processes in which the named packages cannot be imported.
`packaging/check.py` does the same in environments without these packages.
"""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sfumato as sf
from sfumato import extras

ROOT = Path(__file__).resolve().parents[2]
WITHOUT = """
import importlib.abc, sys
class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""


def run(missing: list[str], code: str) -> subprocess.CompletedProcess[str]:
    program = WITHOUT.format(missing=missing) + code
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=600
    )


def test_importing_the_package_loads_nothing_heavy():
    code = "import json, sys, sfumato; print(json.dumps(sorted(sys.modules)))"
    loaded = {name.split(".")[0] for name in json.loads(run([], code).stdout)}
    assert loaded.isdisjoint({"numpy", "numba", "pyarrow", "pandas", "scipy", "pyspark", "lark"})


def test_a_cold_worker_imports_the_operators_and_nothing_beside_them():
    """A Spark worker imports few modules before its first answer, besides PySpark's own imports."""
    code = """
import json, sys, pyspark.worker
before = set(sys.modules)
import sfumato.spark.state.bucket_state, sfumato.spark.crossing.whole_frames
import sfumato.tables.disorder.table_reorder, sfumato.tables.joins.table_incomplete_join
import sfumato.tables.ranking.table_top_k, sfumato.tables.windows.table_extents
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    loaded = json.loads(run([], code).stdout)
    assert {name.split(".")[0] for name in loaded}.isdisjoint({"pandas", "lark", "rich", "altair"})
    heavy = ("scipy.stats", "scipy.special", "pyspark.sql", "pyarrow.dataset", "pyarrow.parquet")
    assert not [name for name in loaded if name.startswith(heavy)]


def test_what_a_start_of_a_query_loads_next_to_the_driver_imports_nothing_heavy():
    code = """
import json, sys
from pyspark.sql.streaming import transform_with_state_driver_worker
before = set(sys.modules)
import sfumato.spark.state.deferred_processor
print(json.dumps(sorted(set(sys.modules) - before)))
"""
    loaded = {name.split(".")[0] for name in json.loads(run([], code).stdout)}
    assert loaded.isdisjoint({"numpy", "numba", "pyarrow", "pandas"})


@pytest.mark.nightly
def test_without_pyspark_each_name_works_or_says_in_a_sentence_what_is_missing():
    code = """
import json, sfumato as sf
said = {}
for module in (sf, sf.engine_free, sf.errors, sf.ops):
    for name in module.__all__:
        try:
            getattr(module, name)
        except ImportError as error:
            said[f"{module.__name__.replace('sfumato', 'sf')}.{name}"] = str(error)
print(json.dumps(said))
"""
    done = run(["pyspark", "pandas", "google"], code)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert {"sf.ops.declared", "sf.ops.run_to_end", "sf.ops.watch"} <= set(said)
    works = ("reorder", "existence", "Imputation", "Rows", "engine_free.timetable", "chart")
    assert {f"sf.{name}" for name in works}.isdisjoint(said)
    for name, sentence in said.items():
        assert sentence.startswith(f"{name} needs the package `pyspark`: pip install 'sfumato[")
        assert "Arrow tables do not need Spark" in sentence


@pytest.mark.nightly
def test_functions_of_tables_answer_without_pyspark_and_pandas():
    code = """
import pyarrow as pa, sfumato as sf
try:
    sf.existence("alternatives")
except ImportError as error:
    assert "a Spark column needs the package `pyspark`" in str(error), error
rows = pa.table({"t": pa.array([3, 1, 2], pa.timestamp("us", "UTC")),
                 "a": pa.array([3, 4, 5], pa.timestamp("us", "UTC"))})
print(sf.reorder(rows, event_time="t", arrival="a", slack=1)["late"].to_pylist())
"""
    done = run(["pyspark", "pandas", "google", "py4j", "typer", "rich", "altair"], code)
    assert (done.returncode, done.stdout.count("False") + done.stdout.count("True")) == (0, 3), (
        done.stderr
    )


@pytest.mark.parametrize(
    ("missing", "arguments", "sentence"),
    [
        ("typer", ["--version"], "`sfumato` needs the package `typer`: pip install 'sfumato[cli]'"),
        ("rich", ["warm-up"], "`sfumato warm-up` needs the package `rich`: pip install"),
        (
            "pyspark",
            ["run", "p.toml"],
            "`sfumato run` needs the package `pyspark`: pip install 'sfumato[",
        ),
    ],
)
def test_the_command_says_what_is_missing_in_one_line(missing, arguments, sentence):
    code = f"import sys; sys.argv[1:] = {arguments}; import sfumato.cli.entry as e; e.main()"
    done = run([missing], code)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {sentence}")
    assert len(done.stderr.splitlines()) == 1


def test_a_sentence_of_ours_is_shown_as_it_is():
    code = """
import sys, sfumato.cli.main
def app():
    raise ImportError("sf.ops.ReplaySource needs PySpark 4.2 or later")
sfumato.cli.main.app = app
import sfumato.cli.entry
sfumato.cli.entry.main()
"""
    done = run([], code)
    said = "Error: sf.ops.ReplaySource needs PySpark 4.2 or later\n"
    assert (done.returncode, done.stderr) == (1, said)


def test_an_interrupt_during_the_imports_has_no_traceback():
    code = """
import sys
class Interrupted:
    def find_spec(self, name, path, target=None):
        if name == "sfumato.cli.main":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
import sfumato.cli.entry
sfumato.cli.entry.main()
"""
    done = run([], code)
    assert (done.returncode, done.stderr) == (130, "")


@pytest.mark.parametrize(
    ("missing", "code", "extra"),
    [
        ("altair", "sf.chart([{'prob': 0.5, 'v': 1.0}])", "charts"),
        ("starlette", "sf.ops.watch(None)", "watch"),
    ],
)
def test_a_function_that_lacks_its_extra_names_it(missing, code, extra):
    said = run([missing], f"import sfumato as sf; {code}").stderr.splitlines()[-1]
    assert f"pip install 'sfumato[{extra}]'" in said


def test_an_old_pyspark_is_named_with_its_version(monkeypatch):
    import pyspark

    monkeypatch.setattr(pyspark, "__version__", "3.5.9")
    error = ImportError("cannot import name 'StatefulProcessor'", name="pyspark.sql.streaming")
    assert extras.missing_extra_message("sf.reorder", error) == (
        "sf.reorder needs PySpark 4.1 or later; PySpark 3.5.9 is installed. Run pip "
        "install 'sfumato[spark]'"
    )


def test_another_failure_of_an_import_is_not_explained_away():
    assert (
        extras.missing_extra_message(
            "sf.chart", ModuleNotFoundError("", name="sfumato.charts.none")
        )
        is None
    )
    assert extras.missing_extra_message("sf.reorder", ImportError("", name="pyspark.sql")) is None


def declared() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {**project["optional-dependencies"], "": project["dependencies"]}


def test_every_extra_that_a_sentence_names_is_there_and_all_has_each():
    assert set(extras.EXTRA_OF_MODULE.values()) <= set(declared())
    everything = declared()["all"][0].partition("[")[2].rstrip("]").split(",")
    assert set(everything) == set(declared()) - {
        "",
        "all",
        "bench",
        "dev",
        "dist",
        "docs",
    }


def test_spark_is_an_extra_of_its_own():
    assert not [line for line in declared()[""] if line.startswith(("pyspark", "py4j", "protobuf"))]


def test_every_package_that_the_source_imports_is_known():
    """A new dependency is either always installed or belongs to an extra with an error message."""
    always = {"lark", "numba", "llvmlite", "numpy", "platformdirs", "pyarrow", "scipy"}
    found = set()
    for path in sorted(Path(sf.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.split(".")[0])
    foreign = found - set(sys.stdlib_module_names) - {"sfumato"}
    assert foreign - always - set(extras.EXTRA_OF_MODULE) == set()
