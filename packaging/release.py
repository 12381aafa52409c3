"""A release, up to publishing: `make release VERSION=1.2.3`.

    python packaging/release.py 1.2.3             checks, all tests, builds, commit and tag
    python packaging/release.py 1.2.3 --tested    believes the last green run of this commit

What it does, in order; the first that fails ends it, and nothing is committed or tagged:

1. the version is newer than every tag, the tree is clean, on `main`, "Unreleased" says something,
   and a patch version keeps the layouts of saved state;
2. linters, the demo and all tests pass (`.ci/run`);
3. the version goes into pyproject.toml, the conda recipe and the record of layouts, the changelog
   gets a heading with version and date, and `make dist` builds and checks the packages;
4. commit and tag `v1.2.3`.

It then says the commands that would publish, and stops: publishing cannot be undone.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?")
FINAL = "z"  # the kind of a version that is no pre-release: behind a, b and rc
UNRELEASED = "## Unreleased\n"
FORMATS = Path("packaging", "state_formats.json")  # layouts of saved state, by release
RECIPE = Path("packaging", "recipe.yaml")
GREEN = Path("build", "green")  # the commit of which `.ci/run` passed last


class NotReadyError(Exception):
    """Why there is no release, and what to do."""


def key(version: str) -> tuple[int, int, int, str, int]:
    """By which versions are in order: 1.0.0a1 < 1.0.0b1 < 1.0.0rc1 < 1.0.0."""
    found = VERSION.fullmatch(version)
    if found is None:
        raise NotReadyError(
            f"a version is like 1.2.3, 1.2.3a1, 1.2.3b1 or 1.2.3rc1; got {version!r}"
        )
    major, minor, patch, kind, number = found.groups()
    return int(major), int(minor), int(patch), kind or FINAL, int(number or 0)


def ready(root: Path, version: str) -> None:
    """Raises NotReadyError for what stands in the way of this version."""
    wanted = key(version)
    tags = git(root, "tag", "--list", "v*").split()
    taken = [tag for tag in tags if VERSION.fullmatch(tag[1:]) and key(tag[1:]) >= wanted]
    if taken:
        raise NotReadyError(f"{version} is not newer than {max(taken, key=lambda t: key(t[1:]))}")
    if changed := git(root, "status", "--porcelain"):
        raise NotReadyError(f"the tree has changes; commit or stash them:\n{changed}")
    if (branch := git(root, "branch", "--show-current")) != "main":
        raise NotReadyError(f"releases are made on `main`; here is `{branch}`")
    if not unreleased((root / "CHANGELOG.md").read_text()):
        raise NotReadyError("CHANGELOG.md has nothing under `## Unreleased`")


def unreleased(changelog: str) -> str:
    """What stands under "Unreleased"."""
    _, found, rest = changelog.partition(UNRELEASED)
    return re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0].strip() if found else ""


def with_heading(changelog: str, version: str, date: str) -> str:
    """The changelog in which what was unreleased is of this version."""
    return changelog.replace(UNRELEASED, f"{UNRELEASED}\n## {version} ({date})\n", 1)


def version_of(project: str) -> str:
    """The version that pyproject.toml has."""
    found = re.search(r'^version = "([^"]*)"$', project, flags=re.MULTILINE)
    return found[1] if found else ""


def with_version(project: str, version: str) -> str:
    """pyproject.toml with this version. Raises NotReadyError without exactly one."""
    text, times = re.subn(
        r'^version = "[^"]*"$', f'version = "{version}"', project, flags=re.MULTILINE
    )
    if times != 1:
        raise NotReadyError(f"pyproject.toml must have one line `version = ...`; it has {times}")
    return text


def same_layouts(one: str, other: str) -> bool:
    """Whether two versions must save state alike: those of a minor version, once it is out."""
    a, b = key(one), key(other)
    return a[:2] == b[:2] and a[3] == b[3] == FINAL


def with_formats(formats: str, version: str) -> str:
    """The record of state's layouts, in which those of today are of this version too.

    Raises NotReadyError for a patch version with other layouts than its minor version has.
    """
    known = json.loads(formats)
    today = known["unreleased"]
    for release, layouts in known.items():
        if release == "unreleased" or not same_layouts(release, version):
            continue
        if kinds := sorted(dict(layouts.items() ^ today.items())):
            raise NotReadyError(
                f"saved state has other layouts than in {release} ({', '.join(kinds)}): that needs "
                "a new minor version, see docs/compatibility.md"
            )
    return json.dumps({**known, version: today}, indent=1) + "\n"


def tested(root: Path, believed: bool) -> None:
    """Linters and all tests. Raises NotReadyError where they fail, or ran for another commit."""
    if not believed:
        command(root, ".ci/run")
        return
    green = root / GREEN
    last = green.read_text().strip() if green.is_file() else "none"
    if last != (here := git(root, "rev-parse", "HEAD")):
        raise NotReadyError(f"--tested: the last green run is of {last}, not of {here}: .ci/run")


def release(root: Path, version: str, *, believed: bool) -> None:
    """All steps. What was written is taken back where one of them fails."""
    ready(root, version)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    old = version_of((root / "pyproject.toml").read_text())
    changes = {
        root / "pyproject.toml": lambda text: with_version(text, version),
        root / "CHANGELOG.md": lambda text: with_heading(text, version, date),
        root / RECIPE: lambda text: text.replace(f'version: "{old}"', f'version: "{version}"', 1),
        root / FORMATS: lambda text: with_formats(text, version),
    }
    before = {file: file.read_text() for file in changes}
    after = {file: change(before[file]) for file, change in changes.items()}
    tested(root, believed)
    try:
        for file, text in after.items():
            file.write_text(text)
        command(root, "make", "dist")
    except BaseException:
        for file, text in before.items():
            file.write_text(text)
        raise
    git(root, "commit", "--quiet", "--all", "--message", f"Version {version}")
    git(root, "tag", "--annotate", f"v{version}", "--message", f"sfumato {version}")


def command(root: Path, *words: str) -> None:
    if subprocess.run(words, cwd=root, check=False).returncode:
        raise NotReadyError(f"`{' '.join(words)}` failed")


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReadyError(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="A release, up to publishing.")
    parser.add_argument("version")
    parser.add_argument("--tested", action="store_true", help="believe the last green .ci/run")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    asked = parser.parse_args(arguments)
    try:
        release(asked.root, asked.version, believed=asked.tested)
    except NotReadyError as error:
        sys.exit(f"No release: {error}")
    print(f"""
Version {asked.version} is committed and tagged here, and its packages are in dist. To publish it:

    git push origin main v{asked.version}
    python -m twine upload dist/*.whl dist/*.tar.gz

To take it back before that: git tag --delete v{asked.version} && git reset --hard HEAD~1""")


if __name__ == "__main__":
    main(sys.argv[1:])
