"""Compiled functions on disk: never stale, shared between users, safe to read."""

from __future__ import annotations

import ast
import importlib
import os
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numba
import numpy as np
import pytest

import sfumato.kernels
from sfumato.kernels import compile_stamp, compile_store
from sfumato.kernels.compile import compiled, compiled_ieee, lean, lean_fused

SOURCE = Path(sfumato.kernels.__file__).parents[2]

# Three files: the caller's own text never changes in these tests.
PACKAGE = {
    "tiny/__init__.py": "",
    "tiny/inner/__init__.py": "",
    "tiny/constants.py": "STEP = 1\n",
    "tiny/inner/callee.py": (
        "from sfumato.kernels.compile import compiled\n"
        "from tiny.constants import (  # a comment (with brackets)\n"
        "    STEP,\n"
        ")\n\n\n"
        "@compiled\n"
        "def step(x):\n"
        "    return x + STEP\n"
    ),
    "tiny/caller.py": (
        "from sfumato.kernels.compile import compiled\n"
        "from tiny.inner import callee\n\n"
        "step = callee.step\n\n\n"
        "@compiled\n"
        "def twice(x):\n"
        "    return step(step(x))\n"
    ),
}
PRINT = (
    "import warnings; warnings.simplefilter('always')\n"
    "from tiny.caller import twice\n"
    "print(twice(0), sum(twice.stats.cache_hits.values()), sum(twice.stats.cache_misses.values()))"
)


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """An empty folder for compiled kernels, the only one that these tests use."""
    folder = tmp_path / "kernels"
    monkeypatch.setenv(compile_store.VARIABLE, str(folder))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(compile_store, "_warned", set())
    return folder


@pytest.fixture
def package(tmp_path, monkeypatch) -> Iterator[Path]:
    root = tmp_path / "source"
    write_package(root)
    monkeypatch.syspath_prepend(root)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # Python does not see two quick edits
    yield root
    forget()


def write_package(root: Path) -> None:
    for name, text in PACKAGE.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "tiny"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def fresh() -> ModuleType:
    """The caller's module as a new process has it: nothing compiled, the files read again."""
    forget()
    return importlib.import_module("tiny.caller")


def called(module: ModuleType) -> tuple[int, int, int]:
    """What `twice(0)` gives, how often it was read from disk and how often compiled."""
    answer = module.twice(0)
    stats = module.twice.stats
    return answer, sum(stats.cache_hits.values()), sum(stats.cache_misses.values())


def run(code: str, root: Path, environment: dict[str, str]) -> str:
    """Standard output of a new Python process that sees the package; its errors fail the test."""
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{root}{os.pathsep}{SOURCE}",
        "PYTHONDONTWRITEBYTECODE": "1",
        **environment,
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_new_process_reads_what_an_earlier_one_compiled(tmp_path):
    write_package(tmp_path)
    environment = {compile_store.VARIABLE: str(tmp_path / "kernels")}
    answer, said = run(PRINT, tmp_path, environment).split("\n", 1)
    assert answer == "2 0 1"
    assert said.startswith("sfumato compiles what this query needs")
    assert run(PRINT, tmp_path, environment) == "2 1 0\n"


@pytest.mark.slow
def test_one_process_alone_says_that_kernels_are_compiled(tmp_path):
    folder = tmp_path / "kernels"
    ask = "from sfumato.kernels.compile_store import first_within_an_hour as first; print(first())"
    environment = {compile_store.VARIABLE: str(folder)}
    assert [run(ask, tmp_path, environment) for _ in range(2)] == ["True\n", "False\n"]
    an_hour_ago = time.time() - compile_store.HOUR - 1
    os.utime(folder / "compiling", (an_hour_ago, an_hour_ago))
    assert [run(ask, tmp_path, environment) for _ in range(2)] == ["True\n", "False\n"]
    compile_store.clear(folder)
    assert run(ask, tmp_path, environment) == "True\n"


