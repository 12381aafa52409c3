"""Numbers, sizes and spans of time in the words of `explain`."""

from __future__ import annotations

import math
from statistics import NormalDist


def per_key(key: tuple[str, ...], without: str) -> str:
    """How many of something there are: one a value of the key, or what is said without one."""
    return f"one a value of ({', '.join(key)}), in parallel" if key else without


def percent(ratio: float) -> str:
    """A ratio as users write it: 1%, 99.9%."""
    return f"{ratio * 100:.6g}%"


def span(microseconds: int) -> str:
    """A duration in the largest unit that it is a whole number of."""
    for unit, length in (("h", 3_600_000_000), ("min", 60_000_000), ("s", 1_000_000), ("ms", 1000)):
        if microseconds % length == 0:
            return f"{microseconds // length} {unit}"
    return f"{microseconds} µs"


def size(count: float) -> str:
    """Bytes in the unit that fits."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.3g} {unit}"
        count /= 1000
    raise AssertionError


def one_line(text: str) -> str:
    """A text with each gap one space."""
    return " ".join(text.split())


def about(rows: int, existence: float, level: float) -> str:
    """`expected_tuples` in words."""
    held = expected_tuples(rows, existence, level)
    return "no bound" if held is None else f"{held}" if existence == 1 else f"about {held}"


def expected_tuples(rows: int, existence: float, confidence: float) -> int | None:
    """About how many tuples hold `rows` existing ones, if each exists with that probability.

    The least n with Pr(Binomial(n, existence) ≥ rows) ≥ confidence by the normal approximation
    with continuity correction; exact for existence 1; None where no n is enough. O(1).
    """
    if existence == 1 or confidence <= 0:
        return rows
    if confidence >= 1:
        return None
    spread = NormalDist().inv_cdf(confidence) * math.sqrt(existence * (1 - existence))
    root = (spread + math.sqrt(spread**2 + 4 * existence * (rows - 0.5))) / (2 * existence)
    return max(rows, math.ceil(root**2))
