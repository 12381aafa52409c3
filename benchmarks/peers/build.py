"""Compile a C++ peer of this folder once and load it.

The peers are straightforward codings of the papers' algorithms. They get the compiler's best
settings and are timed in the same run, on the same data, as the code they are compared with.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
import tempfile
from pathlib import Path

FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")


def load(name: str) -> ctypes.CDLL:
    """The library of `<name>.cpp`, compiled unless this very text was compiled here before.

    The compiler is `$CXX`, else g++; the library lies in a folder of the system's temporary one.
    Raises RuntimeError with the compiler's words if there is none or it fails.
    """
    source = Path(__file__).with_name(f"{name}.cpp")
    compiler = os.environ.get("CXX", "g++")
    identity = "\0".join((compiler, *FLAGS, platform.node(), source.read_text()))
    digest = hashlib.sha256(identity.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"sfumato-peers-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    library = folder / f"{name}-{digest}.so"
    if not library.exists():
        _compile(compiler, source, library)
    return ctypes.CDLL(str(library))


def _compile(compiler: str, source: Path, library: Path) -> None:
    partial = library.with_suffix(f".{os.getpid()}")
    try:
        subprocess.run(
            [compiler, *FLAGS, str(source), "-o", str(partial)],
            check=True,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        raise RuntimeError(f"no C++ compiler `{compiler}`: install g++ or set CXX") from None
    except subprocess.CalledProcessError as failure:
        raise RuntimeError(
            f"{compiler} could not compile {source.name}:\n{failure.stderr}"
        ) from None
    partial.replace(library)
