"""Parsing and formatting of durations."""

import re
from datetime import timedelta

from sfumato.near_misses import did_you_mean

MICROSECONDS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
UNIT_SYMBOLS = {
    "us": "microsecond",
    "µs": "microsecond",
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "m": "minute",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
}
UNIT_WORDS = tuple(f"{unit}s" for unit in MICROSECONDS)
MICROSECOND = timedelta(microseconds=1)
UNITS_SHOWN = (("h", "hour"), ("min", "minute"), ("s", "second"), ("ms", "millisecond"))
AMOUNT_AND_UNIT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zµ]+)\s*", re.IGNORECASE)


def microseconds(argument: str, duration: str | timedelta) -> int:
    """Convert a duration ("5 minutes", "1 hour 30 min", a timedelta) to microseconds, > 0."""
    if isinstance(duration, timedelta):
        total = duration // MICROSECOND
    elif isinstance(duration, str):
        total = _parsed(argument, duration)
    else:
        raise TypeError(
            f"`{argument}` must be a string like '10 seconds' or a timedelta; got {duration!r}"
        )
    if total <= 0:
        raise ValueError(f"`{argument}` must be positive; got {duration!r}")
    return total


def _parsed(argument: str, text: str) -> int:
    total, place = 0.0, 0
    while place < len(text):
        part = AMOUNT_AND_UNIT.match(text, place)
        word = part.group(2).lower().removesuffix("s") if part else ""
        plain = part.group(2).lower() if part else ""
        unit = word if word in MICROSECONDS else UNIT_SYMBOLS.get(plain, UNIT_SYMBOLS.get(word, ""))
        if part is None or not unit:
            raise ValueError(
                f"`{argument}` must be a duration like '10 seconds' or '1 hour 30 minutes', "
                f"in {', '.join(UNIT_WORDS)}; got {text!r}"
                f"{did_you_mean(plain, UNIT_WORDS) if plain else ''}"
            )
        total += float(part.group(1)) * MICROSECONDS[unit]
        place = part.end()
    return round(total)


def spelled(length: int | timedelta) -> str:
    """Format a timedelta, or microseconds, in the largest unit without a fraction: "2 min"."""
    if isinstance(length, timedelta):
        length //= MICROSECOND
    for word, unit in UNITS_SHOWN:
        if length % MICROSECONDS[unit] == 0:
            return f"{length // MICROSECONDS[unit]} {word}"
    return f"{length} us"
