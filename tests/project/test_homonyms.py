"""One name, one meaning: different classes, type aliases and constants have different names."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "src" / "sfumato"


def test_no_two_classes_or_aliases_have_one_name():
    defined = defaultdict(set)
    for path, tree in modules():
        for name in [*classes(tree), *aliases(tree)]:
            defined[name].add(path)
    assert not {name: sorted(paths) for name, paths in defined.items() if len(paths) > 1}


def test_no_two_constants_of_one_name_have_different_values():
    defined, values = defaultdict(set), defaultdict(set)
    for path, tree in modules():
        for name, value in constants(tree):
            defined[name].add(path)
            values[name].add(value)
    assert not {name: sorted(defined[name]) for name in defined if len(values[name]) > 1}


def test_every_form_of_definition_is_seen():
    tree = ast.parse(
        "A1 = 1\nB1, (_C1, *D1) = 2, (3, 4)\nE1, F1 = range(1, 3)\nG1: int = 6\nH1 = I1 = 7\n"
        "J1, K1 = values()\nText = str | None\nRows: TypeAlias = 'list'\n_Cell = int\n"
        "name = lower = 1\nP = 1\nif TYPE_CHECKING:\n    Late = list[int]\n    L1 = 8\n"
        "class Window:\n    M1 = 9\n"
    )
    assert " ".join(f"{name}={value}" for name, value in constants(tree)) == (
        "A1=1 B1=2 _C1=3 D1=4 E1=1 F1=2 G1=6 H1=7 I1=7 J1=values()[0] K1=values()[1] L1=8"
    )
    assert list(aliases(tree)) == ["Text", "Rows", "_Cell", "Late"]
    assert list(classes(tree)) == ["Window"]
    if hasattr(ast, "TypeAlias"):
        assert list(aliases(ast.parse("type Cell = int"))) == ["Cell"]


def classes(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef))


def aliases(tree: ast.Module) -> Iterator[str]:
    """Yield the CamelCase names to which a module assigns: type aliases and type variables."""
    for node in ast.walk(tree):
        if isinstance(node, getattr(ast, "TypeAlias", ())):
            yield node.name.id
    for name, _ in assigned(tree):
        if is_camel_case(name):
            yield name


def is_camel_case(name: str) -> bool:
    bare = name.lstrip("_")
    return bare[:1].isupper() and not bare.isupper()


def constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the UPPER_CASE names of a module, each with its value as text."""
    for name, value in assigned(tree):
        if name.isupper() and len(name) > 1:  # P and R are type variables
            yield name, value


def assigned(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield the names that a module assigns to outside its functions and classes, with values."""
    for node in statements(tree.body):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from elements(target, node.value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield from elements(node.target, node.value)


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, including those under `if` and `try`."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody", "handlers"):
            if isinstance(node, (ast.If, ast.Try, ast.ExceptHandler)):
                yield from statements(getattr(node, part, []))


def elements(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, str]]:
    """Yield each name of a target with the text of its part of the value."""
    if isinstance(target, ast.Name):
        yield target.id, ast.unparse(value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        parts = values_of(value, len(target.elts))
        for position, part in enumerate(target.elts):
            inner = part.value if isinstance(part, ast.Starred) else part
            yield from elements(inner, parts[position])


def values_of(value: ast.expr, count: int) -> list[ast.expr]:
    """Return the parts of an unpacked value: a tuple's, those of a `range`, or `value[i]`."""
    if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == count:
        return value.elts
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "range":
        try:
            return [ast.Constant(n) for n in range(*map(ast.literal_eval, value.args))]
        except ValueError:
            pass
    return [ast.Subscript(value, ast.Constant(position)) for position in range(count)]


@cache
def modules() -> list[tuple[str, ast.Module]]:
    return [
        (str(path.relative_to(PACKAGE)), ast.parse(path.read_text(encoding="utf-8")))
        for path in sorted(PACKAGE.rglob("*.py"))
    ]
