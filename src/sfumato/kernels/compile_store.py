"""The folders in which compiled kernels are kept.

In order, the first of these that can be written takes new files, and all are read:

    1. $SFUMATO_KERNEL_CACHE, if set
    2. var/cache/sfumato/kernels below the Python environment: serves all users of it
    3. sfumato/kernels in the user's cache folder (on Linux $XDG_CACHE_HOME, else ~/.cache)
    4. a folder of the user's own in the folder of temporary files

A file holds a pickle, and reading a pickle runs what it says. So a folder or file counts only if
it belongs to root or to the user who reads it, and nobody else can write to it.
"""

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from platformdirs import user_cache_path

VARIABLE = "SFUMATO_KERNEL_CACHE"
OTHERS = stat.S_IWGRP | stat.S_IWOTH
FILES_PER_SIGNATURE = 8  # files of one kernel and signature: texts, versions and settings used last
HOUR, DAY = 3_600.0, 86_400.0  # seconds
UNUSED_SECONDS = 90 * DAY  # then a file goes: its kernel may have another name by now, or none
_DIGEST = 32  # bytes in front of a file's content: a file cut short by a crash is not read
_warned: set[str] = set()


class File(NamedTuple):
    """A kernel's name with its signature, and a hash of all that it was made of."""

    kernel: str
    made_of: str

    @property
    def name(self) -> str:
        return f"{self.kernel}-{self.made_of}.nbc"


def places() -> list[Path]:
    """The folders in the order above, whether they exist or not; at least one."""
    found = [Path(sys.prefix, "var", "cache", "sfumato", "kernels")]
    if chosen := os.environ.get(VARIABLE):
        found.insert(0, Path(chosen).expanduser().absolute())
    if (user := user_folder()) is not None:
        found.append(user / "kernels")
    temporary = _temporary()
    return found if temporary is None else [*found, temporary]


def user_folder() -> Path | None:
    """Return `sfumato` in the user's cache folder; None for a user without a home folder."""
    try:
        folder = user_cache_path("sfumato", appauthor=False)
    except RuntimeError:  # newer releases of platformdirs; with older ones `~` stays as it is
        return None
    return folder if folder.is_absolute() else None


def read(file: File) -> bytes | None:
    """A file's content from the first folder that has it whole; None if none has."""
    for folder in places():
        try:
            with open(folder / file.name, "rb") as opened:
                # The file itself is asked too: folders above may be others' to rename.
                if not (_private(os.stat(folder)) and _private(os.fstat(opened.fileno()))):
                    continue
                data = opened.read()
                _mark_used(folder / file.name, os.fstat(opened.fileno()))
        except OSError:
            continue
        if hashlib.sha256(data[_DIGEST:]).digest() == data[:_DIGEST]:
            return data[_DIGEST:]
    return None


def write(file: File, data: bytes) -> None:
    """Keep a file in the first folder that takes it; what is not needed any more goes there."""
    for folder in _writable():
        try:
            _replace(folder / file.name, hashlib.sha256(data).digest() + data)
        except OSError:  # a full disk, say: the next folder may take it
            continue
        _drop_old(folder, file.kernel)
        return
    _warn_that_none_is_kept()


def clear(folder: Path) -> int:
    """Delete the kernels of a folder, as far as this user may; how many went."""
    gone = 0
    with contextlib.suppress(OSError):
        (folder / "compiling").unlink(missing_ok=True)
        for path in [*folder.glob("*.nbc"), *folder.glob("*.nbc.*.tmp")]:
            with contextlib.suppress(OSError):
                path.unlink()
                gone += 1
    return gone


def writable() -> Path | None:
    """The folder that takes new files; None, after one warning, if there is none."""
    folder = next(_writable(), None)
    if folder is None:
        _warn_that_none_is_kept()
    return folder


def first_within_an_hour() -> bool:
    """Whether no other process of this machine asked this before; one alone hears yes."""
    folder = next(_writable(), None)
    if folder is None:
        return False
    asked = folder / "compiling"
    try:
        with contextlib.suppress(FileNotFoundError):
            if time.time() - asked.stat().st_mtime < HOUR:
                return False
            asked.unlink()
        os.close(os.open(asked, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=0o644))
    except OSError:  # another one was faster
        return False
    return True


def _writable() -> Iterator[Path]:
    """The folders that can be written, each made if need be."""
    for folder in places():
        try:
            if not folder.is_dir():
                mode = 0o700 if folder == _temporary() else 0o755
                folder.mkdir(mode, parents=True, exist_ok=True)
            found = os.stat(folder)
        except OSError:
            continue
        if not _private(found):
            _warn_of_others(folder, found)
        elif os.access(folder, os.W_OK | os.X_OK):
            yield folder


def _temporary() -> Path | None:
    try:
        above = tempfile.gettempdir()
    except FileNotFoundError:  # no folder for temporary files can be written
        return None
    return Path(above, f"sfumato-kernels-{_user()}")


def _user() -> int:
    return os.geteuid() if hasattr(os, "geteuid") else 0


def _private(found: os.stat_result) -> bool:
    """Whether only root and this user can write there."""
    if os.name != "posix":
        return True  # modes do not show permissions; the user's folders are private there
    return found.st_uid in (0, _user()) and not found.st_mode & OTHERS


def _replace(path: Path, data: bytes) -> None:
    """Write a file so that readers and other writers see either all of it or nothing."""
    unfinished = path.with_name(f"{path.name}.{os.urandom(8).hex()}.tmp")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(unfinished, flags, mode=0o644), "wb") as opened:
            opened.write(data)
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _mark_used(path: Path, found: os.stat_result) -> None:
    if time.time() - found.st_mtime > DAY:
        with contextlib.suppress(OSError):  # another user's: only its owner drops it
            os.utime(path)


def _drop_old(folder: Path, kernel: str) -> None:
    """Drop what was not used for long, and all but the last forms of a kernel."""
    forms = []
    for entry in os.scandir(folder):
        try:
            used = entry.stat().st_mtime
        except FileNotFoundError:  # another process dropped it, or has finished it
            continue
        if time.time() - used > UNUSED_SECONDS and entry.name.endswith((".nbc", ".tmp")):
            Path(entry).unlink(missing_ok=True)
        elif entry.name.startswith(f"{kernel}-"):
            forms.append((used, entry.name))
    for _, name in sorted(forms, reverse=True)[FILES_PER_SIGNATURE:]:
        Path(folder, name).unlink(missing_ok=True)


def _warn_of_others(folder: Path, found: os.stat_result) -> None:
    chosen = os.environ.get(VARIABLE)
    if not found.st_mode & OTHERS and not (chosen and folder == places()[0]):
        return  # simply another user's environment
    _warn(
        f"compiled kernels are neither read from {folder} nor kept there, because not only root "
        f"and this user can write to it (owner {found.st_uid}, mode "
        f"{stat.S_IMODE(found.st_mode):o}): make it your own and run `chmod go-w` on it, or set "
        f"{VARIABLE} to another folder"
    )


def _warn_that_none_is_kept() -> None:
    _warn(
        "compiled kernels cannot be kept, so every process compiles them anew (a minute or more): "
        f"none of these folders can be written: {', '.join(map(str, places()))}. Set {VARIABLE} "
        "to a folder of your own that can, or run `sfumato warm-up` once as a user who may write "
        "the first"
    )


def _warn(text: str) -> None:
    if text not in _warned:
        _warned.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=2)
