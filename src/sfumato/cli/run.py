"""Run a pipeline: name its sources and queries, start its sinks, follow them to the end."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape

import sfumato as sf
from sfumato.cli.failures import first_cause
from sfumato.cli.pipeline import CONSOLE, WITH_SCHEME, Pipeline, PipelineError, Sink, Source
from sfumato.cli.progress import ROWS_OUT, QueryProgress
from sfumato.cli.tables import how_many, progress_table, rows_table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

LOOK_EVERY = 0.25  # seconds between two looks at the queries


@dataclass
class Running:
    """A sink at work. `rows`: the newest rows of a console sink."""

    name: str
    query: StreamingQuery
    progress: QueryProgress = field(default_factory=QueryProgress)
    columns: list[str] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    resumed: bool = False

    def look(self) -> bool:
        """Take in the newest reports; False when the query has ended."""
        active = self.query.isActive  # asked first, so that the last reports are not missed
        self.progress.take(self.query.recentProgress)
        if not active and self.progress.ended is None:
            self.progress.ended = time.monotonic()
        return active

    @property
    def failure(self) -> str | None:
        error = self.query.exception()
        return None if error is None else first_cause(error)


def run(spark: SparkSession, pipeline: Pipeline, console: Console, *, once: bool = False) -> int:
    """Run a pipeline until its sinks end, one fails, or the user interrupts; the exit code.

    once : process what the sources have now, and end
    Raises PipelineError, before anything has started, for what Spark or our SQL refuse.
    """
    frames = dict(define(spark, pipeline))
    static = [sink for sink in pipeline.sinks if not frames[sink.query].isStreaming]
    for sink in static:
        if sink.format != CONSOLE:
            raise PipelineError(
                f"`sinks.{sink.name}` gets the rows of {sink.query}, which reads static sources "
                "only: let one of them be a stream, or show the rows on the console"
            )
    with ExitStack() as stack:
        folder = pipeline.checkpoint
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sfumato-"))
            if len(static) < len(pipeline.sinks):
                console.print("No checkpoint folder: the next run begins anew.", style="dim")
        for sink in static:
            _show(console, sink, frames[sink.query])
        running: list[Running] = []
        try:
            for sink in pipeline.sinks:
                if sink not in static:
                    running.append(start(frames[sink.query], sink, folder, once=once))
            return follow(running, console)
        finally:
            for sink_at_work in running:
                sink_at_work.query.stop()


def define(spark: SparkSession, pipeline: Pipeline) -> Iterator[tuple[str, DataFrame]]:
    """Make each source and query a temporary view, in the order of the file."""
    for source in pipeline.sources:
        frame = _built(f"sources.{source.name}", lambda s=source: read(spark, s))
        frame.createOrReplaceTempView(source.name)
        yield source.name, frame
    for query in pipeline.queries:
        frame = _built(f"queries.{query.name}.sql", lambda q=query: sf.sql(spark, q.sql))
        if isinstance(frame, list):
            raise PipelineError(
                f"`queries.{query.name}.sql` must be one statement; got {len(frame)}: give each "
                "a [queries.NAME] of its own"
            )
        frame.createOrReplaceTempView(query.name)
        yield query.name, frame


def read(spark: SparkSession, source: Source) -> DataFrame:
    """The frame of a source."""
    if source.format == "replay":
        spark.dataSource.register(sf.ReplaySource)
    reader: Any = spark.read if source.static else spark.readStream
    reader = reader.format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    return reader.load(source.path) if source.path is not None else reader.load()


def _built(place: str, make: Any) -> Any:
    """What `make` gives; its errors are told with their place in the file."""
    try:
        frame = make()
        for part in frame if isinstance(frame, list) else [frame]:
            _ = part.schema  # analysed now, so that the error names its place
    except (ValueError, TypeError) as error:
        raise PipelineError(f"`{place}`: {error}") from error
    except spark_errors() as error:
        raise PipelineError(f"`{place}`: {first_cause(error)}") from error
    return frame


def spark_errors() -> tuple[type[Exception], ...]:
    """What Spark raises: its own errors, and Java's that PySpark has no name for."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError


