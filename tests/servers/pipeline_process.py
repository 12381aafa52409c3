"""A pipeline file run as users run it, by `sfumato run FILE` in a process that may be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


def started(file: Path, *options: str) -> subprocess.Popen[bytes]:
    """The command at work; what it says goes to a file beside the pipeline's."""
    said = (file.parent / "said.txt").open("ab")
    command = [
        sys.executable,
        "-m",
        "sfumato.cli.main",
        "run",
        str(file),
        "--allow-packages",
        *options,
    ]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.Popen(
        command, stdout=said, stderr=said, env=environment, start_new_session=True
    )


def killed(process: subprocess.Popen[bytes]) -> None:
    """End it and its JVM and workers by SIGKILL."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def ended(process: subprocess.Popen[bytes], file: Path, patience: float = 300) -> None:
    """Wait for its end, which must be a good one."""
    try:
        code = process.wait(patience)
    except subprocess.TimeoutExpired:
        killed(process)
        code = -1
    assert code == 0, (file.parent / "said.txt").read_text()[-3000:]
