"""The streaming query of one sink: starting, monitoring, retries and stopping."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StreamingQuery

from sfumato.cli.failures import LostFolderError, find_unwritable, first_cause, is_transient
from sfumato.cli.pipeline.model import CONSOLE, PipelineError, Sink
from sfumato.cli.pipeline.parse import WITH_SCHEME
from sfumato.cli.pipeline.permissions import FILE_FORMATS
from sfumato.cli.plan import SPARK_ERRORS, missing_connector
from sfumato.metrics.anomalies import DisorderDetector
from sfumato.metrics.progress import ROWS_OUT, MicroBatch
from sfumato.metrics.session_metrics import QueryMetrics, SessionMetrics

MAX_ATTEMPTS = 5  # maximum number of starts in a row without a finished micro-batch
FIRST_RETRY_SECONDS = 1.0  # seconds before the second attempt; each later wait is twice as long
MAX_START_SECONDS = 30.0  # seconds after which the next query starts in any case


@dataclass
class SinkQuery:
    """The streaming query of a sink, which may not have started yet.

    frames : run one after the other; a second frame flushes the operators of the first
    starter : starts the first frame
    after : queries that must have ended before this query starts
    metrics : receives the reports
    interrupted : whether Ctrl-C stopped it before its end
    required_files : by required folder, a file that must remain there once it has been seen
    rows : the newest rows of a console sink
    """

    sink: Sink
    name: str
    frames: list[DataFrame]
    starter: Callable[[SinkQuery], StreamingQuery]
    after: Sequence[SinkQuery] = ()
    metrics: SessionMetrics = field(default_factory=SessionMetrics)
    query: StreamingQuery | None = None
    rows: list[Any] = field(default_factory=list)
    interrupted: bool = False
    attempts: int = 0
    retry_at: float | None = None  # monotonic seconds
    warned: float = 0.0  # seconds since 1970
    disorder: DisorderDetector = field(default_factory=DisorderDetector)
    checkpoint: str | None = None
    required_files: dict[str, Path] = field(default_factory=dict)
    seen_files: set[Path] = field(default_factory=set)
    lost_folder: LostFolderError | None = None

    @property
    def progress(self) -> QueryMetrics:
        return self.metrics.of(self.name)

    @property
    def columns(self) -> list[str]:
        return self.frames[0].columns

    def start(self) -> None:
        self.attempts, self.retry_at = self.attempts + 1, None
        if self.query is None:
            self.progress.started = time.monotonic()
        else:  # a stopped query may keep its name for a moment
            with suppress(StreamingQueryException):
                self.query.awaitTermination()
        self.query = self.starter(self)
        self.metrics.started(self.name)

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()

    def poll(self) -> list[MicroBatch]:
        """Process the newest reports; return their new micro-batches."""
        if self.query is None:
            return []
        is_active = self.query.isActive  # read first, so that the last reports are not missed
        new = self.metrics.take(self.name, self.query.recentProgress)
        if new:
            self.attempts = 1
        if not is_active and self.retry_at is None and self.progress.ended is None:
            error = self.query.exception()
            self.metrics.ended(self.name, None if error is None else self.cause(error))
            self.progress.ended = time.monotonic()
        return new

    def warnings(self, batches: Sequence[MicroBatch]) -> Iterator[str]:
        """Yield messages about new anomalies. batches : the new micro-batches"""
        with self.metrics.locked():
            self.progress.detect_stalls()
            new = [(at, text) for at, text in self.progress.messages if at > self.warned]
        self.warned = max((at for at, _ in new), default=self.warned)
        yield from (text for _, text in new)
        yield from self.disorder.detect(batches)

    def advance(self) -> None:
        """Start the next attempt or the next frame if it is due."""
        if self.retry_at is not None and time.monotonic() >= self.retry_at:
            self.start()
        elif self.progress.ended is not None and self.error is None and len(self.frames) > 1:
            del self.frames[0]
            self.attempts, self.progress.ended = 0, None
            self.start()

    def retry(self) -> float | None:
        """Schedule another attempt after a transient failure; return the seconds until then."""
        if self.error is None or self.attempts >= MAX_ATTEMPTS or not is_transient(self.error):
            return None
        wait = FIRST_RETRY_SECONDS * 2.0 ** (self.attempts - 1)
        self.retry_at, self.progress.ended = time.monotonic() + wait, None
        return wait

    @property
    def is_over(self) -> bool:
        """Return whether all frames have ended without an error."""
        is_over = self.query is not None and self.progress.ended is not None
        return is_over and len(self.frames) == 1 and self.error is None

    @property
    def allows_next_start(self) -> bool:
        """Return whether the next query may start: this one has run, waits for rows, or is slow."""
        if self.query is None or not self.query.isActive or self.query.lastProgress is not None:
            return True
        if time.monotonic() - self.progress.started > MAX_START_SECONDS:
            return True
        return str(self.query.status["message"]).startswith("Waiting")

    @property
    def error(self) -> BaseException | None:
        """Return the error that ended the query, unless another attempt is scheduled."""
        if self.lost_folder is not None:
            return self.lost_folder
        return None if self.query is None or self.retry_at is not None else self.query.exception()

    def cause(self, error: BaseException) -> str:
        """Describe the cause of an error, including a folder that is not writable."""
        why = first_cause(error)
        folders = {"the checkpoint folder": self.checkpoint, "the sink's folder": self.sink.path}
        folders["the folder for temporary files"] = tempfile.gettempdir()
        found = find_unwritable({what: path for what, path in folders.items() if path})
        return why if found is None else f"{why}: {found}"

    def check_folders(self) -> None:
        """Stop the query if a required folder was deleted; Spark would create it again, empty."""
        for what, mark in self.required_files.items():
            if mark.exists():
                self.seen_files.add(mark)
            elif mark in self.seen_files and self.lost_folder is None and self.query is not None:
                why = (
                    f"{what} {mark.parent} was deleted or emptied while the query ran: restore its "
                    "contents, or start with a new checkpoint and a new sink"
                )
                self.lost_folder = LostFolderError(why)
                self.query.stop()


def start_sink(running: SinkQuery, *, folder: str, once: bool) -> StreamingQuery:
    """Start a sink. folder : the checkpoints' folder, with one subfolder per sink"""
    sink = running.sink
    checkpoint = f"{folder.rstrip('/')}/{sink.name}"
    counted = running.frames[0].observe(ROWS_OUT, F.count(F.lit(1)).alias("rows"))
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
        raise _pipeline_error(error, sink, running.cause(error)) from error
    # Spark writes these files once; it would not write them into a folder that it creates again.
    if not WITH_SCHEME.match(checkpoint):
        running.required_files["the checkpoint folder"] = Path(checkpoint) / "metadata"
    if sink.format.lower() in FILE_FORMATS and sink.path and not WITH_SCHEME.match(sink.path):
        running.required_files["the sink's folder"] = Path(sink.path) / "_spark_metadata"
    return query


