"""Run a pipeline: name its sources and queries, and start its sinks."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery
from rich.console import Console

from sfumato.cli.failures import first_cause
from sfumato.cli.follow import Running, follow
from sfumato.cli.log import Log
from sfumato.cli.pipeline.connectors import OF_FILES, advice
from sfumato.cli.pipeline.frames import encoded, read
from sfumato.cli.pipeline.model import CONSOLE, Pipeline, Sink, Source
from sfumato.cli.pipeline.section import WITH_SCHEME, PipelineError
from sfumato.cli.shared_run import SharedRuns, quickest
from sfumato.cli.shown import Shown
from sfumato.cli.tables import rows_table
from sfumato.language.planner import NamedQueries
from sfumato.language.steps import Step, explained, table_step
from sfumato.language.tables import Frame
from sfumato.metrics.anomalies import row_count
from sfumato.metrics.progress import ROWS_OUT
from sfumato.spark.run_to_end import ending


def run(
    spark: SparkSession,
    pipeline: Pipeline,
    console: Console,
    *,
    once: bool = False,
    log: Log | None = None,
    shown: Shown | None = None,
) -> int:
    """Run a pipeline until its sinks end, one fails, or the user interrupts; the exit code.

    once : process what the sources have now, and end; if the file says so (`flush`), with all that
        the operators hold
    log : None: a table, refreshed on a terminal, else a line a micro-batch
    shown : takes the figures of the queries, by sink, for others to see
    Raises PipelineError, before anything has started, for what Spark or our SQL refuse.
    """
    if log is None and not console.is_terminal:
        log = Log(console)
    with ExitStack() as stack:
        folder = pipeline.checkpoint
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sfumato-"))
        shared = SharedRuns(spark, folder, kept=pipeline.checkpoint is not None)
        with ending(spark, last=False) if pipeline.flush else nullcontext():
            defined = define(spark, pipeline, shared)
        frames = defined.frames
        streams = [sink for sink in pipeline.sinks if frames[sink.query].isStreaming]
        refuse_static_sinks(pipeline, frames)
        shared.check(streams, defined.read_by)
        if streams and pipeline.checkpoint is None and not (log and log.machines):
            console.print("No checkpoint folder: the next run begins anew.", style="dim")
        for sink in pipeline.sinks:
            if sink not in streams:
                _show(console, sink, defined.rows_of(sink), log)
        before = [
            Running(replace(shared_run.sink, trigger=quickest(streams)), shared_run.title, frame)
            for shared_run in shared.runs
            for frame in [shared_run.frame]
        ]
        after = [Running(sink, sink.name, written(defined, sink)) for sink in streams]
        for sink_at_work in (*before, *after):
            sink_at_work.figures = None if shown is None else shown.figures
            sink_at_work.starter = partial(start, folder=folder, once=once)
        if shown is not None:
            shown.tell(pipeline, defined.plans, after)
        if once and pipeline.flush:
            last = SharedRuns(spark, folder, kept=shared.kept)
            with ending(spark, last=True):
                ended = define(spark, pipeline, last)
            for sink_at_work, shared_run in zip(before, last.runs, strict=True):
                sink_at_work.then = shared_run.frame
            for sink_at_work in after:
                sink_at_work.then = written(ended, sink_at_work.sink)
        # Once: the sinks process what the shared runs have written.
        phases = [before, after] if once and before else [[*before, *after]]
        try:
            return follow(phases, console, log)
        finally:
            for sink_at_work in (*before, *after):
                sink_at_work.stop()


def refuse_static_sinks(pipeline: Pipeline, frames: Mapping[str, DataFrame]) -> None:
    """Raise PipelineError for a sink whose rows are no stream's, and which is no console."""
    for sink in pipeline.sinks:
        if not frames[sink.query].isStreaming and sink.format != CONSOLE:
            why = f"gets the rows of {sink.query}, which reads static sources only: let one "
            why += "of them be a stream, or show the rows on the console"
            raise PipelineError.at(f"sinks.{sink.name}", why)


