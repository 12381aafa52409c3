"""Describe a pipeline for `sfumato check`, and draw charts for `sfumato explain`."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from sfumato.charts import save, timetable_chart
from sfumato.cli.pipeline.model import CONSOLE, Pipeline, Sink
from sfumato.cli.plan import build_plan
from sfumato.cli.sink_query import check_start
from sfumato.language.steps import Step, explain_step
from sfumato.spark.model.estimates import timetables
from sfumato.spark.model.repository import without_data
from sfumato.spark.run_to_end import ending

AXIS_UNITS = (("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000))


def check_pipeline(spark: SparkSession, pipeline: Pipeline) -> Iterator[str]:
    """Check sources, queries and sinks with Spark, and yield their descriptions."""
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
                yield f"  dead letters {source.dead_letters}: {_columns(letters)}"
        for name, text in plan.explanations.items():
            yield f"query {name}: {_columns(plan.frames[name])}"
            yield "\n".join(f"  {line}" for line in text.splitlines())
        for sink in pipeline.sinks:
            rows = plan.rows_of(sink)
            if rows.isStreaming:
                check_start(sink, rows, folder)
            encoding = "" if sink.value is None else f" as {sink.value}"
            what = "the final answers of " if plan.keeps_finals(sink) else ""
            what += _describe_rows(sink)
            yield f"sink {sink.name}: {_describe_place(sink)} gets {what}{encoding}"
    yield "No problems found."


def _columns(frame: DataFrame) -> str:
    return ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema)


def _describe_place(sink: Sink) -> str:
    if sink.format == CONSOLE:
        return "the console"
    return " ".join(part for part in (sink.format, sink.table or sink.path) if part)


def _describe_rows(sink: Sink) -> str:
    if sink.late_rows is None:
        return sink.query
    return f"the late rows of {sink.query}" if sink.late_rows else f"{sink.query} without late rows"


def draw_timetables(steps: Mapping[str, Step], folder: Path) -> list[Path]:
    """Draw the timetables of TOP queries: one chart per group of queries answered together."""
    drawn: dict[Any, str] = {}
    for name, step in steps.items():
        for ranked in step.walk():
            if "timetable" in ranked.facts:
                below = "".join(map(explain_step, ranked.inputs.values()))
                key = (*ranked.facts["timetable"], ranked.facts["ranked by"], below)
                drawn.setdefault(key, name)
    files = []
    for (queries, plan, *_), name in drawn.items():
        shared, _ = timetables(queries, plan)
        shortest = min(every for *_, every in queries)
        units = (unit for unit in AXIS_UNITS if unit[1] <= shortest)
        unit, size = next(units, ("microsecond", 1))
        names, against = [each for each, *_ in queries], ("none", "in", "inco")
        chart = timetable_chart(shared, names, unit=unit, size=size, against=against)
        folder.mkdir(parents=True, exist_ok=True)
        files += [save(chart, folder / f"{name}{ending}") for ending in (".html", ".png")]
    return files
