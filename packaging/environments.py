"""Brand-new Python environments for the package's own checks, outside the source tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]


class Outcome(NamedTuple):
    """What a command did."""

    code: int
    text: str
    seconds: float

    @property
    def last_line(self) -> str:
        """Where programs say why they failed."""
        lines = [line.strip() for line in self.text.splitlines() if line.strip()]
        return lines[-1] if lines else ""


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def install(self, *requirements: str) -> Outcome:
        """By uv, which links files from its cache: PySpark has half a gigabyte."""
        return run([*UV, "pip", "install", "--quiet", "--python", self.python, *requirements])

    def uninstall(self, *names: str) -> Outcome:
        return run([*UV, "pip", "uninstall", "--quiet", "--python", self.python, *names])

    def run(
        self,
        arguments: Iterable[str | Path],
        *,
        inside: Path | None = None,
        variables: Mapping[str, str] | None = None,
        timeout: float = 600,
    ) -> Outcome:
        """A program of this environment (`python` or a command), as a newcomer calls it."""
        program, *rest = arguments
        found = {"PYSPARK_PYTHON": str(self.python), **(variables or {})}
        plain = {n: v for n, v in os.environ.items() if not n.startswith(("PYTHON", "NUMBA_"))}
        command = [self.folder / "bin" / program, *rest]
        return run(command, inside=inside, variables={**plain, **found}, timeout=timeout)


UV = (sys.executable, "-m", "uv", "--no-python-downloads")


def fresh(folder: Path, python: str | Path) -> Environment:
    """A new, empty environment in place of whatever is in the folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = run([*UV, "venv", "--quiet", "--python", python, folder])
    if done.code:
        raise RuntimeError(f"no environment of {python}: {done.last_line}")
    return Environment(folder)


def interpreter(version: str) -> Path | None:
    """An interpreter of this version, "3.12": of the PATH, of pyenv, or of uv; None: not here."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv", "versions")
    candidates = [shutil.which(f"python{version}"), sys.executable]
    candidates += sorted(map(str, pyenv.glob(f"{version}.*/bin/python")), reverse=True)
    asked = "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"
    for candidate in filter(None, candidates):
        done = run([candidate, "-c", asked])
        if done.code == 0 and done.text.split()[0] == version:
            return Path(candidate)
    return None


def run(
    command: Iterable[str | Path],
    *,
    inside: Path | None = None,
    variables: Mapping[str, str] | None = None,
    timeout: float = 600,
) -> Outcome:
    """A command with its output and errors as one text; one that takes too long has failed."""
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
