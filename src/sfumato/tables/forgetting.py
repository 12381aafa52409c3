"""After how long a key is forgotten: an argument of every function with keys."""

import math
from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

from sfumato.duration import microseconds

MICROSECONDS_A_DAY = 86_400_000_000
Unit = Literal["time", "whole", "number", "date"]
"""Of the order: a timestamp, whole numbers (microseconds, maybe), other numbers, or a date."""


def check_keys(keys: Sequence[str]) -> None:
    """Raise ValueError where there are none to forget."""
    if not keys:
        raise ValueError(
            "`forget_after` is of keys, and there is no `key`: name one, or leave it out"
        )


def forgotten(
    given: str | timedelta | float | None,
    keys: Sequence[str],
    unit: Unit | None,
    described: str,
) -> float | None:
    """The argument `forget_after` in the unit in which operators have the order.

    unit : None: one in which nothing can be forgotten    described : the order, for the message
    Of times and whole numbers (microseconds) a length of time, "1 day"; of dates too, of which it
    is a number of days then; of numbers also a number, in their unit.
    Raises ValueError or TypeError for anything else, and without keys.
    """
    if given is None:
        return None
    check_keys(keys)
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if unit in ("whole", "number") and number:
        assert isinstance(given, int | float)
        if not (math.isfinite(given) and given > 0):
            raise ValueError(f"`forget_after` must be above 0 and finite; got {given!r}")
        return float(given)
    if unit in ("time", "whole"):
        return float(microseconds("forget_after", given))  # type: ignore[arg-type]
    if unit == "date":
        return microseconds("forget_after", given) / MICROSECONDS_A_DAY  # type: ignore[arg-type]
    raise TypeError(f"`forget_after` must be a number, in the unit of {described}; got {given!r}")
