"""Parts shared by commands: options, starting Spark, opening a pipeline file, failing."""

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

    from sfumato.cli.pipeline.environment import RedactingConsole
    from sfumato.cli.pipeline.model import Pipeline
    from sfumato.cli.pipeline.permissions import Permissions

FAILED, USAGE = 1, 2

Cores = Annotated[
    int | None, typer.Option(min=1, help="Number of processor cores for Spark; default: all.")
]
Verbose = Annotated[bool, typer.Option("--verbose", help="Show Spark's own error messages too.")]


@contextmanager
def session_for(
    console: Console, cores: int | None, verbose: bool, **options: Any
) -> Iterator[SparkSession]:
    """Start a session that ends with the command; without a Java runtime the command fails."""
    from sfumato.cli.java import NoJavaError
    from sfumato.cli.session import command_session

    try:
        with command_session(console, cores, verbose, **options) as spark:
            yield spark
    except NoJavaError as error:
        raise failed(error) from None


@contextmanager
def open_pipeline(
    file: Path,
    console: RedactingConsole,
    cores: int | None,
    verbose: bool,
    allowed: Permissions,
    **options: Any,
) -> Iterator[tuple[SparkSession, Pipeline]]:
    """Read a pipeline file and start a session for it; the command fails for a file with a problem.

    allowed : what the command line allows the file
    """
    from sfumato.cli.pipeline.checks import check_before_spark
    from sfumato.cli.pipeline.environment import redact_streams
    from sfumato.cli.pipeline.model import PipelineError
    from sfumato.cli.pipeline.parse import read_pipeline
    from sfumato.cli.pipeline.permissions import check_code, check_settings

    environment = None
    try:
        pipeline = read_pipeline(file)
        console.environment = environment = pipeline.environment
        check_settings(pipeline.spark, allowed)
        check_before_spark(pipeline, trusted=options.get("trust", False))
        check_code(pipeline, allowed)
        options["page"] = options.get("page", False) and not environment.used
        options |= {"part": pipeline.spark, "environment": environment}
        started = session_for(console, cores, verbose, **options)
        with redact_streams(environment), started as spark:
            yield spark, pipeline
    except PipelineError as error:
        text = str(error)
        raise failed(environment.hidden(text) if environment else text, USAGE) from None
    except Exception as error:
        if environment is None or not environment.used or isinstance(error, typer.Exit):
            raise
        trace = "".join(traceback.format_exception(error))
        sys.stderr.write(environment.hidden(trace))
        raise typer.Exit(FAILED) from None


def failed(error: Exception | str, code: int = FAILED) -> typer.Exit:
    """Print an error; return the exit of a command that failed."""
    console = Console(stderr=True)
    console.print(f"[red]Error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
    return typer.Exit(code)
