"""Reorders that let nothing out for long: who says so, and what they wait for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from sfumato.metrics.progress import REORDER, MicroBatch
from sfumato.observed import operator_name

LONG = 60.0  # seconds without a row in order, until it is said; then after twice as long each time
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass
class _Waiting:
    """One reorder. since : when a row came out in order, or it was first seen; monotonic seconds"""

    since: float
    patience: float
    held: int = 0
    run: Any = None
    shown: dict[str, Any] = field(default_factory=dict)


@dataclass
class HeldBack:
    """Watches the reorders of one sink."""

    long: float = LONG
    _waiting: dict[str, _Waiting] = field(default_factory=dict)

    def look(self, batches: Sequence[MicroBatch], now: float) -> Iterator[str]:
        """What is to be said. batches : the new ones     now : monotonic seconds"""
        for batch in batches:
            for metric, counts in batch.counters.items():
                if metric.startswith(REORDER) and "held" in counts:
                    self._take(metric, batch, now)
        for metric, reorder in self._waiting.items():
            silent = now - reorder.since
            if silent >= reorder.patience and reorder.shown.get("oldest") is not None:
                reorder.patience = 2 * silent
                yield _sentence(operator_name(metric), reorder, silent)

    def _take(self, metric: str, batch: MicroBatch, now: float) -> None:
        counts = batch.counters[metric]
        reorder = self._waiting.setdefault(metric, _Waiting(now, self.long))
        reorder.held = counts["held"] + (reorder.held if batch.run == reorder.run else 0)
        reorder.run = batch.run
        reorder.shown = batch.gauges.get(metric, {})
        others = (counts.get(name, 0) for name in ("late", "held"))
        if counts["rows"] > sum(others):
            reorder.since, reorder.patience = now, self.long


def how_many(rows: int) -> str:
    """`1 row`, `2,000 rows`."""
    return f"{rows:,} row{'' if rows == 1 else 's'}"


def _sentence(name: str, reorder: _Waiting, silent: float) -> str:
    held = f" and holds {how_many(reorder.held)}" if reorder.held > 0 else ""
    oldest = time_text(reorder.shown["oldest"])
    slowest = reorder.shown.get("slowest")
    waits = "" if slowest is None else f"; it waits for {slowest}"
    return (
        f"{name} has emitted no in-order rows for {silent:.0f} s{held}, the oldest of {oldest}"
        f"{waits} (an idle timeout releases them)"
    )


def in_words(metric: str, held: int, shown: dict[str, Any]) -> str:
    """What a reorder holds, in a few words. held : rows"""
    words = f"{operator_name(metric)} holds {held:,}"
    if shown.get("oldest") is not None:
        words += f" from {time_text(shown['oldest'])} on"
    if shown.get("punctuation") is not None:
        words += f", punctuation {time_text(shown['punctuation'])}"
    if shown.get("lag") is not None:
        words += f", {shown['lag'] / 1e6:.6g} s behind"
    return words


def time_text(microseconds: int) -> str:
    """An event time for people; as a number where it is no date."""
    try:
        time = EPOCH + timedelta(microseconds=microseconds)
    except OverflowError:
        return str(microseconds)
    return time.replace(tzinfo=None).isoformat(sep=" ")
