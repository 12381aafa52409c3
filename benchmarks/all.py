"""Every comparison in one run: `make bench`, or `python benchmarks/all.py windows cdf` for some.

Ratios are the peer's time over ours (greater is better) unless a line says otherwise. Peers are
straightforward C++ versions of the papers' algorithms, compiled here, and the named libraries.
Each comparison first checks that both sides agree.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

SUITES = (
    "windows",
    "window_aggregate",
    "window_laws",
    "extents",
    "cdf",
    "similarity_join",
    "top_k",
    "donors",
    "incomplete_join",
    "imputation_quality",
    "disorder",
    "spark_path",
)
COMPARED = ("name", "setting", "ours", "peer", "ratio", "goal", "met")


def cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "[green]met[/]" if value else "[red]not met[/]"
    if isinstance(value, (float, np.floating)):
        return f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
    return str(value)


def show(console: Console, title: str, rows: list[dict[str, Any]]) -> None:
    columns = [name for name in COMPARED if name in rows[0]] or list(rows[0])
    columns += [name for name in rows[0] if name not in columns]
    table = Table(title=title, title_justify="left")
    for name in columns:
        table.add_column(name, justify="left" if name in ("name", "setting", "trace") else "right")
    for row in rows:
        table.add_row(*(cell(row.get(name)) for name in columns))
    console.print(table)


def main(suites: list[str]) -> int:
    unknown = [name for name in suites if name not in SUITES]
    if unknown:
        print(f"expected any of {', '.join(SUITES)}; got {', '.join(unknown)}", file=sys.stderr)
        return 2
    console = Console(width=None if sys.stdout.isatty() else 160)
    failed = []
    for name in suites or SUITES:
        rows = import_module(name).run()
        show(console, name.replace("_", " "), rows)
        failed += [row for row in rows if row.get("met") is False]
    if failed:
        console.print(f"{len(failed)} goals not met", style="red")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
