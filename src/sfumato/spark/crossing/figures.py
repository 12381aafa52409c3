"""Counters and gauges of an operator, next to its answers: one list column per type.

One column per counter would be slow: Spark plans, compiles and passes on every column of a
micro-batch at each observation point.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, DataType, LongType, StringType, StructType

from sfumato.reports import IDENTITY, METRIC_PREFIX
from sfumato.spark.model.columns import arrow_schema

if TYPE_CHECKING:  # a process next to the driver imports this: no kernels
    from sfumato.tables.reading.chain import ChainConfig

# The column of metrics of a kind (Spark's name of a type), and the type of one metric.
FIGURE_COLUMNS: dict[str, tuple[str, DataType]] = {
    "long": ("numbers", LongType()),
    "string": ("texts", StringType()),
    "array<long>": ("lists", ArrayType(LongType())),
}


class MetricsName(str):
    """The name of an operator's observed metrics, `sfumato_KIND_NAME`.

    kind : of the operator     given : whether the user chose NAME
    """

    kind: str
    given: bool

    def __new__(cls, kind: str, name: str, *, given: bool = False) -> MetricsName:
        """Create the name for an operator of this kind."""
        found = super().__new__(cls, f"{METRIC_PREFIX}{kind}_{name}")
        found.kind, found.given = kind, given
        return found

    def identity(self, side: str = "", step: int = 1) -> list[Column]:
        """Return the fields that identify the source of an observed row."""
        values = (self.kind, self.removeprefix(METRIC_PREFIX), step, side)
        return [F.lit(of).alias(name) for name, of in zip(IDENTITY, values, strict=True)]


class OperatorFigures:
    """The counters and gauges of an operator. kinds : name -> Spark's name of its type"""

    def __init__(self, kinds: Mapping[str, str]) -> None:
        self.names: dict[str, list[str]] = {}  # by kind: the metrics in a column, in order
        for name, kind in kinds.items():
            self.names.setdefault(kind, []).append(name)

    @classmethod
    def of(cls, blueprint: ChainConfig) -> OperatorFigures:
        gauges = {name: of for name, (of, _) in blueprint.gauges.items()}
        return cls(dict.fromkeys(blueprint.counters, "long") | gauges)

    @property
    def columns(self) -> StructType:
        """Return the columns as a Spark type."""
        found = StructType()
        for kind in self.names:
            found = found.add(FIGURE_COLUMNS[kind][0], ArrayType(FIGURE_COLUMNS[kind][1]))
        return found

    @property
    def fields(self) -> list[pa.Field]:
        """Return the columns as Arrow fields."""
        return list(arrow_schema(self.columns))

    @property
    def places(self) -> dict[str, str]:
        """Return the SQL expression of each metric, by name."""
        return {
            name: f"{FIGURE_COLUMNS[kind][0]}[{place}]"
            for kind, names in self.names.items()
            for place, name in enumerate(names)
        }

    def cells(self, known: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Return one row of the columns; metrics that are not known are NULL."""
        return {
            FIGURE_COLUMNS[kind][0]: [known.get(name) for name in names]
            for kind, names in self.names.items()
        }


def difference(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    """Return the increase of each counter."""
    return {name: count - before.get(name, 0) for name, count in after.items()}
