"""Neighbour counts per row, within a stream or in another stream, over Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Ints
from sfumato.operators.joins.neighbours import NeighbourCount, NeighbourCounts
from sfumato.tables.joins.table_similarity_join import (
    SelfJoinTableConfig,
    SimilarityJoinTableConfig,
    TableSelfJoin,
    TableSimilarityJoin,
)
from sfumato.tables.joins.two_sides import Numbers
from sfumato.tables.operator import ROW
from sfumato.tables.row_store import RowStore


@dataclass(frozen=True, kw_only=True)
class OtherNeighboursTableConfig(SimilarityJoinTableConfig):
    """Settings of `NeighbourCount` over two sides, which counts right neighbours of left rows.

    fewer_than : if given, answers include the probability of fewer neighbours than this
    """

    fewer_than: int | None = None

    kind, version = "neighbours of two sides table", 2
    counters: ClassVar[tuple[str, ...]] = tuple(
        name for name in SimilarityJoinTableConfig.counters if name != "pairs"
    )

    def make(self) -> TableOtherNeighbours:
        return TableOtherNeighbours(self)


class TableOtherNeighbours(TableSimilarityJoin):
    """`NeighbourCount` over Arrow tables, which emits each left row on arrival."""

    config: OtherNeighboursTableConfig
    operator: NeighbourCount
    make_operator = NeighbourCount

    @property
    def stores(self) -> tuple[RowStore, ...]:
        return ()  # a row is not needed after its own answer

    def found(
        self, tables: list[pa.Table], order: Ints, side: Numbers, code: Ints, time: Ints | None
    ) -> list[pa.Table]:
        found = self.operator.count(self.arrivals(tables, order, side, code, time))
        left = np.flatnonzero(side == 0)
        if not left.size:
            return []
        # Left rows come first in the tables; a single stream is the left side.
        rows = tables[0].column(ROW).take(pa.array(order[left]))
        return [_answers(rows, found.take(left), self.config.fewer_than)]


@dataclass(frozen=True, kw_only=True)
class NeighboursTableConfig(SelfJoinTableConfig):
    """Settings of `NeighbourCount` over one side. fewer_than : as for two sides"""

    fewer_than: int | None = None

    kind, version = "neighbours table", 3
    counters = ("rows", "late", "out_of_order", "overflow")

    def make(self) -> TableNeighbours:
        return TableNeighbours(self)


class TableNeighbours(TableOtherNeighbours, TableSelfJoin):
    """`NeighbourCount` over Arrow tables within one stream."""

    config: NeighboursTableConfig  # type: ignore[assignment]


def _answers(rows: Any, found: NeighbourCounts, fewer_than: int | None) -> pa.Table:
    pairs = pa.StructArray.from_arrays(
        [pa.array(found.prob), pa.array(found.value)], ["prob", "value"]
    )
    moments = found.moments()
    columns = {
        "mean": pa.array(moments[:, 0], from_pandas=True),
        "stddev": pa.array(moments[:, 1], from_pandas=True),
        "distribution": pa.ListArray.from_arrays(pa.array(found.offsets, pa.int32()), pairs),
    }
    out = {
        ROW: rows,
        "neighbours": pa.StructArray.from_arrays(list(columns.values()), list(columns)),
    }
    if fewer_than is not None:
        out["probability"] = pa.array(found.below(fewer_than), from_pandas=True)
    return pa.table(out)