def start(frame: DataFrame, sink: Sink, folder: str, *, once: bool) -> Running:
    """Start one sink; its checkpoint is the subfolder of its name."""
    from pyspark.sql import functions as F  # noqa: N812

    checkpoint = f"{folder.rstrip('/')}/{sink.name}"
    counted = frame.observe(ROWS_OUT, F.count(F.lit(1)).alias("rows"))
    writer: Any = counted.writeStream.queryName(sink.name).outputMode(sink.mode)
    writer = writer.option("checkpointLocation", checkpoint).options(**sink.options)
    newest: list[Any] = []
    if sink.format == CONSOLE:
        writer = writer.foreachBatch(lambda batch, _: _keep_newest(batch, sink.rows, newest))
    else:
        writer = writer.format(sink.format)
    if once:
        writer = writer.trigger(availableNow=True)
    elif sink.trigger is not None:
        writer = writer.trigger(processingTime=sink.trigger)
    resumed = not WITH_SCHEME.match(checkpoint) and (Path(checkpoint) / "commits").is_dir()
    try:
        query = writer.start(sink.path) if sink.path is not None else writer.start()
    except spark_errors() as error:
        told = f"`sinks.{sink.name}`: {first_cause(error)}{_way_out(error, sink)}"
        raise PipelineError(told) from error
    return Running(sink.name, query, columns=frame.columns, rows=newest, resumed=resumed)


def _way_out(error: Exception, sink: Sink) -> str:
    """What to do about an output mode that the query cannot have."""
    condition = getattr(error, "getCondition", lambda: None)() or ""
    if not condition.startswith("STREAMING_OUTPUT_MODE"):
        return ""
    if sink.mode == "append":
        return (
            ". A GROUP BY of Spark's is never complete: let its table have a window in brackets, "
            f'or set `mode = "update"` or "complete" of `sinks.{sink.name}`'
        )
    return f'. Leave out `mode` of `sinks.{sink.name}`: such answers come in mode "append"'


def _keep_newest(batch: DataFrame, count: int, newest: list[Any]) -> None:
    """Keep the last rows of a micro-batch, in one pass over all of its partitions.

    Not `limit` or `tail`: they leave partitions out, whose state would not be committed.
    """

    def last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept: list[pa.RecordBatch] = []
        for arrived in batches:
            kept = [b for b in [*kept, arrived][-count:] if b.num_rows]
        for piece in kept:
            yield piece.slice(max(0, piece.num_rows - count))

    rows = batch.mapInArrow(last, batch.schema).collect()
    newest[:] = [*newest, *rows][-count:]


def _show(console: Console, sink: Sink, frame: DataFrame) -> None:
    """The rows of a static frame."""
    try:
        rows = frame.limit(sink.rows).collect()
    except spark_errors() as error:
        raise PipelineError(f"`sinks.{sink.name}`: {first_cause(error)}") from error
    console.print(
        rows_table(f"{sink.name}: the first {how_many(len(rows), 'row')}", frame.columns, rows)
    )


def follow(running: list[Running], console: Console) -> int:
    """Show the progress of started sinks until they end; 1 if one failed, else 0.

    The first failure stops the others. An interrupt stops all, and is no failure.
    """
    failed = None
    try:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            while failed is None and _look(running):
                failed = next((s for s in running if s.failure is not None), None)
                live.update(_view(running))
                time.sleep(LOOK_EVERY)
            failed = failed or next((s for s in running if s.failure is not None), None)
    except KeyboardInterrupt:
        console.print("Stopping: the next run goes on from the last finished micro-batch.")
    for sink in running:
        sink.query.stop()
        sink.look()
    console.print(_view(running))
    _report(running, console)
    if failed is None:
        return 0
    console.print(f"[red]Failed:[/red] sink {escape(failed.name)}: {escape(failed.failure or '')}")
    return 1


def _look(running: list[Running]) -> bool:
    """Look at every sink; whether one is still at work."""
    active = [sink.look() for sink in running]
    return any(active)


def _view(running: list[Running]) -> Group:
    tables = []
    for sink in running:
        rows = list(sink.rows)
        if rows:
            title = f"{sink.name}: the newest {how_many(len(rows), 'row')}"
            tables.append(rows_table(title, sink.columns, rows))
    return Group(*tables, progress_table({sink.name: sink.progress for sink in running}))


def _report(running: list[Running], console: Console) -> None:
    """Say what has not come out, so that nothing is lost silently."""
    for sink in running:
        name, held, late = escape(sink.name), sink.progress.held, sink.progress.total("late")
        if late:
            console.print(f"{name}: {how_many(late, 'row')} came too late for a place in order.")
        if held and sink.resumed:
            change = "more held back" if held > 0 else "fewer held back"
            console.print(f"{name}: {how_many(abs(held), 'row')} {change} than at the start.")
        elif held:
            console.print(f"{name}: {how_many(held, 'row')} held back, until later rows come.")


def explanations(spark: SparkSession, pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """What each query of a pipeline will do, in words; nothing is started."""
    for _ in define(spark, pipeline):
        pass
    for query in pipeline.queries:
        yield query.name, sf.explain(spark, query.sql)
