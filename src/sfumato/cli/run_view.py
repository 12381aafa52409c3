"""Views of a run: a browser page, and metrics over HTTP or in a file."""

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

PROBABILITY_COLUMNS = ("probability", "existence", "prob")  # columns that are also shown as bars


@dataclass
class RunView:
    """The metrics of a run's sinks, and the page's description of each sink."""

    figures: SessionFigures = field(default_factory=SessionFigures)
    about: dict[str, About] = field(default_factory=dict)

    def describe(self, plan: Plan, sinks: Sequence[SinkQuery]) -> None:
        """Set the texts, plans and newest rows of a pipeline's sinks."""
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
    """Return the newest rows of a console sink, newest first."""

    def shown(name: str, value: Any) -> tuple[str, float | None]:
        may_be_share = name.lower() in PROBABILITY_COLUMNS and isinstance(value, float)
        return cell(value), value if may_be_share and 0 <= value <= 1 else None

    rows = [list(map(shown, query.columns, row)) for row in reversed(list(query.rows))]
    return ResultRows(query.columns, rows)


@contextmanager
def serve_run(
    console: Console,
    page_port: int | None = None,
    metrics_port: int | None = None,
    metrics_file: Path | None = None,
) -> Iterator[RunView]:
    """Serve the metrics of a run at loopback ports (0: any free port) and in a file."""
    view, lines = RunView(), []
    with ExitStack() as stack:
        try:
            if page_port is not None:
                from sfumato.live.server import Server  # needs an extra

                server = Server(view.figures, view.about, page_port)
                stack.callback(server.stop)
                lines.append(f"Watch: {server.url}")
            if metrics_port is not None or metrics_file is not None:
                metrics = served(view.figures, port=metrics_port, file=metrics_file)
                port = stack.enter_context(metrics)
                lines += [] if port is None else [f"Metrics: http://127.0.0.1:{port}/metrics"]
        except ImportError as error:
            why = f"showing a run needs more: pip install 'sfumato[watch]' ({error})"
            raise PipelineError(why) from None
        except (OSError, ValueError) as error:
            raise PipelineError(f"the run cannot be shown: {error}") from None
        for line in lines:
            console.print(line, highlight=False, soft_wrap=True)
        yield view
