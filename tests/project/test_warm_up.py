"""After `sf.ops.warm_up()` no query compiles anything, for any columns and arrays.

The tests use new processes: a process compiles once, so other tests could hide a missing kernel.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.kernels import compile_store
from sfumato.kernels.compile import compile_counts
from sfumato.warmup import WARM_UP_STEPS, WarmedUp, warm_up

HASH = "0123456789abcdef"
PROGRAM = Path(__file__).with_name("queries_after_warm_up.py")


@pytest.mark.nightly
def test_after_it_every_operator_finds_its_kernels_compiled():
    """No kernel is loaded from disk either: each has one form, which is already loaded."""
    run = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    for step, compiled, loaded in json.loads(run.stdout):
        assert (step, compiled, loaded) == (step, [], [])


def test_a_part_of_it_says_what_it_does():
    told: list[str] = []
    before = compile_counts()
    warmed = warm_up(["distributions"], told.append)
    assert told == ["distributions"]
    assert warmed.compiled == len(compile_counts().compiled) - len(before.compiled)
    assert warm_up(["distributions"])[:2] == (0, 0)
    assert set(told) < set(WARM_UP_STEPS)


TWICE = """
import json, sys
sys.prefix = "/proc/none"  # no kernels but those of this test
from sfumato.kernels.compile import compile_counts
import sfumato.warmup as warming
warming.STEPS_BY_LINE = "import sys; sys.prefix = '/proc/none'" + warming.STEPS_BY_LINE
told = []
# The second and third are one step: two processes compile it, and write it, at the same time.
warmed = warming.warm_up(["row hashes", "distributions", "distributions"], told.append, processes=2)
print(json.dumps([warmed.compiled, len(compile_counts().compiled), warmed.loaded, sorted(told)]))
"""


@pytest.mark.nightly
def test_processes_share_the_work_and_may_write_the_same_kernel_at_the_same_time(tmp_path):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "XDG_CACHE_HOME": "/proc/none",
        compile_store.CACHE_VARIABLE: str(tmp_path),
    }
    command = [sys.executable, "-c", TWICE]
    for expected_here in (2, 0):  # first from nothing, then from disk only
        run = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert run.returncode == 0, run.stderr
        compiled, here, loaded, told = json.loads(run.stdout)
        files = list(tmp_path.glob("*/*.nbc"))
        if expected_here:  # this process compiles the hashes, the others the step "laws"
            assert 2 <= here < compiled == len(files)
            assert told == ["distributions"] * 4 + ["row hashes"]
        else:
            assert (compiled, here) == (0, 0)
        assert loaded >= 1


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="`processes` must be 1 or more; got 0"):
        warm_up(["distributions"], processes=0)
    with pytest.raises(KeyError, match="there is no warm-up step 'lows'"):
        warm_up(["lows"])


def test_what_is_left_behind_can_be_taken_away(tmp_path, monkeypatch):
    environment, user = tmp_path / "environment", tmp_path / "user"
    monkeypatch.setattr(sys, "prefix", str(environment))
    monkeypatch.setenv("XDG_CACHE_HOME", str(user))
    monkeypatch.delenv(compile_store.CACHE_VARIABLE, raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for file in (
        environment / "var" / "cache" / "sfumato" / "kernels" / HASH / "a.nbc",
        environment / "bin" / "python",
        user / "sfumato" / "kernels" / HASH / "a.nbc",
        user / "sfumato" / "java-x" / "bin" / "java",
        user / "others" / "file",
    ):
        file.parent.mkdir(parents=True)
        file.touch()
    result = CliRunner().invoke(app, ["warm-up", "--remove"])
    assert result.exit_code == 0
    assert result.stdout.count("Removed:") == 3
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"environment/bin/python", "user/others/file"}
    assert not (environment / "var").exists()
    assert not (user / "sfumato").exists()


@pytest.mark.nightly
def test_the_command_says_what_it_compiled_and_where_it_is():
    command = [sys.executable, "-m", "sfumato.cli.main", "warm-up"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "kernels compiled" in run.stdout
    compiled = int(run.stdout.split()[0])
    assert (f"Stored in {compile_store.folder()}" in run.stdout) == (compiled > 0)


@pytest.mark.parametrize(
    ("found", "code", "kept"),
    [
        (WarmedUp(0, 104, None), 0, False),
        (WarmedUp(0, 104, Path("/tmp/new")), 0, False),
        (WarmedUp(3, 101, Path("/tmp/new")), 0, True),
        (WarmedUp(3, 101, None), 1, False),
    ],
)
def test_a_folder_is_told_only_where_something_was_put_into_it(monkeypatch, found, code, kept):
    monkeypatch.setattr("sfumato.ops.warm_up", lambda *_: found)
    done = CliRunner().invoke(app, ["warm-up"])
    assert (done.exit_code, "Stored in /tmp/new" in done.stdout) == (code, kept)


def test_the_command_warns_where_nothing_can_be_kept(monkeypatch):
    monkeypatch.setattr(compile_store, "cache_folders", lambda: [Path("/proc/none")])
    monkeypatch.setattr("sfumato.warmup.WARM_UP_STEPS", {})
    folder = compile_store.folder.__wrapped__
    monkeypatch.setattr(compile_store, "folder", folder)
    compile_store._warn.cache_clear()
    with pytest.warns(RuntimeWarning, match=compile_store.CACHE_VARIABLE):
        CliRunner().invoke(app, ["warm-up"])
