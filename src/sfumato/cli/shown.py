"""What others see of a run while it runs: a page in the browser, metrics over HTTP or in a file."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from sfumato.cli.follow import Running
from sfumato.cli.late_target import late_target
from sfumato.cli.pipeline.model import Pipeline
from sfumato.cli.pipeline.section import PipelineError
from sfumato.cli.tables import cell
from sfumato.live.view import About, ResultRows
from sfumato.metrics.figures import Figures
from sfumato.metrics.serve import served

SHARES = ("probability", "existence", "prob")  # columns whose values are shown as bars too


@dataclass(frozen=True)
class Places:
    """Where a run is shown: ports of loopback (0: a free one) of the page and of the metrics, and a
    file of metrics; None: not there."""

    page: int | None = None
    port: int | None = None
    file: Path | None = None


@dataclass
class Shown:
    """Figures to fill, by sink, and what is known of each beside them.

    interrupted : the user has had enough already
    """

    figures: Figures = field(default_factory=Figures)
    about: dict[str, About] = field(default_factory=dict)
    interrupted: bool = False

    def tell(self, pipeline: Pipeline, plans: Mapping[str, str], sinks: Sequence[Running]) -> None:
        """Take down the texts, plans and newest rows of a pipeline's sinks."""
        texts = {query.name: query.sql for query in pipeline.queries}
        hidden = self.figures.hide = pipeline.environment.hidden
        for running in sinks:
            name = running.sink.query
            self.about[running.name] = About(
                hidden(texts.get(name, "").strip()),
                hidden(plans.get(name, "")),
                late_target(texts, name),
                partial(newest_answers, running),
            )


def newest_answers(running: Running) -> ResultRows:
    """The newest rows of a console sink, the newest first."""
    columns, rows = running.frame.columns, list(running.rows)
    return ResultRows(
        columns,
        [
            [(cell(value), _share(name, value)) for name, value in zip(columns, row, strict=True)]
            for row in reversed(rows)
        ],
    )


def _share(column: str, value: Any) -> float | None:
    is_share = column.lower() in SHARES and isinstance(value, float) and 0 <= value <= 1
    return value if is_share else None


@contextmanager
def shown(console: Console, places: Places) -> Iterator[Shown | None]:
    """Figures to fill; while in here they are where they were asked for. None: nowhere.

    Raises PipelineError for a port that is taken, a file that cannot be written, a missing extra.
    """
    if places == Places():
        yield None
        return
    seen = Shown()
    with ExitStack() as stack:
        try:
            lines = [*_page(seen, places, stack), *_metrics(seen, places, stack)]
        except ImportError as error:
            why = f"showing a run needs more: pip install 'sfumato[watch]' ({error})"
            raise PipelineError(why) from None
        except (OSError, ValueError) as error:
            raise PipelineError(f"the run cannot be shown: {error}") from None
        for line in lines:
            console.print(line, highlight=False, soft_wrap=True)
        yield seen


def _page(seen: Shown, places: Places, stack: ExitStack) -> Iterator[str]:
    if places.page is not None:
        from sfumato.live.server import Server  # its packages are an extra

        server = Server(seen.figures, seen.about, places.page)
        stack.callback(server.stop)
        yield f"Watch: {server.url}"


def _metrics(seen: Shown, places: Places, stack: ExitStack) -> Iterator[str]:
    if places.port is not None or places.file is not None:
        found = served(seen.figures, port=places.port, file=places.file)
        port = stack.enter_context(found)
        if port is not None:
            yield f"Metrics: http://127.0.0.1:{port}/metrics"


def until_interrupted(console: Console) -> None:
    """Wait for Ctrl-C."""
    console.print("The page stays until Ctrl-C.")
    try:
        while True:
            time.sleep(1)
    except KeyboardInterrupt:
        return
