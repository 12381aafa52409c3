"""What a module's compiled functions are made of: its text and that of all it imports.

Only modules of the same package count; others are known by their versions. A stamp is taken
while the module is imported, so that it is of the text that runs, not of one edited since.
"""

import hashlib
import importlib.util
import re
import sys
from importlib.machinery import ModuleSpec
from typing import NamedTuple

# Parsing all files takes as long as loading all kernels; their import lines are enough.
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<base>[\w.]+)[ \t]+import[ \t]*(?P<names>\([^)]*\)|[^\n]*)"
    r"|import[ \t]+(?P<modules>[^\n]*))",
    re.MULTILINE,
)
_COMMENT = re.compile(r"#[^\n]*")
_NAME = re.compile(r"([\w.]+)(?:\s+as\s+\w+)?")


class _Text(NamedTuple):
    spec: ModuleSpec  # a reloaded module has another one
    digest: str
    imports: list[str]


_texts: dict[str, _Text] = {}


def stamp(module: str) -> str | None:
    """A hash of the texts of `module` and of what it imports from its package, transitively.

    None if a text is not to be had (a module typed in, or compiled without its source): what is
    made of it cannot be kept.  Cost: each file is read once a process.
    """
    top = module.split(".")[0]
    found: dict[str, str] = {}
    ahead = [module]
    while ahead:
        name = ahead.pop()
        if name in found or name.split(".")[0] != top or name not in sys.modules:
            continue
        text = _text(name)
        if text is None:
            return None
        found[name] = text.digest
        ahead += text.imports
    return hashlib.sha256(repr(sorted(found.items())).encode()).hexdigest()


def _text(module: str) -> _Text | None:
    spec = sys.modules[module].__spec__
    known = _texts.get(module)
    if known is not None and known.spec is spec:
        return known
    get_data = getattr(spec and spec.loader, "get_data", None)
    if spec is None or get_data is None or not (spec.origin or "").endswith(".py"):
        return None
    data: bytes = get_data(spec.origin)
    text = _Text(spec, hashlib.sha256(data).hexdigest(), imports(data.decode(), spec))
    _texts[module] = text
    return text


def imports(text: str, spec: ModuleSpec) -> list[str]:
    """Names of the modules that a text may import; those of other things are among them."""
    found = []
    for match in _IMPORT.finditer(text):
        base, names = match["base"], match["names"] or match["modules"]
        plain = _NAME.findall(_COMMENT.sub("", names))
        if base is None:
            found += plain
        else:
            if base.startswith("."):
                base = importlib.util.resolve_name(base, spec.parent)
            found += [base, *(f"{base}.{name}" for name in plain)]
    return found
