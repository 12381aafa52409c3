"""Pipelines run in tests: JSON files for their sources, and what a run says."""

import io
import json

from rich.console import Console

from sfumato.cli.pipeline.parse import parse_pipeline
from sfumato.cli.run import run


def put(folder, name, rows):
    """A file of JSON lines, a dict each."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(json.dumps(row) for row in rows))


def ran(spark, folder, text, *, once=True, width=120):
    """Exit code and output of a pipeline whose file lies in `folder`."""
    console = Console(file=io.StringIO(), width=width)
    code = run(spark, parse_pipeline(text, folder / "p.toml"), console, once=once)
    return code, console.file.getvalue()
