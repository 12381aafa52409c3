"""Public names that are loaded on first use, listed in a `.pyi` file next to their module.

A Spark worker therefore imports only the kernels and operators that it runs. Type checkers and
editors read the same lists.
"""

import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from pkgutil import get_data
from typing import Any

from sfumato.extras import missing_extra_message
from sfumato.near_misses import did_you_mean

MODULES = ("sfumato", "sfumato.engine_free", "sfumato.errors", "sfumato.ops")


class LazyNames:
    """The names of a public module, from the lines `from HOME import NAME as NAME` in its `.pyi`.

    module : "sfumato" (listed in `__init__.pyi`) or "sfumato.NAME" (listed in `NAME.pyi`)
    homes : name -> the module that defines it, or "sfumato" if the name is a module itself
    """

    def __init__(self, module: str) -> None:
        self.module = module
        stub = (module.partition(".")[2] or "__init__") + ".pyi"
        self.homes = {
            alias.name: str(node.module)
            for node in ast.parse(get_data("sfumato", stub) or b"").body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }

    def names(self) -> list[str]:
        """Return the names in alphabetical order; used as `__dir__`."""
        return sorted(self.homes)

    def load(self, name: str, also: Sequence[str] = ()) -> Any:
        """Import and return the object `name`; used as `__getattr__`. also : modules to search"""
        if name not in self.homes:
            for module in also:
                if _has(module, name):
                    return getattr(import_module(module), name)
            others = "".join(f"; `{module}` has it" for module in MODULES if _has(module, name))
            raise AttributeError(
                f"module `{self.module}` has no attribute `{name}`"
                + (others or did_you_mean(name, self.names()) or f"; it has {self.names()}")
            )
        home = self.homes[name]
        if home == "sfumato":
            return import_module(f"sfumato.{name}")  # the import system binds the name
        try:
            value = getattr(import_module(home), name)
        except ImportError as error:
            called = f"{self.module.replace('sfumato', 'sf', 1)}.{name}"
            if (why := missing_extra_message(called, error)) is None:
                raise
            raise ImportError(why, name=error.name) from None
        setattr(sys.modules[self.module], name, value)
        return value


def _has(module: str, name: str) -> bool:
    return name in LazyNames(module).homes
