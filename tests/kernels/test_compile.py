"""Compiled functions on disk: never stale, shared between users, safe to load."""

import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import sfumato.kernels
from sfumato.kernels import compile_store
from sfumato.kernels.compile import compiled, compiled_ieee, lean, lean_fused

SOURCE = Path(sfumato.kernels.__file__).parents[2]

# A package with the library's decorators and one more kernel: copies, so that tests can edit them.
TINY = """
from sfumato.kernels.compile import compiled


@compiled
def step(x):
    return x + 1


@compiled
def twice(x):
    return step(step(x))
"""
PRINT = (
    "import warnings; warnings.simplefilter('always')\n"
    "from sfumato.kernels.tiny import twice\n"
    "print(twice(0), sum(twice.stats.cache_hits.values()), sum(twice.stats.cache_misses.values()))"
)


@pytest.fixture
def source(tmp_path) -> Path:
    """Return the folder of a copy of the decorators with one more kernel, which tests can edit."""
    folder = tmp_path / "source" / "sfumato" / "kernels"
    folder.mkdir(parents=True)
    for name in ("compile.py", "compile_store.py"):
        (folder / name).write_text((SOURCE / "sfumato" / "kernels" / name).read_text())
    for package in (folder, folder.parent):
        (package / "__init__.py").touch()
    (folder / "tiny.py").write_text(TINY)
    return folder


