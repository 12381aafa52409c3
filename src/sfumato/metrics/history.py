"""A query's history in a bounded number of points, and its waiting times."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

MAX_POINTS = 1_000  # points per query
FIRST_BIN_S = 0.001  # upper bound of the first bin of waits; each later bound is twice as large
RECENT_S = 300.0  # time span of the recent waits
QUANTILES = (0.5, 0.99)  # displayed quantiles of waits
SUMS = ("rows_in", "rows_out", "late", "late_of", "busy", "batches")  # summed in merged points


@dataclass
class Point:
    """One or several consecutive micro-batches.

    at : end of the last micro-batch, seconds since 1970     busy : total duration in seconds
    late, late_of : number of late rows, and number of rows that could be late
    held : held rows at the end     lag : maximum lag in seconds; None without a reorder
    memory : bytes of state at the end     parts : seconds by phase
    waits : released rows per bin of waiting time; empty without a reorder
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

    def merged_with(self, other: Point) -> Point:
        """Return this point and the next one, merged."""
        lags = [lag for lag in (self.lag, other.lag) if lag is not None]
        names = self.parts | other.parts
        parts = {name: self.parts.get(name, 0) + other.parts.get(name, 0) for name in names}
        waits = sum_histograms(self.waits, other.waits)
        sums: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in SUMS}
        return replace(other, lag=max(lags, default=None), parts=parts, waits=waits, **sums)


def merge_neighbours(points: Sequence[Point], size: int) -> list[Point]:
    parts = (points[i : i + size] for i in range(0, len(points), size))
    return [reduce(Point.merged_with, part) for part in parts]


def limit_points(points: list[Point]) -> list[Point]:
    """Merge neighbours in the older half of `points` (oldest first) if there are too many."""
    if len(points) <= MAX_POINTS:
        return points
    half = MAX_POINTS // 2
    return merge_neighbours(points[:half], 2) + points[half:]


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Return the seconds within which a share of the rows was released; None without rows.

    counts : rows per bin
    The error is less than a factor of two, the width of a bin. Within a bin, waits are assumed to
    be uniform on a logarithmic scale. Waits in the first bin are treated as 0.
    """
    wanted, before = share * sum(counts), 0
    for number, count in enumerate(counts):
        if count and before + count >= wanted:
            place = number - 1 + (wanted - before) / count
            return FIRST_BIN_S * 2**place if number else 0.0
        before += count
    return None


def sum_histograms(*histograms: Sequence[int]) -> list[int]:
    """Return the sum of histograms, bin by bin; empty lists are ignored."""
    filled = [counts for counts in histograms if counts]
    return [sum(counts) for counts in zip(*filled, strict=True)]


@dataclass
class RecentWaits:
    """Waits in the micro-batches within RECENT_S seconds of the newest micro-batch."""

    batches: deque[tuple[float, list[int]]] = field(default_factory=deque)

    def add(self, counts: list[int], now: float) -> None:
        """Add the waits of a micro-batch. now : seconds"""
        self.batches.append((now, counts))
        while self.batches[0][0] < now - RECENT_S:
            self.batches.popleft()

    @property
    def counts(self) -> list[int]:
        """Return the rows per bin; empty without micro-batches."""
        return sum_histograms(*(counts for _, counts in self.batches))


def quantiles(waits: Iterable[Sequence[int]]) -> list[float | None]:
    """Return the QUANTILES of the sum of several histograms, in seconds."""
    counts = sum_histograms(*waits)
    return [quantile(counts, share) for share in QUANTILES]
