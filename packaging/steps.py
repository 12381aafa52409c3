"""What is tried with an installed package: what its documents promise, and a few tests."""

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


def python_of(page: str) -> str:
    """The Python of a page, its blocks one after another."""
    return "\n".join(BLOCK.findall((ROOT / page).read_text()))


def local(environment: Environment, kernels: Path) -> Outcome:
    """The first example of `docs/in-memory.md`; needs pandas."""
    (code, *_) = BLOCK.findall((ROOT / "docs" / "in-memory.md").read_text())
    return _program(environment, code, kernels)


def readme(environment: Environment, kernels: Path) -> Outcome:
    """The README's Python, as printed."""
    return _program(environment, python_of("README.md"), kernels)


def demo(environment: Environment, kernels: Path) -> Outcome:
    """The demo, of a part of the year; it is in the source tree, not in the package."""
    variables = {**_of(kernels), "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        command = ["python", "-m", "examples.demo", "--rows", ROWS]
        return environment.run(command, inside=Path(folder), variables=variables)


def tests(environment: Environment, kernels: Path) -> Outcome:
    """Some tests on real Spark; they are not part of the package, and come from the source tree."""
    variables = {**_of(kernels), "NUMBA_BOUNDSCHECK": "0"}
    command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    return environment.run(command, inside=ROOT, variables=variables, timeout=1200)


def _program(environment: Environment, code: str, kernels: Path) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.py")
        file.write_text(code)
        return environment.run(["python", file], inside=Path(folder), variables=_of(kernels))


def _of(kernels: Path) -> dict[str, str]:
    return {"SFUMATO_KERNEL_CACHE": str(kernels)}
