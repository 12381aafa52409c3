"""Every comparison in one run: `make bench`, or `python benchmarks/all.py windows cdf` for some.

`--out FOLDER` keeps the rows of each suite as NAME.json, `--page FILE` writes a page of all that
are kept there and, without suites, measures nothing.

Ratios are the peer's time over ours (greater is better) unless a line says otherwise. Peers are
straightforward C++ versions of the papers' algorithms, compiled here, and the named libraries.
Each comparison first checks that both sides agree.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from rich.console import Console
from rich.table import Table
from typer import Argument, BadParameter, Exit, Option, run

from page import TEXTS, columns_of, keep, plain, shown, written

# Suites of imputation compare with the baselines of `experiments`, at the root of the repository.
sys.path.append(str(Path(__file__).resolve().parents[1]))

SUITES = (
    "windows",
    "window_aggregate",
    "window_laws",
    "extents",
    "cdf",
    "similarity_join",
    "top_k",
    "donors",
    "discovery",
    "incomplete_join",
    "imputation_quality",
    "imputation_coverage",
    "disorder",
    "many_keys",
    "keys_through_spark",
    "spark_path",
    "chains",
    "join_tasks",
    "cold_start",
)


def cell(value: Any) -> str:
    if isinstance(value, bool):
        return "[green]met[/]" if value else "[red]not met[/]"
    return shown(value)


def show(console: Console, title: str, rows: list[dict[str, Any]]) -> None:
    table = Table(title=title, title_justify="left")
    for name in columns_of(rows):
        table.add_column(name, justify="left" if name in TEXTS else "right")
    for row in rows:
        table.add_row(*(cell(row.get(name)) for name in columns_of(rows)))
    console.print(table)


def main(
    suites: Annotated[list[str] | None, Argument(help="Some of the suites; none: all.")] = None,
    out: Annotated[Path | None, Option(help="Folder that keeps the rows of each suite.")] = None,
    page: Annotated[Path | None, Option(help="Write a Markdown page of all rows in --out.")] = None,
) -> None:
    """Measure, and exit with 1 where a goal is missed."""
    if page is not None and out is None:
        raise BadParameter("`--page` is made of what --out holds: name it too")
    unknown = [name for name in suites or () if name not in SUITES]
    if unknown:
        raise BadParameter(f"expected any of {', '.join(SUITES)}; got {', '.join(unknown)}")
    console = Console(width=None if sys.stdout.isatty() else 160)
    missed = 0
    for name in suites or (() if page is not None else SUITES):
        rows = plain(import_module(name).run())
        show(console, name.replace("_", " "), rows)
        missed += sum(row.get("met") is False for row in rows)
        if out is not None:
            keep(out, name, rows)
    if page is not None and out is not None:
        page.write_text(written(out, SUITES))
    if missed:
        console.print(f"{missed} goals not met", style="red")
        raise Exit(1)


if __name__ == "__main__":
    run(main)
