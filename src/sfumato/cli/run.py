"""Run a pipeline: start the streaming queries of its plan, and follow them to their end."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from functools import partial
from itertools import chain

from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

from sfumato.cli.failures import first_cause
from sfumato.cli.output import Log
from sfumato.cli.pipeline.model import Pipeline, PipelineError, Sink
from sfumato.cli.plan import SPARK_ERRORS, build_plan, shortest_trigger
from sfumato.cli.run_view import RunView
from sfumato.cli.sink_query import ATTEMPTS, SinkQuery, start_sink
from sfumato.metrics.anomalies import row_count
from sfumato.spark.run_to_end import ending

LOOK_EVERY = 0.25  # seconds between two looks at the queries


def run(
    spark: SparkSession,
    pipeline: Pipeline,
    console: Console,
    *,
    once: bool = False,
    log: Log | None = None,
    view: RunView | None = None,
) -> int:
    """Run a pipeline until its sinks end, one fails, or the user interrupts; return the exit code.

    once : process what the sources have now, and end; with `flush` in the file, emit at the end all
        rows that the operators hold
    log : None: a table, refreshed on a terminal, else one line per micro-batch
    view : receives the metrics of the queries, by sink, for others to see
    Raises PipelineError, before anything has started, for what Spark or our SQL refuse.
    """
    log = log or Log(console, is_live=console.is_terminal)
    with ExitStack() as stack:
        folder = pipeline.checkpoint
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="sfumato-"))
        queries = _queries(spark, pipeline, folder, once, log, view)
        return follow(queries, log)


def _queries(
    spark: SparkSession,
    pipeline: Pipeline,
    folder: str,
    once: bool,
    log: Log,
    view: RunView | None,
) -> list[SinkQuery]:
    """Plan the queries of a run; show the rows of static sinks.

    A run that flushes has each query twice: when the first is over, the second ends its operators.
    """
    plans = []
    for last in (False, True) if once and pipeline.flush else (False,):
        with ending(spark, last=last) if pipeline.flush else nullcontext():
            plans.append(build_plan(spark, pipeline, folder, pipeline.checkpoint is not None))
            plans[-1].check_sinks()
    plan = plans[0]
    if plan.streams and pipeline.checkpoint is None:
        log.say("No checkpoint folder: the next run starts from the beginning.", style="dim")
    for sink in pipeline.sinks:
        if sink not in plan.streams:
            _show(log, sink, plan.rows_of(sink))
    figures = None if view is None else view.figures
    add = partial(SinkQuery, starter=partial(start_sink, folder=folder, once=once), figures=figures)
    trigger = shortest_trigger(plan.streams)
    shared = [
        add(replace(each.sink, trigger=trigger), each.title, [of.shared[i].frame for of in plans])
        for i, each in enumerate(plan.shared)
    ]
    # With `once` the sinks process all that the shared queries have written.
    after = shared if once else []
    sinks = [
        add(sink, sink.name, [of.rows_of(sink) for of in plans], after=after)
        for sink in plan.streams
    ]
    if view is not None:
        view.describe(plan, sinks)
    return [*shared, *sinks]


def _show(log: Log, sink: Sink, frame: DataFrame) -> None:
    """Show the rows of a static frame."""
    try:
        rows = frame.limit(sink.rows).collect()
    except SPARK_ERRORS as error:
        raise PipelineError(f"`sinks.{sink.name}`: {first_cause(error)}") from error
    log.table(sink.name, f"the first {row_count(len(rows))}", frame.columns, rows)


def follow(queries: Sequence[SinkQuery], log: Log) -> int:
    """Start queries, one after the other, and show their progress until they end.

    Returns 1 if a query failed, else 0. A query that fails for a transient reason is started again,
    from where it was. Any other failure stops all queries. An interrupt stops all as well, and is
    not a failure.
    """
    failed = None
    try:
        with log.refreshed():
            while failed is None and not all(query.is_over for query in queries):
                _start_next(queries)
                failed = _look(queries, log)
                log.refresh(queries)
                time.sleep(LOOK_EVERY)
    except KeyboardInterrupt:
        for query in queries:
            query.interrupted = query.query is not None
        log.say("Stopping: the next run continues after the last finished micro-batch.")
    finally:
        for query in queries:
            query.stop()
    for query in queries:
        for batch in query.look():
            log.batch(query.name, batch)
    log.end(queries, failed)
    return 0 if failed is None else 1


def _start_next(queries: Sequence[SinkQuery]) -> None:
    """Start the next query once those before it have begun, and those that it reads are over."""
    waiting = [query for query in queries if query.query is None]
    if not waiting or not all(query.has_begun for query in queries):
        return
    if all(query.is_over for query in waiting[0].after):
        waiting[0].start()


def _look(queries: Sequence[SinkQuery], log: Log) -> SinkQuery | None:
    """Look at every started query, and start again what is due; return one that failed for good."""
    for query in queries:
        if query.query is None:
            continue
        query.check_folders()
        batches = query.look()
        for batch in batches:
            log.batch(query.name, batch)
        now = time.monotonic()
        for warning in chain(query.stalls.look(batches, now), query.disorder.look(batches)):
            log.event(query.name, warning)
        query.go_on()
        if query.error is not None:
            cause, wait = query.cause(query.error), query.retry()
            if wait is None:
                return query
            again = f"attempt {query.attempts + 1} of {ATTEMPTS} in {wait:g} s"
            log.event(query.name, f"{cause}; {again}")
    return None