def written(defined: Defined, sink: Sink) -> DataFrame:
    """The rows of a sink as it writes them. Raises PipelineError for a key that is no column."""
    try:
        return encoded(defined.rows_of(sink), sink)
    except ValueError as error:
        raise PipelineError(f"`sinks.{sink.name}`: {error}") from None


LATE = "late"  # the column by which a controller marks rows that came too late
NOT_FOUND = re.compile(r"Failed to find the data source: ([\w.]+)")
SPARK_ERRORS = (PySparkException, Py4JError)
"""What Spark raises: its own errors, and Java's that PySpark has no name for."""


@dataclass
class Defined:
    """The frames of a pipeline's sources and queries, and what its queries do, also in words.

    parted : by query, the rows that several sinks share, late ones and others
    read_by : the names of the queries that are read for one of them
    """

    frames: dict[str, DataFrame]
    plans: dict[str, str]
    steps: dict[str, Step]
    read_by: Callable[[str], set[str]]
    parted: dict[str, DataFrame] = field(default_factory=dict)

    def rows_of(self, sink: Sink) -> DataFrame:
        """The rows that a sink gets."""
        if sink.late is None:
            return self.frames[sink.query]
        late = F.coalesce(F.col(LATE), F.lit(False))
        return self.parted[sink.query].where(late if sink.late else ~late)


def define(spark: SparkSession, pipeline: Pipeline, shared: SharedRuns | None = None) -> Defined:
    """Make each source and query a temporary view, in the order of the file.

    shared : takes down the TOP queries that are answered by one run; None: they are not
    """
    queries = NamedQueries(
        spark,
        {query.name: query.sql for query in pipeline.queries},
        [sink.query for sink in pipeline.sinks],
        None if shared is None else shared.share,
    )
    defined = Defined({}, {}, {}, queries.read_by)
    for source in pipeline.sources:
        names = [name for name in (source.name, source.dead_letters) if name is not None]
        made = _built(f"sources.{source.name}", partial(_source, spark, source))
        for name, table in zip(names, made, strict=True):
            table.df.createOrReplaceTempView(name)
            defined.frames[name] = table.df
    for query in pipeline.queries:
        planned = _built(f"queries.{query.name}.sql", partial(queries.frames, query.name))
        if len(planned) != 1:
            why = f"must be one statement; got {len(planned)}: give each a [queries.NAME] of its "
            raise PipelineError.at(f"queries.{query.name}.sql", why + "own")
        frame = planned[0].df
        frame.createOrReplaceTempView(query.name)
        defined.frames[query.name] = frame
        defined.steps[query.name] = planned[0].step
        defined.plans[query.name] = _described(query.name, planned[0], queries)
    for sink in pipeline.sinks:
        if sink.late is not None and sink.query not in defined.parted:
            frame = defined.frames[sink.query]
            if dict(frame.dtypes).get(LATE) != "boolean":
                why = f": {sink.query} has no column `{LATE}` of booleans, which a controller "
                why += "gives: SELECT it too, of a table with WATTR in brackets"
                raise PipelineError.at(f"sinks.{sink.name}.late", why)
            rows = frame if shared is None else shared.share_rows(sink.query, frame)
            defined.parted[sink.query] = rows
    return defined


def _described(name: str, frame: Frame, queries: NamedQueries) -> str:
    others = [other for other in queries.with_(name) if other != name]
    plan = explained(frame.step)
    return f"{plan}\nanswered in one run with {', '.join(others)}" if others else plan


def _source(spark: SparkSession, source: Source) -> list[Frame]:
    """A source, and its dead letters if they have a name, as tables of the language."""
    frames = read(spark, source)
    tables = [(source.name, frames.rows), (source.dead_letters, frames.dead_letters)]
    return [
        Frame(frame, table_step(name, not source.static))
        for name, frame in tables
        if name is not None and frame is not None
    ]


def _built(place: str, make: Callable[[], list[Frame]]) -> list[Frame]:
    """The frames that `make` gives; its errors come with their place in the file."""
    try:
        frames = make()
        for frame in frames:
            _ = frame.df.schema  # analysed now, so that the error names its place
    except (ValueError, TypeError) as error:
        raise PipelineError(f"`{place}`: {error}") from error
    except SPARK_ERRORS as error:
        raise PipelineError(f"`{place}`: {first_cause(error)}{_connector(error)}") from error
    return frames


