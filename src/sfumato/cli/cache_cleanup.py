"""Delete what the package writes outside its own files: compiled kernels, Java wrappers."""

import shutil
import sys
from contextlib import suppress
from pathlib import Path

from sfumato.cli.java import wrappers
from sfumato.kernels import compile_store


def remove_caches() -> list[Path]:
    """Delete compiled kernels wherever they are stored, and wrappers of packaged Java runtimes.

    Kernels are compiled again when they are needed. Files of others stay.
    Returns the folders in which something was deleted.
    """
    found = [folder for folder in compile_store.places() if compile_store.clear(folder)]
    for folder in wrappers():
        shutil.rmtree(folder, ignore_errors=True)
        found.append(folder)
    for folder in found:
        _drop_empty(folder)
    return found


def _drop_empty(folder: Path) -> None:
    """Delete a folder, and its parents that were created for it, if they are empty."""
    ours = [folder, folder.parent] if folder.parent.name == "sfumato" else [folder]
    if folder.is_relative_to(sys.prefix):
        ours += [Path(sys.prefix, "var", "cache"), Path(sys.prefix, "var")]
    for each in ours:
        with suppress(OSError):  # not empty, another's, or gone
            each.rmdir()
