"""Operations around queries: they start, feed, observe and prepare them, and are part of none.

The names are those of `ops.pyi`, one line each; they are loaded when they are first used.
"""

from sfumato.lazy_names import LazyNames

_NAMES = LazyNames(__name__)
__all__ = _NAMES.names()  # noqa: PLE0605 - it is a list of texts
__getattr__, __dir__ = _NAMES.load, _NAMES.names
