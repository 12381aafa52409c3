"""After how long a key is forgotten: an argument of every function with keys."""

import math
from collections.abc import Sequence
from datetime import timedelta

from sfumato.duration import microseconds
from sfumato.tables.reading.frame import NUMBERS, TIMES, Frame

MICROSECONDS_A_DAY = 86_400_000_000


def check_keys(keys: Sequence[str]) -> None:
    """Raise ValueError where there are none to forget."""
    if not keys:
        raise ValueError(
            "`forget_after` is of keys, and there is no `key`: name one, or leave it out"
        )


def forget_after_of(
    frame: Frame, order: str, keys: Sequence[str], given: str | timedelta | float | None
) -> float | None:
    """The argument `forget_after` in the unit in which operators have the column `order`.

    Of times and whole numbers (microseconds) a length of time, "1 day"; of dates too, of which it
    is a number of days then; of numbers also a number, in their unit.
    Raises ValueError or TypeError for anything else, and without keys.
    """
    if given is None:
        return None
    check_keys(keys)
    kind = frame.kind(order)
    if kind in NUMBERS and isinstance(given, int | float) and not isinstance(given, bool):
        if not (math.isfinite(given) and given > 0):
            raise ValueError(f"`forget_after` must be above 0 and finite; got {given!r}")
        return float(given)
    if kind in TIMES:
        return float(microseconds("forget_after", given))  # type: ignore[arg-type]
    if kind == "date":
        return microseconds("forget_after", given) / MICROSECONDS_A_DAY  # type: ignore[arg-type]
    raise TypeError(
        f"`forget_after` must be a number, in the unit of `{order}`, which is "
        f"{frame.shown(order)}; got {given!r}"
    )
