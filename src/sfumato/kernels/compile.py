"""The decorators of compiled functions, and how what they compile is kept on disk.

Every compiled function of the library carries one of seven decorators:

    compiled        the default; a division by zero raises ZeroDivisionError
    compiled_ieee   a division by zero gives inf or nan, so that loops with divisions become SIMD
    lean            compiled_ieee for small functions on the way of every row, which neither
                    allocate nor return arrays
    lean_inline     lean; its code is put into that of its callers
    lean_fused      lean; a product and a sum may be one instruction with one rounding
    lean_sum        lean; sums may be taken in any order, and a zero has no sign
    lean_dot        lean; sums of products: both in any order and fused

All release Python's lock while they run. Error bounds that a docstring states hold for whatever
its decorator permits. Compiled functions stand at the top of a module: their text is the file's.

A compiled function is kept in a file (`compile_store` says where) under everything that it was
made of: the text of its module and of those that it imports (`compile_stamp`), the versions
below, the settings below, the processor and the types of its arguments. So nothing has to be
thrown away after an edit or an upgrade: another text has another file.
"""

import hashlib
import logging
import pickle
import platform
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import llvmlite
import numba
import numpy as np
from numba import config, njit
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.errors import NumbaWarning
from numba.core.serialize import dumps

from sfumato.kernels import compile_store
from sfumato.kernels.compile_stamp import stamp

_VERSIONS = (
    platform.python_implementation(),
    platform.python_version(),
    numba.__version__,
    llvmlite.__version__,
    np.__version__,
)
# What Numba takes for a function that does not say it: that of the caller it is first compiled for.
# Then `lean` ones would decide whether another can allocate, and the order of calls how it rounds.
_DEFAULTS = {"_nrt": True, "error_model": "python", "fastmath": False, "forceinline": False}
# Numba's settings that change what is compiled; each may be given as NUMBA_<name>.
_SETTINGS = ("BOUNDSCHECK", "OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT")


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function when it is called; a division by zero raises ZeroDivisionError."""
    return _compiled(function)


def compiled_ieee(function: Callable[..., Any]) -> Any:
    """`compiled`, but a floating-point division by zero gives inf or nan, as IEEE 754 says.

    The test of each divisor keeps loops from becoming SIMD. Integers must not be divided by zero.
    """
    return _compiled(function, error_model="numpy")


# Numba counts references to array arguments, by two atomic operations each, also where nothing
# can be freed; in small functions that took a third of the time. `_nrt` is its switch for that.
def lean(function: Callable[..., Any]) -> Any:
    """`compiled_ieee` for a function that neither allocates nor returns arrays."""
    return _compiled(function, error_model="numpy", _nrt=False)


def lean_inline(function: Callable[..., Any]) -> Any:
    """`lean`, put into its callers: handing over a tuple of many arrays costs as much as a cell."""
    return _compiled(function, error_model="numpy", _nrt=False, forceinline=True)


def lean_fused(function: Callable[..., Any]) -> Any:
    """`lean`; a * b + c may be rounded once, where the processor can."""
    return _compiled(function, error_model="numpy", _nrt=False, fastmath={"contract"})


def lean_sum(function: Callable[..., Any]) -> Any:
    """`lean`; sums may be taken in any order (so in SIMD lanes), 0.0 may stand for -0.0."""
    return _compiled(function, error_model="numpy", _nrt=False, fastmath={"reassoc", "nsz"})


def lean_dot(function: Callable[..., Any]) -> Any:
    """`lean`; sums of products in any order, with a * b + c rounded once where it can be."""
    return _compiled(function, error_model="numpy", _nrt=False, fastmath={"reassoc", "contract"})


class CompileCounts(NamedTuple):
    """What this process did for its kernels so far: names, one for each signature, in order."""

    compiled: tuple[str, ...]
    loaded: tuple[str, ...]


_compiled_here: list[str] = []
_loaded_here: list[str] = []


def done() -> CompileCounts:
    """The kernels that this process compiled, and those that it read from disk."""
    return CompileCounts(tuple(_compiled_here), tuple(_loaded_here))


def _compiled(function: Callable[..., Any], **options: Any) -> Any:
    if "<locals>" in function.__qualname__:
        raise TypeError(
            f"{function.__qualname__}: a compiled function must stand at the top of a module, "
            "because the text of its file says which compiled one on disk is its own"
        )
    dispatcher: Any = njit(nogil=True, **{**_DEFAULTS, **options})(function)
    if not config.DISABLE_JIT:  # else it is the function itself
        dispatcher._cache = _KernelCache(function)
    return dispatcher


class _KernelCache(_Cache):
    """One function's compiled forms on disk, as Numba's dispatcher asks for them.

    A file holds its key too: the file's name is made of the types' names, and two types might
    have the same one.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = f"{function.__module__}.{function.__qualname__}"
        self._line = function.__code__.co_firstlineno
        self._text = stamp(function.__module__)
        self._enabled = True

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        target_context.refresh()
        key = self._key(sig, target_context.codegen())
        file = self._file(key)
        data = compile_store.read(file) if file else None
        if data is None:
            return None
        kept_key, result = pickle.loads(data)
        if kept_key != key:
            return None
        _loaded_here.append(self._name)
        return CompileResult._rebuild(target_context, *result)

    def save_overload(self, sig: Any, data: Any) -> None:
        if not _compiled_here and compile_store.first_within_an_hour():
            logging.getLogger("sfumato").warning(
                "sfumato compiles what this query needs for this machine, once: seconds, at most "
                "some minutes. `sfumato warm-up`, or sf.ops.warm_up(), does it ahead for all."
            )
        _compiled_here.append(self._name)
        if data.lifted or data.library.has_dynamic_globals:
            warnings.warn(
                f"the compiled {self._name} cannot be kept on disk: it refers to a large global "
                "array or to an address; pass it as an argument",
                NumbaWarning,
                stacklevel=2,
            )
            return
        key = self._key(sig, data.codegen)
        file = self._file(key)
        if file:
            compile_store.write(file, dumps((key, data._reduce())))

    def _key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        settings = tuple(getattr(config, name) for name in _SETTINGS)
        return (self._text, self._line, sig, _VERSIONS, settings, codegen.magic_tuple())

    def _file(self, key: tuple[Any, ...]) -> compile_store.File | None:
        if self._text is None or not self._enabled:
            return None
        signature = hashlib.sha256(repr(key[2]).encode()).hexdigest()[:16]
        made_of = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        return compile_store.File(f"{self._name}-{signature}", made_of)

    @property
    def cache_path(self) -> str:
        return str(compile_store.places()[0])

    def enable(self) -> None:
        self._enabled = True

    def disable(self) -> None:
        self._enabled = False

    def flush(self) -> None:
        """Nothing to throw away: a file is only ever read for what it was made of."""
