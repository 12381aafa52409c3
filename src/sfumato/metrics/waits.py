"""How long rows wait, of a histogram whose bins double: its quantiles."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

SHORT = 0.001  # seconds: the first bin ends here, each later one at twice the end before it
RECENT = 300.0  # seconds that a quantile of now looks back
QUANTILES = (0.5, 0.99)


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Seconds within which this share of the rows came out; None without a row.

    counts : rows of each bin
    Error: below a factor of two, the width of a bin; inside one waits are taken for even by their
    logarithm. What waited less than SHORT waited 0.
    """
    wanted, before = share * sum(counts), 0
    for number, count in enumerate(counts):
        if count and before + count >= wanted:
            return SHORT * 2 ** (number - 1 + (wanted - before) / count) if number else 0.0
        before += count
    return None


def together(one: Sequence[int], other: Sequence[int]) -> list[int]:
    """The rows of both."""
    if not one or not other:
        return list(one or other)
    return [a + b for a, b in zip(one, other, strict=True)]


@dataclass
class RecentWaits:
    """The histograms of the last micro-batches: of RECENT seconds before the newest of them."""

    batches: deque[tuple[float, list[int]]] = field(default_factory=deque)

    def add(self, counts: list[int], now: float) -> None:
        """One more. now : seconds"""
        self.batches.append((now, counts))
        while self.batches[0][0] < now - RECENT:
            self.batches.popleft()

    @property
    def counts(self) -> list[int]:
        """Of all of them."""
        found: list[int] = []
        for _, counts in self.batches:
            found = together(found, counts)
        return found
