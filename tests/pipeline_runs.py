"""Pipelines run in tests: JSON files as their sources, and their output."""

import io
import json

import pyarrow.dataset as ds

from sfumato.cli.pipeline.environment import RedactingConsole
from sfumato.cli.pipeline.parse import parse_pipeline
from sfumato.cli.run import run


def put(folder, name, rows):
    """Write a file of JSON lines, one per dict."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("\n".join(json.dumps(row) for row in rows))


def written(folder):
    """Return the rows of a sink of Parquet files, as an Arrow table."""
    return ds.dataset([str(file) for file in folder.glob("*.parquet")]).to_table()


def ran(spark, folder, text, *, once=True, width=120):
    """Return exit code and output of a pipeline whose file is in `folder`."""
    console = RedactingConsole(file=io.StringIO(), width=width)
    code = run(spark, parse_pipeline(text, folder / "p.toml"), console, once=once)
    return code, console.file.getvalue()
