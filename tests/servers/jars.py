"""Jars from the Maven registry with their dependencies, fetched with PySpark's Ivy."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pyspark

JARS = Path(pyspark.__file__).parent / "jars"
FOLDER = Path(os.environ.get("SFUMATO_TEST_JARS", Path.home() / ".cache" / "sfumato-test-jars"))
PATIENCE = 300  # seconds for the registry's answer


class NoRegistryError(Exception):
    """The Maven registry could not be reached, or does not have the jar."""


@cache
def jars(coordinates: str) -> tuple[Path, ...]:
    """Return the jars of group:artifact:version; they are fetched once, then cached per user."""
    group, artifact, version = coordinates.split(":")
    folder = FOLDER / f"{artifact}-{version}"
    if not (folder / "whole").exists():
        _fetch(group, artifact, version, folder)
    return tuple(sorted(folder.glob("*.jar")))


def added(*coordinates: str) -> list[str]:
    """Return the paths of these jars with dependencies, except those in PySpark in any version."""
    own = {_name(jar) for jar in JARS.glob("*.jar")}
    found = {jar.name: jar for one in coordinates for jar in jars(one)}
    return [str(jar) for jar in found.values() if _name(jar) not in own]


def _name(jar: Path) -> str:
    return re.sub(r"-\d.*", "", jar.name)


def _fetch(group: str, artifact: str, version: str, folder: Path) -> None:
    java, ivy = shutil.which("java"), next(JARS.glob("ivy-*.jar"), None)
    if java is None or ivy is None:
        raise NoRegistryError("no Java runtime, or no Ivy in this PySpark")
    command = [java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(ivy)]
    command += ["-dependency", group, artifact, version, "-confs", "default"]
    command += ["-retrieve", f"{folder}/[artifact]-[revision].[ext]", "-types", "jar", "bundle"]
    try:
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise NoRegistryError(f"{group}:{artifact}:{version} did not come in time") from None
    if done.returncode or "UNRESOLVED" in done.stdout + done.stderr or not any(folder.glob("*")):
        raise NoRegistryError(f"the Maven registry did not give {group}:{artifact}:{version}")
    (folder / "whole").touch()
