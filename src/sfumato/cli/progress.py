"""What a running query has done so far, gathered from the reports Spark makes of it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

PREFIX = "sfumato_"
REORDER = f"{PREFIX}reorder_"
ROWS_OUT = f"{PREFIX}rows_out"  # observed at the sink


@dataclass
class QueryProgress:
    """Totals of one query since this run began; `take` may be given a report any number of times.

    batches : micro-batches that ran                 rows_in : rows read, over all its sources
    rows_out : rows that reached the sink            counters : observed metric -> name -> total
    started, ended : seconds of the monotonic clock
    """

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    _seen: set[tuple[int, str]] = field(default_factory=set)

    def take(self, reports: Iterable[Any]) -> None:
        """Add what is new in a query's ``recentProgress``."""
        for report in reports:
            key = (report.batchId, report.timestamp)
            if key in self._seen:
                continue
            self._seen.add(key)
            if "addBatch" not in report.durationMs:
                continue  # it only looked for rows
            self.batches += 1
            self.rows_in += report.numInputRows
            for name, row in report.observedMetrics.items():
                self._observe(name, row.asDict())

    def _observe(self, metric: str, values: dict[str, Any]) -> None:
        if metric == ROWS_OUT:
            self.rows_out += values["rows"] or 0
        elif metric.startswith(PREFIX):
            totals = self.counters.setdefault(metric, {})
            for name, value in values.items():
                totals[name] = totals.get(name, 0) + (value or 0)

    def total(self, counter: str) -> int:
        """The sum of a counter ("late", "invalid", ...) over the operators of the query."""
        named = (counts for metric, counts in self.counters.items() if not _by_query(metric))
        return sum(counts.get(counter, 0) for counts in named)

    @property
    def rate(self) -> float:
        """Rows read a second since the query started."""
        elapsed = (self.ended or time.monotonic()) - self.started
        return self.rows_in / elapsed if elapsed > 0 else 0.0

    @property
    def held(self) -> int | None:
        """Rows that a reorder took in this run and that have not come out; None without reorder.

        Exact where the operators count what they hold. Else rows in less rows out, which also
        counts what the query left out behind the reorder, and is None where a join stands behind
        it, for then it says nothing.
        """
        reorders = [c for name, c in self.counters.items() if name.startswith(REORDER)]
        if not reorders:
            return None
        if all("held" in counts for counts in reorders):
            return sum(counts["held"] for counts in reorders)
        if len(reorders) < len(self.counters):
            return None
        return reorders[0]["rows"] - self.rows_out if len(reorders) == 1 else None


def _by_query(metric: str) -> bool:
    """Whether a metric's names are those of queries, which may be called anything."""
    return metric.endswith("_answers")
