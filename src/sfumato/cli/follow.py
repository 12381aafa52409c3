"""Follow started sinks to their end: progress, second attempts, and a summary at the end."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape

from sfumato.cli.failures import LostFolderError, first_cause, folder_trouble, is_passing
from sfumato.cli.log import Log
from sfumato.cli.pipeline.environment import DiscreetConsole
from sfumato.cli.pipeline.model import Sink
from sfumato.cli.tables import progress_table, rows_table
from sfumato.metrics.anomalies import DisorderDetector, StallDetector, row_count
from sfumato.metrics.figures import Figures
from sfumato.metrics.progress import MicroBatch, QueryProgress, by_operator, late_and_rows

LOOK_EVERY = 0.25  # seconds between two looks at the queries
ATTEMPTS = 5  # of a sink without a micro-batch in between, until a passing failure is reported
FIRST_WAIT = 1.0  # seconds before the second attempt; each later one waits twice as long
BEGUN_AFTER = 30.0  # seconds after which the next sink is started, whatever this one does


@dataclass
class Running:
    """A sink at work, or waiting for its turn.

    then : the same frame once more, which is started when this one has ended, to flush it
    figures : takes what it reports, for others to see
    interrupted : by Ctrl-C, before its end
    checkpoint : its folder
    marks : of each folder that it needs a file that stays there once it has been seen
    rows : the newest rows of a console sink
    """

    sink: Sink
    name: str
    frame: DataFrame
    starter: Callable[[Running], StreamingQuery] | None = None
    then: DataFrame | None = None
    query: StreamingQuery | None = None
    progress: QueryProgress = field(default_factory=QueryProgress)
    rows: list[Any] = field(default_factory=list)
    figures: Figures | None = None
    interrupted: bool = False
    attempts: int = 0
    stalls: StallDetector = field(default_factory=StallDetector)
    disorder: DisorderDetector = field(default_factory=DisorderDetector)
    again_at: float | None = None  # when a second attempt is made
    checkpoint: str | None = None
    marks: dict[str, Path] = field(default_factory=dict)
    seen: set[Path] = field(default_factory=set)
    lost: LostFolderError | None = None

    def start(self) -> None:
        """Start it, or start it again."""
        assert self.starter is not None
        self.attempts, self.again_at = self.attempts + 1, None
        if self.query is None:
            self.progress = QueryProgress()
        else:  # not active is not yet over: its name is free only then
            with suppress(StreamingQueryException):
                self.query.awaitTermination()
        self.query = self.starter(self)
        if self.figures is not None:
            self.figures.started(self.name)

    def stop(self) -> None:
        """Stop it, if it runs."""
        if self.query is not None:
            self.query.stop()

    def look(self) -> list[MicroBatch]:
        """Take in the newest reports; the micro-batches that are new in them."""
        if self.query is None:
            return []
        active = self.query.isActive  # asked first, so that the last reports are not missed
        reports = self.query.recentProgress
        new = self.progress.take(reports)
        if self.figures is not None:
            self.figures.take(self.name, reports)
            if not active and self.progress.ended is None:
                error = self.query.exception()
                self.figures.ended(self.name, None if error is None else self.cause(error))
        if new:
            self.attempts = 1
        if not active and self.again_at is None and self.progress.ended is None:
            self.progress.ended = time.monotonic()
        return new

    def go_on(self) -> None:
        """Start what follows, if its query is seen to have ended."""
        if self.then is not None and self.progress.ended is not None:
            self.frame, self.then = self.then, None
            self.attempts, self.progress.ended = 0, None
            self.start()

    @property
    def is_active(self) -> bool:
        """Whether it is at work, or will be again."""
        if self.again_at is not None or self.then is not None:
            return True
        return self.query is not None and self.query.isActive

    @property
    def has_begun(self) -> bool:
        """Whether its first micro-batch is over, or it waits for rows."""
        if self.query is None or not self.query.isActive or self.query.lastProgress is not None:
            return True
        if time.monotonic() - self.progress.started > BEGUN_AFTER:
            return True
        return str(self.query.status["message"]).startswith("Waiting")

    def cause(self, error: BaseException) -> str:
        """Say what went wrong, and in which folder if it cannot be written to."""
        why = first_cause(error)
        folders = {"the checkpoint folder": self.checkpoint, "the sink's folder": self.sink.path}
        folders["the folder for temporary files"] = tempfile.gettempdir()
        found = folder_trouble({what: path for what, path in folders.items() if path})
        return why if found is None else f"{why}: {found}"

    def check_folders(self) -> None:
        """Stop it where a folder has gone that it needs: Spark would make another, empty one."""
        for what, mark in self.marks.items():
            if mark.exists():
                self.seen.add(mark)
            elif mark in self.seen and self.lost is None and self.query is not None:
                why = f"{what} {mark.parent} was deleted, or emptied, while the query ran: bring "
                why += "it back as it was, or start with a new checkpoint and a new sink"
                self.lost = LostFolderError(why)
                self.query.stop()

    @property
    def error(self) -> BaseException | None:
        """What ended it, unless it is to start again."""
        if self.lost is not None:
            return self.lost
        return None if self.query is None or self.again_at is not None else self.query.exception()

    def retry(self) -> float | None:
        """Wait for another attempt after a passing failure: how long, or None if that is all."""
        if self.error is None or self.attempts >= ATTEMPTS or not is_passing(self.error):
            return None
        wait = FIRST_WAIT * 2.0 ** (self.attempts - 1)
        self.again_at, self.progress.ended = time.monotonic() + wait, None
        return wait


def follow(phases: Sequence[Sequence[Running]], console: Console, log: Log | None) -> int:
    """Start sinks, one after the other, and show their progress until they end; 1 if one failed.

    phases : those of the second are started when those of the first have ended
    log : lines instead of a table that is refreshed
    A sink that fails for a passing reason is started again, where it was. Any other failure stops
    them all. An interrupt stops all as well, and is no failure.
    """
    failed = None
    running: list[Running] = []
    live = Live(console=console, refresh_per_second=4, transient=True) if log is None else None
    try:
        with live or nullcontext():
            for phase in phases:
                waiting = list(phase)
                while failed is None and (waiting or any(sink.is_active for sink in running)):
                    if waiting and all(sink.has_begun for sink in running):
                        running.append(waiting.pop(0))
                        if running[-1].query is None:
                            running[-1].start()
                    failed = _look(running, console, log)
                    if live is not None:
                        live.update(_discreet(console, _view(running)))
                    time.sleep(LOOK_EVERY)
                failed = failed or _look(running, console, log)
    except KeyboardInterrupt:
        for sink in running:
            sink.interrupted = True
        _say(console, log, "Stopping: the next run goes on from the last finished micro-batch.")
    for sink in running:
        sink.stop()
        for batch in sink.look():
            if log is not None:
                log.batch(sink.name, batch)
    _end(running, failed, console, log)
    return 0 if failed is None else 1


def _look(running: list[Running], console: Console, log: Log | None) -> Running | None:
    """Look at every sink, start again what is due; the first that has failed for good."""
    for sink in running:
        sink.check_folders()
        batches = sink.look()
        for batch in batches:
            if log is not None:
                log.batch(sink.name, batch)
        sentences = (sink.stalls.look(batches, time.monotonic()), sink.disorder.look(batches))
        for sentence in chain(*sentences):
            _tell(sink, sentence, console, log)
        if sink.again_at is not None and time.monotonic() >= sink.again_at:
            sink.start()
        error = sink.error
        if error is None:
            sink.go_on()
            continue
        wait = sink.retry()
        if wait is None:
            return sink
        reason = f"{sink.cause(error)}; attempt {sink.attempts + 1} of {ATTEMPTS} in {wait:g} s"
        _tell(sink, reason, console, log)
    return None


def _tell(sink: Running, sentence: str, console: Console, log: Log | None) -> None:
    if log is not None:
        log.said(sink.name, sentence)
    else:
        console.print(f"{sink.name}: {sentence}", markup=False, highlight=False)


def _say(console: Console, log: Log | None, sentence: str) -> None:
    if log is None or not log.machines:
        console.print(sentence)


def _end(running: list[Running], failed: Running | None, console: Console, log: Log | None) -> None:
    """What the run has come to."""
    cause = "" if failed is None or failed.error is None else failed.cause(failed.error)
    if log is not None and log.machines:
        for sink in running:
            for row in sink.rows:
                log.row(sink.name, sink.frame.columns, row)
            totals = by_operator(sink.progress.counters)
            log.said(sink.name, "failed" if sink is failed else "ended", metrics=totals)
        if failed is not None:
            log.said(failed.name, "cause", cause=cause)
        return
    console.print(_view(running))
    _report(running, console)
    if failed is not None:
        console.print(f"[red]Failed:[/red] sink {escape(failed.name)}: {escape(cause)}")


def _discreet(console: Console, view: Group) -> Any:
    """The view without secrets, where the console knows some."""
    return console.hidden(view) if isinstance(console, DiscreetConsole) else view


def _view(running: list[Running]) -> Group:
    tables = []
    for sink in running:
        rows = list(sink.rows)
        if rows:
            title = f"{sink.name}: the newest {row_count(len(rows))}"
            tables.append(rows_table(title, sink.frame.columns, rows))
    return Group(*tables, progress_table({sink.name: sink.progress for sink in running}))


def _report(running: list[Running], console: Console) -> None:
    """Say what has not come out, and all that was counted, so that nothing is lost silently."""
    for sink in running:
        name, held = escape(sink.name), sink.progress.held
        late, rows = late_and_rows(sink.progress.counters)
        for operator, counts in by_operator(sink.progress.counters).items():
            listed = ", ".join(
                f"{count:,} {each.replace('_', ' ')}" for each, count in counts.items()
            )
            if listed:
                console.print(f"{name}: {escape(operator)}: {listed}", style="dim", highlight=False)
        if late:
            console.print(
                f"{name}: {row_count(late)} came too late ({late / rows:.2%} of {rows:,})."
            )
        if held and held > 0:
            console.print(f"{name}: {row_count(held)} held back, until later rows come.")
