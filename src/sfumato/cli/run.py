"""Run a pipeline: start the streaming queries of its plan, and monitor them until they end."""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from pyspark.sql import SparkSession
from rich.console import Console

from sfumato.cli.failures import JAVA_ERRORS
from sfumato.cli.output import Log, format_cell
from sfumato.cli.pipeline.environment import RedactingConsole
from sfumato.cli.pipeline.model import Pipeline, PipelineError
from sfumato.cli.plan import Plan, build_plan, errors_at, shortest_trigger
from sfumato.cli.sink_query import MAX_ATTEMPTS, SinkQuery, start_sink
from sfumato.live.view import About, ResultRows
from sfumato.metrics.anomalies import row_count
from sfumato.metrics.exporters import served
from sfumato.metrics.session_metrics import SessionMetrics
from sfumato.spark.run_to_end import changed_setting, ending
from sfumato.spark.runtime.run import EMPTY_BATCHES_SETTING, STREAM_STEPS

PROBABILITY_COLUMNS = ("probability", "existence", "prob")  # columns that are shown with bars


@dataclass
class RunView:
    """The metrics of a run's sinks, and the page's description of each sink."""

    metrics: SessionMetrics = field(default_factory=SessionMetrics)
    about: dict[str, About] = field(default_factory=dict)

    def describe(self, plan: Plan, sinks: Sequence[SinkQuery]) -> None:
        texts = {query.name: query.sql for query in plan.pipeline.queries}
        hidden = self.metrics.hide = plan.pipeline.environment.hidden
        for each in sinks:
            name = each.sink.query
            self.about[each.name] = About(
                hidden(texts.get(name, "").strip()),
                hidden(plan.explanations.get(name, "")),
                plan.late_target(name),
                partial(newest_answers, each),
            )


def newest_answers(query: SinkQuery) -> ResultRows:
    """Return the newest rows of a console sink, newest first."""

    def to_cell(name: str, value: Any) -> tuple[str, float | None]:
        may_be_share = name.lower() in PROBABILITY_COLUMNS and isinstance(value, float)
        return format_cell(value), value if may_be_share and 0 <= value <= 1 else None

    rows = [list(map(to_cell, query.columns, row)) for row in reversed(list(query.rows))]
    return ResultRows(query.columns, rows)


@contextmanager
def serve_run(
    console: Console,
    page_port: int | None = None,
    metrics_port: int | None = None,
    metrics_file: Path | None = None,
) -> Iterator[RunView]:
    """Serve a run's metrics on loopback ports (0: any free port) and in a file."""
    view, lines = RunView(), []
    with ExitStack() as stack:
        try:
            if page_port is not None:
                from sfumato.live.server import Server  # needs an extra

                server = Server(view.metrics, view.about, page_port)
                stack.callback(server.stop)
                lines.append(f"Watch: {server.url}")
            if metrics_port is not None or metrics_file is not None:
                exporter = served(view.metrics, port=metrics_port, file=metrics_file)
                port = stack.enter_context(exporter)
                lines += [] if port is None else [f"Metrics: http://127.0.0.1:{port}/metrics"]
        except ImportError as error:
            why = (
                "the page and the metrics need more packages: pip install 'sfumato[watch]' "
                f"({error})"
            )
            raise PipelineError(why) from None
        except (OSError, ValueError) as error:
            raise PipelineError(f"cannot serve the page or the metrics: {error}") from None
        for line in lines:
            console.print(line, highlight=False, soft_wrap=True)
        yield view


POLL_INTERVAL_SECONDS = 0.25
IDLE_TRIGGER = "1 second"  # with an idle timeout, Spark repeats empty micro-batches without a pause


