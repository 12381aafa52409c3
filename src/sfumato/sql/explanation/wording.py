"""Numbers, sizes and spans of time in the words of EXPLAIN."""

from collections.abc import Sequence
from datetime import timedelta

from sfumato.duration import spelled
from sfumato.spark.model.figures import expected_tuples
from sfumato.windows import JoinWindow, Rows

EXISTENCES = (1.0, 0.9, 0.5)  # for which EXPLAIN gives the size of a window
TYPICAL = 0.9  # existence of the tuples whose state it gives


def listed(value: str | Sequence[str] | None) -> list[str]:
    """One name, several or none, as a list."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else list(value)


def per_key(key: str | Sequence[str] | None, without: str) -> str:
    """How many of something there are: one a value of the key, or what is said without one."""
    return f"one a value of ({', '.join(listed(key))}), in parallel" if key else without


def percent(ratio: float) -> str:
    """A ratio as users write it: 1%, 99.9%."""
    return f"{ratio * 100:.6g}%"


def span(length: int | timedelta) -> str:
    """A duration, of microseconds if it is a number; see `spelled`."""
    if isinstance(length, timedelta):
        length = length // timedelta(microseconds=1)
    return spelled(length)


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


def newest(window: Rows | JoinWindow) -> str:
    """What a window of rows is."""
    return (
        f"the newest tuples that hold {window.rows} existing ones with confidence "
        f"{percent(window.confidence)}"
    )


def held(rows: int, confidence: float) -> str:
    """About how many tuples a window of rows holds, for tuples that exist more or less surely."""
    sizes = ", ".join(f"{p:g}: {_about(rows, p, confidence)}" for p in EXISTENCES)
    return f"at existence {sizes}"


def typical_bytes(rows: int, confidence: float, each: int) -> tuple[str, str]:
    """w' of a window of rows, and its bytes with so many a tuple (" = 3 MB"; "" without bound)."""
    count = expected_tuples(rows, TYPICAL, confidence)
    if count is None:
        return "w'", ""
    return f"w' = {count} (existence {TYPICAL:g})", f" = {size(count * each)}"


def _about(rows: int, existence: float, confidence: float) -> str:
    count = expected_tuples(rows, existence, confidence)
    return "no bound" if count is None else f"{count}" if existence == 1 else f"about {count}"
