"""The commands that play real streams: `demo` and `watch`."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.console import Console

from sfumato.cli.commands.shared import Cores, Verbose, failed, session_for

Flights = Annotated[
    int | None, typer.Option(min=1000, help="Play only so many flights; default: the year.")
]


def demo(rows: Flights = None, cores: Cores = None, verbose: Verbose = False) -> None:
    """Late flights put in order, and frost at two airports: real streams through Spark."""
    _play(rows, cores, verbose, page=None)


def watch(
    rows: Flights = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the page; 0: a free one.")] = 0,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """The demo on a page in the browser, live; the page stays until Ctrl-C."""
    _play(rows, cores, verbose, page=port)


def _play(rows: int | None, cores: int | None, verbose: bool, page: int | None) -> None:
    from sfumato.cli.demo import prepare, run_demo
    from sfumato.cli.demo_data import NoDataError
    from sfumato.cli.pipeline.section import PipelineError
    from sfumato.cli.shown import Places, shown, until_interrupted

    console = Console()
    with TemporaryDirectory(prefix="sfumato-demo-") as folder:
        prepared = prepare(Path(folder), rows)
        try:
            with (
                session_for(console, cores, verbose, short=True) as spark,
                shown(console, Places(page=page)) as seen,
            ):
                code = run_demo(spark, console, Path(folder), prepared, seen)
                if seen is not None and not seen.interrupted:
                    until_interrupted(console)
        except (NoDataError, PipelineError) as error:
            raise failed(error) from None
    raise typer.Exit(code)
