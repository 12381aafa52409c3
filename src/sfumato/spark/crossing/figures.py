"""Counters and gauges of an operator, in columns next to its answers: one list per type of them.

A column for each, some dozens, would cost too much: Spark plans, compiles and passes on every
column of a micro-batch, at each place where something is observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructType

from sfumato.reports import IDENTITY, METRIC_PREFIX

if TYPE_CHECKING:  # a process beside the driver imports this, and must not import kernels
    from sfumato.tables.operator import OperatorConfig

# Where figures of a kind, as Spark calls it, are; what one is for Spark and for Arrow.
FIGURE_COLUMNS: dict[str, tuple[str, DataType, pa.DataType]] = {
    "long": ("numbers", LongType(), pa.int64()),
    "string": ("texts", StringType(), pa.string()),
    "array<long>": ("lists", ArrayType(LongType()), pa.list_(pa.int64())),
}


class MetricsName(str):
    """The name of what an operator observes, `sfumato_KIND_NAME`.

    kind : of the operator     given : whether the user chose NAME
    """

    kind: str
    given: bool

    def __new__(cls, kind: str, name: str, *, given: bool = False) -> MetricsName:
        """Return the name of an operator of this kind."""
        found = super().__new__(cls, f"{METRIC_PREFIX}{kind}_{name}")
        found.kind, found.given = kind, given
        return found

    def identity(self, side: str = "", step: int = 1) -> list[Column]:
        """Return the fields that say whose an observed row is.

        side : of an input or answers, see `OperatorPart`
        step : the operator's number in its chain
        """
        values = (self.kind, self.removeprefix(METRIC_PREFIX), step, side)
        return [F.lit(of).alias(name) for name, of in zip(IDENTITY, values, strict=True)]


class OperatorFigures:
    """The counters and gauges of an operator. kinds : name -> Spark's name of its type"""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.names: dict[str, list[str]] = {}  # by kind: those of a column, in order
        for name, kind in kinds.items():
            self.names.setdefault(kind, []).append(name)

    @classmethod
    def of(cls, blueprint: OperatorConfig) -> OperatorFigures:
        """Return those of an operator."""
        gauges = {name: of for name, (of, _) in blueprint.gauges.items()}
        return cls(dict.fromkeys(blueprint.counters, "long") | gauges)

    @property
    def columns(self) -> StructType:
        """The columns."""
        found = StructType()
        for kind in self.names:
            found = found.add(FIGURE_COLUMNS[kind][0], ArrayType(FIGURE_COLUMNS[kind][1]))
        return found

    @property
    def fields(self) -> list[pa.Field]:
        """The same as Arrow's."""
        return [
            pa.field(FIGURE_COLUMNS[kind][0], pa.list_(FIGURE_COLUMNS[kind][2]))
            for kind in self.names
        ]

    @property
    def places(self) -> dict[str, str]:
        """Each figure by its name, in SQL."""
        return {
            name: f"{FIGURE_COLUMNS[kind][0]}[{place}]"
            for kind, names in self.names.items()
            for place, name in enumerate(names)
        }

    def cells(self, known: Mapping[str, Any]) -> dict[str, list[Any]]:
        """A row of the columns; NULL for figures that are not known."""
        return {
            FIGURE_COLUMNS[kind][0]: [known.get(name) for name in names]
            for kind, names in self.names.items()
        }


def difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Return the increase of each counter."""
    return {name: count - before.get(name, 0) for name, count in after.items()}
