"""Continuous queries on Spark over uncertain, incomplete and out-of-order streams.

`__init__.pyi` lists the public names, the building blocks of queries. `sfumato.ops` runs and
observes queries, `sfumato.engine_free` works on arrays, `sfumato.errors` has errors and warnings.
The names in their `.pyi` files can also be imported from here.
"""

from typing import Any

from sfumato.lazy_names import MODULES, LazyNames

_NAMES = LazyNames(__name__)
__all__ = _NAMES.names()  # noqa: PLE0605 - a list of str
__dir__ = _NAMES.names


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # a global import would double the import time

        return version("sfumato")
    return _NAMES.load(name, also=MODULES[1:])