def check_start(sink: Sink, rows: DataFrame, folder: str) -> None:
    """Start a sink's stream and stop it immediately: Spark checks it without reading rows."""
    place = f"{folder}/{sink.name}"
    writers: list[Any] = [rows.writeStream.foreachBatch(lambda batch, number: None)]
    if sink.format != CONSOLE and sink.path is not None:
        Path(f"{place}/nothing").mkdir(parents=True)
        nothing = rows.sparkSession.readStream.schema(rows.schema).parquet(f"{place}/nothing")
        files = nothing.writeStream.format(sink.format).options(**sink.options)
        writers.append(files.option("path", f"{place}/files"))
    for number, writer in enumerate(reversed(writers)):  # Spark checks the sink first
        named = writer.outputMode(sink.mode).queryName(sink.name).trigger(availableNow=True)
        try:
            query = named.option("checkpointLocation", f"{place}/checkpoint{number}").start()
        except SPARK_ERRORS as error:
            raise _pipeline_error(error, sink, first_cause(error)) from error
        query.stop()


def _pipeline_error(error: Exception, sink: Sink, cause: str) -> PipelineError:
    what = f"{cause}{_mode_advice(error, sink)}{missing_connector(error)}"
    return PipelineError(f"`sinks.{sink.name}`: {what}")


def _mode_advice(error: Exception, sink: Sink) -> str:
    """Return advice about an output mode that the query does not support."""
    condition = getattr(error, "getCondition", lambda: None)() or ""
    if not condition.startswith("STREAMING_OUTPUT_MODE"):
        return ""
    if sink.mode == "append":
        return (
            ". The answers of Spark's GROUP BY are never complete: give its table a window in "
            f'brackets, or write mode = "update" or mode = "complete" in `sinks.{sink.name}`'
        )
    return f'. Remove `mode` from `sinks.{sink.name}`: such rows are written in mode "append"'


def _keep_newest(batch: DataFrame, count: int, newest: list[Any]) -> None:
    """Keep a micro-batch's last rows; unlike `tail`, this processes every partition."""

    def last(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        kept: list[pa.RecordBatch] = []
        for arrived in batches:
            kept = [b for b in [*kept, arrived][-count:] if b.num_rows]
        for piece in kept:
            yield piece.slice(max(0, piece.num_rows - count))

    rows = batch.mapInArrow(last, batch.schema).collect()
    newest[:] = [*newest, *rows][-count:]
