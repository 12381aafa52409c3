"""The tree is the architecture: layers, concepts inside them, and imports that only point down."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
# A layer may import itself and the listed modules. Open to all layers above them are `windows`
# (configurations), `queries` (registered queries), `duration` (time spans as strings),
# `near_misses` (likely words), `calls` (whether arguments fit a function or class), `reports` (of a
# session's queries) and `limits` (bounds on the work per row, and their settings). The package,
# `engine_free`, `errors` and `ops` load their names lazily, from strings (`lazy_names`); `extras`
# maps a missing package to the extra that installs it.
MAY_IMPORT = {
    "kernels": set(),
    "duration": {"near_misses"},
    "extras": set(),
    "reports": set(),
    "near_misses": set(),
    "sql_tokens": set(),
    "calls": {"near_misses"},
    "limits": set(),
    "windows": {"calls", "duration", "limits", "near_misses"},
    "queries": {"calls", "windows"},
    "operators": {"duration", "kernels", "limits", "windows"},
    "tables": {
        "duration",
        "limits",
        "near_misses",
        "operators",
        "queries",
        "sql_tokens",
        "windows",
    },
    "charts": {"operators", "reports"},
    "memory": {
        "limits",
        "operators",
        "reports",
        "tables",
        "windows",
    },
    "spark": {
        "calls",
        "duration",
        "limits",
        "near_misses",
        "operators",
        "queries",
        "reports",
        "sql_tokens",
        "tables",
        "windows",
    },
    "api": {
        "calls",
        "duration",
        "extras",
        "limits",
        "memory",
        "operators",
        "queries",
        "spark",
        "tables",
        "windows",
    },
    "lazy_names": {"extras", "near_misses"},
    "engine_free": {"lazy_names"},
    "errors": {"lazy_names"},
    "ops": {"lazy_names"},
    "language": {
        "api",
        "calls",
        "duration",
        "limits",
        "near_misses",
        "queries",
        "spark",
        "sql_tokens",
        "windows",
    },
    "warmup": {"kernels", "operators", "windows"},
    "metrics": {"reports"},
    "live": {"metrics", "reports"},
    "cli": {
        "charts",
        "duration",
        "extras",
        "kernels",
        "limits",
        "live",
        "metrics",
        "near_misses",
        "operators",
        "queries",
        "language",
        "spark",
        "windows",
        "sfumato",
    },
    "sfumato": {"lazy_names"},
}
# Inside these layers a concept may import itself, earlier concepts, and files outside the folders.
CONCEPTS = [
    "state",
    "reading",
    "distributions",
    "disorder",
    "windows",
    "imputation",
    "joins",
    "ranking",
]
CONCEPT_LAYERS = ["kernels", "operators", "tables"]
# In these layers a folder may import itself and the listed folders; "" is files outside folders.
ROOMS = {
    "spark": {
        "": {"model", "crossing", "state", "runtime"},
        "runtime": {"model", "crossing", "state"},
        "state": {"model", "crossing"},
        "crossing": {"model"},
        "model": set(),
    },
}
OUTSIDE = {"benchmarks", "examples", "experiments"}  # in this repository, but never in the wheel
FOREIGN = {  # packages that a layer must not import
    "kernels": {"pyspark", "pandas", "pyarrow", "time", "datetime", "pathlib", "os", "scipy"},
    "operators": {"pyspark", "pandas", "pyarrow", "time", "pathlib", "os", "scipy"},
    "tables": {"pyspark", "time", "pathlib", "os", "scipy"},
    "memory": {"pyspark"},
}
# Only the decorators import Numba; only the folders of compiled kernels use files.
EXCEPT = {
    "sfumato.kernels.compile": {"numba"},
    "sfumato.kernels.signals": {"numba"},
    "sfumato.kernels.compile_store": {"numba", "os", "pathlib", "time"},
    "sfumato.operators.distributions.poisson_binomial": {"scipy"},  # approximations from papers
}
LARGEST_FOLDER = 20


def modules(source: Path) -> dict[str, Path]:
    """Return every module of the package by its dotted name."""
    files = sorted((source / "sfumato").rglob("*.py"))
    return {
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): path
        for path in files
    }


@cache
def imports_of(path: Path, module: str) -> list[str]:
    """Return every module that a file imports, including in functions and under TYPE_CHECKING."""
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


def layer_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "sfumato"


def room_of(module: str, known: dict[str, Path]) -> str:
    """Return the folder of its layer that contains a module; "" for a file outside the folders."""
    parts = module.split(".")
    is_folder = len(parts) > 2 and known.get(".".join(parts[:3]), Path()).name == "__init__.py"
    return parts[2] if is_folder else ""


def points_up(layer: str, room: str, target: str) -> bool:
    """Return whether a folder of a layer may not import the layer's folder `target`."""
    if layer in CONCEPT_LAYERS and target:
        return room not in CONCEPTS or CONCEPTS.index(target) > CONCEPTS.index(room)
    if layer in ROOMS:
        return target not in ROOMS[layer][room]
    return False


def violations(source: Path) -> list[str]:
    """Return "A imports B" for every import that points up or is not allowed."""
    found = []
    known = modules(source)
    for module, path in known.items():
        layer, room = layer_of(module), room_of(module, known)
        for imported in imports_of(path, module):
            top = imported.split(".")[0]
            foreign = {"numba", *OUTSIDE, *FOREIGN.get(layer, ())} - EXCEPT.get(module, set())
            if top in foreign:
                found.append(f"{module} imports {imported}")
            if top != "sfumato":
                continue
            target = layer_of(imported)
            target = target if target in MAY_IMPORT else "sfumato"
            if target != layer:
                if target not in MAY_IMPORT[layer]:
                    found.append(f"{module} imports {imported}")
            elif (other := room_of(imported, known)) != room and points_up(layer, room, other):
                found.append(f"{module} imports {imported}")
    return found


