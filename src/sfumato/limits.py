"""Bounds on the work that one row may cause, and the settings that raise them."""

import math
import os
from typing import Any

# Maximum distance of an event time from 1970, and maximum duration: about 36,000 years. The sum of
# two times therefore fits in int64.
MAX_TIME_US = 2**60
MAX_ALTERNATIVES = 10_000  # per row, unless a setting overrides it
MAX_EXTENTS = 10_000  # maximum number of extents of a `Range` that contain a row
MAX_PLACEMENTS = 100_000_000  # see `max_alternatives_with_uncertain_time`
MAX_ALTERNATIVES_SETTING = "sfumato.maxAlternatives"  # setting of the Spark session
MAX_ALTERNATIVES_VARIABLE = "SFUMATO_MAX_ALTERNATIVES"  # environment variable, for tables in memory
HOW_TO_RAISE = f"{MAX_ALTERNATIVES_SETTING} on Spark, {MAX_ALTERNATIVES_VARIABLE} in memory"
MAX_EMPTY_EXTENTS = 1_000_000  # empty extents per gap; each needs about 200 bytes while it is built
MAX_ALTERNATIVES_BOUND = 100_000_000  # lists of alternatives have 32-bit offsets


def alternatives_bound(name: str, given: Any) -> int:
    """Return the value of a setting as a bound; MAX_ALTERNATIVES for None or an empty string."""
    text = str("" if given is None else given).strip()
    if not text:
        return MAX_ALTERNATIVES
    if not (text.isascii() and text.isdecimal() and 1 <= int(text[:12]) <= MAX_ALTERNATIVES_BOUND):
        raise ValueError(
            f"`{name}`, the bound on alternatives per row, must be an integer from 1 to "
            f"{MAX_ALTERNATIVES_BOUND}; got {text[:40]!r}"
        )
    return int(text)


def alternatives_bound_in_memory() -> int:
    """Return the bound for tables in memory, from the environment variable."""
    return alternatives_bound(MAX_ALTERNATIVES_VARIABLE, os.environ.get(MAX_ALTERNATIVES_VARIABLE))


def too_many_reason(bound: int) -> str:
    """Return the part of an invalid row's reason that follows the number of alternatives."""
    return f" alternatives, more than the bound of {bound} ({HOW_TO_RAISE})"


def check_alternatives(argument: str, asked: int | None, bound: int) -> None:
    """Raise ValueError unless an argument is None or an integer from 1 to the bound per row."""
    if asked is None:
        return
    if isinstance(asked, bool) or not hasattr(asked, "__index__") or asked < 1:
        raise ValueError(f"`{argument}` must be an integer of at least 1; got {asked!r:.80}")
    if asked > bound:
        raise ValueError(
            f"`{argument}` asks for up to {asked} alternatives per row, more than the bound of "
            f"{bound}, so that every operator downstream would reject such rows: ask for at most "
            f"{bound}, or raise the bound ({HOW_TO_RAISE})"
        )


def max_alternatives_with_uncertain_time(extents: int) -> int:
    """Return √(MAX_PLACEMENTS / extents), the bound for a row with an uncertain event time."""
    return math.isqrt(MAX_PLACEMENTS // extents)


def check_extents(length: int, slide: int, called: str = "slide") -> None:
    """Raise ValueError if one row may be in more than `MAX_EXTENTS` extents."""
    extents = -(-length // slide)
    if extents > MAX_EXTENTS:
        least = -(-length // MAX_EXTENTS)
        raise ValueError(
            f"`{called}` of {slide} microseconds puts each row into {extents} extents of `length` "
            f"{length} microseconds, more than {MAX_EXTENTS}: write a `{called}` of at least "
            f'"{least} us" or a shorter `length`'
        )
