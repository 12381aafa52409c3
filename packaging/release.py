"""Make a release, up to publishing: `make release VERSION=1.2.3`.

    python packaging/release.py 1.2.3             checks, all tests, builds, commit and tag
    python packaging/release.py 1.2.3 --tested    trusts the last green runs of this commit

The first step that fails ends it, and nothing is committed or tagged:

1. the version is newer than every tag, the tree is clean, on `main`, "Unreleased" has entries, and
   a patch version keeps the layouts of saved state;
2. linters, the tests of every change and all other tests pass (`.ci/run`, `make nightly`);
3. the version is written into pyproject.toml, the conda recipe, the record of layouts and the
   changelog, and `make dist` builds and checks the packages;
4. commit and tag `v1.2.3`.

It prints the commands that publish, and stops: publishing cannot be undone.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

from packaging.version import Version

VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
UNRELEASED = "## Unreleased\n"
FORMATS = Path("packaging", "state_formats.json")  # layouts of saved state, by release
RECIPE = Path("packaging", "recipe.yaml")
NIGHTLY = ".ci/nightly.txt"  # date, commit and result of the last nightly run
PUBLISH = """
Version {0} is committed and tagged here, and its packages are in dist. To publish it:

    git push origin main v{0}
    python -m twine upload dist/*.whl dist/*.tar.gz

To undo it before that: git tag --delete v{0} && git reset --hard HEAD~1"""


def check_ready(root: Path, version: str) -> None:
    """End the program for what prevents this version."""
    if not VERSION.fullmatch(version):
        refuse(f"a version is like 1.2.3, 1.2.3a1, 1.2.3b1 or 1.2.3rc1; got {version!r}")
    tags = [tag[1:] for tag in git(root, "tag", "--list", "v*").split()]
    released = [tag for tag in tags if VERSION.fullmatch(tag)]
    newest = max(released, key=Version, default=None)
    if newest is not None and Version(newest) >= Version(version):
        refuse(f"{version} is not newer than v{newest}")
    if changed := git(root, "status", "--porcelain"):
        refuse(f"the tree has changes; commit or stash them:\n{changed}")
    if (branch := git(root, "branch", "--show-current")) != "main":
        refuse(f"releases are made on `main`; the branch is `{branch}`")
    changelog = (root / "CHANGELOG.md").read_text().partition(UNRELEASED)[2]
    if not re.split(r"^## ", changelog, maxsplit=1, flags=re.MULTILINE)[0].strip():
        refuse("CHANGELOG.md has no entries under `## Unreleased`")


def with_version(text: str, version: str, *, key: str = "version = ") -> str:
    """Write a version into the only line of a file that has the key."""
    found, times = re.subn(rf'^( *{key})"[^"]*"$', rf'\g<1>"{version}"', text, flags=re.MULTILINE)
    if times != 1:
        refuse(f"there must be one line `{key}...` in the file; there are {times}")
    return found


def same_layouts(one: str, other: str) -> bool:
    """Return whether two versions must save state alike: those of a minor version, once final."""
    a, b = Version(one), Version(other)
    return a.release[:2] == b.release[:2] and not (a.is_prerelease or b.is_prerelease)


def with_formats(formats: str, version: str) -> str:
    """Record today's layouts of state for this version; a patch version must not change them."""
    known = json.loads(formats)
    today = known["unreleased"]
    for release, layouts in known.items():
        is_bound = release != "unreleased" and same_layouts(release, version)
        if is_bound and (kinds := sorted(dict(layouts.items() ^ today.items()))):
            why = f"saved state has other layouts than in {release} ({', '.join(kinds)}): that "
            refuse(f"{why}needs a new minor version, see docs/compatibility.md")
    return json.dumps({**known, version: today}, indent=1) + "\n"


def changes(root: Path, version: str) -> dict[Path, str]:
    """Return the new texts of the files that have the version."""
    heading = f"{UNRELEASED}\n## {version} ({datetime.now(UTC):%Y-%m-%d})\n"
    names = ("pyproject.toml", "CHANGELOG.md", RECIPE, FORMATS)
    project, changelog, recipe, formats = (root / name for name in names)
    return {
        project: with_version(project.read_text(), version),
        changelog: changelog.read_text().replace(UNRELEASED, heading, 1),
        recipe: with_version(recipe.read_text(), version, key="version: "),
        formats: with_formats(formats.read_text(), version),
    }


def check_tested(root: Path, trusted: bool) -> None:
    """Run linters and all tests, or require that they passed for this commit."""
    if not trusted:
        command(root, ".ci/run")
        return command(root, "make", "nightly")
    green = root / "build" / "green"  # the commit for which `.ci/run` passed last
    last = green.read_text().strip() if green.is_file() else "none"
    if last != (here := git(root, "rev-parse", "HEAD")):
        refuse(f"--tested: the last green run is of {last}, not of {here}: run .ci/run")
    nightly = (root / NIGHTLY).read_text().strip()
    passed = re.search(r"([0-9a-f]{40}), passed", nightly)
    if not passed or git(root, "diff", "--name-only", passed[1], "HEAD") not in ("", NIGHTLY):
        refuse(f"--tested: the last nightly run was: {nightly}; run .ci/nightly")


def release(root: Path, version: str, *, tested: bool) -> None:
    """Make a release; restore the files if a step fails."""
    check_ready(root, version)
    written = changes(root, version)
    check_tested(root, tested)
    before = {file: file.read_text() for file in written}
    try:
        for file, text in written.items():
            file.write_text(text)
        command(root, "make", "dist")
    except BaseException:
        for file, text in before.items():
            file.write_text(text)
        raise
    git(root, "commit", "--quiet", "--all", "--message", f"Version {version}")
    git(root, "tag", "--annotate", f"v{version}", "--message", f"sfumato {version}")


def refuse(why: str) -> None:
    raise SystemExit(f"No release: {why}")


def command(root: Path, *words: str) -> None:
    if subprocess.run(words, cwd=root, check=False).returncode:
        refuse(f"`{' '.join(words)}` failed")


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        refuse(f"git {words[0]}: {done.stderr.strip()}")
    return done.stdout.strip()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Make a release, up to publishing.")
    parser.add_argument("version")
    parser.add_argument("--tested", action="store_true", help="trust the last green .ci/run")
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[1])
    given = parser.parse_args(arguments)
    release(given.root, given.version, tested=given.tested)
    print(PUBLISH.format(given.version))


if __name__ == "__main__":
    main(sys.argv[1:])
