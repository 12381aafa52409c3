"""Rich tables: the progress of the sinks, and rows of data."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sfumato.metrics.progress import QueryProgress

WIDEST = 48  # characters of a cell
LONGEST = 3  # elements of an array that are shown


def progress_table(progress: Mapping[str, QueryProgress]) -> Table:
    """One line a sink: what went in, what came out, what was late, invalid or is held back."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("sink", overflow="fold")
    numbers = "micro-batches,rows in,rows/s,rows out,late,invalid,out of order,held"
    for title in numbers.split(","):
        table.add_column(title, justify="right", overflow="fold")
    for name, query in progress.items():
        counts = [query.batches, query.rows_in, query.rate, query.rows_out]
        counts += [query.total(counter) for counter in ("late", "invalid", "out_of_order")]
        held = "" if query.held is None else f"{query.held:,}"
        table.add_row(escape(name), *(f"{count:,.0f}" for count in counts), held)
    return table


def rows_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Group:
    """Rows as they are, long values cut, under a title (a table's own would wrap at its width)."""
    table = Table(header_style="dim")
    for index, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        table.add_column(escape(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell(value)) for value in row))
    return Group(Text(title, style="bold"), table)


def cell(value: Any) -> str:
    """A value of a row in a few characters."""
    text = _text(value)
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def _text(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        whole = "seconds" if value.second else "minutes"
        return value.isoformat(sep=" ", timespec="auto" if value.microsecond else whole)
    if isinstance(value, list):
        shown = ", ".join(_text(v) for v in value[:LONGEST])
        more = f", … {len(value)} in all" if len(value) > LONGEST else ""
        return f"[{shown}{more}]"
    if hasattr(value, "asDict"):
        return ", ".join(f"{k}={_text(v)}" for k, v in value.asDict().items())
    return str(value)
