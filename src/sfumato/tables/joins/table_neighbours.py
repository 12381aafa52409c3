"""The number of neighbours of each row of a stream over Arrow tables."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from sfumato.operators.arrays import Ints
from sfumato.operators.joins.neighbours import NeighbourCount
from sfumato.tables.arrow import joined
from sfumato.tables.joins.table_similarity_join import SelfJoinTableConfig, TableSelfJoin
from sfumato.tables.joins.two_sides import Numbers
from sfumato.tables.operator import ROW
from sfumato.tables.row_store import RowStore


@dataclass(frozen=True, kw_only=True)
class NeighboursTableConfig(SelfJoinTableConfig):
    """Settings of `NeighbourCount` over tables.

    fewer_than : answers include the probability of fewer neighbours than this; None: they do not
    """

    fewer_than: int | None = None

    kind, version = "neighbours table", 2
    counters = ("rows", "late", "out_of_order", "overflow")

    def make(self) -> TableNeighbours:
        return TableNeighbours(self)


class TableNeighbours(TableSelfJoin):
    """`NeighbourCount` over Arrow tables: every row is emitted at once, with its distribution."""

    config: NeighboursTableConfig
    operator: NeighbourCount
    make_operator = NeighbourCount

    @property
    def stores(self) -> tuple[RowStore, ...]:
        return ()  # a row is not needed after its own answer

    def found(
        self, tables: list[pa.Table], order: Ints, side: Numbers, code: Ints, time: Ints | None
    ) -> list[pa.Table]:
        found = self.operator.count(self.arrivals(tables, order, side, code, time))
        pairs = pa.StructArray.from_arrays(
            [pa.array(found.prob), pa.array(found.value)], ["prob", "value"]
        )
        moments = found.moments()
        columns = {
            "mean": pa.array(moments[:, 0], from_pandas=True),
            "stddev": pa.array(moments[:, 1], from_pandas=True),
            "distribution": pa.ListArray.from_arrays(pa.array(found.offsets, pa.int32()), pairs),
        }
        rows = joined([table.select([ROW]) for table in tables]).take(pa.array(order))
        out = {
            ROW: rows.column(ROW),
            "neighbours": pa.StructArray.from_arrays(list(columns.values()), list(columns)),
        }
        if self.config.fewer_than is not None:
            out["probability"] = pa.array(found.below(self.config.fewer_than), from_pandas=True)
        return [pa.table(out)]
