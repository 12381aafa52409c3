"""The commands of pipeline files: `run`, `watch`, `explain`, `check` and `init`."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from sfumato.cli.commands.shared import USAGE, Cores, Verbose, failed, pipeline_of
from sfumato.cli.pipeline.environment import DiscreetConsole
from sfumato.cli.pipeline.permissions import Permissions


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
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Let the file do all that Spark can: call Java, read paths, and what the options "
        "--allow-packages and --allow-settings allow.",
    ),
]
AllowPackages = Annotated[
    bool,
    typer.Option(
        "--allow-packages",
        help="Let the file bring code: packages, jars, classes of catalogs and formats, JDBC.",
    ),
]
AllowSettings = Annotated[
    bool,
    typer.Option(
        "--allow-settings",
        help="Let the file set any setting of Spark's and any option, and name a cluster.",
    ),
]


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
    allow_packages: AllowPackages = False,
    allow_settings: AllowSettings = False,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """Run the pipeline FILE until Ctrl-C."""
    from sfumato.cli.log import Log

    console = DiscreetConsole()
    lines = None if log is None else Log(console, machines=log is LogForm.json)
    options = {"short": once, "page": not console.is_terminal, "trust": trust}
    allowed = _allowed(trust, allow_packages, allow_settings)
    with pipeline_of(file, console, cores, verbose, allowed, **options) as (spark, pipeline):
        from sfumato.cli.run import run as run_pipeline
        from sfumato.cli.shown import Places, shown

        places = Places(watch_port if watch else None, metrics_port, metrics_file)
        # A log for machines has lines of its own only.
        told = Console(stderr=True) if log is LogForm.json else console
        with shown(told, places) as seen:
            code = run_pipeline(spark, pipeline, console, once=once, log=lines, shown=seen)
    raise typer.Exit(code)


def watch(
    file: PipelineFile,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the page; 0: a free one.")] = 0,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """Run the pipeline FILE with a live page in the browser: short for `run FILE --watch`."""
    run(file, watch=True, watch_port=port, cores=cores, verbose=verbose)


def explain(
    file: PipelineFile,
    chart: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Draw the timetables of TOP queries into this folder."),
    ] = None,
    trust: Trust = False,
    allow_packages: AllowPackages = False,
    allow_settings: AllowSettings = False,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """Say what the queries of the pipeline FILE will do; run nothing."""
    console = DiscreetConsole()
    allowed = _allowed(trust, allow_packages, allow_settings)
    opened = pipeline_of(file, console, cores, verbose, allowed, short=True, trust=trust)
    with opened as (spark, pipeline):
        from sfumato.cli.run import define
        from sfumato.spark.model.repository import without_data

        with without_data():
            defined = define(spark, pipeline)
        for name, plan in defined.plans.items():
            console.print(f"[bold]{escape(name)}[/bold]")
            console.print(plan, markup=False, highlight=False, soft_wrap=True)
            console.print()
    if chart is not None:
        _draw(console, defined.steps, chart)


def check(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A pipeline, or a folder of files.")
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of pipeline files, for editors.")
    ] = False,
    trust: Trust = False,
    allow_packages: AllowPackages = False,
    allow_settings: AllowSettings = False,
    cores: Cores = None,
    verbose: Verbose = False,
) -> None:
    """Say what is wrong with the pipeline FILE, or what it will do; no data is read."""
    if schema:
        from sfumato.cli.pipeline.json_schema import json_schema

        typer.echo(json.dumps(json_schema(), indent=2))
        return
    if file is None:
        raise failed("`sfumato check` needs a FILE, or --schema", USAGE)
    console = DiscreetConsole()
    allowed = _allowed(trust, allow_packages, allow_settings)
    opened = pipeline_of(file, console, cores, verbose, allowed, short=True, trust=trust)
    with opened as (spark, pipeline):
        from sfumato.cli.check import checked

        for line in checked(spark, pipeline):
            console.print(line, markup=False, highlight=False, soft_wrap=True)


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
        raise failed(error, USAGE) from None
    console = Console()
    option = " --allow-packages" if place.startswith("kafka:") else ""  # of its connector
    console.print(f"{file} written; look at it, then: sfumato check {file}{option}", soft_wrap=True)


def _allowed(trust: bool, packages: bool, settings: bool) -> Permissions:
    return Permissions(packages=packages or trust, settings=settings or trust)


def _draw(console: Console, steps: Any, folder: Path) -> None:
    from sfumato.cli.charts import draw

    try:
        files = draw(steps, folder)
    except ImportError as error:
        raise failed(error) from None
    for file in files:
        console.print(f"drawn: {file}", markup=False, highlight=False, soft_wrap=True)
    if not files:
        console.print("No query has a TOP: there is no timetable to draw.")
