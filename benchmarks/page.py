"""What benchmarks measured, kept as JSON, and a Markdown page of it."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

COMPARED = ("name", "setting", "ours", "peer", "ratio", "goal", "met")
TEXTS = ("name", "setting", "trace", "set", "stream")

HEAD = """# Benchmarks

Written by `python benchmarks/all.py --out docs/benchmarks --page docs/benchmarks.md` from the rows
beside it, which `python benchmarks/all.py --out docs/benchmarks [SUITE]` measures: no number is
typed. A ratio is the peer's time over ours, in one run, unless its line says otherwise;
[speed](speed.md) says what that means. On two cores of a machine shared with others single runs
vary by a fifth.
"""


def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with Python's own numbers in place of NumPy's, and `met` only where a goal is."""
    return [
        {
            name: None if name == "met" and not row.get("goal", True) else _own(value)
            for name, value in row.items()
        }
        for row in rows
    ]


def _own(value: Any) -> Any:
    if isinstance(value, np.floating):  # a long double's own item() is one, too
        return float(value)
    return value.item() if isinstance(value, np.generic) else value


def keep(folder: Path, suite: str, rows: list[dict[str, Any]]) -> None:
    """Write NAME.json."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in rows)
    (folder / f"{suite}.json").write_text(f"[\n{lines}\n]\n")


def written(folder: Path, suites: Sequence[str]) -> str:
    """The page of the suites that the folder holds."""
    parts = [HEAD]
    for suite in suites:
        path = folder / f"{suite}.json"
        if path.exists():
            source = (Path(__file__).parent / f"{suite}.py").read_text()
            about = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
            title = suite.replace("_", " ").capitalize()
            parts.append(f"## {title}\n\n{about}\n\n{table(json.loads(path.read_text()))}\n")
    return "\n".join(parts)


def table(rows: list[dict[str, Any]]) -> str:
    """Rows as a Markdown table."""
    columns = columns_of(rows)
    lines = [columns, ["---" if name in TEXTS else "---:" for name in columns]]
    lines += [[cell(row.get(name)) for name in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def columns_of(rows: list[dict[str, Any]]) -> list[str]:
    """The columns of some rows, those of every comparison first."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [name for name in COMPARED if name in names] + [n for n in names if n not in COMPARED]


def cell(value: Any) -> str:
    if isinstance(value, bool):
        return "met" if value else "**not met**"
    return shown(value).replace("|", "\\|")


def shown(value: Any) -> str:
    """A value as tables have it."""
    if value is None:
        return ""
    if isinstance(value, float):
        digits = 0 if abs(value) >= 100 else 2 if abs(value) >= 1 else 4
        return f"{value:,.{digits}f}"
    return str(value)
