"""An environment as an archive that goes with a job: `spark-submit --archives FILE#environment`.

Workers unpack it and run its Python; machines need nothing but Java and the same system Python.
PySpark's jars stay out: a worker has Spark's own. Compiled kernels are put in, for else every
executor of every application would compile them again: it unpacks the archive into a separate,
empty folder.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import venv
from pathlib import Path

LEFT_OUT = ("*/pyspark/jars/*", "*/pyspark/examples/*", "*/__pycache__/*")


def archive(target: Path, source: str) -> None:
    """Install the package in a fresh environment, and pack it."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name, "environment")
        venv.create(place, with_pip=True)
        python = str(place / "bin" / "python")
        quiet = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*quiet, source, "venv-pack>=0.2,<1"], check=True)
        # Without this user's cache, so that all are compiled into the environment: some minutes.
        alone = {**os.environ, "XDG_CACHE_HOME": str(Path(name, "cache"))}
        alone.pop("SFUMATO_KERNEL_CACHE", None)
        warm = "import sfumato; sfumato.ops.warm_up()"
        subprocess.run([python, "-c", warm], check=True, env=alone, cwd=name)
        command = [python, "-m", "venv_pack", "--prefix", str(place), "--output", str(target)]
        for pattern in LEFT_OUT:
            command += ["--exclude", pattern]
        subprocess.run([*command, "--force", "--quiet"], check=True)
