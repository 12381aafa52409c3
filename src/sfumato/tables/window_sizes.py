"""How many tuples windows by count hold, against how many are to exist in them."""

from collections.abc import Iterable, Mapping
from typing import Any

# Gauges of the largest window of a micro-batch, w', and of what it is held for, w.
SIZES: Mapping[str, tuple[str, str]] = {
    "window_size": ("long", "max(window_size)"),
    "window_rows": ("long", "max(window_rows)"),
}


def sizes(largest: int, windows: Iterable[Any]) -> dict[str, int | None]:
    """The two gauges. largest : 0 where nothing came    windows : one without `rows` goes by time
    or by values"""
    rows = [of for window in windows if (of := getattr(window, "rows", None)) is not None]
    return {"window_size": largest or None, "window_rows": max(rows, default=None)}
