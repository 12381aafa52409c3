"""After how long a key is forgotten: an argument of every function with keys."""

import math
from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql.types import DateType, NumericType

from sfumato.duration import microseconds
from sfumato.spark.model.columns import is_time

MICROSECONDS_A_DAY = 86_400_000_000


def check_keys(keys: Sequence[str]) -> None:
    """Raise ValueError where there are none to forget."""
    if not keys:
        raise ValueError(
            "`forget_after` is of keys, and there is no `key`: name one, or leave it out"
        )


def forget_after_of(
    df: DataFrame, order: str, keys: Sequence[str], given: str | timedelta | float | None
) -> float | None:
    """The argument `forget_after` in the unit in which operators have the column `order`.

    Of times and whole numbers (microseconds) a length of time, "1 day"; of dates too, of which it
    is a number of days then; of numbers also a number, in their unit.
    Raises ValueError or TypeError for anything else, and without keys.
    """
    if given is None:
        return None
    check_keys(keys)
    kind = df.schema[order].dataType
    number = isinstance(given, int | float) and not isinstance(given, bool)
    if isinstance(kind, NumericType) and number:
        assert isinstance(given, int | float)
        if not (math.isfinite(given) and given > 0):
            raise ValueError(f"`forget_after` must be above 0 and finite; got {given!r}")
        return float(given)
    if is_time(kind):
        return float(microseconds("forget_after", given))  # type: ignore[arg-type]
    if isinstance(kind, DateType):
        return microseconds("forget_after", given) / MICROSECONDS_A_DAY  # type: ignore[arg-type]
    raise TypeError(
        f"`forget_after` must be a number, in the unit of `{order}`, which is "
        f"{kind.simpleString()}; got {given!r}"
    )
