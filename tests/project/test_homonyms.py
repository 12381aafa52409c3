"""One name, one meaning: no two classes share a name, nor two constants that differ."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "sfumato"


def test_no_two_classes_have_one_name():
    defined = defaultdict(set)
    for path, tree in modules():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                defined[node.name].add(path)
    assert not {name: sorted(paths) for name, paths in defined.items() if len(paths) > 1}


def test_no_two_constants_of_one_name_have_different_values():
    defined, values = defaultdict(set), defaultdict(set)
    for path, tree in modules():
        for name, value in constants(tree):
            defined[name].add(path)
            values[name].add(value)
    assert not {name: sorted(defined[name]) for name in defined if len(values[name]) > 1}


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the public UPPER_CASE names of a module, each with its value as text."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else ()
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = (node.target,)
        for target in targets:
            name = target.id if isinstance(target, ast.Name) else ""
            if name.isupper() and name[0] != "_" and len(name) > 1:  # P and R are type variables
                yield name, ast.dump(node.value)


@cache
def modules() -> list[tuple[str, ast.Module]]:
    return [
        (str(path.relative_to(PACKAGE)), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
    ]
