"""What several commands take or do: options, a Spark session, a pipeline file, a failure."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sfumato.cli.pipeline.environment import DiscreetConsole
    from sfumato.cli.pipeline.model import Pipeline
    from sfumato.cli.pipeline.permissions import Permissions

FAILED, USAGE = 1, 2

Cores = Annotated[
    int | None, typer.Option(min=1, help="Processor cores for Spark; default: all there are.")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show Spark's own error messages too.")]


@contextmanager
def session_for(
    console: Console, cores: int | None, verbose: bool, **options: Any
) -> Iterator[SparkSession]:
    """A session that ends with the command; without a Java runtime the command fails."""
    from sfumato.cli.java import NoJavaError
    from sfumato.cli.session import command_session

    try:
        with command_session(console, cores, verbose, **options) as spark:
            yield spark
    except NoJavaError as error:
        raise failed(error) from None


@contextmanager
def pipeline_of(
    file: Path,
    console: DiscreetConsole,
    cores: int | None,
    verbose: bool,
    allowed: Permissions,
    **options: bool,
) -> Iterator[tuple[SparkSession, Pipeline]]:
    """Start a session for the pipeline of a file; the command fails for a file that is wrong.

    allowed : what the command line lets the file do
    """
    from sfumato.cli.pipeline.checks import check_before_spark
    from sfumato.cli.pipeline.environment import discreet_streams
    from sfumato.cli.pipeline.parse import read_pipeline
    from sfumato.cli.pipeline.permissions import check_code, check_settings
    from sfumato.cli.pipeline.section import PipelineError

    environment = None
    try:
        pipeline = read_pipeline(file)
        console.environment = environment = pipeline.environment
        check_settings(pipeline.spark, allowed)
        check_before_spark(pipeline, trusted=options.get("trust", False))
        check_code(pipeline, allowed)
        options["page"] = options.get("page", False) and not environment.used
        started = session_for(
            console, cores, verbose, part=pipeline.spark, environment=environment, **options
        )
        with discreet_streams(environment), started as spark:
            yield spark, pipeline
    except PipelineError as error:
        said = str(error)
        raise failed(environment.hidden(said) if environment else said, USAGE) from None
    except Exception as error:
        if environment is None or not environment.used or isinstance(error, typer.Exit):
            raise
        trace = "".join(traceback.format_exception(error))
        sys.stderr.write(environment.hidden(trace))
        raise typer.Exit(FAILED) from None


def failed(error: Exception | str, code: int = FAILED) -> typer.Exit:
    """Say what is wrong; the exit of a command that failed."""
    console = Console(stderr=True)
    console.print(f"[red]Error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
    return typer.Exit(code)
