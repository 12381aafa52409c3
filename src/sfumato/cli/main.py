"""The command `sfumato`: its subcommands and their options.

Each command imports its implementation from the other files of this folder when it runs.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from sfumato.cli.pipeline.environment import RedactingConsole, redact_streams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sfumato.cli.pipeline.model import Pipeline

FAILED, USAGE = 1, 2

Cores = Annotated[
    int | None, typer.Option(min=1, help="Number of processor cores for Spark; default: all.")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Also show Spark's error messages.")]


@contextmanager
def open_pipeline(
    file: Path,
    cores: int | None,
    verbose: bool,
    trust: bool,
    allow_packages: bool,
    allow_settings: bool,
    *,
    short: bool = True,
    page: bool = False,
) -> Iterator[tuple[SparkSession, Pipeline, RedactingConsole]]:
    """Read a pipeline file and start its session; exit the command with an error on failure."""
    from sfumato.cli.configure import NoJavaError
    from sfumato.cli.failures import LostJavaError
    from sfumato.cli.pipeline.checks import check_before_spark
    from sfumato.cli.pipeline.model import PipelineError
    from sfumato.cli.pipeline.parse import read_pipeline
    from sfumato.cli.pipeline.permissions import Permissions, check_code, check_settings
    from sfumato.cli.session import command_session

    allowed = Permissions(allow_packages or trust, allow_settings or trust)
    console = RedactingConsole()
    try:
        pipeline = read_pipeline(file)
        console.environment = pipeline.environment
        check_settings(pipeline.spark, allowed)
        check_before_spark(pipeline, trusted=trust)
        check_code(pipeline, allowed)
        started = command_session(
            console,
            cores,
            verbose,
            short=short,
            page=page and not (console.is_terminal or console.environment.used_variables),
            trust=trust,
            part=pipeline.spark,
        )
        with redact_streams(console.environment), started as spark:
            yield spark, pipeline, console
    except (PipelineError, NoJavaError, LostJavaError) as error:
        text = console.environment.hidden(str(error))
        raise failed(text, USAGE if isinstance(error, PipelineError) else FAILED) from None
    except Exception as error:
        if not console.environment.used_variables or isinstance(error, typer.Exit):
            raise
        sys.stderr.write(console.environment.hidden("".join(traceback.format_exception(error))))
        raise typer.Exit(FAILED) from None


def failed(error: Exception | str, code: int = FAILED) -> typer.Exit:
    """Print an error, and return the exception that exits the command."""
    console = Console(stderr=True)
    console.print(f"[red]Error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
    return typer.Exit(code)


app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


class LogForm(StrEnum):
    """Format of a run's log: text for people, or JSON lines for programs."""

    text = "text"
    json = "json"


FileArgument = typer.Argument(
    metavar="FILE", help="A pipeline file (sources, SQL and sinks in TOML), or a folder of them."
)
File = Annotated[Path, FileArgument]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 for any free port.")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Allow the file to do everything that Spark can do: call Java, read paths, and "
        "everything that --allow-packages and --allow-settings allow.",
    ),
]
AllowPackages = Annotated[
    bool,
    typer.Option(
        "--allow-packages",
        help="Allow the file to load code: packages, jars, classes of catalogs and formats, JDBC.",
    ),
]
AllowSettings = Annotated[
    bool,
    typer.Option(
        "--allow-settings",
        help="Allow the file to set any Spark setting and any option, and to name a cluster.",
    ),
]


def _show_version(asked: bool) -> None:
    if asked:
        import sfumato

        typer.echo(f"sfumato {sfumato.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Continuous queries on Spark over uncertain, incomplete and out-of-order streams."""


@app.command()
def run(
    file: File,
    once: Annotated[
        bool, typer.Option("--once", help="Process the rows that are available now, then stop.")
    ] = False,
    log: Annotated[
        LogForm | None,
        typer.Option(
            help="Print one line per micro-batch, as text or JSON. Default: a table on a "
            "terminal, otherwise text."
        ),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show the run live in the browser.")
    ] = False,
    watch_port: Port = 0,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Serve metrics for Prometheus on this port of 127.0.0.1."
        ),
    ] = None,
    metrics_file: Annotated[
        Path | None,
        typer.Option(
            dir_okay=False, help="Write metrics to a *.prom or *.jsonl file every 10 seconds."
        ),
    ] = None,
    trust: Trust = False,
    allow_packages: AllowPackages = False,
    allow_settings: AllowSettings = False,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """Run the pipeline FILE until Ctrl-C."""
    given = trust, allow_packages, allow_settings
    opened = open_pipeline(file, cores, verbose, *given, short=once, page=True)
    with opened as (spark, pipeline, console):
        from sfumato.cli.output import Log
        from sfumato.cli.run import run as run_pipeline
        from sfumato.cli.run import serve_run

        lines = None if log is None else Log(console, is_json=log is LogForm.json)
        # Notes go to standard error, because a JSON log contains only JSON lines.
        notes = Console(stderr=True) if log is LogForm.json else console
        page_port = watch_port if watch else None
        with serve_run(notes, page_port, metrics_port, metrics_file) as view:
            code = run_pipeline(spark, pipeline, console, once=once, log=lines, view=view)
    raise typer.Exit(code)


