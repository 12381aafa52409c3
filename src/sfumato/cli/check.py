"""`sfumato check`: what a pipeline reads, does and writes, once Spark has resolved all of it."""

import tempfile
from collections.abc import Iterator
from contextlib import nullcontext

from pyspark.sql import DataFrame, SparkSession

from sfumato.cli.pipeline.model import CONSOLE, Pipeline, Sink
from sfumato.cli.run import define, refuse_static_sinks, try_start, written
from sfumato.cli.shared_run import SharedRuns
from sfumato.spark.model.repository import without_data
from sfumato.spark.run_to_end import ending


def checked(spark: SparkSession, pipeline: Pipeline) -> Iterator[str]:
    """Describe sources, queries and sinks, once Spark has checked all of it.

    The queries are planned as `run` plans them, without the data of repositories, and each stream
    is started without its sink and stopped at once, so that what `run` refuses is refused here.
    No data is read but what Spark needs for columns and offsets.
    Raises PipelineError for what Spark or our SQL refuse.
    """
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        yield from _checked(spark, pipeline, folder)


def _checked(spark: SparkSession, pipeline: Pipeline, folder: str) -> Iterator[str]:
    shared = SharedRuns(spark, folder)
    ends = ending(spark, last=False) if pipeline.flush else nullcontext()
    with ends, without_data():
        defined = define(spark, pipeline, shared)
    refuse_static_sinks(pipeline, defined.frames)
    for source in pipeline.sources:
        kind = "a table" if source.static else "a stream"
        yield f"source {source.name}, {kind}: {_columns(defined.frames[source.name])}"
        if source.dead_letters is not None:
            letters = defined.frames[source.dead_letters]
            yield f"  its dead letters, {source.dead_letters}: {_columns(letters)}"
    for name, plan in defined.plans.items():
        yield f"query {name}: {_columns(defined.frames[name])}"
        yield "\n".join(f"  {line}" for line in plan.splitlines())
    for sink in pipeline.sinks:
        rows = written(defined, sink)  # raises what its encoding has wrong
        if rows.isStreaming:
            try_start(sink, rows, folder)
        how = "" if sink.value is None else f" as {sink.value}"
        yield f"sink {sink.name}: {_where(sink)} gets {_rows(sink)}{how}"
    yield "No problems found."


def _columns(frame: DataFrame) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema)


def _where(sink: Sink) -> str:
    if sink.format == CONSOLE:
        return "the console"
    place = sink.table or sink.path
    return " ".join(part for part in (sink.format, place) if part)


def _rows(sink: Sink) -> str:
    if sink.late is None:
        return sink.query
    return f"the late rows of {sink.query}" if sink.late else f"{sink.query} but for late rows"
