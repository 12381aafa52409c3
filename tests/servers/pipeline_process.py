"""A pipeline file run as users run it: `sfumato run FILE`, in a process that may be killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path


def started(file: Path, *options: str) -> subprocess.Popen[bytes]:
    """Start the command; its output goes to a file next to the pipeline's."""
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
    """Send SIGKILL to the process, its JVM and its workers."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def ended(process: subprocess.Popen[bytes], file: Path, patience: float = 300) -> None:
    """Wait for the process to end, which must be without error."""
    try:
        code = process.wait(patience)
    except subprocess.TimeoutExpired:
        killed(process)
        code = -1
    assert code == 0, (file.parent / "said.txt").read_text()[-3000:]
