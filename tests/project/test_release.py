"""`make release` in a scratch repository: what it does, what it refuses, and how it rolls back."""

import json
import re
import subprocess
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from packaging.version import Version

import release
from state_formats import recorded, today

ROOT = Path(__file__).resolve().parents[2]
CHANGELOG = "# Changelog\n\n## Unreleased\n\n- A thing.\n\n## 0.1.0 (2024-01-01)\n\n- First.\n"
FILES = {
    "pyproject.toml": '[project]\nname = "thing"\nversion = "0.2.0.dev0"\n',
    "CHANGELOG.md": CHANGELOG,
    "Makefile": (
        "dist:\n\tmkdir -p dist && grep version pyproject.toml > dist/thing\n"
        "nightly:\n\techo nightly >> build/runs\n"
    ),
    ".gitignore": "build/\ndist/\n",
    ".ci/nightly.txt": "none yet\n",
    ".ci/run": "#!/bin/sh\necho tested >> build/runs\n",
    "packaging/recipe.yaml": 'context:\n  version: "0.2.0.dev0"\n',
    "packaging/state_formats.json": json.dumps({"0.1.0": {"a": 1}, "unreleased": {"a": 2}}),
}


@pytest.fixture
def project(tmp_path):
    """Create a repository with a released version 0.1.0 and an unreleased change."""
    for name, text in FILES.items():
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    (tmp_path / ".ci" / "run").chmod(0o755)
    (tmp_path / "build").mkdir()
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    git(tmp_path, "config", "user.name", "A Person")
    git(tmp_path, "config", "user.email", "person@example.org")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "All")
    git(tmp_path, "tag", "v0.1.0")
    return tmp_path


def git(folder, *words):
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_release_tests_builds_writes_commits_and_tags_and_publishes_nothing(project, capsys):
    release.main(["0.2.0", "--root", str(project)])
    assert (project / "build" / "runs").read_text() == "tested\nnightly\n"
    assert 'version = "0.2.0"' in (project / "dist" / "thing").read_text()
    assert git(project, "describe", "--tags") == "v0.2.0"
    assert git(project, "cat-file", "-t", "v0.2.0") == "tag"
    assert git(project, "status", "--porcelain") == ""
    written = (project / "CHANGELOG.md").read_text()
    heading = r"## Unreleased\n\n## 0\.2\.0 \(\d{4}-\d\d-\d\d\)\n\n- A thing\.\n\n## 0\.1\.0"
    assert re.search(heading, written)
    assert 'version: "0.2.0"' in (project / "packaging" / "recipe.yaml").read_text()
    formats = json.loads((project / "packaging" / "state_formats.json").read_text())
    assert formats["0.2.0"] == formats["unreleased"] == {"a": 2}
    said = capsys.readouterr().out
    assert "git push origin main v0.2.0" in said
    assert "twine upload" in said


def test_the_next_release_needs_something_new(project):
    release.main(["0.2.0", "--root", str(project)])
    with pytest.raises(SystemExit, match="no entries under `## Unreleased`"):
        release.main(["0.2.1", "--root", str(project)])


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("1.0", "a version is like 1.2.3"),
        ("v0.2.0", "a version is like 1.2.3"),
        ("0.1.0", "not newer than v0.1.0"),
        ("0.1.0rc1", "not newer than v0.1.0"),
        ("0.1.1", r"other layouts than in 0.1.0 \(a\): that needs a new minor version"),
    ],
)
def test_a_wrong_version_is_refused_before_anything_runs(project, version, reason):
    with pytest.raises(SystemExit, match=reason):
        release.main([version, "--root", str(project)])
    assert not (project / "build" / "runs").exists()
    assert git(project, "status", "--porcelain") == ""


