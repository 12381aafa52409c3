"""The command `sfumato`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sfumato.cli.pipeline import Pipeline

FAILED, USAGE = 1, 2

app = typer.Typer(
    help="Continuous queries on Spark over uncertain, incomplete and out-of-order streams.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


class LogForm(StrEnum):
    """Who reads a run's log."""

    text = "text"
    json = "json"


PipelineFile = Annotated[
    Path, typer.Argument(metavar="FILE", help="A pipeline: sources, SQL and sinks in TOML.")
]
Cores = Annotated[
    int | None, typer.Option(min=1, help="Processor cores for Spark; default: all there are.")
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Let the file's SQL do all that Spark can: call Java, read paths."
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show Spark's own error messages too.")]


def _version(asked: bool) -> None:
    if asked:
        import sfumato

        typer.echo(f"sfumato {sfumato.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    """Continuous queries on Spark over uncertain, incomplete and out-of-order streams."""


@app.command()
def demo(
    rows: Annotated[
        int | None, typer.Option(min=1000, help="Play only so many flights; default: the year.")
    ] = None,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """Late flights put in order, and frost at two airports: real streams through Spark."""
    from sfumato.cli.demo import prepare, run_demo
    from sfumato.cli.demo_data import NoDataError

    console = Console()
    with TemporaryDirectory(prefix="sfumato-demo-") as folder:
        prepared = prepare(Path(folder), rows)
        with _spark(console, cores, verbose, short=True) as spark:
            try:
                code = run_demo(spark, console, Path(folder), prepared)
            except NoDataError as error:
                raise _failed(error) from None
    raise typer.Exit(code)


@app.command()
def run(
    file: PipelineFile,
    once: Annotated[
        bool, typer.Option("--once", help="Process what the sources have now, and end.")
    ] = False,
    log: Annotated[
        LogForm | None,
        typer.Option(help="A line a micro-batch, for people or for machines; text off a terminal."),
    ] = None,
    trust: Trust = False,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """Run the pipeline FILE until Ctrl-C."""
    from sfumato.cli.log import Log

    console = Console()
    lines = None if log is None else Log(console, machines=log is LogForm.json)
    options = {"short": once, "page": not console.is_terminal, "trust": trust}
    with _pipeline(file, console, cores, verbose, **options) as (spark, pipeline):
        from sfumato.cli.run import run as run_pipeline

        code = run_pipeline(spark, pipeline, console, once=once, log=lines)
    raise typer.Exit(code)


@app.command()
def explain(
    file: PipelineFile,
    chart: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Draw the timetables of TOP queries into this folder."),
    ] = None,
    trust: Trust = False,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """Say what the queries of the pipeline FILE will do; run nothing."""
    console = Console()
    with _pipeline(file, console, cores, verbose, short=True, trust=trust) as (spark, pipeline):
        from sfumato.cli.run import define

        defined = define(spark, pipeline)
        for name, plan in defined.plans.items():
            console.print(f"[bold]{escape(name)}[/bold]")
            console.print(plan, markup=False, highlight=False, soft_wrap=True)
            console.print()
    if chart is not None:
        _draw(console, defined.steps, chart)


def _draw(console: Console, steps: Any, folder: Path) -> None:
    from sfumato.cli.charts import draw

    try:
        files = draw(steps, folder)
    except ImportError as error:
        raise _failed(error) from None
    for file in files:
        console.print(f"drawn: {file}", markup=False, highlight=False, soft_wrap=True)
    if not files:
        console.print("No query has a TOP: there is no timetable to draw.")


@app.command()
def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME]...", help="A10, DT9, ..., or a letter for all of a paper."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every experiment.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller sizes and fewer repetitions.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            file_okay=False,
            exists=True,
            help="Folder of the public data sets; without it stand-ins are used, and said.",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(file_okay=False, help="Folder for raw numbers and charts.")
    ] = Path("reproduced"),
    page: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write a Markdown page of all results.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 1,
) -> None:
    """Measure the papers' figures again; without NAME, list them (or write the page of --out)."""
    try:
        from sfumato.cli import reproduce as command
    except ImportError as error:
        raise _failed(f"{error}; install the extra: pip install 'sfumato[reproduce]'") from None
    from sfumato.reproduce.experiment import Setting

    console = Console()
    if not names and not everything and page is None:
        command.list_experiments(console)
        return
    try:
        wanted = command.chosen(names or [])
    except command.UnknownExperimentError as error:
        raise _failed(error, USAGE) from None
    if everything:
        wanted = list(command.experiments().values())
    setting = Setting(quick=quick, data=data, seed=seed)
    if failed := command.reproduce(wanted, setting, out, console, page):
        raise _failed(f"failed: {', '.join(failed)}")


@app.command("warm-up")
def warm_up() -> None:
    """Compile all that queries will need, once for this machine or image."""
    import sfumato as sf

    console = Console()
    with console.status("Compiling") as status:
        done = sf.warm_up(progress=lambda name: status.update(f"Compiling: {name}"))
    console.print(f"{done.compiled} kernels compiled, {done.loaded} were on disk already.")
    if done.folder is None:
        raise typer.Exit(FAILED)
    console.print(f"Kept in {done.folder}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _spark(
    console: Console, cores: int | None, verbose: bool, **options: bool
) -> Iterator[SparkSession]:
    """A session that ends with the command; without a Java runtime the command fails."""
    from sfumato.cli.java import NoJavaError
    from sfumato.cli.session import command_session

    try:
        with command_session(console, cores, verbose, **options) as spark:
            yield spark
    except NoJavaError as error:
        raise _failed(error) from None


@contextmanager
def _pipeline(
    file: Path, console: Console, cores: int | None, verbose: bool, **options: bool
) -> Iterator[tuple[SparkSession, Pipeline]]:
    """A session and a file's pipeline, what is wrong with which is the user's to mend."""
    from sfumato.cli.pipeline import check_paths, read_pipeline
    from sfumato.cli.section import PipelineError

    try:
        pipeline = read_pipeline(file)
        check_paths(pipeline)
        with _spark(console, cores, verbose, **options) as spark:
            yield spark, pipeline
    except PipelineError as error:
        raise _failed(error, USAGE) from None


def _failed(error: Exception | str, code: int = FAILED) -> typer.Exit:
    """Say what is wrong; the exit of a command that failed."""
    console = Console(stderr=True)
    console.print(f"[red]Error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
    return typer.Exit(code)


if __name__ == "__main__":
    app()
