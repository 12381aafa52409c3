"""Continuous queries on Spark over uncertain, incomplete and out-of-order streams.

The public names are those of `__init__.pyi`: what queries are made of. What runs and observes
queries is in `sfumato.ops`, arrays without an engine in `sfumato.engine_free`, and errors and
warnings are in `sfumato.errors`. A new name is a line in one of their `.pyi` files. The names of
the three modules are found here too, unlisted.
"""

from typing import Any

from sfumato.lazy_names import MODULES, LazyNames

_NAMES = LazyNames(__name__)
__all__ = _NAMES.names()  # noqa: PLE0605 - it is a list of texts
__dir__ = _NAMES.names


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # half of the time of this import, if it stood above

        return version("sfumato")
    return _NAMES.load(name, also=MODULES[1:])
