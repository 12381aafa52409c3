"""Neighbour counts per row, within a stream or in another stream, over Arrow tables."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Floats
from sfumato.operators.distributions.aggregate import AggregateResult
from sfumato.operators.joins.arrivals import ArrivalBatch
from sfumato.operators.joins.neighbours import (
    NearSamples,
    NeighbourCount,
    NeighbourCounts,
    results_of_neighbours,
)
from sfumato.tables.joins.table_similarity_join import (
    SelfJoinTableConfig,
    SimilarityJoinTableConfig,
    TableSelfJoin,
    TableSimilarityJoin,
)
from sfumato.tables.joins.two_sides import OrderedSides
from sfumato.tables.operator import ROW, TIE
from sfumato.tables.row_store import RowStore
from sfumato.tables.windows.table_windows import RowWindowTableConfig, list_of_pairs


@dataclass(frozen=True, kw_only=True)
class OtherNeighboursTableConfig(SimilarityJoinTableConfig):
    """Settings of `NeighbourCount` over two sides, which counts right neighbours of left rows.

    fewer_than : if given, answers include the probability of fewer neighbours than `fewer_than`
    aggregated : if given, the aggregates over the neighbours
    """

    fewer_than: int | None = None
    aggregated: RowWindowTableConfig | None = field(default=None, metadata={"fingerprint": "added"})

    kind, version = "neighbours of two sides table", 4
    counters: ClassVar[tuple[str, ...]] = tuple(
        name for name in SimilarityJoinTableConfig.counters if name != "pairs"
    )


class TableOtherNeighbours(TableSimilarityJoin):
    """`NeighbourCount` over Arrow tables, which emits each left row on arrival."""

    config: OtherNeighboursTableConfig
    operator: NeighbourCount
    make_operator = NeighbourCount

    @property
    def stores(self) -> tuple[RowStore, ...]:
        return () if self.config.aggregated is None else super().stores

    def stored_columns(self, side: int) -> list[str]:
        if side < self.operator.streams - 1:
            return [TIE]  # a row is not needed after its own answer
        assert self.config.aggregated is not None
        return ["prob", *self.config.aggregated.value_columns]

    def process_arrivals(self, rows: OrderedSides) -> list[pa.Table]:
        arrivals = self.arrivals(rows)
        aggregated = self.config.aggregated
        results: dict[str, pa.ChunkedArray] = {}
        if aggregated is None:
            counts = self.operator.count(arrivals)
        else:
            parts, columns = list[NeighbourCounts](), list[pa.Table]()
            for part, some, near in self.operator.count_with_samples(arrivals):
                parts.append(some)
                columns.append(pa.table(aggregated.result_columns(self._aggregate(part, near))))
            counts, table = NeighbourCounts.concat(parts), pa.concat_tables(columns)
            results = dict(zip(table.column_names, table.columns, strict=True))
        left = np.flatnonzero(rows.side == 0)
        if not left.size:
            return []
        # Left rows come first in the tables; a single stream is the left side.
        own = rows.tables[0].column(ROW).take(pa.array(rows.order[left]))
        counts, fewer_than = counts.take(left), self.config.fewer_than
        moments = counts.moments()
        cells = [*(pa.array(of, from_pandas=True) for of in moments.T), list_of_pairs(counts)]
        shown = pa.StructArray.from_arrays(cells, ["mean", "stddev", "distribution"])
        out = {ROW: own, **results, "neighbours": shown}
        if fewer_than is not None:
            out["probability"] = pa.array(counts.probability_below(fewer_than), from_pandas=True)
        return [pa.table(out)]

    def _aggregate(self, arrivals: ArrivalBatch, near: NearSamples) -> list[AggregateResult]:
        config = self.config.aggregated
        assert config is not None
        numbers, row = np.unique(near.number, return_inverse=True)
        prob: Floats = np.empty(0)
        values: Floats = np.empty((0, config.all_attributes))
        if numbers.size:
            offsets, prob, values = config.tuples(self.stores[-1].take(numbers))
            place = np.repeat(offsets[row], np.diff(near.begins)) + near.sample
            prob, values = prob[place], values[place]
        given = config.aggregates, config.options, arrivals, near
        return results_of_neighbours(*given, prob, values.T)


@dataclass(frozen=True, kw_only=True)
class NeighboursTableConfig(OtherNeighboursTableConfig, SelfJoinTableConfig):
    """Settings of `NeighbourCount` over tables of one side."""

    kind, version = "neighbours table", 4
    counters = ("rows", "late", "out_of_order", "overflow")


class TableNeighbours(TableOtherNeighbours, TableSelfJoin):
    """`NeighbourCount` over Arrow tables within one stream."""

    config: NeighboursTableConfig
