"""What a frame's schema says: which columns are uncertain, and which an argument names."""

import re
from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from sfumato.spark.model.alternatives import ALTERNATIVES
from sfumato.tables.reading.names import meant
from sfumato.tables.reading.names import names as names

ORDERABLE = (NumericType, TimestampType, TimestampNTZType, DateType, BooleanType)


def attributes_of(df: DataFrame) -> list[str]:
    """Names of the attributes of the frame's alternatives; none where it has no alternatives.

    Raises TypeError when the column `alternatives` is not an array of structs with a `prob`.
    """
    if ALTERNATIVES not in df.columns:
        return []
    kind = df.schema[ALTERNATIVES].dataType
    if not (
        isinstance(kind, ArrayType)
        and isinstance(kind.elementType, StructType)
        and "prob" in kind.elementType.names
    ):
        raise TypeError(
            f"column `{ALTERNATIVES}` must be array<struct<prob: double, ATTR: double, ...>>; "
            f"got {kind.simpleString()}: make it with sf.alternatives or sf.samples"
        )
    return [name for name in kind.elementType.names if name != "prob"]


def resolved(df: DataFrame, argument: str, given: str | Sequence[str] | None) -> list[str]:
    """The names of the columns that an argument means, as the frame has them.

    Where Spark ignores case, as it does by default, neither do names. Raises ValueError,
    with the likely name, for a column that the frame lacks or has twice.
    """

    def tells_case_apart() -> bool:
        return df.sparkSession.conf.get("spark.sql.caseSensitive") == "true"

    return meant(df.columns, argument, given, tells_case_apart, lambda: attributes_of(df))


def one_resolved(df: DataFrame, argument: str, given: str) -> str:
    """`resolved` for an argument that names one column. Raises TypeError for anything else."""
    if not isinstance(given, str):
        raise TypeError(f"`{argument}` must be the name of one column; got {given!r}")
    return resolved(df, argument, given)[0]


def keys_of(df: DataFrame, argument: str, given: str | Sequence[str] | None) -> list[str]:
    """The key columns that an argument names.

    Raises ValueError for columns that the frame lacks, TypeError for those of a type by which
    Spark cannot group.
    """
    found = resolved(df, argument, given)
    for name in found:
        kind = df.schema[name].dataType
        if not _groupable(kind):
            raise TypeError(
                f"`{argument}`: Spark cannot group by column `{name}`, which is "
                f"{kind.simpleString()}: make a text or a struct of it, as with to_json"
            )
    return found


def _groupable(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return all(_groupable(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return _groupable(kind.elementType)
    plain = kind.simpleString()  # intervals of months do not go to Python
    return not isinstance(kind, MapType) and not re.match("variant|interval( year| month|$)", plain)


def is_time(kind: DataType) -> bool:
    """Whether a column has event times: timestamps, or whole microseconds."""
    return isinstance(kind, TimestampType | TimestampNTZType | IntegralType)


def require_time(df: DataFrame, argument: str, name: str, where: str = "") -> None:
    """Raise TypeError for a column without event times; `where` : what needs them."""
    kind = df.schema[name].dataType
    if not is_time(kind):
        hint = f": to_timestamp({name}) makes one of it" if isinstance(kind, StringType) else ""
        raise TypeError(
            f"`{argument}` must be a timestamp or whole microseconds{where}; "
            f"`{name}` is {kind.simpleString()}{hint}"
        )


def require_orders(df: DataFrame, argument: str, wanted: Sequence[str]) -> None:
    """Raise TypeError for columns by which rows cannot follow each other."""
    for name in wanted:
        kind = df.schema[name].dataType
        if not isinstance(kind, ORDERABLE):
            raise TypeError(
                f"`{argument}` must name columns of numbers, times or dates; `{name}` is "
                f"{kind.simpleString()}"
            )