def circles(source: Path) -> list[list[str]]:
    """Return groups of modules that import one another, even in calls or for type checkers."""
    known = modules(source)
    after: dict[str, set[str]] = {}
    for module, path in known.items():
        wanted = {i if i in known else i.rpartition(".")[0] for i in imports_of(path, module)}
        after[module] = {w for w in wanted if w in known and w != module and w != "sfumato"}
    reach = {module: set(targets) for module, targets in after.items()}
    grown = True
    while grown:
        grown = False
        for module, targets in reach.items():
            wider = targets.union(*(reach[t] for t in targets))
            if len(wider) > len(targets):
                reach[module], grown = wider, True
    return sorted(
        {tuple(sorted(o for o in reach[m] if m in reach[o])) for m in reach if m in reach[m]}
    )


def test_no_import_points_up():
    assert violations(SOURCE) == []


def test_no_modules_import_one_another_in_a_circle():
    assert circles(SOURCE) == []


def test_every_folder_is_a_known_layer():
    folders = {p.name for p in (SOURCE / "sfumato").iterdir() if (p / "__init__.py").is_file()}
    assert folders <= set(MAY_IMPORT)


def test_every_folder_says_what_it_holds_and_what_is_open():
    known = modules(SOURCE)
    silent = [
        module
        for module, path in known.items()
        if path.name == "__init__.py"
        and len((ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()) < 3
    ]
    assert silent == []


def test_no_folder_holds_more_than_can_be_taken_in():
    sizes = {
        str(folder): len([f for f in folder.glob("*.py") if f.name != "__init__.py"])
        for folder in {path.parent for path in modules(SOURCE).values()}
    }
    assert {folder: n for folder, n in sizes.items() if n > LARGEST_FOLDER} == {}


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("kernels/a.py", "from sfumato.operators import b"),
        ("kernels/a.py", "def f():\n    import pyarrow.compute"),
        ("kernels/a.py", "from numba import njit"),
        ("operators/a.py", "from ..spark import b"),
        ("operators/a.py", "import sfumato.spark.b"),
        ("operators/a.py", "import pyarrow"),
        ("spark/a.py", "def f():\n    from sfumato.language.b import c"),
        ("spark/a.py", "from sfumato import reorder"),
        ("language/a.py", "from sfumato.cli import b"),
        ("cli/a.py", "from experiments import b"),
        ("cli/a.py", "def f():\n    import examples.b"),
        ("windows.py", "from sfumato.kernels import b"),
        ("kernels/distributions/a.py", "from sfumato.kernels.windows import b"),
        ("kernels/distributions/a.py", "from sfumato.kernels.windows.b import c"),
        ("kernels/a.py", "from sfumato.kernels.distributions.b import c"),
        ("spark/model/a.py", "from sfumato.spark.runtime import b"),
    ],
)
def test_the_check_sees_a_violation(tmp_path, place, line):
    path = tmp_path / "sfumato" / place
    for room in (
        "kernels/windows",
        "kernels/distributions",
        "spark/runtime",
        "spark/model",
        "language",
    ):
        (tmp_path / "sfumato" / room).mkdir(parents=True)
        (tmp_path / "sfumato" / room / "__init__.py").touch()
    (tmp_path / "sfumato" / "__init__.py").touch()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line + "\n")
    assert len(violations(tmp_path)) == 1


def test_the_check_accepts_imports_that_point_down(tmp_path):
    (tmp_path / "sfumato" / "cli").mkdir(parents=True)
    (tmp_path / "sfumato" / "cli" / "a.py").write_text(
        "import sfumato as sf\nfrom sfumato.spark.b import c\nimport os\n"
    )
    assert violations(tmp_path) == []


def test_the_check_sees_a_circle_at_call_time(tmp_path):
    (tmp_path / "sfumato").mkdir()
    (tmp_path / "sfumato" / "a.py").write_text("import sfumato.b\n")
    (tmp_path / "sfumato" / "b.py").write_text("def f():\n    from sfumato.a import g\n")
    assert circles(tmp_path) == [("sfumato.a", "sfumato.b")]


def test_nothing_of_spark_is_used_that_is_not_public():
    private = re.compile(r"\b_(jvm|jdf|jc|jsc|jsparkSession|jreader|jwrite)\b")
    for path in SOURCE.rglob("*.py"):
        assert not private.search(path.read_text()), path


def test_inlined_functions_have_one_call():
    """With more calls, inlining takes longer than it saves."""
    trees = [ast.parse(path.read_text()) for path in (SOURCE / "sfumato/kernels").rglob("*.py")]
    calls = {}
    for tree in trees:
        for function in tree.body:
            if isinstance(function, ast.FunctionDef) and has_decorator(function, "inlined"):
                name = function.name
                callers = [tree] if name.startswith("_") else trees
                uses = (
                    getattr(n, "id", getattr(n, "attr", "")) for t in callers for n in ast.walk(t)
                )
                calls[name] = sum(use == name for use in uses)
    assert len(calls) > 100
    assert {name: number for name, number in calls.items() if number != 1} == {}


def has_decorator(function: ast.FunctionDef, *starts: str) -> bool:
    names = (node.id for node in function.decorator_list if isinstance(node, ast.Name))
    return any(name.startswith(starts) for name in names)