def test_an_unchanged_package_is_read_from_disk(place, package):
    assert called(fresh()) == (2, 0, 1)
    assert called(fresh()) == (2, 1, 0)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("inner/callee.py", "x + STEP", "x + 2 * STEP"),
        ("constants.py", "STEP = 1", "STEP = 2"),
        ("inner/__init__.py", "", "STEP = 2\n"),
        ("caller.py", "step(step(x))", "step(step(step(step(x))))"),
    ],
)
def test_an_edit_of_any_file_below_compiles_again(place, package, file, old, new):
    called(fresh())
    path = package / "tiny" / file
    text = path.read_text()
    path.write_text(text.replace(old, new) if old else new)
    answer, read, made = called(fresh())
    assert (answer, read, made) == (2 if "__init__" in file else 4, 0, 1)
    path.write_text(text)
    assert called(fresh()) == (2, 1, 0)


def test_an_edit_of_a_file_that_is_not_imported_changes_nothing(place, package):
    called(fresh())
    (package / "tiny" / "other.py").write_text("STEP = 3\n")
    (package / "tiny" / "__init__.py").write_text("STEP = 3\n")
    assert called(fresh()) == (2, 1, 0)


@pytest.mark.slow
def test_an_edit_between_import_and_first_call_is_not_taken_for_what_runs(place, package):
    module = fresh()
    callee = package / "tiny" / "inner" / "callee.py"
    callee.write_text(callee.read_text().replace("x + STEP", "x + 2 * STEP"))
    assert called(module) == (2, 0, 1)
    assert called(fresh()) == (4, 0, 1)


def test_a_reloaded_module_is_a_new_one(place, package):
    module = fresh()
    called(module)
    caller = package / "tiny" / "caller.py"
    caller.write_text(caller.read_text().replace("step(step(x))", "step(x)"))
    assert called(importlib.reload(module)) == (1, 0, 1)


def test_bounds_checks_have_kernels_of_their_own(place, package, monkeypatch):
    for setting in (0, 1):
        monkeypatch.setattr(numba.config, "BOUNDSCHECK", setting)
        assert called(fresh()) == (2, 0, 1)
    for setting in (0, 1):
        monkeypatch.setattr(numba.config, "BOUNDSCHECK", setting)
        assert called(fresh()) == (2, 1, 0)


def test_nothing_is_written_beside_the_sources(place, package):
    before = sorted(package.rglob("*"))
    called(fresh())
    assert sorted(package.rglob("*")) == before
    assert len(list(place.iterdir())) == 2


@pytest.mark.slow
def test_files_of_earlier_texts_do_not_pile_up(place, package):
    for step in range(compile_store.FILES_PER_SIGNATURE + 3):
        (package / "tiny" / "constants.py").write_text(f"STEP = {step}\n")
        assert called(fresh())[0] == 2 * step
    assert len(list(place.iterdir())) == 2 * compile_store.FILES_PER_SIGNATURE
    assert called(fresh())[1:] == (1, 0)


def test_what_nothing_reads_any_more_goes(place, package):
    called(fresh())
    kernels = set(place.iterdir())
    renamed, recent, other = (place / name for name in ("tiny.old-1-2.nbc", "new-1-2.nbc", "mine"))
    for path in (renamed, recent, other, *kernels):
        path.touch()
        os.utime(path, (0, time.time() - 2 * compile_store.UNUSED_SECONDS))
    os.utime(recent, (0, time.time() - 2 * compile_store.DAY))
    assert called(fresh()) == (2, 1, 0)  # reading the caller counts as use of it
    (package / "tiny" / "caller.py").write_text(PACKAGE["tiny/caller.py"] + "# longer\n")
    called(fresh())
    left = set(place.iterdir())
    assert renamed not in left
    assert {recent, other} < left
    assert len(left & kernels) == 2


@pytest.mark.parametrize("length", [0, 10, -1])
def test_a_file_cut_short_is_compiled_again(place, package, length):
    called(fresh())
    for path in place.iterdir():
        path.write_bytes(path.read_bytes()[:length])
    assert called(fresh()) == (2, 0, 1)
    assert called(fresh()) == (2, 1, 0)