def test_a_tree_with_changes_or_another_branch_is_refused(project):
    (project / "new.txt").touch()
    with pytest.raises(SystemExit, match=r"the tree has changes(?s:.*)new\.txt"):
        release.main(["0.2.0", "--root", str(project)])
    (project / "new.txt").unlink()
    git(project, "switch", "--quiet", "--create", "mine")
    with pytest.raises(SystemExit, match="on `main`; the branch is `mine`"):
        release.main(["0.2.0", "--root", str(project)])


@pytest.mark.parametrize("failing", [".ci/run", "Makefile"])
def test_a_failure_leaves_everything_as_it_was(project, failing):
    text = "#!/bin/sh\nexit 3\n" if failing == ".ci/run" else "nightly:\ndist:\n\tfalse\n"
    (project / failing).write_text(text)
    git(project, "commit", "--quiet", "--all", "-m", "Fails")
    before = git(project, "rev-parse", "HEAD")
    with pytest.raises(SystemExit, match="failed"):
        release.main(["0.2.0", "--root", str(project)])
    assert git(project, "rev-parse", "HEAD") == before
    assert git(project, "status", "--porcelain") == ""
    assert git(project, "tag", "--list") == "v0.1.0"


def test_green_runs_are_trusted_for_this_commit_only(project):
    with pytest.raises(SystemExit, match="the last green run is of none"):
        release.main(["0.2.0", "--tested", "--root", str(project)])
    (project / "build" / "green").write_text(git(project, "rev-parse", "HEAD") + "\n")
    with pytest.raises(SystemExit, match="nightly run was: none yet; run"):
        release.main(["0.2.0", "--tested", "--root", str(project)])
    commit = git(project, "rev-parse", "HEAD")
    (project / ".ci" / "nightly.txt").write_text(f"2026-01-01, {commit}, passed: 9 passed\n")
    git(project, "commit", "--quiet", "--all", "-m", "Record the nightly run")
    (project / "build" / "green").write_text(git(project, "rev-parse", "HEAD") + "\n")
    release.main(["0.2.0", "--tested", "--root", str(project)])
    assert not (project / "build" / "runs").exists()
    assert git(project, "describe", "--tags") == "v0.2.0"


def test_our_own_files_have_what_a_release_changes():
    for file, text in release.changes(ROOT, "9.9.9").items():
        assert text != file.read_text()
        assert text.count("9.9.9") == 1


def test_the_conda_recipe_has_the_version_and_the_requirements_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = yaml.safe_load((ROOT / release.RECIPE).read_text())
    assert recipe["context"]["version"] == project["version"]
    needs = [f"python {project['requires-python']}", *project["dependencies"]]
    assert [line.replace(" ", "") for line in recipe["requirements"]["run"]] == [
        line.replace(" ", "") for line in needs
    ]
    beside = [line.replace(" ", "") for line in recipe["requirements"]["run_constraints"]]
    assert sorted(beside) == sorted(project["optional-dependencies"]["spark"])
    (command,) = recipe["build"]["python"]["entry_points"]
    assert command == f"sfumato = {project['scripts']['sfumato']}"


# Layouts of saved state


def test_a_new_layout_is_written_down():
    said = "a new layout: `python tests/state_formats.py` writes it down"
    assert recorded()["unreleased"] == today(), said


def test_layouts_never_fall_and_a_patch_version_keeps_those_of_its_minor():
    releases = sorted((v for v in recorded() if v != "unreleased"), key=Version)
    for before, after in pairwise([*releases, "unreleased"]):
        old, new = recorded()[before], recorded()[after]
        assert all(new[kind] >= old[kind] for kind in old.keys() & new.keys()), (before, after)
        if after != "unreleased" and release.same_layouts(before, after):
            assert old == new, f"{after} has other layouts than {before}"


def test_a_version_may_have_other_layouts_than_its_own_pre_releases():
    formats = json.dumps({"0.2.0a1": {"a": 1}, "unreleased": {"a": 2}})
    assert json.loads(release.with_formats(formats, "0.2.0"))["0.2.0"] == {"a": 2}
