"""Micro-batches read from Spark's reports, and totals of their counters."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sfumato.metrics.history import RecentWaits, sum_histograms
from sfumato.reports import (
    ANSWERS_SUFFIX,
    IDENTITY,
    METRIC_PREFIX,
    REORDER,
    OperatorPart,
    late_of,
    metrics_of,
    parts_of,
)

# Gauges of the newest micro-batch; gauges that keep their last value; counts of one micro-batch
# that are not saved in state
BATCH_GAUGES = ("keys", "new_keys", "oldest", "punctuation", "lag", "slowest", "waited")
STICKY_GAUGES = ("window_size", "window_rows", "due", "timetable")
BATCH_COUNTERS = ("opposite", "compared")
WAITS = "waits"  # released rows per bin of waiting time: comma-separated numbers
GAUGES = (*BATCH_GAUGES, *STICKY_GAUGES, *BATCH_COUNTERS, WAITS)
REASON_LABEL = "reason"  # the most common reason for invalid rows
NOT_COUNTERS = (*IDENTITY, *GAUGES, REASON_LABEL)  # fields of an observed row that are not summed
ROWS_OUT = f"{METRIC_PREFIX}rows_out"  # metric observed at the sink
TOTAL_TIME = "triggerExecution"  # Spark's name for the duration of a micro-batch

Counters = Mapping[OperatorPart, Mapping[str, int]]


@dataclass(frozen=True)
class MicroBatch:
    """One micro-batch of a query.

    rows_in, rows_out : rows read, and rows that reached the sink     seconds : its duration
    counters : increments per operator part     gauges : state per part at the end
    held : held rows per part at the end, in the buckets that had rows in this run
    parts : seconds per phase, named as in Spark
    state : totals over all operators: bytes in memory and on disk, and rows if Spark counts them
    """

    number: int
    started: str
    rows_in: int
    rows_out: int
    seconds: float
    counters: dict[OperatorPart, dict[str, int]]
    gauges: dict[OperatorPart, dict[str, Any]]
    held: dict[OperatorPart, int] = field(default_factory=dict)
    parts: dict[str, float] = field(default_factory=dict)
    state: dict[str, int] = field(default_factory=dict)

    @property
    def metrics(self) -> dict[str, dict[str, Any]]:
        """Return counters and gauges by the name of the observed metric."""
        return {part.metric: of | self.gauges.get(part, {}) for part, of in self.counters.items()}


@dataclass
class PartTotals:
    """Totals of an operator part since the query started.

    kind : kind of the operator     counters : totals     batch_totals : totals of BATCH_COUNTERS
    gauges : the newest values
    keys : lower bound of the number of known keys; exact if the run began without a checkpoint or a
        micro-batch had rows in every bucket; None for a part without keys
    waits : released rows per bin of waiting time     recent_waits : the same for recent rows
    """

    kind: str = ""
    counters: Counter[str] = field(default_factory=Counter)
    batch_totals: Counter[str] = field(default_factory=Counter)
    gauges: dict[str, Any] = field(default_factory=dict)
    keys: int | None = None
    waits: list[int] = field(default_factory=list)
    recent_waits: RecentWaits = field(default_factory=RecentWaits)

    def take(self, counters: Mapping[str, int], gauges: Mapping[str, Any]) -> None:
        self.counters.update(counters)
        self.batch_totals.update({n: gauges[n] or 0 for n in BATCH_COUNTERS if n in gauges})
        if "keys" in gauges:
            # The gauge counts all keys of the buckets that have rows in this micro-batch, and the
            # sum of `new_keys` counts the keys that have had rows.
            known = (self.keys or 0) + (gauges.get("new_keys") or 0)
            self.keys = max(known, gauges["keys"] or 0)
        before = self.gauges
        stays = {n: before[n] for n in STICKY_GAUGES if n in before and gauges.get(n) is None}
        self.gauges = {**gauges, **stays}
        if any(gauges.get(WAITS) or ()):
            self.waits = sum_histograms(self.waits, gauges[WAITS])
            self.recent_waits.add(gauges[WAITS], time.monotonic())

    @property
    def late_share(self) -> float | None:
        """Return the share of late rows, see `late_of`; None without rows or such a counter."""
        late, rows = late_of(self.kind, self.counters)
        return late / rows if rows and "late" in self.counters else None


def total_of_counter(counters: Counters, counter: str) -> int:
    """Return the total of a counter, counting each row once.

    In most queries, operators of one kind read different rows, while operators of different kinds
    are chained and count the same rows again: a row that is late for a reorder is also late for the
    downstream window. The total is therefore the sum within a kind, and the maximum over the kinds.
    If there are reorders, only they count late rows, because sinks receive these rows as late.
    """
    kinds = _by_kind(counters, counter)
    if counter == "late" and REORDER in kinds:
        return kinds[REORDER]
    return max(kinds.values(), default=0)


def late_and_rows(counters: Counters) -> tuple[int, int]:
    """Return the number of late rows, and the number of rows that could be late; see `late_of`.

    Both numbers are from the reorders, if any, otherwise from the kind with the most late rows.
    """
    late = _by_kind(counters, "late")
    if not late:
        return 0, 0
    kind = REORDER if REORDER in late else max(late, key=late.__getitem__)
    names = "late", "rows", "duplicates", "invalid"
    return late_of(kind, {name: _by_kind(counters, name)[kind] for name in names})


def late_rows_left_out(counters: Counters) -> dict[str, int]:
    """Return the late rows left out downstream of reorders, by kind of operator."""
    kinds = _by_kind(counters, "late")
    return {kind: late for kind, late in kinds.items() if kind != REORDER and REORDER in kinds}


def _by_kind(counters: Counters, counter: str) -> Counter[str]:
    kinds: Counter[str] = Counter()
    for part, counts in counters.items():
        is_input = counter == "rows" and part.side
        if counter in counts and part.side != ANSWERS_SUFFIX and not is_input:
            kinds[part.kind] += counts[counter]
    return kinds


def totals_by_operator(counters: Counters) -> dict[str, dict[str, int]]:
    """Return operator -> counter -> total, without zero counters."""
    operators: dict[str, Counter[str]] = {}
    came_in: Counter[str] = Counter()  # rows of the operators' inputs
    for part, counts in counters.items():
        if part.side != ANSWERS_SUFFIX:
            totals = operators.setdefault(part.operator, Counter(rows=0))
            totals.update({n: of for n, of in counts.items() if not (n == "rows" and part.side)})
            came_in[part.operator] += counts.get("rows", 0) if part.side else 0
    for name, totals in operators.items():
        totals["rows"] = max(totals["rows"], came_in[name])
    return {name: {n: of for n, of in found.items() if of} for name, found in operators.items()}


def micro_batch_of(report: Any) -> MicroBatch:
    rows = metrics_of(report)
    counters: dict[OperatorPart, dict[str, int]] = {}
    gauges: dict[OperatorPart, dict[str, Any]] = {}
    for part, values in parts_of(rows).items():
        # The queries of a ranking have user-defined names.
        shown = () if part.side == ANSWERS_SUFFIX else NOT_COUNTERS
        counters[part] = {n: value or 0 for n, value in values.items() if n not in shown}
        found = {n: values[n] for n in GAUGES if n in shown and n in values}
        if found.get(WAITS):
            found[WAITS] = [int(count) for count in found[WAITS].split(",")]
        if found:
            gauges[part] = found
    durations = {name: spent / 1000 for name, spent in report.durationMs.items()}
    return MicroBatch(
        report.batchId,
        report.timestamp,
        sum(source.numInputRows for source in report.sources if not _is_end(source.endOffset)),
        _rows_out(rows, report),
        durations.pop(TOTAL_TIME, 0.0),
        counters,
        gauges,
        parts=durations,
        state=_state(getattr(report, "stateOperators", ())),
    )


def _rows_out(rows: Mapping[str, Any], report: Any) -> int:
    """Return the rows observed at a pipeline's sink, or the rows that Spark's sink counts, or 0.

    Spark reports -1 for sinks that do not count rows, such as `foreachBatch`.
    """
    if ROWS_OUT in rows:
        return (rows[ROWS_OUT] or {}).get("rows") or 0
    return max(0, getattr(getattr(report, "sink", None), "numOutputRows", None) or 0)


def _is_end(offset: Any) -> bool:
    """Return whether an offset belongs to the end-of-stream source, which has no user rows."""
    try:
        found = json.loads(str(offset))
    except ValueError:
        return False
    return isinstance(found, dict) and found.keys() == {"ends"}


def _state(operators: Iterable[Any]) -> dict[str, int]:
    """Return the totals of Spark's state store; empty for a query without state."""
    found: Counter[str] = Counter()
    for operator in operators:
        custom = operator.customMetrics or {}
        sizes = {
            "memory": operator.memoryUsedBytes,
            "disk": custom.get("rocksdbSstFileSize", 0),
            "rows": operator.numRowsTotal,
        }
        found.update({name: max(0, size) for name, size in sizes.items()})
    return found
