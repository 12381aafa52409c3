"""After how long a key is forgotten: an argument of every function with keys."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pyarrow as pa

from sfumato.local.model.frame import Frame
from sfumato.tables.forgetting import Unit, forgotten
from sfumato.tables.reading.types import is_number


def forget_after_of(
    frame: Frame, order: str, keys: Sequence[str], given: str | timedelta | float | None
) -> float | None:
    """The argument `forget_after` in the unit in which operators have the column `order`."""
    kind = frame.type(order)
    unit: Unit | None = None
    if pa.types.is_timestamp(kind):
        unit = "time"
    elif pa.types.is_integer(kind):
        unit = "whole"
    elif is_number(kind):
        unit = "number"
    elif pa.types.is_date(kind):
        unit = "date"
    return forgotten(given, keys, unit, f"`{order}`, which is {kind}")
