"""Continuous queries on Spark over uncertain, incomplete and out-of-order streams.

The public names are those of `__init__.pyi`, which type checkers and editors read too: a new one
is a line there. They are loaded when they are first used, so that a Spark worker, which imports
only the kernels and operators it runs, does not pay for the rest.
"""

import ast
import sys
from importlib import import_module
from pkgutil import get_data
from types import ModuleType
from typing import Any

from sfumato.extras import needed

_HOME = {
    alias.name: str(node.module)
    for node in ast.parse(get_data(__name__, "__init__.pyi") or b"").body
    if isinstance(node, ast.ImportFrom)
    for alias in node.names
}
__all__ = sorted(_HOME)  # noqa: PLE0605 - it is a list of texts


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version  # half of the time of this import, if it stood above

        return version("sfumato")
    if name not in _HOME:
        raise AttributeError(f"module `sfumato` has no attribute `{name}`; it has {__all__}")
    try:
        value = getattr(import_module(_HOME[name]), name)
    except ImportError as error:
        if (why := needed(f"sf.{name}", error)) is None:
            raise
        raise ImportError(why, name=error.name) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


class _Package(ModuleType):
    """Binds `sfumato.sql` to the function, whatever imported the package of that name first."""

    def __setattr__(self, name: str, value: Any) -> None:
        # The import system binds a submodule to its name in the parent once it is loaded.
        if isinstance(value, ModuleType) and _HOME.get(name) == value.__name__:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
