"""What a run says where no one looks on: a line a micro-batch, for people or for machines."""

import json
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from sfumato.cli.pipeline.environment import DiscreetConsole
from sfumato.metrics.anomalies import in_words
from sfumato.metrics.figures import hidden_in
from sfumato.metrics.progress import REORDER, MicroBatch

TOLD = ("late", "invalid", "out_of_order")


class Log:
    """Writes to a console; `machines`: as JSON lines, and nothing else."""

    def __init__(self, console: Console, *, machines: bool = False) -> None:
        self.console, self.machines = console, machines

    def batch(self, sink: str, batch: MicroBatch) -> None:
        """One micro-batch of a sink."""
        if self.machines:
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
        counts = ", ".join(f"{batch.total(c):,} {c.replace('_', ' ')}" for c in TOLD)
        self._line(
            f"{batch.started} {sink}: micro-batch {batch.number}, {batch.rows_in:,} rows in, "
            f"{batch.rows_out:,} out, {counts}, {batch.seconds:.3g} s"
            + "".join(
                f"; {in_words(part, batch.held[part], shown)}"
                for part, shown in batch.gauges.items()
                if part.kind == REORDER
            )
        )

    def said(self, sink: str, event: str, **more: Any) -> None:
        """Something that happened to a sink, in a sentence."""
        if self.machines:
            self._json(sink=sink, event=event, **more)
        else:
            self._line(f"{sink}: {event}")

    def row(self, sink: str, columns: Sequence[str], row: Sequence[Any]) -> None:
        """A row of a console sink, for machines."""
        self._json(sink=sink, row=dict(zip(columns, row, strict=True)))

    def _line(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _json(self, **fields: Any) -> None:
        if isinstance(self.console, DiscreetConsole) and self.console.environment is not None:
            fields = hidden_in(fields, self.console.environment.hidden)
        self._line(json.dumps(fields, default=_plain))


def _plain(value: Any) -> Any:
    return value.asDict(recursive=True) if hasattr(value, "asDict") else str(value)
