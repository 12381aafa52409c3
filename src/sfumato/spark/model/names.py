"""Columns under fixed names: what users call theirs cannot clash with what operators need.

On the way to an operator the columns of a frame are c0, c1, ... by position; on the way back they
get their names, types and metadata again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType


def quoted(name: str) -> str:
    """The name as Spark reads it, whatever it contains."""
    return "`" + name.replace("`", "``") + "`"


def unquoted(text: str) -> str:
    """A name in backquotes without them; any other text as it is."""
    inner = text[1:-1].replace("``", "`")
    return inner if text == quoted(inner) else text


def column(name: str) -> Column:
    """The column of a frame with exactly this name."""
    return F.col(quoted(name))


def fixed(i: int) -> str:
    """The fixed name of the i-th column of a frame."""
    return f"c{i}"


@dataclass(frozen=True)
class Result:
    """A column of an operator's result.

    source : the column of the answers, under its fixed name, and then fields of structs
    kind : the type that it has there under users' names; None: as it is
    metadata : what it says of the column    default : in place of NULL
    """

    name: str
    source: tuple[str, ...]
    kind: DataType | None = None
    metadata: Mapping[str, Any] | None = None
    default: Any = None

    @property
    def column(self) -> Column:
        """The column of the answers under its name."""
        found = reduce(lambda column, field: column[field], self.source[1:], F.col(self.source[0]))
        if self.default is not None:
            found = F.coalesce(found, F.lit(self.default))
        found = found if self.kind is None else found.cast(self.kind)
        return named(found, self.name, dict(self.metadata or {}))


def named(column: Column, name: str, metadata: dict[str, Any] | None = None) -> Column:
    """The column under a name, with metadata if there is any."""
    return column.alias(name, metadata=metadata) if metadata else column.alias(name)


def under_fixed_names(df: DataFrame) -> DataFrame:
    """The frame with columns c0, c1, ... by position."""
    return df.toDF(*(fixed(i) for i in range(len(df.columns))))


def without_constraints(df: DataFrame) -> DataFrame:
    """The same rows and columns, of which Spark derives nothing from how they are computed.

    Spark keeps conditions that hold for rows, such as `tie = xxhash64(c0, ..., c99)`, and writes
    each one again for every column that gets another name: twice as many per column, 2**100 here.
    An Expand, which a table of values in rows is made by, passes no condition on; one with one
    value per row gives the rows as they are.

    df : its columns have names without dots, and none is called `__value` or `__name`
    """
    valued = df.select("*", F.lit(0).alias("__value"))
    return valued.unpivot([*df.columns], ["__value"], "__name", "__value").select(*df.columns)


def with_texts(df: DataFrame, texts: Mapping[str, str]) -> DataFrame:
    """The frame with columns of constant texts before its own."""
    return df.select(*(F.lit(text).alias(name) for name, text in texts.items()), "*")
