"""The command `sfumato`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from sfumato.cli.pipeline.environment import DiscreetConsole

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sfumato.cli.pipeline.model import Pipeline

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
    Path,
    typer.Argument(
        metavar="FILE",
        help="A pipeline: sources, SQL and sinks in TOML; or a folder of such.",
    ),
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
def watch(
    rows: Annotated[
        int | None, typer.Option(min=1000, help="Play only so many flights; default: the year.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the page; 0: a free one.")] = 0,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """The demo on a page in the browser, live; the page stays until Ctrl-C."""
    from sfumato.cli.demo import prepare, run_demo
    from sfumato.cli.demo_data import NoDataError
    from sfumato.cli.pipeline.section import PipelineError
    from sfumato.cli.shown import Places, shown, until_interrupted

    console = Console()
    with TemporaryDirectory(prefix="sfumato-demo-") as folder:
        prepared = prepare(Path(folder), rows)
        try:
            with (
                _spark(console, cores, verbose, short=True) as spark,
                shown(console, Places(page=port)) as seen,
            ):
                code = run_demo(spark, console, Path(folder), prepared, seen)
                if seen is not None and not seen.interrupted:
                    until_interrupted(console)
        except (NoDataError, PipelineError) as error:
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
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the run on a page in the browser, live.")
    ] = False,
    watch_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the page; 0: a free one.")
    ] = 0,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Metrics for Prometheus at this port of loopback."),
    ] = None,
    metrics_file: Annotated[
        Path | None,
        typer.Option(dir_okay=False, help="Metrics in a file *.prom or *.jsonl, every 10 seconds."),
    ] = None,
    trust: Trust = False,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """Run the pipeline FILE until Ctrl-C."""
    from sfumato.cli.log import Log

    console = DiscreetConsole()
    lines = None if log is None else Log(console, machines=log is LogForm.json)
    options = {"short": once, "page": not console.is_terminal, "trust": trust}
    with _pipeline(file, console, cores, verbose, **options) as (spark, pipeline):
        from sfumato.cli.run import run as run_pipeline
        from sfumato.cli.shown import Places, shown

        places = Places(watch_port if watch else None, metrics_port, metrics_file)
        # A log for machines has lines of its own only.
        told = Console(stderr=True) if log is LogForm.json else console
        with shown(told, places) as seen:
            code = run_pipeline(spark, pipeline, console, once=once, log=lines, shown=seen)
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
    console = DiscreetConsole()
    with _pipeline(file, console, cores, verbose, short=True, trust=trust) as (spark, pipeline):
        from sfumato.cli.run import define

        defined = define(spark, pipeline)
        for name, plan in defined.plans.items():
            console.print(f"[bold]{escape(name)}[/bold]")
            console.print(plan, markup=False, highlight=False, soft_wrap=True)
            console.print()
    if chart is not None:
        _draw(console, defined.steps, chart)


@app.command()
def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A pipeline, or a folder of files.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of pipeline files, for editors.")
    ] = False,
    trust: Trust = False,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """Say what is wrong with the pipeline FILE, or what it will do; no data is read."""
    if schema:
        from sfumato.cli.pipeline.json_schema import json_schema

        typer.echo(json.dumps(json_schema(), indent=2))
        return
    if file is None:
        raise _failed("`sfumato check` needs a FILE, or --schema", USAGE)
    console = DiscreetConsole()
    with _pipeline(file, console, cores, verbose, short=True, trust=trust) as (spark, pipeline):
        from sfumato.cli.check import checked

        for line in checked(spark, pipeline):
            console.print(line, markup=False, highlight=False, soft_wrap=True)


@app.command()
def init(
    place: Annotated[
        str,
        typer.Argument(
            metavar="PLACE", help="A file, a folder of files, or kafka://HOST:PORT/TOPIC."
        ),
    ],
    file: Annotated[
        Path, typer.Option("--out", "-o", dir_okay=False, help="The file to write.")
    ] = Path("pipeline.toml"),
) -> None:
    """Write a first pipeline file that reads PLACE; Spark is not started."""
    from sfumato.cli.first_file import first_file
    from sfumato.cli.pipeline.section import PipelineError

    try:
        if file.exists():
            raise PipelineError(f"{file} is there already: name another with --out")
        file.write_text(first_file(place, file.resolve().parent), encoding="utf-8")
    except PipelineError as error:
        raise _failed(error, USAGE) from None
    console = Console()
    console.print(f"{file} written; look at it, then: sfumato check {file}", soft_wrap=True)


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
def warm_up(
    processes: Annotated[
        int | None,
        typer.Option(min=1, help="How many compile at a time; default: one for each core."),
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Delete all compiled kernels instead: to uninstall.")
    ] = False,
) -> None:
    """Compile all that queries will need, once for this machine or image."""
    import sfumato as sf

    console = Console()
    if remove:
        from sfumato.cli.leftovers import remove_leftovers

        for folder in remove_leftovers():
            console.print(f"Removed: {folder}", markup=False, highlight=False, soft_wrap=True)
        return
    with console.status("Compiling") as status:
        done = sf.warm_up(None, lambda name: status.update(f"Compiling: {name}"), processes)
    console.print(f"{done.compiled} kernels compiled, {done.loaded} read from disk.")
    if done.folder is None:
        raise typer.Exit(FAILED)
    console.print(f"Kept in {done.folder}", markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _spark(
    console: Console, cores: int | None, verbose: bool, **options: Any
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
    file: Path, console: DiscreetConsole, cores: int | None, verbose: bool, **options: bool
) -> Iterator[tuple[SparkSession, Pipeline]]:
    """A session and a file's pipeline, what is wrong with which is the user's to mend."""
    from sfumato.cli.pipeline.checks import check_before_spark
    from sfumato.cli.pipeline.parse import read_pipeline
    from sfumato.cli.pipeline.section import PipelineError

    environment = None
    try:
        pipeline = read_pipeline(file)
        console.environment = environment = pipeline.environment
        check_before_spark(pipeline)
        with _spark(console, cores, verbose, part=pipeline.spark, **options) as spark:
            yield spark, pipeline
    except PipelineError as error:
        said = str(error)
        raise _failed(environment.hidden(said) if environment else said, USAGE) from None


def _failed(error: Exception | str, code: int = FAILED) -> typer.Exit:
    """Say what is wrong; the exit of a command that failed."""
    console = Console(stderr=True)
    console.print(f"[red]Error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
    return typer.Exit(code)


if __name__ == "__main__":
    app()
