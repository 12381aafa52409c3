"""Columns under fixed names: what users call theirs cannot clash with what operators need.

On the way to an operator the columns that come out again are the fields c0, c1, ... of a struct;
on the way back they get their names, types and metadata again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import DataType, IntegerType, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def quoted(name: str) -> str:
    """The name as Spark reads it, whatever it contains."""
    return "`" + name.replace("`", "``") + "`"


def column(name: str) -> Column:
    """The column of a frame with exactly this name."""
    return F.col(quoted(name))


class Passed:
    """Columns of a frame that pass through an operator within one struct.

    frame : where they are from    names : which; none: the struct has one field, 0
    """

    def __init__(self, frame: DataFrame, names: Sequence[str]) -> None:
        self.fields = [frame.schema[name] for name in names]

    @property
    def struct(self) -> Column:
        """The columns as one struct<c0, c1, ...>."""
        cells = [column(f.name).alias(f"c{i}") for i, f in enumerate(self.fields)]
        return F.struct(*(cells or [F.lit(0).alias("c0")]))

    @property
    def type(self) -> StructType:
        """The type of that struct."""
        fields = [StructField(f"c{i}", f.dataType) for i, f in enumerate(self.fields)]
        return StructType(fields or [StructField("c0", IntegerType())])

    def columns(self, of: str = "row") -> list[Column]:
        """The columns again, out of the struct column `of`."""
        return [named(F.col(of)[f"c{i}"], f.name, f.metadata) for i, f in enumerate(self.fields)]

    def renamed(self, of: str) -> Column:
        """The struct column `of` with the columns' names as those of its fields."""
        return F.col(of).cast(StructType(self.fields) if self.fields else self.type)


def named(column: Column, name: str, metadata: dict | None = None) -> Column:
    """The column under a name, with metadata if there is any."""
    return column.alias(name, metadata=metadata) if metadata else column.alias(name)


def renamed(fixed: str, name: str, kind: DataType | None = None) -> Column:
    """The column `fixed` under a user's name; with `kind`, fields of structs get theirs too."""
    found = F.col(fixed)
    return (found if kind is None else found.cast(kind)).alias(name)