def _connector(error: Exception) -> str:
    """The line that adds the connector that Spark misses; empty if it misses none."""
    found = NOT_FOUND.search(str(error))
    return "" if found is None else f". The file {advice(found[1])}"


def start(running: Running, *, folder: str, once: bool) -> StreamingQuery:
    """Start one sink; its checkpoint is the subfolder of its name."""
    sink = running.sink
    checkpoint = f"{folder.rstrip('/')}/{sink.name}"
    counted = running.frame.observe(ROWS_OUT, F.count(F.lit(1)).alias("rows"))
    writer: Any = counted.writeStream.queryName(sink.name).outputMode(sink.mode)
    writer = writer.options(**sink.options).option("checkpointLocation", checkpoint)
    if sink.format == CONSOLE:
        newest = running.rows
        writer = writer.foreachBatch(lambda batch, _: _keep_newest(batch, sink.rows, newest))
    elif sink.format:
        writer = writer.format(sink.format)
    if once:
        writer = writer.trigger(availableNow=True)
    elif sink.trigger is not None:
        writer = writer.trigger(processingTime=sink.trigger)
    running.checkpoint = checkpoint
    try:
        query: StreamingQuery
        if sink.table is not None:
            query = writer.toTable(sink.table)
        else:
            query = writer.start(sink.path) if sink.path else writer.start()
    except SPARK_ERRORS as error:
        raise _refused(error, sink, running.cause(error)) from error
    # What Spark writes once, and would not write again into a folder that it makes anew.
    if not WITH_SCHEME.match(checkpoint):
        running.marks["the checkpoint folder"] = Path(checkpoint) / "metadata"
    if sink.format.lower() in OF_FILES and sink.path and not WITH_SCHEME.match(sink.path):
        running.marks["the sink's folder"] = Path(sink.path) / "_spark_metadata"
    return query


def try_start(sink: Sink, rows: DataFrame, folder: str) -> None:
    """Start a sink's stream and stop it at once, so that Spark checks it; no row is read.

    Its micro-batches are left alone. Files are written, of nothing, to `folder`, which also has the
    checkpoints.
    Raises PipelineError for what Spark refuses: a format, an output mode, an operation on streams.
    """
    place = f"{folder}/{sink.name}"
    writers: list[Any] = [rows.writeStream.foreachBatch(lambda batch, number: None)]
    if sink.format != CONSOLE and sink.path is not None:
        Path(f"{place}/nothing").mkdir(parents=True)
        nothing = rows.sparkSession.readStream.schema(rows.schema).parquet(f"{place}/nothing")
        files = nothing.writeStream.format(sink.format).options(**sink.options)
        writers.append(files.option("path", f"{place}/files"))
    for number, writer in enumerate(reversed(writers)):  # Spark looks at the sink first
        named = writer.outputMode(sink.mode).queryName(sink.name).trigger(availableNow=True)
        try:
            query = named.option("checkpointLocation", f"{place}/checkpoint{number}").start()
        except SPARK_ERRORS as error:
            raise _refused(error, sink) from error
        query.stop()


def _refused(error: Exception, sink: Sink, cause: str | None = None) -> PipelineError:
    """Build the error about a sink that Spark does not start."""
    what = cause or first_cause(error)
    return PipelineError(f"`sinks.{sink.name}`: {what}{_way_out(error, sink)}{_connector(error)}")


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


def _show(console: Console, sink: Sink, frame: DataFrame, log: Log | None) -> None:
    """The rows of a static frame."""
    try:
        rows = frame.limit(sink.rows).collect()
    except SPARK_ERRORS as error:
        raise PipelineError(f"`sinks.{sink.name}`: {first_cause(error)}") from error
    if log is not None and log.machines:
        for row in rows:
            log.row(sink.name, frame.columns, row)
        return
    console.print(rows_table(f"{sink.name}: the first {row_count(len(rows))}", frame.columns, rows))
