"""Shared parts of commands: options, start-up of Spark, pipeline files, failures."""

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
def open_pipeline(
    file: Path,
    console: RedactingConsole,
    cores: int | None,
    verbose: bool,
    allowed: Permissions,
    **options: Any,
) -> Iterator[tuple[SparkSession, Pipeline]]:
    """Read a pipeline file and start its session; exit the command with an error on failure."""
    from sfumato.cli.java import NoJavaError
    from sfumato.cli.pipeline.checks import check_before_spark
    from sfumato.cli.pipeline.environment import redact_streams
    from sfumato.cli.pipeline.model import PipelineError
    from sfumato.cli.pipeline.parse import read_pipeline
    from sfumato.cli.pipeline.permissions import check_code, check_settings
    from sfumato.cli.session import command_session

    environment = None
    try:
        pipeline = read_pipeline(file)
        console.environment = environment = pipeline.environment
        check_settings(pipeline.spark, allowed)
        check_before_spark(pipeline, trusted=options.get("trust", False))
        check_code(pipeline, allowed)
        options["page"] = options.get("page", False) and not environment.used
        options |= {"part": pipeline.spark, "environment": environment}
        with (
            redact_streams(environment),
            command_session(console, cores, verbose, **options) as spark,
        ):
            yield spark, pipeline
    except (PipelineError, NoJavaError) as error:
        text = environment.hidden(str(error)) if environment else str(error)
        raise failed(text, USAGE if isinstance(error, PipelineError) else FAILED) from None
    except Exception as error:
        if environment is None or not environment.used or isinstance(error, typer.Exit):
            raise
        sys.stderr.write(environment.hidden("".join(traceback.format_exception(error))))
        raise typer.Exit(FAILED) from None


def failed(error: Exception | str, code: int = FAILED) -> typer.Exit:
    """Print an error; return the exit exception of the failed command."""
    console = Console(stderr=True)
    console.print(f"[red]Error:[/red] {escape(str(error))}", highlight=False, soft_wrap=True)
    return typer.Exit(code)
