"""A Spark declarative pipeline in a folder, and Spark's command that runs it."""

import os
import subprocess
import sys
from pathlib import Path

import sfumato as sf

SPEC = """
name: readings
catalog: spark_catalog
database: default
storage: {storage}
libraries:
  - glob:
      include: transformations/**
configuration:
{settings}
"""


def written(folder: Path, **files: str) -> None:
    """Write a pipeline of transformations; in the names of their files, "_" stands for "."."""
    (folder / "transformations").mkdir()
    for name, text in files.items():
        stem, _, ending = name.rpartition("_")
        (folder / "transformations" / f"{stem}.{ending}").write_text(text)
    chosen = sf.ops.settings(2, local_disk=True)
    for name in ("python.unix.domain.socket.enabled", "broadcast.UDFCompressionThreshold"):
        del chosen[f"spark.{name}"]  # only before a session starts
    settings = "\n".join(f'  {name}: "{value}"' for name, value in chosen.items())
    text = SPEC.format(storage=(folder / "storage").as_uri(), settings=settings)
    (folder / "spark-pipeline.yml").write_text(text)


def run(folder: Path, *arguments: str, command: str = "run") -> str:
    """Run `spark-pipelines COMMAND`, which must succeed, and return its output."""
    spark_pipelines = Path(sys.executable).with_name("spark-pipelines")
    done = subprocess.run(
        [str(spark_pipelines), command, "--spec", "spark-pipeline.yml", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_TESTING": "1",  # the server takes a free port
            "PATH": f"{spark_pipelines.parent}{os.pathsep}{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if not line.startswith("\tat ")]
    assert done.returncode == 0, "\n".join([*said, done.stderr])[-3000:]
    return done.stdout