def run(source: Path, code: str = PRINT, **environment: str) -> str:
    """Return the output of a new Python process that uses the copy; its errors fail the test."""
    places = {
        compile_store.CACHE_VARIABLE: str(source.parents[2] / "kernels"),
        "XDG_CACHE_HOME": "/proc/none",
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(source.parents[1]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    code = f"import sys; sys.prefix = {environment.pop('PREFIX', '/proc/none')!r}\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", code], env=places | environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def folders(source: Path) -> list[Path]:
    return sorted((source.parents[2] / "kernels").iterdir())


@pytest.mark.nightly
def test_a_new_process_reads_what_an_earlier_one_compiled_and_said(source):
    before = sorted(source.rglob("*"))
    answer, said = run(source).split("\n", 1)
    assert answer == "2 0 1"
    assert said.startswith("sfumato is compiling the kernels of this query")
    assert f"Compiled kernels are kept in {folders(source)[0]}. `sfumato warm-up`" in said
    assert run(source) == "2 1 0\n"
    assert sorted(source.rglob("*")) == before
    for path in folders(source)[0].glob("*.nb?"):  # cut off, as by a crash: compiled again
        path.write_bytes(path.read_bytes()[:10])
    assert run(source) == "2 0 1\n"
    assert run(source) == "2 1 0\n"


@pytest.mark.nightly
def test_compiled_code_is_read_without_the_modules_that_only_compiling_needs(source):
    (source / "tiny.py").write_text(
        "import numpy as np\n"
        "from sfumato.kernels.compile import compiled\n"
        "@compiled\n"
        "def total(n):\n"
        "    if n < 0:\n"
        "        raise ValueError('below 0')\n"
        "    return np.full(n, 2).sum()\n"
    )
    code = (
        "import sys\n"
        "from sfumato.kernels.tiny import total\n"
        "print(total(3), {'numba.np.arraymath', 'scipy.linalg'} & set(sys.modules) != set())\n"
        "try:\n"
        "    total(-1)\n"
        "except ValueError as error:\n"
        "    print(error)\n"
    )
    assert run(source, code).startswith("6 True\nbelow 0\n")
    assert run(source, code) == "6 False\nbelow 0\n"
    # Another signature can still be compiled.
    code += "import numpy as np; print(total(np.uint8(3)), len(total.signatures))"
    assert run(source, code) == "6 False\nbelow 0\n6 2\n"


@pytest.mark.nightly
def test_a_caller_that_was_stored_before_the_entry_of_its_callee_leaves_it_intact(source):
    (source / "tiny.py").write_text(
        "import numpy as np\n"
        "from sfumato.kernels.compile import compiled\n"
        "@compiled\n"
        "def below(n):\n"
        "    return np.arange(n)\n"
        "@compiled\n"
        "def total(n):\n"
        "    return below(n).sum()\n"
    )
    code = (
        "from sfumato.kernels.tiny import below, total\n"
        "print(total(3), below(3), sum(below.stats.cache_hits.values()))"
    )
    assert run(source, code).startswith("3 [0 1 2] 0\n")
    assert run(source, code) == "3 [0 1 2] 1\n"


@pytest.mark.nightly
def test_an_edit_of_any_kernel_and_bounds_checks_have_a_folder_of_their_own(source):
    assert run(source)[:5] == "2 0 1"
    (source / "other.py").write_text("STEP = 3\n")
    assert run(source)[:5] == "2 0 1"
    (source / "tiny.py").write_text(TINY.replace("x + 1", "x + 2"))
    assert run(source)[:5] == "4 0 1"
    assert run(source, NUMBA_BOUNDSCHECK="1")[:5] == "4 0 1"
    assert run(source) == "4 1 0\n"
    assert len(folders(source)) == 4
    old = time.time() - 2 * compile_store.UNUSED_SECONDS
    mine = source.parents[2] / "kernels" / "mine"
    mine.mkdir()
    for path in (*folders(source), mine):
        os.utime(path, (old, old))
    assert run(source) == "4 1 0\n"  # loading counts as use
    left = folders(source)
    assert len(left) == 2
    assert mine in left


@pytest.mark.nightly
def test_processes_that_start_at_once_all_get_theirs(source):
    environment = {
        "PYTHONPATH": str(source.parents[1]),
        compile_store.CACHE_VARIABLE: str(source.parents[2] / "kernels"),
    }
    started = [
        subprocess.Popen([sys.executable, "-c", PRINT], env=environment, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    assert [process.communicate()[0][:2] for process in started] == [b"2 "] * 3
    assert run(source) == "2 1 0\n"
    assert not list(folders(source)[0].glob("*.tmp.*"))


# Where they are stored


@pytest.mark.nightly
def test_the_first_place_that_can_be_written_is_used(source, tmp_path):
    none = {compile_store.CACHE_VARIABLE: ""}
    for _ in range(2):
        run(source, PREFIX=str(tmp_path / "prefix"), **none)
    assert len(list((tmp_path / "prefix/var/cache/sfumato/kernels").iterdir())) == 1
    run(source, XDG_CACHE_HOME=str(tmp_path / "user"), **none)
    assert len(list((tmp_path / "user/sfumato/kernels").iterdir())) == 1
    run(source, TMPDIR=str(tmp_path), **none)
    (temporary,) = tmp_path.glob("sfumato-kernels-*")
    assert len(list(temporary.iterdir())) == 1
    said = run(source, "import tempfile; tempfile.tempdir = '/proc/none'\n" + PRINT, **none)
    assert said[:5] == "2 0 1"
    assert said.count(f"Set {compile_store.CACHE_VARIABLE} to a writable folder") == 1


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix", reason="modes of folders")
def test_a_folder_or_file_that_others_can_write_is_not_read(source):
    run(source, "import os; os.umask(0)\n" + PRINT)
    assert run(source) == "2 1 0\n"  # only the owner could write, even with umask 0
    (folder,) = folders(source)
    file = next(folder.glob("*.nbc"))
    for path, mode in ((folder.parent, 0o1777), (folder, 0o775), (file, 0o666)):
        kept = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode)
        other = source.parents[2] / f"tmp-{mode}"
        other.mkdir()
        said = run(source, TMPDIR=str(other))
        assert said[:5] == "2 0 1"
        assert f"{path} (owner" in said
        assert "chmod -R go-w" in said
        path.chmod(kept)
    assert run(source) == "2 1 0\n"


def test_kernels_of_a_user_without_a_home_lie_in_no_relative_folder(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert compile_store.user_folder() is None
    assert all(folder.is_absolute() for folder in compile_store.cache_folders())


@pytest.mark.nightly
@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root is another user")
class TestAnotherUser:
    NOBODY = 65534

    @pytest.fixture
    def shared(self, source) -> Iterator[Path]:
        """Yield the copy in a folder that every user can read; pytest's own folder is private."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            folder.chmod(0o755)
            yield source.parents[1].rename(folder / "source") / "sfumato" / "kernels"

    def as_nobody(self, source: Path) -> str:
        # Numba is loaded as root, because Python itself may be readable only by root.
        become = (
            "import os, numba; numba.njit(lambda x: x + 1)(1)\n"
            "import sfumato.kernels.compile\n"
            f"os.setgroups([]); os.setgid({self.NOBODY}); os.setuid({self.NOBODY})\n"
        )
        temporary = source.parents[2] / "tmp"
        temporary.mkdir()
        temporary.chmod(0o1777)
        return run(source, become + PRINT, HOME="/nonexistent", TMPDIR=str(temporary))

    def test_reads_what_root_warmed_up_into_an_image(self, shared):
        run(shared)
        (folder,) = folders(shared)
        (folder / "warm").touch()
        for path in folder.iterdir():
            path.chmod(0o444)
        folder.chmod(0o555)
        assert self.as_nobody(shared) == "2 1 0\n"

    def test_is_not_trusted(self, shared):
        run(shared)
        (folder,) = folders(shared)
        for path in (folder.parent, folder, *folder.iterdir()):
            os.chown(path, 1234, 1234)
        said = self.as_nobody(shared)
        assert said.startswith("2 0 1\n")
        assert "owner 1234" in said


# The decorators


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


def test_a_function_may_allocate_that_is_first_compiled_for_a_lean_one():
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


def test_a_function_that_is_first_compiled_for_another_keeps_its_own_rules():
    of_both.recompile()  # it may have been loaded from disk
    with pytest.raises(ZeroDivisionError):
        of_both(0.0)
    (plain,) = product_and_sum.linked.inspect_llvm().values()
    assert "fmul" in plain
    assert "contract" not in plain
    (fused,) = of_both.inspect_llvm().values()
    assert "contract" in fused


@compiled
def doubled(x):
    return 2 * x


@compiled
def of_literals(x):
    return doubled(3) + doubled(x)


def test_a_function_is_compiled_once_per_type_and_has_machine_code_only_for_python():
    of_literals.recompile()  # it may have been loaded from disk
    assert of_literals(4) == 14
    assert len(doubled.linked.overloads) == 1
    assert not doubled.overloads
    assert doubled(5) == 10
    assert len(doubled.linked.overloads) == len(doubled.overloads) == 1


def test_a_function_within_a_function_is_refused():
    def inner(x):
        return x

    with pytest.raises(TypeError, match="at the top level of a module"):
        compiled(inner)
