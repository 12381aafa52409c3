"""Rows of benchmarks: kept as JSON, shown in the terminal, and written as a Markdown page."""

import ast
import json
import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.harness import Row

COMPARED = ("name", "setting", "ours", "peer", "ratio", "goal", "met")
TEXTS = ("name", "setting", "trace", "set", "stream")
MARK = "<!-- measured -->"
FOLDER = Path(__file__).with_name("suites")
SUITES = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))

HEAD = """# Benchmarks

`python -m benchmarks --out docs/benchmarks [SUITE]` measures the rows in the folder `benchmarks`,
and `python -m benchmarks --out docs/benchmarks --page docs/benchmarks.md` writes this page from the
rows. A ratio is the peer's time divided by our time, in one run, unless the name of its row states
otherwise; [speed](speed.md) explains the suites. On two cores of a machine that is shared with
other programs, single runs vary by a fifth.
"""


def plain(rows: list[Row]) -> list[Row]:
    """Return rows with Python's own numbers in place of NumPy's, and `met` only next to a goal."""
    return [
        {
            name: None if name == "met" and not row.get("goal", True) else _own(value)
            for name, value in row.items()
        }
        for row in rows
    ]


def _own(value: object) -> object:
    if isinstance(value, np.floating):  # the item() of a long double is a NumPy number, too
        return float(value)
    return value.item() if isinstance(value, np.generic) else value


def keep(folder: Path, suite: str, rows: list[Row]) -> None:
    """Write SUITE.json."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / f"{suite}.json").write_text(f"[\n{lines}\n]\n")


def fill(page: Path, text: str) -> None:
    """Replace the text between the two marks of a page; the rest is written by hand."""
    before, _, after = page.read_text().split(MARK)
    page.write_text(f"{before}{MARK}\n\n{text}\n\n{MARK}{after}")


def written(folder: Path) -> str:
    """Return the page of the suites whose rows are in the folder."""
    parts = [HEAD]
    for suite in SUITES:
        path = folder / f"{suite}.json"
        if path.exists():
            source = (FOLDER / f"{suite}.py").read_text()
            about = (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]
            title = suite.replace("_", " ").capitalize()
            parts.append(f"## {title}\n\n{about}\n\n{table(json.loads(path.read_text()))}\n")
    return "\n".join(parts)


def table(rows: list[Row]) -> str:
    """Return rows as a Markdown table."""
    columns = columns_of(rows)
    lines = [columns, ["---" if name in TEXTS else "---:" for name in columns]]
    lines += [[cell(row.get(name)).replace("|", "\\|") for name in columns] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def show(title: str, rows: list[Row]) -> None:
    """Print rows as a table."""
    shown = Table(title=title, title_justify="left")
    for name in columns_of(rows):
        shown.add_column(name, justify="left" if name in TEXTS else "right")
    for row in rows:
        shown.add_row(*(cell(row.get(name)) for name in columns_of(rows)))
    Console(width=None if sys.stdout.isatty() else 170).print(shown)


def columns_of(rows: list[Row]) -> list[str]:
    """Return the columns of some rows, starting with the columns of comparisons."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [name for name in COMPARED if name in names] + [n for n in names if n not in COMPARED]


def cell(value: object) -> str:
    """Format a value for a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "met" if value else "**not met**"
    if isinstance(value, float):
        digits = 0 if abs(value) >= 100 else 2 if abs(value) >= 1 else 4
        return f"{value:,.{digits}f}"
    return str(value)