@app.command()
def watch(file: File, port: Port = 0, cores: Cores = None, verbose: Verbose = False) -> None:
    """Run the pipeline FILE with a live page in the browser: short for `run FILE --watch`."""
    run(file, watch=True, watch_port=port, cores=cores, verbose=verbose)


@app.command()
def explain(
    file: File,
    chart: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder for charts of the timetables of TOP queries."),
    ] = None,
    trust: Trust = False,
    allow_packages: AllowPackages = False,
    allow_settings: AllowSettings = False,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """Explain what the queries of the pipeline FILE do, without running them."""
    given = trust, allow_packages, allow_settings
    with open_pipeline(file, cores, verbose, *given) as (spark, pipeline, console):
        from sfumato.cli.plan import build_plan
        from sfumato.spark.model.repository import without_data

        with without_data():
            plan = build_plan(spark, pipeline)
        for name, text in plan.explanations.items():
            console.print(f"[bold]{escape(name)}[/bold]")
            _print(console, f"{text}\n")
    if chart is None:
        return
    from sfumato.cli.check import draw_timetables

    try:
        files = draw_timetables(plan.steps, chart)
    except (ImportError, OSError) as error:
        raise failed(error) from None
    for drawn in files:
        _print(console, f"Drawn: {drawn}")
    if not files:
        _print(console, "No query has TOP, so there is no timetable to draw.")


@app.command()
def check(
    file: Annotated[Path | None, FileArgument] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of pipeline files, for editors.")
    ] = False,
    trust: Trust = False,
    allow_packages: AllowPackages = False,
    allow_settings: AllowSettings = False,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """Check the pipeline FILE without reading data: report problems, or describe what it does."""
    if schema:
        from sfumato.cli.pipeline.model import json_schema

        typer.echo(json.dumps(json_schema(), indent=2))
        return
    if file is None:
        raise failed("`sfumato check` needs a FILE, or --schema", USAGE)
    given = trust, allow_packages, allow_settings
    with open_pipeline(file, cores, verbose, *given) as (spark, pipeline, console):
        from sfumato.cli.check import check_pipeline

        for line in check_pipeline(spark, pipeline):
            _print(console, line)


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
    """Write a first pipeline file that reads PLACE, without starting Spark."""
    from sfumato.cli.first_file import first_file
    from sfumato.cli.pipeline.model import PipelineError

    try:
        if file.exists():
            raise PipelineError(f"{file} already exists: name a different file with --out")
        file.write_text(first_file(place, file.resolve().parent), encoding="utf-8")
    except (PipelineError, OSError) as error:
        raise failed(error, USAGE) from None
    option = " --allow-packages" if place.startswith("kafka:") else ""  # for the Kafka connector
    _print(Console(), f"Wrote {file}. Read it, then run: sfumato check {file}{option}")


@app.command()
def warm_up(
    processes: Annotated[
        int | None, typer.Option(min=1, help="Number of parallel processes; default: one per core.")
    ] = None,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove", help="Delete all compiled kernels instead, for example before uninstalling."
        ),
    ] = False,
) -> None:
    """Compile all kernels that queries need, once per machine or image."""
    import sfumato as sf

    console = Console()
    if remove:
        from sfumato.cli.configure import remove_caches

        for folder in remove_caches():
            _print(console, f"Removed: {folder}")
        return
    with console.status("Compiling") as status:
        done = sf.ops.warm_up(None, lambda name: status.update(f"Compiling: {name}"), processes)
    console.print(f"{done.compiled} kernels compiled, {done.loaded} read from disk.")
    if not done.compiled:  # for example, in an image whose kernel folder only root can write
        return
    if done.folder is None:
        raise typer.Exit(FAILED)
    _print(console, f"Stored in {done.folder}")


def _print(console: Console, text: str) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True)


if __name__ == "__main__":
    app()
