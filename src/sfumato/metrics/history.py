"""The course of a query over hours in a bounded number of points, and how long its rows waited."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce

MAX_POINTS = 1_000  # of a query
FIRST_BIN_S = 0.001  # the first bin of waits ends here, each later one at twice the end before it
RECENT_S = 300.0  # how far the recent waits go back
QUANTILES = (0.5, 0.99)  # of waits, that are shown


@dataclass
class Point:
    """Some consecutive micro-batches.

    at : end of the last one, seconds since 1970     busy : seconds that they took in total
    late, late_of : late rows, and the rows of the operators that count both
    held : rows at the end     lag : seconds, the largest; None without a reorder
    memory : bytes at the end     parts : seconds by phase
    waits : rows that reorders released, by how long they had waited; empty without one
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
    waits: list[int]
    batches: int = 1

    def then(self, other: Point) -> Point:
        """Return both as one point."""
        lags = [lag for lag in (self.lag, other.lag) if lag is not None]
        names = self.parts | other.parts
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
            added_up(self.waits, other.waits),
            self.batches + other.batches,
        )


def joined(points: Sequence[Point], size: int) -> list[Point]:
    """Return a point for each `size` neighbours."""
    parts = (points[i : i + size] for i in range(0, len(points), size))
    return [reduce(Point.then, part) for part in parts]


def thinned(points: list[Point]) -> list[Point]:
    """Return the points of a query, oldest first: if too many, pairs of the older half as one."""
    if len(points) <= MAX_POINTS:
        return points
    half = MAX_POINTS // 2
    return joined(points[:half], 2) + points[half:]


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Return the seconds within which this share of the rows was released; None without rows.

    counts : rows of each bin
    Error: less than a factor of two, the width of a bin. Within a bin, waits are assumed to be
    spread evenly by their logarithm. Waits in the first bin count as 0.
    """
    wanted, before = share * sum(counts), 0
    for number, count in enumerate(counts):
        if count and before + count >= wanted:
            place = number - 1 + (wanted - before) / count
            return FIRST_BIN_S * 2**place if number else 0.0
        before += count
    return None


def added_up(*histograms: Sequence[int]) -> list[int]:
    """Return the sums of histograms, bin by bin; empty ones have no rows."""
    filled = [counts for counts in histograms if counts]
    return [sum(counts) for counts in zip(*filled, strict=True)]


@dataclass
class RecentWaits:
    """The waits of the micro-batches of the last RECENT_S seconds before the newest one."""

    batches: deque[tuple[float, list[int]]] = field(default_factory=deque)

    def add(self, counts: list[int], now: float) -> None:
        """Add those of a micro-batch. now : seconds"""
        self.batches.append((now, counts))
        while self.batches[0][0] < now - RECENT_S:
            self.batches.popleft()

    @property
    def counts(self) -> list[int]:
        """Rows of each bin; empty without micro-batches."""
        return added_up(*(counts for _, counts in self.batches))


def quantiles(waits: Iterable[Sequence[int]]) -> list[float | None]:
    """Return the QUANTILES of several histograms together, in seconds."""
    counts = added_up(*waits)
    return [quantile(counts, share) for share in QUANTILES]
