"""Window configurations: frozen, and checked when they are made."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Rows:
    """Uncertain count window: the fewest newest tuples that hold `rows` existing ones.

    rows : how many existing tuples the window is to hold, ≥ 1
    confidence : the probability with which it holds them, in (0, 1]
    max_tuples : at most so many tuples are kept (None: no bound); tuples evicted by this
        bound are counted as overflow, and the confidence is not reached while they are missing

    Raises ValueError for a value out of range. Source: A, section 4 (W(U, w, α)).
    """

    rows: int
    confidence: float = 0.95
    max_tuples: int | None = None

    def __post_init__(self) -> None:
        if isinstance(self.rows, bool) or not isinstance(self.rows, int) or self.rows < 1:
            raise ValueError(f"`rows` must be a whole number of at least 1; got {self.rows!r}")
        if not (math.isfinite(self.confidence) and 0 < self.confidence <= 1):
            raise ValueError(
                f"`confidence` must lie in (0, 1], for example 0.95; got {self.confidence!r}"
            )
        if self.max_tuples is not None and self.max_tuples < self.rows:
            raise ValueError(
                f"`max_tuples` must be None or at least `rows` = {self.rows}; got {self.max_tuples}"
            )
