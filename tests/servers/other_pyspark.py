"""A second PySpark release next to the installed one, for connectors that are made for it."""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pyspark

from servers.jars import FOLDER, NoRegistryError

PATIENCE = 500  # seconds for half a gigabyte
KEPT = ("bin", "jars")  # the parts of its archive, in addition to Python code, that a session needs


@cache
def other_pyspark(version: str) -> Path:
    """Return a folder for PYTHONPATH; it is fetched once, then cached per user.

    The archive is unpacked directly, without running an installer.
    """
    folder = FOLDER / f"pyspark-{version}"
    if not (folder / "whole").exists():
        _fetch(version, folder)
    return folder


def path_with(version: str) -> str:
    """Return a PYTHONPATH on which this PySpark comes first."""
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([str(other_pyspark(version)), *filter(None, before)])


def run_again_under(version: str, arguments: Sequence[str]) -> None:
    """Restart the program with this PySpark version, unless it already runs with it."""
    if pyspark.__version__ != version:
        environment = {**os.environ, "PYTHONPATH": path_with(version)}
        os.execve(sys.executable, [sys.executable, *arguments], environment)


def _fetch(version: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", "pyspark", f"pyspark=={version}"]
    with tempfile.TemporaryDirectory(dir=folder) as place:
        try:
            done = subprocess.run(
                [*command, "--dest", place],
                check=False,
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
        except subprocess.TimeoutExpired:
            raise NoRegistryError(f"PySpark {version} did not come in time") from None
        if done.returncode:
            raise NoRegistryError(f"PySpark {version}: {done.stderr[-500:]}")
        unpacked = Path(place, f"pyspark-{version}")
        with tarfile.open(next(Path(place).glob("*.tar.gz"))) as archive:
            archive.extractall(place, filter="data")
        (unpacked / "pyspark").rename(folder / "pyspark")
        for name in KEPT:
            (unpacked / "deps" / name).rename(folder / "pyspark" / name)
    (folder / "whole").touch()
