"""The operators without an engine: they read and return arrays, and need only NumPy and Numba.

The names are listed in `engine_free.pyi`, one per line, and loaded on first use.
"""

from sfumato.lazy_names import LazyNames

_NAMES = LazyNames(__name__)
__all__ = _NAMES.names()  # noqa: PLE0605 - a list of str
__getattr__, __dir__ = _NAMES.load, _NAMES.names