@pytest.mark.slow
def test_processes_that_start_at_once_all_get_theirs(tmp_path):
    write_package(tmp_path)
    environment = {
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{SOURCE}",
        compile_store.VARIABLE: str(tmp_path / "kernels"),
    }
    started = [
        subprocess.Popen([sys.executable, "-c", PRINT], env=environment, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    assert [process.communicate()[0][:2] for process in started] == [b"2 "] * 3
    assert run(PRINT, tmp_path, environment) == "2 1 0\n"
    assert not list((tmp_path / "kernels").glob("*.tmp"))


# Where they are kept


def test_all_places_are_read_and_the_first_that_can_be_written_takes_new_ones(
    place, package, tmp_path, monkeypatch
):
    monkeypatch.delenv(compile_store.VARIABLE)
    called(fresh())
    prefix = tmp_path / "prefix" / "var" / "cache" / "sfumato" / "kernels"
    assert len(list(prefix.iterdir())) == 2
    monkeypatch.setenv(compile_store.VARIABLE, str(place))
    assert called(fresh()) == (2, 1, 0)
    (package / "tiny" / "constants.py").write_text("STEP = 5\n")
    assert called(fresh()) == (10, 0, 1)
    assert compile_store.writable() == place
    assert len(list(place.iterdir())) == len(list(prefix.iterdir())) == 2


def test_a_place_that_cannot_be_made_is_passed_over(place, package, tmp_path, monkeypatch):
    monkeypatch.setenv(compile_store.VARIABLE, "/proc/none")
    monkeypatch.setattr(sys, "prefix", "/proc/none")
    called(fresh())
    assert len(list((tmp_path / "user" / "sfumato" / "kernels").iterdir())) == 2
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/none")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert called(fresh()) == (2, 0, 1)
    temporary = compile_store.writable()
    assert temporary is not None
    assert temporary.parent == tmp_path
    assert stat.S_IMODE(temporary.stat().st_mode) == 0o700


@pytest.mark.skipif(os.name != "posix", reason="modes of folders")
@pytest.mark.parametrize("mode", [0o777, 0o775, 0o1777])
def test_a_folder_that_others_can_write_is_not_read(place, package, mode):
    called(fresh())
    before = sorted(place.iterdir())
    place.chmod(mode)
    with pytest.warns(RuntimeWarning, match=f"(?s){place}.*chmod go-w.*{compile_store.VARIABLE}"):
        assert called(fresh()) == (2, 0, 1)
    assert sorted(place.iterdir()) == before


def test_kernels_of_a_user_without_a_home_lie_in_no_relative_folder(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert compile_store.user_folder() is None
    assert all(folder.is_absolute() for folder in compile_store.places())


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_a_file_that_others_can_write_is_not_read(place, package):
    called(fresh())
    for path in place.iterdir():
        path.chmod(0o666)
    assert called(fresh()) == (2, 0, 1)


def test_without_any_place_it_runs_and_says_once_what_to_set(place, package, monkeypatch):
    for variable in (compile_store.VARIABLE, "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, "/proc/none")
    monkeypatch.setattr(sys, "prefix", "/proc/none")
    monkeypatch.setattr(tempfile, "tempdir", "/proc/none")
    with pytest.warns(RuntimeWarning) as said:
        assert [called(fresh()), called(fresh())] == [(2, 0, 1), (2, 0, 1)]
    assert len(said) == 1
    assert f"Set {compile_store.VARIABLE} to a folder" in str(said[0].message)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root is another user")
class TestAnotherUser:
    NOBODY = 65534

    @pytest.fixture
    def shared(self) -> Iterator[Path]:
        """A folder that every user can read; pytest's own is closed to others."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            folder.chmod(0o755)
            write_package(folder)
            yield folder

    def as_nobody(self, shared: Path, kernels: Path) -> str:
        temporary = shared / "tmp"
        temporary.mkdir()
        temporary.chmod(0o1777)
        environment = {
            compile_store.VARIABLE: str(kernels),
            "HOME": "/nonexistent",
            "TMPDIR": str(temporary),
        }
        # Numba is loaded as root: Python itself may be where only root can read.
        become = (
            "import os, numba; numba.njit(lambda x: x + 1)(1)\n"
            "import sfumato.kernels.compile\n"
            f"os.setgroups([]); os.setgid({self.NOBODY}); os.setuid({self.NOBODY})\n"
        )
        return run(become + PRINT, shared, environment)

    @pytest.mark.slow
    def test_reads_what_root_compiled_into_an_image(self, shared):
        kernels = shared / "kernels"
        run(PRINT, shared, {compile_store.VARIABLE: str(kernels)})
        for path in kernels.iterdir():
            path.chmod(0o444)
        kernels.chmod(0o555)
        assert self.as_nobody(shared, kernels) == "2 1 0\n"

    @pytest.mark.slow
    def test_is_not_trusted(self, shared):
        kernels = shared / "kernels"
        run(PRINT, shared, {compile_store.VARIABLE: str(kernels)})
        os.chown(kernels, 1234, 1234)
        for path in kernels.iterdir():
            os.chown(path, 1234, 1234)
        said = self.as_nobody(shared, kernels)
        assert said.startswith("2 0 1\n")
        assert "owner 1234" in said


# What a text imports, and the decorators


@pytest.mark.slow
def test_the_imports_found_are_those_of_the_parser():
    """An import missed would let a stale kernel through."""
    for path in sorted((SOURCE / "sfumato").rglob("*.py")):
        text = path.read_text()
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        spec = importlib.util.spec_from_file_location(module, path)
        expected = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                expected |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: a relative import"
                expected.add(node.module)
                expected |= {f"{node.module}.{alias.name}" for alias in node.names}
        assert expected <= set(compile_stamp.imports(text, spec)), path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("import tiny.a as b, tiny.c", {"tiny.a", "tiny.c"}),
        ("from tiny import a as b, c", {"tiny", "tiny.a", "tiny.c"}),
        ("from .a import (\n    b,  # why\n    c,\n)", {"tiny.a", "tiny.a.b", "tiny.a.c"}),
        ("from . import a", {"tiny", "tiny.a"}),
        ("if True:\n    from tiny.a import b", {"tiny.a", "tiny.a.b"}),
    ],
)
def test_each_form_of_import_is_found(line, expected):
    spec = importlib.machinery.ModuleSpec("tiny.caller", None)
    assert expected <= set(compile_stamp.imports(line, spec))


@compiled
def raising(x):
    return 1.0 / x


@compiled_ieee
def infinite(x):
    return 1.0 / x


def test_a_division_by_zero_is_as_the_decorator_says():
    with pytest.raises(ZeroDivisionError):
        raising(0.0)
    assert infinite(0.0) == float("inf")


@compiled_ieee
def numbered(n):
    return np.arange(n)


@lean
def last_of(n):
    return numbered(n)[n - 1]


def test_a_function_may_allocate_that_is_first_compiled_for_a_lean_one(place):
    assert last_of(3) == 2


@compiled
def reciprocal(x):
    return 1.0 / x


@lean
def product_and_sum(a, b, c):
    return a * b + c


@lean_fused
def of_both(x):
    return reciprocal(x) + product_and_sum(x, x, x)


def test_a_function_that_is_first_compiled_for_another_keeps_its_own_rules(place):
    with pytest.raises(ZeroDivisionError):
        of_both(0.0)
    (plain,) = product_and_sum.inspect_llvm().values()
    assert "fmul" in plain
    assert "contract" not in plain
    (fused,) = of_both.inspect_llvm().values()
    assert "contract" in fused


def test_a_function_within_a_function_is_refused():
    def inner(x):
        return x

    with pytest.raises(TypeError, match="at the top of a module"):
        compiled(inner)


def test_a_kernel_that_is_kept_warns_of_nothing(place, package):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        called(fresh())
