"""What a running query has done so far, gathered from the reports Spark makes of it."""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.observed import IN_STEP, PREFIX, SIDE, observed, operator_name

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
ENDS = re.compile(r'\{"ends": ?\d+\}')  # the offset of a source of marks, not of rows
REORDERS = "reorder"  # the kind
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

        The sum of what the reorders count as held, in the buckets of keys that have had rows since
        the query started.
        """
        reorders = [c for name, c in self.counters.items() if name.startswith(REORDER)]
        return sum(counts.get("held", 0) for counts in reorders) if reorders else None


def counted(counters: dict[str, dict[str, int]], counter: str) -> int:
    """How many rows were counted, each row once.

    Operators of one kind stand next to one another, in most queries, and count different rows;
    those of different kinds follow one another and count the same rows again: what a reorder
    calls late is late for the window after it. So the sum over a kind, and the most of the kinds;
    late rows are those of the reorders, where there are any, which the query's sinks get as such.
    """
    kinds = _by_kind(counters, counter)
    if counter == "late" and REORDERS in kinds:
        return kinds[REORDERS]
    return max(kinds.values(), default=0)


def late_and_rows(counters: dict[str, dict[str, int]]) -> tuple[int, int]:
    """Return the late rows and the rows of which they are a share, of operators with both.

    These are the reorders, where there are any; else the kind of operators with most late rows.
    """
    late, rows = _by_kind(counters, "late"), _by_kind(counters, "rows")
    kinds = [REORDERS] if REORDERS in late else sorted(late, key=lambda kind: -late[kind])
    return (late[kinds[0]], rows.get(kinds[0], 0)) if kinds else (0, 0)


def _by_kind(counters: dict[str, dict[str, int]], counter: str) -> dict[str, int]:
    """Sum a counter over the operators of each kind that have it."""
    kinds: dict[str, int] = {}
    for metric, counts in counters.items():
        found = KIND.match(metric)
        if found is not None and not metric.endswith("_answers"):  # which are named by queries
            inner = counter == "rows" and SIDE.search(metric) is not None
            if counter in counts and not inner:
                kinds[found.group(1)] = kinds.get(found.group(1), 0) + counts[counter]
    return kinds


def by_operator(counters: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
    """Operator -> counter -> total, without the counters that are 0.

    Rows are those that came into the operator, the invalid ones that it skips included.
    """
    operators: dict[str, dict[str, int]] = {}
    came: dict[str, int] = {}  # rows of operators whose inputs count them
    for metric, counts in counters.items():
        if metric.endswith("_answers"):
            continue
        name = operator_name(metric)
        totals = operators.setdefault(name, {})
        for counter, count in counts.items():
            if counter == "rows" and SIDE.search(metric) is not None:
                came[name] = came.get(name, 0) + count
            elif count:
                totals[counter] = totals.get(counter, 0) + count
    for name, rows in came.items():
        if rows:
            operators[name] = {"rows": max(rows, operators[name].get("rows", 0))} | {
                n: count for n, count in operators[name].items() if n != "rows"
            }
    return operators


def _micro_batch(report: Any) -> MicroBatch:
    figures = _by_own_name(observed(report))
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


def _by_own_name(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Call operators that run in one step with others by their own names, where these are free."""
    found: dict[str, Any] = {}
    for metric, values in figures.items():
        side = SIDE.search(metric)
        own = f"{PREFIX}{operator_name(metric)}{'' if side is None else side[0]}"
        inner = IN_STEP.search(SIDE.sub("", metric)) is not None
        free = inner and own not in figures and own not in found
        found[own if free else metric] = values
    return found


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
