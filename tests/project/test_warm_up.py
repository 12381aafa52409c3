"""After `sf.warm_up()` no query compiles anything, however many columns and whatever arrays it has.

In a new process, because a process compiles once: whatever else this one ran would hide a gap.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.kernels import compile_store
from sfumato.kernels.compile import done
from sfumato.warming import STEPS, warm_up

PROGRAM = Path(__file__).with_name("queries_after_warm_up.py")


@pytest.mark.slow
def test_after_it_every_operator_finds_its_kernels_compiled():
    """Nor does one read any more from disk: there is one form of each kernel, and it is there."""
    run = subprocess.run([sys.executable, PROGRAM], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    for step, compiled, loaded in json.loads(run.stdout):
        assert (step, compiled, loaded) == (step, [], [])


def test_a_part_of_it_says_what_it_does():
    told: list[str] = []
    before = done()
    warmed = warm_up(["laws"], told.append)
    assert told == ["laws"]
    assert warmed.compiled == len(done().compiled) - len(before.compiled)
    assert warm_up(["laws"])[:2] == (0, 0)
    assert set(told) < set(STEPS)


@pytest.mark.slow
def test_the_command_says_what_it_compiled_and_where_it_is():
    command = [sys.executable, "-m", "sfumato.cli.main", "warm-up"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "kernels compiled" in run.stdout
    assert f"Kept in {compile_store.writable()}" in run.stdout


def test_the_command_fails_where_nothing_can_be_kept(monkeypatch):
    for name in (compile_store.VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "/proc/none")
    monkeypatch.setattr(sys, "prefix", "/proc/none")
    monkeypatch.setattr(tempfile, "tempdir", "/proc/none")
    monkeypatch.setattr(compile_store, "_warned", set())
    monkeypatch.setattr("sfumato.warming.STEPS", {"laws": STEPS["laws"]})
    with pytest.warns(RuntimeWarning, match=compile_store.VARIABLE):
        assert CliRunner().invoke(app, ["warm-up"]).exit_code == 1