def run(
    spark: SparkSession,
    pipeline: Pipeline,
    console: RedactingConsole,
    *,
    once: bool = False,
    log: Log | None = None,
    view: RunView | None = None,
) -> int:
    """Run a pipeline until its sinks end, one fails, or the user interrupts; return the exit code.

    once : process the data available now, and end; with `flush` in the file, also emit all held
        rows at the end
    log : None: a live table on a terminal, otherwise one line per micro-batch
    view : receives the queries' metrics by sink
    Raises PipelineError before anything starts if Spark or the planner rejects the pipeline.
    """
    log = log or Log(console, is_live=console.is_terminal)
    with ExitStack() as stack:
        folder = pipeline.checkpoint or stack.enter_context(
            tempfile.TemporaryDirectory(prefix="sfumato-")
        )
        idle = STREAM_STEPS["idle"]
        log.say("Spark has started; planning the queries.", style="dim")
        queries = _queries(spark, pipeline, folder, once, log, view or RunView())
        if STREAM_STEPS["idle"] > idle:
            for query in queries:
                query.sink = replace(query.sink, trigger=query.sink.trigger or IDLE_TRIGGER)
            if once:
                stack.enter_context(changed_setting(spark, EMPTY_BATCHES_SETTING, "false"))
        try:
            return follow(queries, log)
        except JAVA_ERRORS:
            if not any(query.interrupted for query in queries):
                raise
            return 0  # Java received the signal too, and has ended


def _queries(
    spark: SparkSession, pipeline: Pipeline, folder: str, once: bool, log: Log, view: RunView
) -> list[SinkQuery]:
    """Build a run's queries, twice with `flush` to end streams; print the rows of static sinks."""
    plans = []
    for last in (False, True) if once and pipeline.flush else (False,):
        with ending(spark, last=last) if pipeline.flush else nullcontext():
            plans.append(build_plan(spark, pipeline, folder, pipeline.checkpoint is not None))
            plans[-1].check_sinks()
    plan = plans[0]
    if plan.streams and pipeline.checkpoint is None:
        log.say("No checkpoint folder is set: the next run starts from the beginning.", style="dim")
    for sink in pipeline.sinks:
        if sink not in plan.streams:
            frame = plan.rows_of(sink)
            with errors_at(f"sinks.{sink.name}"):
                rows = frame.limit(sink.rows).collect()
            log.table(sink.name, f"the first {row_count(len(rows))}", frame.columns, rows)
    add = partial(
        SinkQuery, starter=partial(start_sink, folder=folder, once=once), metrics=view.metrics
    )
    trigger = shortest_trigger(plan.streams)
    shared = [
        add(replace(each.sink, trigger=trigger), each.title, [of.shared[i].frame for of in plans])
        for i, each in enumerate(plan.shared)
    ]
    # With `once`, sinks process all rows that the shared queries have written.
    after = shared if once else []
    sinks = [
        add(sink, sink.name, [of.rows_of(sink) for of in plans], after=after)
        for sink in plan.streams
    ]
    view.describe(plan, sinks)
    return [*shared, *sinks]


def follow(queries: Sequence[SinkQuery], log: Log) -> int:
    """Start queries one after the other, and show their progress until they end.

    Return 1 if a query failed, otherwise 0. After a transient failure a query restarts from its
    checkpoint. Any other failure stops all queries, and so does an interrupt, which is not a
    failure.
    """
    failed = None
    try:
        with log.refreshed():
            while failed is None and not all(query.is_over for query in queries):
                _start_next(queries)
                failed = _poll(queries, log)
                log.refresh(queries)
                time.sleep(POLL_INTERVAL_SECONDS)
    except KeyboardInterrupt:
        for query in queries:
            query.interrupted = query.query is not None
        log.say("Stopping: the next run continues after the last finished micro-batch.")
    finally:
        for query in queries:
            query.stop()
    for query in queries:
        for batch in query.poll():
            log.batch(query.name, batch)
    log.end(queries, failed)
    return 0 if failed is None else 1


def _start_next(queries: Sequence[SinkQuery]) -> None:
    """Start the next query once earlier ones are running and its upstream queries have ended."""
    waiting = [query for query in queries if query.query is None]
    if not waiting or not all(query.allows_next_start for query in queries):
        return
    if all(query.is_over for query in waiting[0].after):
        waiting[0].start()


def _poll(queries: Sequence[SinkQuery], log: Log) -> SinkQuery | None:
    """Check the started queries and run due restarts; return a permanently failed query."""
    for query in queries:
        if query.query is None:
            continue
        query.check_folders()
        batches = query.poll()
        for batch in batches:
            log.batch(query.name, batch)
        for warning in query.warnings(batches):
            log.event(query.name, warning)
        query.advance()
        if query.error is not None:
            cause, wait = query.cause(query.error), query.retry()
            if wait is None:
                return query
            again = f"attempt {query.attempts + 1} of {MAX_ATTEMPTS} in {wait:g} s"
            log.event(query.name, f"{cause}; {again}")
    return None
