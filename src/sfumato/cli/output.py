"""Output of a run, for people or programs: a progress table, or one line per micro-batch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sfumato.cli.pipeline.environment import RedactingConsole
from sfumato.metrics.anomalies import describe_held_rows, row_count
from sfumato.metrics.progress import (
    REORDER,
    MicroBatch,
    late_and_rows,
    late_rows_left_out,
    total_of_counter,
    totals_by_operator,
)
from sfumato.metrics.session_metrics import QueryMetrics, hide_secrets

if TYPE_CHECKING:
    from sfumato.cli.sink_query import SinkQuery

SHOWN_COUNTERS = ("late", "invalid", "out_of_order")
LABELS = {
    "late": "marked late",  # the counter includes invalid rows and duplicates
    "answers": "rows of answers",
    "answered": "answers",
    "cost": "cost (the sum of k)",
}
MAX_CELL = 48  # characters
MAX_ELEMENTS = 3  # elements of an array shown in a cell


class Log:
    """Console output of a run.

    is_json : write JSON lines only
    is_live : refresh a table instead of writing a line per micro-batch
    """

    def __init__(
        self, console: RedactingConsole, *, is_json: bool = False, is_live: bool = False
    ) -> None:
        self.console, self.is_json = console, is_json
        live = Live(console=console, refresh_per_second=4, transient=True)
        self._live = live if is_live else None

    def say(self, text: str, style: str | None = None) -> None:
        """Print a message about the whole run, unless output is JSON."""
        if not self.is_json:
            self.console.print(text, style=style)

    def event(self, sink: str, event: str, **more: Any) -> None:
        if self.is_json:
            self._json(sink=sink, event=event, **more)
        else:
            self._line(f"{sink}: {event}")

    def batch(self, sink: str, batch: MicroBatch) -> None:
        if self._live is not None:
            return
        if self.is_json:
            self._json(
                sink=sink,
                batch=batch.number,
                started=batch.started,
                rows_in=batch.rows_in,
                rows_out=batch.rows_out,
                seconds=batch.seconds,
                metrics=batch.metrics,
            )
            return
        if not batch.rows_in and not batch.rows_out:  # with an idle timeout, Spark never pauses
            return
        counts = {counter_label(c): total_of_counter(batch.counters, c) for c in SHOWN_COUNTERS}
        parts = [f"micro-batch {batch.number}", f"{batch.rows_in:,} rows in"]
        parts += [f"{batch.rows_out:,} out", *(f"{n:,} {c}" for c, n in counts.items() if n)]
        self._line(f"{batch.started} {sink}: {', '.join(parts)}, {batch.seconds:.3g} s")
        for part, shown in batch.gauges.items():
            if part.kind == REORDER:
                self._line(f"    {describe_held_rows(part, batch.held[part], shown)}")

    def table(self, sink: str, what: str, columns: Sequence[str], rows: Sequence[Any]) -> None:
        if not self.is_json:
            self.console.print(rows_table(f"{sink}: {what}", columns, rows))
            return
        for row in rows:
            self._json(sink=sink, row=dict(zip(columns, row, strict=True)))

    def refreshed(self) -> AbstractContextManager[Any]:
        return nullcontext() if self._live is None else self._live

    def refresh(self, queries: Sequence[SinkQuery]) -> None:
        if self._live is not None:
            self._live.update(self.console.hidden(_progress_group(queries)))

    def end(self, queries: Sequence[SinkQuery], failed: SinkQuery | None) -> None:
        """Report the totals of a run, including dropped rows, and the cause of a failure."""
        started = [query for query in queries if query.query is not None]
        cause = "" if failed is None or failed.error is None else failed.cause(failed.error)
        if not self.is_json:
            self.console.print(_progress_group(started))
        for query in started:
            if self.is_json:
                self.table(query.name, "", query.columns, query.rows)
                totals = totals_by_operator(query.progress.counters)
                self.event(query.name, "failed" if query is failed else "ended", metrics=totals)
            else:
                self._totals(escape(query.name), query.progress)
        if failed is not None and self.is_json:
            self.event(failed.name, "cause", cause=cause)
        elif failed is not None:
            self.console.print(f"[red]Failed:[/red] sink {escape(failed.name)}: {escape(cause)}")

    def _totals(self, name: str, progress: QueryMetrics) -> None:
        for operator, counts in totals_by_operator(progress.counters).items():
            listed = ", ".join(_describe_count(each, n) for each, n in counts.items())
            if listed:
                text = f"{name}: {escape(operator)}: {listed}"
                self.console.print(text, style="dim", highlight=False)
        late, rows = late_and_rows(progress.counters)
        if late:
            share = f"{late / rows:.2%} of {rows:,}"
            others = late_rows_left_out(progress.counters).items()
            listed = "".join(f"; {kind} left out {count:,}" for kind, count in others)
            self.console.print(f"{name}: {row_count(late)} came too late ({share}){listed}.")
        if progress.held and progress.held > 0:
            held = row_count(progress.held)
            self.console.print(f"{name}: {held} held until later rows arrive.")

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _json(self, **fields: Any) -> None:
        fields = hide_secrets(fields, self.console.environment.hidden)
        self._line(json.dumps(fields, default=_as_json))


def _as_json(value: Any) -> Any:
    return value.asDict(recursive=True) if hasattr(value, "asDict") else str(value)


def _progress_group(queries: Sequence[SinkQuery]) -> Group:
    started = [query for query in queries if query.query is not None]
    tables = [
        rows_table(f"{query.name}: the newest {row_count(len(rows))}", query.columns, rows)
        for query in started
        if (rows := list(query.rows))
    ]
    return Group(*tables, progress_table({query.name: query.progress for query in started}))


def counter_label(counter: str) -> str:
    return LABELS.get(counter, counter.replace("_", " "))


def _describe_count(counter: str, count: int) -> str:
    if counter == "latency":  # microseconds
        return f"{count / 1e6:,.3f}".rstrip("0").rstrip(".") + " s latency in all"
    return f"{count:,} {counter_label(counter)}"


def progress_table(progress: Mapping[str, QueryMetrics]) -> Table:
    """Build the progress table, one line per sink: rows read, written, late, invalid, held."""
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("sink", overflow="fold")
    numbers = "micro-batches,rows in,rows/s,rows out,marked late,invalid,out of order,held"
    for title in numbers.split(","):
        table.add_column(title, justify="right", overflow="fold")
    for name, query in progress.items():
        counts = [query.batches, query.rows_in, query.rate, query.rows_out]
        counts += [total_of_counter(query.counters, counter) for counter in SHOWN_COUNTERS]
        held = "" if query.held is None else f"{query.held:,}"
        table.add_row(escape(name), *(f"{count:,.0f}" for count in counts), held)
    return table


def rows_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Group:
    """Build a titled table of rows; long values are truncated."""
    table = Table(header_style="dim")
    for index, name in enumerate(columns):
        numeric = bool(rows) and all(isinstance(row[index], int | float) for row in rows)
        table.add_column(escape(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(escape(format_cell(value)) for value in row))
    # A title of the table itself would wrap at the table's width.
    return Group(Text(title, style="bold"), table)


def format_cell(value: Any) -> str:
    """Format a value of a row in a few characters."""
    text = _format_value(value)
    return text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"


def _format_value(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        whole = "seconds" if value.second else "minutes"
        return value.isoformat(sep=" ", timespec="auto" if value.microsecond else whole)
    if isinstance(value, list):
        shown = ", ".join(_format_value(v) for v in value[:MAX_ELEMENTS])
        more = f", … {len(value)} in all" if len(value) > MAX_ELEMENTS else ""
        return f"[{shown}{more}]"
    if hasattr(value, "asDict"):
        return ", ".join(f"{k}={_format_value(v)}" for k, v in value.asDict().items())
    return str(value)
