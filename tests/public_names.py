"""Every public name and its module, for tests of docstrings, extras and Connect."""

import inspect
from typing import Any

import sfumato as sf

MODULES = {"sf": sf, "sf.engine_free": sf.engine_free, "sf.errors": sf.errors, "sf.ops": sf.ops}
FRONT_PAGE = [name for name in sf.__all__ if f"sf.{name}" not in MODULES]
# name -> its module, by the name that users write; no name is in two modules.
PUBLIC = {
    name: called
    for called, module in MODULES.items()
    for name in module.__all__
    if f"{called}.{name}" not in MODULES
}


def public(name: str) -> Any:
    """Return the object of a public name."""
    return getattr(MODULES[PUBLIC[name]], name)


def home(name: str) -> str:
    """Return the module of `src` that defines a public name."""
    return MODULES[PUBLIC[name]]._NAMES.homes[name]


def doc(name: str) -> str:
    """Return the docstring of a public name."""
    return inspect.getdoc(public(name)) or ""
