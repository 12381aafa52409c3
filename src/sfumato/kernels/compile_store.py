"""The folder that stores compiled kernels.

The library uses the first of these places that is writable or was warmed up for all users:

    1. $SFUMATO_KERNEL_CACHE, if set
    2. var/cache/sfumato/kernels in the Python environment, shared by all its users
    3. sfumato/kernels in the user's cache folder (on Linux, $XDG_CACHE_HOME or ~/.cache)
    4. a folder per user in the system's folder for temporary files

The folder's name is a hash of everything that determines the compiled code. Its files are pickles,
and reading a pickle executes code. Therefore a folder is used only if it and its files belong to
root or to the current user, and nobody else can write to them.
"""

import contextlib
import hashlib
import os
import platform
import re
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import llvmlite
import numba
import numpy as np
from numba import config
from platformdirs import user_cache_path

CACHE_VARIABLE = "SFUMATO_KERNEL_CACHE"
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
UNUSED_SECONDS = 90 * 86_400.0  # after this time without use, folders of other hashes are deleted
# Numba settings that change the compiled code; each can be set as NUMBA_<name>.
COMPILER_SETTINGS = ("BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT")


def cache_folders() -> list[Path]:
    """Return the folders of the module docstring in order, existing or not; at least one."""
    found = [Path(sys.prefix, "var", "cache", "sfumato", "kernels")]
    if chosen := os.environ.get(CACHE_VARIABLE):
        found.insert(0, Path(chosen).expanduser().absolute())
    if (user := user_folder()) is not None:
        found.append(user / "kernels")
    with contextlib.suppress(FileNotFoundError):  # no writable folder for temporary files
        found.append(Path(tempfile.gettempdir(), f"sfumato-kernels-{_user()}"))
    return found


def user_folder() -> Path | None:
    """Return `sfumato` in the user's cache folder, or None for a user without a home folder."""
    try:
        folder = user_cache_path("sfumato", appauthor=False)
    except RuntimeError:  # in newer releases of platformdirs; older releases leave `~` unchanged
        return None
    return folder if folder.is_absolute() else None


@cache
def folder() -> Path | None:
    """Return the folder that this process uses; warn once and return None if none is usable."""
    texts = sorted(Path(__file__).parent.rglob("*.py"))
    made_of = [hash_of(str(path)) for path in texts]
    versions = platform.python_version(), numba.__version__, llvmlite.__version__, np.__version__
    settings = [getattr(config, name) for name in COMPILER_SETTINGS]
    name = hashlib.sha256(repr((made_of, versions, settings)).encode()).hexdigest()[:16]
    for place in cache_folders() if texts else ():
        found = place / name
        try:
            for path in (place, found):
                if not path.is_dir():
                    path.mkdir(0o755, parents=True, exist_ok=True)
            if not _is_safe(place, found, *found.iterdir()):
                continue
        except OSError:
            continue
        if os.access(found, os.W_OK) or (found / "warm").exists():
            with contextlib.suppress(OSError):  # another user's folder
                os.utime(found)
                delete_unused(place, UNUSED_SECONDS)
            return found
    warn_that_none_is_kept()
    return None


def hash_of(file: str) -> str:
    """Return a hash of a file's content; each version of a file is read once."""
    found = os.stat(file)
    return _hash_of(file, found.st_mtime_ns, found.st_size)


@cache
def _hash_of(file: str, changed: int, size: int) -> str:
    return hashlib.sha256(Path(file).read_bytes()).hexdigest()


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Lock a file of the folder against other processes."""
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    with open(os.open(f"{folder()}/{name}", os.O_WRONLY | os.O_CREAT, 0o644), "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def lock_folder() -> Iterator[None]:
    """Lock the folder against other processes; new files are writable by their owner only."""
    with lock("lock"):
        mask = os.umask(0o022)
        try:
            yield
        finally:
            os.umask(mask)


def create_marker(name: str) -> bool:
    """Create an empty file in the folder; return whether it is new."""
    if folder() is None:
        return False
    try:
        os.close(os.open(f"{folder()}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
    except OSError:
        return False
    return True


def delete_unused(place: Path, unused_seconds: float = 0.0) -> int:
    """Delete folders unused for `unused_seconds`, where permitted; return how many were deleted."""
    gone = 0
    for path in place.iterdir() if place.is_dir() else ():
        ours = path.is_dir() and re.fullmatch("[0-9a-f]{16}", path.name)
        if ours and time.time() - path.stat().st_mtime >= unused_seconds:
            shutil.rmtree(path, ignore_errors=True)
            gone += not path.exists()
    return gone


def warn_that_none_is_kept() -> None:
    _warn(
        "compiled kernels cannot be stored, because none of these folders is writable: "
        f"{', '.join(map(str, cache_folders()))}. Every process compiles them again (a minute or "
        f"more). Set {CACHE_VARIABLE} to a writable folder, or run `sfumato warm-up` once as a "
        "user who may write to the first folder"
    )


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def _is_safe(place: Path, *paths: Path) -> bool:
    """Return whether nobody except root and this user can write to any of these paths.

    If somebody else can, log a warning. No warning is logged about another user's private folder
    unless $SFUMATO_KERNEL_CACHE names it.
    """
    if os.name != "posix":
        return True  # modes do not show permissions on Windows; a user's folders are private
    for path in (place, *paths):
        try:
            found = path.stat()
        except FileNotFoundError:  # an unfinished file that was renamed in the meantime
            continue
        if found.st_uid in (0, _user()) and not found.st_mode & WRITABLE_BY_OTHERS:
            continue
        if found.st_mode & WRITABLE_BY_OTHERS or os.environ.get(CACHE_VARIABLE) == str(place):
            _warn(
                f"compiled kernels are neither read from {place} nor stored there, because users "
                f"other than root and this user can write to {path} (owner {found.st_uid}, mode "
                f"{stat.S_IMODE(found.st_mode):o}): take ownership of this folder and run `chmod "
                f"-R go-w` on it, or set {CACHE_VARIABLE} to a different folder"
            )
        return False
    return True


@cache
def _warn(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=2)
