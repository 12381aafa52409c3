"""Steps to try an installed package: the examples of its documentation, and a few tests."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from environments import ROOT, Environment, Outcome

BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
ROWS = "40000"  # of the demo's year
REORDER, JOIN, TOP_K = (f"tests/spark/test_spark_{n}.py::" for n in ("reorder", "join", "top_k"))
TESTS = (
    f"{REORDER}test_a_restart_from_the_checkpoint_continues_exactly",
    f"{JOIN}test_streams_give_the_same_pairs_in_any_micro_batches_and_after_a_restart[1]",
    f"{TOP_K}test_a_stream_in_any_batches_and_across_a_restart_answers_as_the_static_frame",
    "tests/spark/test_run_to_end.py",
    "tests/sql/test_sql_spark.py::test_a_streaming_query_gives_the_rows_of_the_static_one",
)
FOR_TESTS = ("hypothesis", "pytest>=8", "pytest-timeout", "polars")


def local(environment: Environment, kernels: Path) -> Outcome:
    """Run the first example of `docs/in-memory.md`, which needs pandas and no Spark."""
    return _run_code(environment, _blocks("docs/in-memory.md")[0], kernels)


def readme(environment: Environment, kernels: Path) -> Outcome:
    """Run the README's Python, as printed."""
    return _run_code(environment, "\n".join(_blocks("README.md")), kernels)


def demo(environment: Environment, kernels: Path) -> Outcome:
    """Run the demo for a part of the year; it is in the source tree, not in the package."""
    variables = {"SFUMATO_KERNEL_CACHE": str(kernels), "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        command = ["python", "-m", "examples.demo", "--rows", ROWS]
        return environment.run(command, inside=Path(folder), variables=variables)


def tests(environment: Environment, kernels: Path) -> Outcome:
    """Run some tests of the source tree on real Spark."""
    variables = {"SFUMATO_KERNEL_CACHE": str(kernels), "NUMBA_BOUNDSCHECK": "0"}
    command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    return environment.run(command, inside=ROOT, variables=variables, timeout=1200)


def _blocks(page: str) -> list[str]:
    return BLOCK.findall((ROOT / page).read_text())


def _run_code(environment: Environment, code: str, kernels: Path) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.py")
        file.write_text(code)
        variables = {"SFUMATO_KERNEL_CACHE": str(kernels)}
        return environment.run(["python", file], inside=Path(folder), variables=variables)
