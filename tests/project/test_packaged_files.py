"""The wheel contains the files that are not modules: the grammar, the hints, the page."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import sfumato as sf

PACKAGE = Path(sf.__file__).parent
ROOT = Path(__file__).resolve().parents[2]


def other_files() -> set[str]:
    found = (path.relative_to(PACKAGE) for path in PACKAGE.rglob("*") if path.is_file())
    return {str(path) for path in found if path.suffix not in (".py", ".pyc")}


def test_every_file_is_named_in_the_project_and_every_pattern_names_files():
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    patterns = tools["setuptools"]["package-data"]["sfumato"]
    named = {p: {str(path.relative_to(PACKAGE)) for path in PACKAGE.glob(p)} for p in patterns}
    assert set().union(*named.values()) == other_files()
    assert [pattern for pattern, found in named.items() if not found] == []


@pytest.mark.nightly
def test_a_built_wheel_contains_every_file(tmp_path):
    """The copy has no MANIFEST.in, whose `graft src` also adds files to the wheel."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(PACKAGE, tmp_path / "src" / "sfumato")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "."]
    subprocess.run(build, check=True, timeout=600, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert "sfumato/language/grammar.lark" in names
    assert {f"sfumato/{name}" for name in other_files()} <= names
