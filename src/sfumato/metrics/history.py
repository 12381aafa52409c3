"""The course of a query over hours, in a bounded number of points."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

from sfumato.metrics.progress import REORDER, WAITS, MicroBatch, late_and_rows
from sfumato.metrics.waits import together

MOST = 1_000  # points that are kept; the older half is thinned when there are more


@dataclass
class Point:
    """Some micro-batches one after the other.

    at : end of the last one, seconds since 1970    busy : seconds that they took together
    late : late rows, of `late_of` rows: of the operators that count both    held : rows at the end
    lag : seconds, the largest; None without a reorder     parts : seconds by part
    waits : rows that came out of reorders, by how long they had waited; empty without one
    """

    at: float
    rows_in: int
    rows_out: int
    late: int
    late_of: int
    busy: float
    held: int
    lag: float | None
    memory: int
    parts: dict[str, float]
    batches: int = 1
    waits: list[int] = field(default_factory=list)

    def then(self, other: Point) -> Point:
        """Both as one."""
        lags = [lag for lag in (self.lag, other.lag) if lag is not None]
        names = {**self.parts, **other.parts}
        return Point(
            other.at,
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            self.late + other.late,
            self.late_of + other.late_of,
            self.busy + other.busy,
            other.held,
            max(lags, default=None),
            other.memory,
            {name: self.parts.get(name, 0) + other.parts.get(name, 0) for name in names},
            self.batches + other.batches,
            together(self.waits, other.waits),
        )


@dataclass
class History:
    """The points, oldest first; amortised O(1) a micro-batch."""

    points: list[Point] = field(default_factory=list)

    def add(self, batch: MicroBatch, now: float) -> None:
        """One more micro-batch. now : seconds since 1970"""
        lags = [shown["lag"] for shown in batch.gauges.values() if shown.get("lag") is not None]
        late, late_of = late_and_rows(batch.counters)
        held = sum(count for metric, count in batch.held.items() if metric.startswith(REORDER))
        self.points.append(
            Point(
                now,
                batch.rows_in,
                batch.rows_out,
                late,
                late_of,
                batch.seconds,
                held,
                max(lags) / 1e6 if lags else None,
                batch.state.get("memory", 0),
                dict(batch.parts),
                waits=reduce(together, (s.get(WAITS) or [] for s in batch.gauges.values()), []),
            )
        )
        if len(self.points) > MOST:
            half = MOST // 2
            older, newer = self.points[:half], self.points[half:]
            pairs = zip(older[::2], older[1::2], strict=True)
            self.points = [one.then(other) for one, other in pairs] + newer
