"""Imports point down only: kernels < operators < {spark, charts, reproduce} < {sql} < cli."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src"
# A layer may import itself and what is listed. `windows` (configurations), `queries` (those
# registered) and `duration` (lengths of time as text) are open to those above; the package itself
# loads names lazily, by text, and imports them for type checkers only.
MAY_IMPORT = {
    "kernels": set(),
    "duration": set(),
    "windows": {"duration"},
    "queries": {"windows"},
    "operators": {"duration", "kernels", "windows"},
    "charts": {"operators"},
    "spark": {"duration", "kernels", "operators", "queries", "windows"},
    "sql": {"duration", "queries", "spark", "windows"},
    "reproduce": {"charts", "kernels", "operators", "windows"},
    "cli": {
        "charts",
        "duration",
        "operators",
        "queries",
        "reproduce",
        "spark",
        "sql",
        "windows",
        "sfumato",
    },
    "sfumato": {"operators", "queries", "spark", "sql", "windows"},
}
FOREIGN = {  # packages that a layer must do without
    "kernels": {"pyspark", "pandas", "pyarrow", "time", "datetime", "pathlib", "os", "scipy"},
    "operators": {"pyspark", "pandas", "time", "pathlib", "os", "scipy"},
}


def layer_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "sfumato"


def imports_of(path: Path, module: str) -> list[str]:
    """Every module that a file imports, also within functions and under TYPE_CHECKING."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            found += [f"{base}.{alias.name}" for alias in node.names] if base else []
    return found


def violations(source: Path) -> list[str]:
    """Sentences, one for each import that points up or leads out of bounds."""
    found = []
    for path in sorted((source / "sfumato").rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")
        layer = layer_of(module)
        for imported in imports_of(path, module):
            top = imported.split(".")[0]
            if top in FOREIGN.get(layer, ()):
                found.append(f"{module} imports {imported}")
            if top == "sfumato":
                target = layer_of(imported)
                target = target if target in MAY_IMPORT else "sfumato"
                if target != layer and target not in MAY_IMPORT[layer]:
                    found.append(f"{module} imports {imported}")
    return found


def test_no_import_points_up():
    assert violations(SOURCE) == []


def test_every_folder_is_a_known_layer():
    folders = {p.name for p in (SOURCE / "sfumato").iterdir() if (p / "__init__.py").is_file()}
    assert folders <= set(MAY_IMPORT)


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("kernels/a.py", "from sfumato.operators import b"),
        ("kernels/a.py", "def f():\n    import pyarrow.compute"),
        ("operators/a.py", "from ..spark import b"),
        ("operators/a.py", "import sfumato.spark.b"),
        ("spark/a.py", "def f():\n    from sfumato.sql.b import c"),
        ("spark/a.py", "from sfumato import reorder"),
        ("sql/a.py", "from sfumato.cli import b"),
        ("windows.py", "from sfumato.kernels import b"),
    ],
)
def test_the_check_sees_a_violation(tmp_path, place, line):
    path = tmp_path / "sfumato" / place
    path.parent.mkdir(parents=True)
    (tmp_path / "sfumato" / "__init__.py").touch()
    path.write_text(line + "\n")
    assert len(violations(tmp_path)) == 1


def test_the_check_accepts_imports_that_point_down(tmp_path):
    (tmp_path / "sfumato" / "cli").mkdir(parents=True)
    (tmp_path / "sfumato" / "cli" / "a.py").write_text(
        "import sfumato as sf\nfrom sfumato.spark.b import c\nimport os\n"
    )
    assert violations(tmp_path) == []
