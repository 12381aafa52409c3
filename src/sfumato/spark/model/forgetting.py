"""After how long a key is forgotten: an argument of every function with keys."""

from collections.abc import Sequence
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql.types import DateType, NumericType

from sfumato.spark.model.columns import is_time
from sfumato.tables.forgetting import Unit, forgotten
from sfumato.tables.forgetting import check_keys as check_keys


def forget_after_of(
    df: DataFrame, order: str, keys: Sequence[str], given: str | timedelta | float | None
) -> float | None:
    """The argument `forget_after` in the unit in which operators have the column `order`.

    Of times and whole numbers (microseconds) a length of time, "1 day"; of dates too, of which it
    is a number of days then; of numbers also a number, in their unit.
    Raises ValueError or TypeError for anything else, and without keys.
    """
    kind = df.schema[order].dataType
    unit: Unit | None = None
    if is_time(kind):
        unit = "whole" if isinstance(kind, NumericType) else "time"
    elif isinstance(kind, NumericType):
        unit = "number"
    elif isinstance(kind, DateType):
        unit = "date"
    return forgotten(given, keys, unit, f"`{order}`, which is {kind.simpleString()}")
