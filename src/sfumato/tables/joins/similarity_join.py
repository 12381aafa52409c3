"""The similarity join over Arrow tables: columns to arrays, `SimilarityJoin`, and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.operators.joins.answer_set import Answers
from sfumato.operators.joins.arrivals import Arrivals
from sfumato.operators.joins.pair_matches import Tuples
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.tables.joins.join import (
    ALTERNATIVES,
    Arriving,
    JoinTableConfig,
    TableJoin,
    attributes_at,
    samples_of,
)
from sfumato.tables.joins.metric import PLAIN, Metric
from sfumato.tables.operator import ROW
from sfumato.tables.row_store import RowStore


@dataclass(frozen=True, kw_only=True)
class SimilarityJoinTableConfig(JoinTableConfig):
    """strategy : as for `SimilarityJoin`    metric : how attributes span the distance."""

    strategy: str = "auto"
    metric: Metric = PLAIN

    kind, version = "similarity join table", 3
    counters = ("rows", "late", "unaligned", "pairs", "out_of_order", "overflow")

    def make(self) -> TableSimilarityJoin:
        return TableSimilarityJoin(self)


class TableSimilarityJoin(TableJoin):
    """`SimilarityJoin` over Arrow tables: rows are the certain columns, beside `alternatives`."""

    config: SimilarityJoinTableConfig
    operator: SimilarityJoin
    kept = (ALTERNATIVES,)

    def __init__(self, config: SimilarityJoinTableConfig) -> None:
        super().__init__(config)
        self.operator = SimilarityJoin(
            config.metric.dimensions(len(config.on)),
            config.metric.limit(config.within),
            config.probability,
            config.windows,
            strategy=config.strategy,
            output=config.output,
        )

    def join(self, arriving: Arriving) -> Answers:
        samples = [samples_of(table, self.config.on) for table in arriving.tables]
        of = Tuples.joined(samples).take(arriving.order)
        points = self.config.metric.points(of.points)
        return self.operator.process(
            Arrivals(arriving.side, arriving.code, of.offsets, of.prob, points, arriving.time)
        )

    def side(
        self, store: RowStore, numbers: np.ndarray, sample: np.ndarray, lengths: np.ndarray
    ) -> tuple[pa.ChunkedArray, dict[str, pa.Array]]:
        rows = store.take(numbers)
        return rows.column(ROW), attributes_at(rows, sample, lengths)

    def done(self) -> dict[str, int]:
        return {"overflow": self.operator.overflow}
