"""An environment as an archive that goes with a job: `spark-submit --archives FILE#environment`.

Workers unpack it and run its Python; the machines need only Java and the same system Python.
PySpark's jars are left out, because workers have Spark's own. Compiled kernels are included:
every executor unpacks the archive into a new folder, and would otherwise compile them again.
"""

import os
import subprocess
import tempfile
import venv
from pathlib import Path

LEFT_OUT = ("*/pyspark/jars/*", "*/pyspark/examples/*", "*/__pycache__/*")


def archive(target: Path, source: str) -> None:
    """Install the package in a new environment, and pack it."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name, "environment")
        venv.create(place, with_pip=True)
        python = str(place / "bin" / "python")
        quiet = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*quiet, source, "venv-pack>=0.2,<1"], check=True)
        # Without this user's cache, all kernels are compiled into the environment. Takes minutes.
        alone = {**os.environ, "XDG_CACHE_HOME": str(Path(name, "cache"))}
        alone.pop("SFUMATO_KERNEL_CACHE", None)
        warm = "import sfumato; sfumato.ops.warm_up()"
        subprocess.run([python, "-c", warm], check=True, env=alone, cwd=name)
        command = [python, "-m", "venv_pack", "--prefix", str(place), "--output", str(target)]
        for pattern in LEFT_OUT:
            command += ["--exclude", pattern]
        subprocess.run([*command, "--force", "--quiet"], check=True)
