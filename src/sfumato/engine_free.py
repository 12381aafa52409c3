"""The operators without an engine: arrays in, arrays out, with NumPy and Numba alone.

The names are those of `engine_free.pyi`, one line each; they are loaded when they are first used.
"""

from sfumato.lazy_names import LazyNames

_NAMES = LazyNames(__name__)
__all__ = _NAMES.names()  # noqa: PLE0605 - it is a list of texts
__getattr__, __dir__ = _NAMES.load, _NAMES.names
