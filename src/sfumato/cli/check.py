"""`sfumato check`: check a pipeline with Spark, and describe what it reads, does and writes."""

import tempfile
from collections.abc import Iterator
from contextlib import nullcontext

from pyspark.sql import DataFrame, SparkSession

from sfumato.cli.pipeline.model import CONSOLE, Pipeline, Sink
from sfumato.cli.plan import build_plan
from sfumato.cli.sink_query import try_start
from sfumato.spark.model.repository import without_data
from sfumato.spark.run_to_end import ending


def check_pipeline(spark: SparkSession, pipeline: Pipeline) -> Iterator[str]:
    """Check sources, queries and sinks with Spark, and describe them.

    The queries are planned as `run` plans them, without the data of repositories, and each stream
    is started without its sink and stopped immediately, so that what `run` refuses is refused here.
    Only columns and offsets are read, as far as Spark needs them.
    Raises PipelineError for what Spark or our SQL refuse.
    """
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        ends = ending(spark, last=False) if pipeline.flush else nullcontext()
        with ends, without_data():
            plan = build_plan(spark, pipeline, folder)
        plan.check_sinks()
        for source in pipeline.sources:
            kind = "a table" if source.static else "a stream"
            yield f"source {source.name}, {kind}: {_columns(plan.frames[source.name])}"
            if source.dead_letters is not None:
                letters = plan.frames[source.dead_letters]
                yield f"  its dead letters, {source.dead_letters}: {_columns(letters)}"
        for name, text in plan.explanations.items():
            yield f"query {name}: {_columns(plan.frames[name])}"
            yield "\n".join(f"  {line}" for line in text.splitlines())
        for sink in pipeline.sinks:
            rows = plan.rows_of(sink)
            if rows.isStreaming:
                try_start(sink, rows, folder)
            encoding = "" if sink.value is None else f" as {sink.value}"
            yield f"sink {sink.name}: {_place(sink)} gets {_rows(sink)}{encoding}"
    yield "No problems found."


def _columns(frame: DataFrame) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema)


def _place(sink: Sink) -> str:
    if sink.format == CONSOLE:
        return "the console"
    return " ".join(part for part in (sink.format, sink.table or sink.path) if part)


def _rows(sink: Sink) -> str:
    if sink.late_rows is None:
        return sink.query
    return f"the late rows of {sink.query}" if sink.late_rows else f"{sink.query} without late rows"
