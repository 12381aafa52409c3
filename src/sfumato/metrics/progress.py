"""What a running query has done so far, gathered from the reports Spark makes of it."""

import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sfumato.observed import observed

PREFIX = "sfumato_"
REORDER = f"{PREFIX}reorder_"
REASON = "reason"  # the commonest one of invalid rows, text: no counter
# What operators show at the end of a micro-batch, where they show it, and of the micro-batch.
STANDS = ("keys", "oldest", "punctuation", "lag", "slowest", "waited")
STAYS = ("window_size", "window_rows", "due", "timetable")  # until there is another
ADDED = ("new_keys", "opposite", "compared")  # counts that are no part of a state
# Rows that came out of a reorder by how long they had waited, see `waits`: 32 numbers with commas.
WAITS = "waits"
GAUGES = (*STANDS, *STAYS, *ADDED, WAITS)
ROWS_OUT = f"{PREFIX}rows_out"  # observed at the sink
WHOLE = "triggerExecution"  # the part of a micro-batch that is all of it
SIDE = re.compile(r"_(left|right|input)$")  # metrics of what goes into an operator
ENDS = re.compile(r'\{"ends": ?\d+\}')  # the offset of a source of marks, not of rows
KIND = re.compile(r"sfumato_(reorder|join|extents|window|top_k|impute|earlier_values|[a-z]+)_")


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch: rows read, rows that reached the sink, seconds, and what was observed.

    counters : how much was counted in it     gauges : how things stood at its end, by metric
    held : rows that each reorder holds at its end, in the buckets that had rows in this run
    parts : seconds of its parts, as Spark names them
    state : of all its operators: bytes in memory and on disk, and rows where Spark counts them
    run : the run of the query, from its start to its end
    """

    number: int
    started: str
    rows_in: int
    rows_out: int
    seconds: float
    counters: dict[str, dict[str, int]]
    gauges: dict[str, dict[str, Any]] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)
    state: dict[str, int] = field(default_factory=dict)
    run: Any = None

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """Both, as they were observed."""
        return {name: counts | self.gauges.get(name, {}) for name, counts in self.counters.items()}

    def total(self, counter: str) -> int:
        """A counter over the operators; see `counted`."""
        return counted(self.counters, counter)


@dataclass
class QueryProgress:
    """Totals of one query since this run began; `take` may be given a report any number of times.

    batches : micro-batches that ran                 rows_in : rows read, over all its sources
    rows_out : rows that reached the sink            counters : observed metric -> name -> total
    added : as counters, of ADDED     keys : keys known, by metric: at least so many, exact where
        the run began without a checkpoint or a micro-batch had rows of every bucket
    started, ended : seconds of the monotonic clock
    """

    batches: int = 0
    rows_in: int = 0
    rows_out: int = 0
    counters: dict[str, dict[str, int]] = field(default_factory=dict)
    added: dict[str, dict[str, int]] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    ended: float | None = None
    _seen: set[tuple[int, str]] = field(default_factory=set)
    _run: Any = None

    def take(self, reports: Iterable[Any]) -> list[MicroBatch]:
        """Add what is new in a query's ``recentProgress``; the new micro-batches."""
        new = []
        for report in reports:
            key = (report.batchId, report.timestamp)
            if key in self._seen:
                continue
            self._seen.add(key)
            self._begin_run(getattr(report, "runId", None))
            if "addBatch" not in report.durationMs:
                continue  # it only looked for rows
            new.append(batch := _micro_batch(report))
            self.batches += 1
            self.rows_in += batch.rows_in
            self.rows_out += batch.rows_out
            for metric, values in batch.counters.items():
                totals = self.counters.setdefault(metric, {})
                for name, value in values.items():
                    totals[name] = totals.get(name, 0) + value
                batch.held[metric] = totals.get("held", 0)
            for metric, shown in batch.gauges.items():
                self._add(metric, shown)
        return new

    def _begin_run(self, run: Any) -> None:
        """Forget what is held where a run of the query begins: it counts that from the start."""
        if run != self._run:
            self._run = run
            for totals in self.counters.values():
                if "held" in totals:
                    totals["held"] = 0

    def _add(self, metric: str, shown: dict[str, Any]) -> None:
        totals = self.added.setdefault(metric, {})
        for name in ADDED:
            if name in shown:
                totals[name] = totals.get(name, 0) + (shown[name] or 0)
        if "keys" in shown:
            # Of the buckets that had rows all keys are known, of the others those that came.
            known = self.keys.get(metric, 0) + (shown.get("new_keys") or 0)
            self.keys[metric] = max(known, shown["keys"] or 0)

    def total(self, counter: str) -> int:
        """A counter ("late", "invalid", ...) over the operators; see `counted`."""
        return counted(self.counters, counter)

    @property
    def rate(self) -> float:
        """Rows read a second since the query started."""
        elapsed = (self.ended or time.monotonic()) - self.started
        return self.rows_in / elapsed if elapsed > 0 else 0.0

    @property
    def held(self) -> int | None:
        """Rows that the reorders hold; None without reorder.

        Exact where the operators count what they hold, in the buckets of keys that have had rows
        since the query started. Else rows in less rows out, which also
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


def counted(counters: dict[str, dict[str, int]], counter: str) -> int:
    """How many rows were counted, each row once.

    Operators of one kind stand beside one another, in most queries, and count different rows;
    those of different kinds stand behind one another and count the same rows again: what a reorder
    calls late is late for the window behind it. So the sum over a kind, and the most of the kinds.
    """
    kinds: dict[str, int] = {}
    for metric, counts in counters.items():
        found = KIND.match(metric)
        if found is not None and not metric.endswith("_answers"):  # which are named by queries
            kind = found.group(1)
            kinds[kind] = kinds.get(kind, 0) + counts.get(counter, 0)
    return max(kinds.values(), default=0)


def by_operator(counters: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Operator -> counter -> total, without the counters that are 0."""
    operators: dict[str, dict[str, int]] = {}
    for metric, counts in counters.items():
        if metric.endswith("_answers"):
            continue
        totals = operators.setdefault(SIDE.sub("", metric).removeprefix(PREFIX), {})
        for name, count in counts.items():
            inner = name == "rows" and SIDE.search(metric) is not None
            if count and not inner:
                totals[name] = totals.get(name, 0) + count
    return operators


