"""Reports of streaming queries: listeners for reports, and the counters of operators in reports.

A Spark Connect client polls for reports, because Spark's own listeners hold a lock while they wait
for a thread, and this thread may need the lock: removing the last listener or stopping the session
can hang (SPARK-59623). In these reports, an observed row is a list of values and a schema.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQueryListener

POLL_SECONDS = 0.5  # seconds between two polls of the server
METRIC_PREFIX = "sfumato_"
REORDER = "reorder"  # a kind of operator
IDENTITY = ("kind", "operator", "step", "side")  # fields that identify the source of a row
ANSWERS_SUFFIX = "answers"  # the side with the number of a ranking's answers per query
MIN_COVERED_SHARE = 0.8  # of the tested values in their 90% ranges; if fewer, the stream drifts
MIN_TESTED_VALUES = 200
# Treatment of invalid rows by the functions that nevertheless emit them.
EMITTED_INVALID = {
    "reorder": "have no valid event time or arrival: they are emitted as late",
    "earlier_values": "have no order, key or arrival: they are emitted without earlier values",
    "impute": "have no order, key or arrival: they are imputed without earlier values",
}


def describe_drift(counts: Mapping[str, int]) -> str | None:
    """Describe a stream's drift away from its repository, or return None.

    counts : an operator's counters; `tested` known values, of which `covered` are in their range
    """
    tested, covered = counts.get("tested", 0), counts.get("covered", 0)
    if tested < MIN_TESTED_VALUES or covered >= MIN_COVERED_SHARE * tested:
        return None
    return (
        f"only {covered:,} of {tested:,} tested known values lie within their imputed 90% range: "
        "the stream has drifted away from its repository. Ranges are widened; use a newer "
        "repository for narrower ranges"
    )


def late_of(kind: str, counts: Mapping[str, int]) -> tuple[int, int]:
    """Return the number of an operator's late rows, and the number of rows that could be late.

    A reorder also emits duplicates and invalid rows as late. Neither number includes them, because
    they did not arrive too late.
    """
    aside = counts.get("duplicates", 0) + counts.get("invalid", 0) if kind == REORDER else 0
    return counts.get("late", 0) - aside, counts.get("rows", 0) - aside


class OperatorPart(NamedTuple):
    """An operator of a query, one of its inputs, or its answers.

    kind : kind of the operator, "reorder"     operator : its name, "reorder_intake"
    side : "" for the operator itself, or "input", "left", "right" or "answers"
    """

    kind: str
    operator: str
    side: str = ""

    @property
    def metric(self) -> str:
        """Return the metrics name of an operator that the query contains once."""
        return METRIC_PREFIX + self.operator + (f"_{self.side}" if self.side else "")


def metrics_of(report: Any) -> dict[str, dict[str, Any]]:
    """Return a report's observed metrics: name -> field -> value."""
    by_attribute = hasattr(report, "observedMetrics")
    found = report.observedMetrics if by_attribute else report.get("observedMetrics")
    return {name: _by_field(row) for name, row in (found or {}).items()}


def parts_of(rows: dict[str, dict[str, Any]]) -> dict[OperatorPart, dict[str, Any]]:
    """Return the fields of observed rows by operator part; other rows are ignored."""
    found: dict[OperatorPart, dict[str, Any]] = {}
    for name, row in rows.items():
        kind, operator, side = (row.get(field) for field in ("kind", "operator", "side"))
        if not (isinstance(kind, str) and isinstance(operator, str) and isinstance(side, str)):
            continue
        part = OperatorPart(kind, operator, side)
        if name != part.metric and (part.metric in rows or part in found):
            own = name.removeprefix(METRIC_PREFIX)
            part = part._replace(operator=own.removesuffix(f"_{side}") if side else own)
        found[part] = {field: value for field, value in row.items() if field not in IDENTITY}
    return found


def _by_field(row: Any) -> dict[str, Any]:
    fields = dict(row.asDict() if hasattr(row, "asDict") else row)
    if fields.keys() == {"values", "schema"} and isinstance(fields["values"], list):
        names = [field["name"] for field in fields["schema"]["fields"]]
        return dict(zip(names, fields["values"], strict=True))
    return fields


def is_connect(spark: SparkSession) -> bool:
    """Return whether a session is a Spark Connect client."""
    return ".connect." in type(spark).__module__


def add_listener(spark: SparkSession, listener: StreamingQueryListener) -> Callable[[], None]:
    """Send the session's future reports to a listener; return a function that removes it.

    With Spark Connect, reports arrive up to POLL_SECONDS late, `onQueryIdle` is never called, and
    a query that starts and ends between two polls is missed.
    """
    if is_connect(spark):
        return Poller(spark, listener).stop
    spark.streams.addListener(listener)
    return lambda: spark.streams.removeListener(listener)


@dataclass(slots=True)
class QueryRun:
    """A run of a query, and the time of its last report."""

    query: Any
    reported: str = ""

    def new_reports(self) -> list[Any]:
        """Return the reports since the last call, oldest first."""
        last = self.query.lastProgress  # usually unchanged, and much shorter than recentProgress
        if last is None or last.timestamp <= self.reported:
            return []
        found = [r for r in self.query.recentProgress if r.timestamp > self.reported]
        self.reported = found[-1].timestamp if found else last.timestamp
        return found


class Poller:
    """A daemon thread that polls a session for its queries and their reports."""

    def __init__(self, spark: Any, listener: Any) -> None:
        self._spark, self._listener = spark, listener
        self._runs: dict[str, QueryRun] = {}
        self._ended = threading.Event()
        threading.Thread(target=self._poll, name="sfumato-reports", daemon=True).start()

    def stop(self) -> None:
        """Stop polling; a poll in progress may still complete."""
        self._ended.set()

    def _poll(self) -> None:
        while not self._ended.is_set():
            try:
                self._poll_once()
            except Exception as error:  # any error from a lost server or a stopped session
                self._ended.wait(POLL_SECONDS)  # `is_stopped` becomes true at the end of a stop
                over = self._ended.is_set() or not threading.main_thread().is_alive()
                if not (over or self._spark.is_stopped):
                    lost = f"sfumato no longer listens to this session's queries: {error}"
                    warnings.warn(lost, stacklevel=1)
                return
            self._ended.wait(POLL_SECONDS)

    def _poll_once(self) -> None:
        active = {query.runId: query for query in self._spark.streams.active}
        for run_id, query in active.items():
            if run_id not in self._runs:
                self._runs[run_id] = QueryRun(query)
                self._listener.onQueryStarted(query)
        for run_id, run in list(self._runs.items()):
            for report in run.new_reports():
                self._listener.onQueryProgress(SimpleNamespace(progress=report))
            if run_id not in active:
                error = run.query.exception()
                exception = None if error is None else str(error)
                end = SimpleNamespace(id=run.query.id, runId=run_id, exception=exception)
                self._listener.onQueryTerminated(end)
                del self._runs[run_id]
