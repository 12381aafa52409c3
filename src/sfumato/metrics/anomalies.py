"""Messages about a running query's anomalies: stalls, rows out of order, large shares."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sfumato.metrics.progress import Counters, MicroBatch, late_and_rows
from sfumato.reports import EMITTED_INVALID, REORDER, OperatorPart, describe_drift

STALL_SECONDS = 60.0  # seconds without a row in order before the first message; then doubled
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIN_ROWS = 1_000  # minimum number of rows for a share
USUAL_SHARE = 0.01  # share of rows that may be set aside without a message

OUT_OF_ARRIVAL_ORDER = (
    "were read after rows that arrived later. Likely cause: files are not read in the order in "
    "which they were written, because Spark reads files by modification time. Give the files "
    "modification times in order of arrival, or read all of them in one micro-batch (leave out "
    "maxFilesPerTrigger)"
)
# Meanings of high counts, by counter; BY_KIND has the exceptions, by kind of operator.
SET_ASIDE = {
    "invalid": "were left out as invalid",
    "undecodable": "could not be decoded",
    "out_of_order": "arrived after later rows of an earlier micro-batch: reorder them first",
    "unaligned": "were joined without punctuations, so the answers depend on how fast the streams "
    "are read: reorder both streams",
    "future": "have an implausibly late event time: check the clocks of the sources",
    "unimputable": "have a missing value that no dependency could complete",
    "overflow": "were evicted because a window reached `max_tuples`: raise `max_tuples` or use a "
    "smaller window",
}
BY_KIND = {
    REORDER: {
        "invalid": EMITTED_INVALID["reorder"],
        "out_of_order": OUT_OF_ARRIVAL_ORDER,
    },
    "earlier_values": {"invalid": EMITTED_INVALID["earlier_values"]},
}


def anomalies(counters: Counters, target: float | None) -> Iterator[str]:
    """Yield messages about a query's unusual totals. target : the intended share of late rows"""
    late, rows = late_and_rows(counters)
    if target is not None and rows >= MIN_ROWS and late > 1.5 * target * rows:
        yield f"{late / rows:.2%} of the rows are late; the target is {target:.2%}"
    for part, counts in counters.items():
        name = part.metric.removeprefix("sfumato_")
        drifted = describe_drift(counts)
        if drifted is not None:
            yield f"{name}: {drifted}"
        for counter, meaning in (SET_ASIDE | BY_KIND.get(part.kind, {})).items():
            found, of = counts.get(counter, 0), counts.get("rows", 0)
            if of >= MIN_ROWS and found > USUAL_SHARE * of:
                yield f"{name}: {found:,} of {of:,} rows ({found / of:.1%}) {meaning}"


@dataclass
class _Reorder:
    """State of a reorder. since : when it last emitted a row in order, or first appeared"""

    since: float
    patience: float
    held: int = 0
    gauges: dict[str, Any] = field(default_factory=dict)


@dataclass
class StallDetector:
    """Detector of reorders that have not emitted rows in order for a long time."""

    _reorders: dict[OperatorPart, _Reorder] = field(default_factory=dict)

    def detect(self, batches: Sequence[MicroBatch], now: float) -> Iterator[str]:
        """Yield messages. batches : new micro-batches    now : seconds of the monotonic clock"""
        for batch in batches:
            for part, counts in batch.counters.items():
                if part.kind == REORDER and "held" in counts:
                    self._take(part, batch, now)
        for part, reorder in self._reorders.items():
            silent, oldest = now - reorder.since, reorder.gauges.get("oldest")
            if silent >= reorder.patience and oldest is not None:
                reorder.patience = 2 * silent
                held = f" and holds {row_count(reorder.held)}" if reorder.held > 0 else ""
                slowest = reorder.gauges.get("slowest")
                waits = "" if slowest is None else f"; the operator waits for {slowest}"
                yield (
                    f"{part.operator} has emitted no in-order rows for {silent:.0f} s{held}; the "
                    f"oldest row has the event time {time_text(oldest)}{waits} (an idle timeout "
                    "releases the rows)"
                )

    def _take(self, part: OperatorPart, batch: MicroBatch, now: float) -> None:
        counts = batch.counters[part]
        reorder = self._reorders.setdefault(part, _Reorder(now, STALL_SECONDS))
        reorder.held, reorder.gauges = batch.held[part], batch.gauges.get(part, {})
        if counts["rows"] > counts["held"] + counts.get("late", 0):
            reorder.since, reorder.patience = now, STALL_SECONDS


@dataclass
class DisorderDetector:
    """Detector of operators whose input is not in order of arrival; each is reported once."""

    _rows: dict[OperatorPart, int] = field(default_factory=dict)
    _reported: set[OperatorPart] = field(default_factory=set)

    def detect(self, batches: Sequence[MicroBatch]) -> Iterator[str]:
        """Yield a message for each operator whose first rows out of order are in these batches."""
        for batch in batches:
            reorders = [part for part in batch.counters if part.kind == REORDER]
            for part in reorders or batch.counters:
                counts = batch.counters[part]
                self._rows[part] = self._rows.get(part, 0) + counts.get("rows", 0)
                found = counts.get("out_of_order", 0)
                if found and not part.side and part not in self._reported:
                    self._reported.add(part)
                    cure = "" if reorders else ". Reorder the rows first"
                    yield (
                        f"{part.operator}: {found:,} of {self._rows[part]:,} rows so far "
                        f"{OUT_OF_ARRIVAL_ORDER}{cure}"
                    )


def row_count(rows: int) -> str:
    return f"{rows:,} row{'' if rows == 1 else 's'}"


def describe_held_rows(part: OperatorPart, held: int, gauges: dict[str, Any]) -> str:
    """Describe a reorder's held rows in a short line; the page of metrics explains its fields.

    held : number of rows
    """
    words = f"{part.operator}: {row_count(held)} held"
    if gauges.get("oldest") is not None:
        words += f", oldest {time_text(gauges['oldest'])}"
    if gauges.get("punctuation") is not None:
        words += f", punctuation {time_text(gauges['punctuation'])}"
    if gauges.get("lag") is not None:
        words += f", lag {gauges['lag'] / 1e6:.6g} s"
    return words


def time_text(microseconds: int) -> str:
    """Format an event time; a number that is out of range for dates remains a number."""
    try:
        time = EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return str(microseconds)
    return time.replace(tzinfo=None).isoformat(sep=" ")