def _micro_batch(report: Any) -> MicroBatch:
    figures = observed(report)
    counters: dict[str, dict[str, int]] = {}
    gauges: dict[str, dict[str, Any]] = {}
    for metric, values in figures.items():
        if metric.startswith(PREFIX) and metric != ROWS_OUT:
            shown = (*(() if metric.endswith("_answers") else GAUGES), REASON)
            gauges[metric] = {n: values[n] for n in shown if n in values and n != REASON}
            if gauges[metric].get(WAITS):
                gauges[metric][WAITS] = list(map(int, gauges[metric][WAITS].split(",")))
            counters[metric] = {n: value or 0 for n, value in values.items() if n not in shown}
    return MicroBatch(
        report.batchId,
        report.timestamp,
        sum(of.numInputRows for of in report.sources if not ENDS.fullmatch(str(of.endOffset))),
        (figures.get(ROWS_OUT) or {}).get("rows") or 0,
        report.durationMs.get(WHOLE, 0) / 1000,
        counters,
        {metric: shown for metric, shown in gauges.items() if shown},
        parts={
            name: milliseconds / 1000
            for name, milliseconds in report.durationMs.items()
            if name != WHOLE
        },
        state=_state(getattr(report, "stateOperators", ())),
        run=getattr(report, "runId", None),
    )


def _state(operators: Iterable[Any]) -> dict[str, int]:
    """What operators keep in Spark's state store; nothing of a query without any."""
    found: dict[str, int] = {}
    for operator in operators:
        custom = operator.customMetrics or {}
        sizes = {
            "memory": operator.memoryUsedBytes,
            "disk": custom.get("rocksdbSstFileSize", 0),
            "rows": operator.numRowsTotal,
        }
        for name, size in sizes.items():
            found[name] = found.get(name, 0) + max(0, size)
    return found
