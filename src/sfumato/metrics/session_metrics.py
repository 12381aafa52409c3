"""Thread-safe metrics of a session's streaming queries, from Spark's reports."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

from pyspark.sql.streaming import StreamingQueryListener

from sfumato.metrics.anomalies import StallDetector
from sfumato.metrics.history import Point, limit_points, sum_histograms
from sfumato.metrics.progress import WAITS, MicroBatch, PartTotals, late_and_rows, micro_batch_of
from sfumato.reports import REORDER, OperatorPart

MAX_MESSAGES = 10


@dataclass
class QueryMetrics:
    """Metrics of one query since it started.

    batches : micro-batches that ran     busy : their total seconds
    rows_in : rows read from all sources     rows_out : rows that reached the sink
    operators : totals by part     started, ended : seconds of the monotonic clock
    newest : the newest micro-batch     reported : time of its arrival, seconds since 1970
    reported_monotonic : the same time on the monotonic clock
    points : the history     messages : anomalies, with their times
    """

    name: str = ""
    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    busy: float = 0.0
    operators: dict[OperatorPart, PartTotals] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    newest: MicroBatch | None = None
    reported: float | None = None
    reported_monotonic: float = 0.0
    active: bool = True
    error: str | None = None
    points: list[Point] = field(default_factory=list)
    stalls: StallDetector = field(default_factory=StallDetector)
    messages: list[tuple[float, str]] = field(default_factory=list)
    _seen: set[tuple[int, str]] = field(default_factory=set)
    _run: Any = None

    def take(self, reports: Iterable[Any]) -> list[MicroBatch]:
        """Add a query's reports, and return the new micro-batches; known reports are ignored."""
        new = []
        for report in reports:
            key = (report.batchId, report.timestamp)
            if key in self._seen:
                continue
            self._seen.add(key)
            self._begin_run(getattr(report, "runId", None))
            if "addBatch" in report.durationMs:  # otherwise, no rows were read
                new.append(micro_batch_of(report))
                self._add(new[-1])
        self._record_stalls(new)
        return new

    def _begin_run(self, run: Any) -> None:
        """Reset the held rows when a new run begins, because each run counts them from 0."""
        if run != self._run:
            self._run = run
            for totals in self.operators.values():
                if "held" in totals.counters:
                    totals.counters["held"] = 0

    def _add(self, batch: MicroBatch) -> None:
        self.batches += 1
        self.rows_in += batch.rows_in
        self.rows_out += batch.rows_out
        self.busy += batch.seconds
        for part, counters in batch.counters.items():
            totals = self.operators.setdefault(part, PartTotals(part.kind))
            totals.take(counters, batch.gauges.get(part, {}))
            batch.held[part] = totals.counters["held"]
        self.newest, self.reported, self.reported_monotonic = batch, time.time(), time.monotonic()
        self.points = limit_points([*self.points, _point(batch, self.reported)])

    def detect_stalls(self) -> None:
        """Record stalls that can be detected now."""
        if self.active:
            self._record_stalls([])

    def _record_stalls(self, batches: list[MicroBatch]) -> None:
        for message in self.stalls.detect(batches, time.monotonic()):
            self.messages = [*self.messages[1 - MAX_MESSAGES :], (time.time(), message)]

    @property
    def counters(self) -> dict[OperatorPart, Counter[str]]:
        return {part: totals.counters for part, totals in self.operators.items()}

    @property
    def rate(self) -> float:
        """Return the rows read per second since the query started."""
        elapsed = (self.ended or time.monotonic()) - self.started
        return self.rows_in / elapsed if elapsed > 0 else 0.0

    @property
    def held(self) -> int | None:
        """Return the held rows of reorders, in buckets with rows since the start, or None."""
        found = [of["held"] for part, of in self.counters.items() if part.kind == REORDER]
        return sum(found) if found else None


def _point(batch: MicroBatch, now: float) -> Point:
    gauges = batch.gauges.values()
    lags = [shown["lag"] / 1e6 for shown in gauges if shown.get("lag") is not None]
    return Point(
        now,
        batch.rows_in,
        batch.rows_out,
        *late_and_rows(batch.counters),
        batch.seconds,
        sum(held for part, held in batch.held.items() if part.kind == REORDER),
        max(lags, default=None),
        batch.state.get("memory", 0),
        dict(batch.parts),
        sum_histograms(*(shown.get(WAITS) or () for shown in gauges)),
    )


def hide_secrets(tree: Any, hide: Callable[[str], str]) -> Any:
    """Return JSON values with `hide` applied to every string, including names."""
    if isinstance(tree, str):
        return hide(tree)
    if isinstance(tree, dict):
        return {hide_secrets(name, hide): hide_secrets(value, hide) for name, value in tree.items()}
    if type(tree) in (list, tuple):
        return [hide_secrets(value, hide) for value in tree]
    return tree


class SessionMetrics:
    """Metrics of queries by name. Values read within `with metrics.locked()` are consistent."""

    def __init__(self) -> None:
        self.hide: Callable[[str], str] = str  # removes secrets from published strings
        self._lock = RLock()
        self._queries: dict[str, QueryMetrics] = {}

    def locked(self) -> RLock:
        """Return the lock that blocks changes by other threads."""
        return self._lock

    def take(self, name: str, reports: Iterable[Any]) -> list[MicroBatch]:
        """Add a query's reports; return the new micro-batches."""
        with self._lock:
            return self.of(name).take(reports)

    def started(self, name: str) -> None:
        with self._lock:
            query = self.of(name)
            query.active, query.error = True, None

    def ended(self, name: str, error: str | None) -> None:
        with self._lock:
            query = self.of(name)
            query.active, query.error = False, error

    def queries(self) -> Iterator[QueryMetrics]:
        """Yield the queries in the order in which they started; call it with the lock held."""
        yield from list(self._queries.values())

    def of(self, name: str) -> QueryMetrics:
        return self._queries.setdefault(name, QueryMetrics(name=name))


class MetricsListener(StreamingQueryListener):
    """Listener that stores a session's reports as metrics, by query name or id."""

    def __init__(self, metrics: SessionMetrics) -> None:
        self.metrics = metrics
        self._names: dict[str, str] = {}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        self.metrics.started(self._name_of(event))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self.metrics.take(self._name_of(event.progress), [event.progress])

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        name = self._names.get(str(event.id), str(event.id)[:8])
        self.metrics.ended(name, event.exception)

    def _name_of(self, event: Any) -> str:
        return self._names.setdefault(str(event.id), event.name or str(event.id)[:8])
