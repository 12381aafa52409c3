"""Fresh Python environments, and what is tried in them: examples, the demo, a few tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
UV = (sys.executable, "-m", "uv")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
ROWS = "40000"  # of the demo's year
TESTS = (
    "tests/spark/test_streams_equal_memory.py",
    "tests/spark/test_run_to_end.py",
    "tests/sql/test_sql_spark.py::test_a_streaming_query_gives_the_rows_of_the_static_one",
)
FOR_TESTS = ("hypothesis", "pytest>=8", "pytest-timeout", "polars")


class Outcome(NamedTuple):
    """The result of a command; output and errors are one text."""

    code: int
    text: str
    seconds: float

    @property
    def last_line(self) -> str:
        """Return the last line, where programs say why they failed."""
        return next((line.strip() for line in reversed(self.text.splitlines()) if line.strip()), "")


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder, made by uv, which links files from its cache."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def pip(self, command: str, *requirements: str) -> Outcome:
        """Install or uninstall packages."""
        return run([*UV, "pip", command, "--quiet", "--python", self.python, *requirements])

    def run(
        self,
        arguments: Iterable[str | Path],
        *,
        inside: Path | None = None,
        variables: Mapping[str, str] | None = None,
        timeout: float = 600,
    ) -> Outcome:
        """Run a program of this environment (`python` or a command), as a new user would."""
        program, *rest = arguments
        plain = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "NUMBA_"))}
        found = {**plain, "PYSPARK_PYTHON": str(self.python), **(variables or {})}
        command = [self.folder / "bin" / program, *rest]
        return run(command, inside=inside, variables=found, timeout=timeout)


def fresh(folder: Path, python: str | Path = sys.executable) -> Environment:
    """Make an empty environment in place of whatever is in the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    path = os.pathsep.join([*map(str, pyenv.glob("*/bin")), os.environ["PATH"]])
    variables = {**os.environ, "PATH": path}
    require(run([*UV, "venv", "--quiet", "--python", python, folder], variables=variables))
    return Environment(folder)


def run(
    command: Iterable[str | Path],
    *,
    inside: Path | None = None,
    variables: Mapping[str, str] | None = None,
    timeout: float = 600,
) -> Outcome:
    """Run a command; one that takes too long has failed."""
    began = time.monotonic()
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=inside,
            env=None if variables is None else dict(variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        text = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        return Outcome(124, f"{text}\nno end after {timeout:.0f} s", time.monotonic() - began)
    return Outcome(done.returncode, done.stdout, time.monotonic() - began)


def require(outcome: Outcome) -> Outcome:
    """Return the outcome of a command that succeeded; end the program with the text of another."""
    if outcome.code:
        raise SystemExit(outcome.text)
    return outcome


def run_page(environment: Environment, kernels: Path, page: str, blocks: int | None) -> Outcome:
    """Run the first Python blocks of a page, as printed; None: all."""
    code = "\n".join(BLOCK.findall((ROOT / page).read_text())[:blocks])
    variables = {"SFUMATO_KERNEL_CACHE": str(kernels)}
    with tempfile.TemporaryDirectory() as folder:
        return environment.run(["python", "-c", code], inside=Path(folder), variables=variables)


def run_demo(environment: Environment, kernels: Path) -> Outcome:
    """Run the demo for a part of the year; it is in the source tree, not in the package."""
    variables = {"SFUMATO_KERNEL_CACHE": str(kernels), "PYTHONPATH": str(ROOT)}
    with tempfile.TemporaryDirectory() as folder:
        command = ["python", "-m", "examples.demo", "--rows", ROWS]
        return environment.run(command, inside=Path(folder), variables=variables)


def run_tests(environment: Environment, kernels: Path) -> Outcome:
    """Run some tests of the source tree on real Spark."""
    variables = {"SFUMATO_KERNEL_CACHE": str(kernels), "NUMBA_BOUNDSCHECK": "0"}
    command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    return environment.run(command, inside=ROOT, variables=variables, timeout=1200)
