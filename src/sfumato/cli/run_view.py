"""Views of a run for others: a page in the browser, metrics over HTTP or in a file."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from sfumato.cli.output import cell
from sfumato.cli.pipeline.model import PipelineError
from sfumato.cli.plan import Plan
from sfumato.cli.sink_query import SinkQuery
from sfumato.live.view import About, ResultRows
from sfumato.metrics.figures import SessionFigures
from sfumato.metrics.serve import served

PROBABILITY_COLUMNS = (
    "probability",
    "existence",
    "prob",
)  # columns whose values are also shown as bars


@dataclass(frozen=True)
class Endpoints:
    """Where a run is shown: loopback ports (0: any free port) and a file; None: not there."""

    page_port: int | None = None
    metrics_port: int | None = None
    metrics_file: Path | None = None


@dataclass
class RunView:
    """The metrics of a run's sinks, and what the page says about each.

    interrupted : by the user
    """

    figures: SessionFigures = field(default_factory=SessionFigures)
    about: dict[str, About] = field(default_factory=dict)
    interrupted: bool = False

    def describe(self, plan: Plan, sinks: Sequence[SinkQuery]) -> None:
        """Take in the texts, plans and newest rows of a pipeline's sinks."""
        texts = {query.name: query.sql for query in plan.pipeline.queries}
        hidden = self.figures.hide = plan.pipeline.environment.hidden
        for each in sinks:
            name = each.sink.query
            self.about[each.name] = About(
                hidden(texts.get(name, "").strip()),
                hidden(plan.explanations.get(name, "")),
                plan.late_target(name),
                partial(newest_answers, each),
            )


def newest_answers(query: SinkQuery) -> ResultRows:
    """Return the newest rows of a console sink, the newest first."""
    columns = query.columns
    return ResultRows(
        columns,
        [
            [(cell(value), _share(name, value)) for name, value in zip(columns, row, strict=True)]
            for row in reversed(list(query.rows))
        ],
    )


def _share(column: str, value: Any) -> float | None:
    is_share = (
        column.lower() in PROBABILITY_COLUMNS and isinstance(value, float) and 0 <= value <= 1
    )
    return value if is_share else None


@contextmanager
def serve_run(console: Console, endpoints: Endpoints) -> Iterator[RunView | None]:
    """Serve the metrics of a run while in here; None if there is no endpoint.

    Raises PipelineError for a port that is in use, a file that cannot be written, a missing extra.
    """
    if endpoints == Endpoints():
        yield None
        return
    view, lines = RunView(), []
    with ExitStack() as stack:
        try:
            if endpoints.page_port is not None:
                from sfumato.live.server import Server  # its packages are an extra

                server = Server(view.figures, view.about, endpoints.page_port)
                stack.callback(server.stop)
                lines.append(f"Watch: {server.url}")
            port, file = endpoints.metrics_port, endpoints.metrics_file
            if port is not None or file is not None:
                port = stack.enter_context(served(view.figures, port=port, file=file))
                lines += [] if port is None else [f"Metrics: http://127.0.0.1:{port}/metrics"]
        except ImportError as error:
            why = f"showing a run needs more: pip install 'sfumato[watch]' ({error})"
            raise PipelineError(why) from None
        except (OSError, ValueError) as error:
            raise PipelineError(f"the run cannot be shown: {error}") from None
        for line in lines:
            console.print(line, highlight=False, soft_wrap=True)
        yield view


def until_interrupted(console: Console) -> None:
    """Wait for Ctrl-C."""
    console.print("The page stays until Ctrl-C.")
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        return
