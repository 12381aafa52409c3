"""Compile a C++ peer in this folder once, load it, and call it.

The peers are straightforward implementations of the papers' algorithms. They are compiled with the
best compiler settings and timed in the same run, on the same data, as the code they are compared
with.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")


def peer(library: str, function: str, *arguments: Any, result: Any = ctypes.c_int64) -> Callable:
    """Return a call of a C++ function with converted arguments."""
    call = getattr(load(library), function)
    call.restype = result
    kept = partial(call, *map(_converted, arguments))
    kept.arrays = arguments  # keeps the arrays alive while pointers to them exist
    return kept


def _converted(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        assert argument.flags.c_contiguous
        return ctypes.c_void_p(argument.ctypes.data)
    if isinstance(argument, float):
        return ctypes.c_double(argument)
    return argument if isinstance(argument, ctypes.c_void_p) else ctypes.c_int64(argument)


@cache
def load(name: str) -> ctypes.CDLL:
    """Return the library of `<name>.cpp`; compile it unless the same source was compiled before.

    The compiler is `$CXX`, by default g++; the library is below the system's temporary folder.
    Raises RuntimeError with the compiler's message if there is none or it fails.
    """
    source = Path(__file__).with_name(f"{name}.cpp")
    compiler = os.environ.get("CXX", "g++")
    identity = "\0".join((compiler, *FLAGS, platform.node(), source.read_text()))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"sfumato-peers-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{name}-{digest}.so"
    if not library.exists():
        partial_file = library.with_suffix(f".{os.getpid()}")
        command = [compiler, *FLAGS, str(source), "-o", str(partial_file)]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise RuntimeError(f"no C++ compiler `{compiler}`: install g++ or set CXX") from None
        except subprocess.CalledProcessError as failure:
            text = f"{compiler} could not compile {source.name}:\n{failure.stderr}"
            raise RuntimeError(text) from None
        partial_file.replace(library)
    return ctypes.CDLL(str(library))
