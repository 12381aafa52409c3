"""The similarity join over Arrow tables: columns to arrays, `SimilarityJoin`, and back."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.joins.answers import Answers, SampledTuples
from sfumato.operators.joins.arrivals import Arrivals, Task
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.state.config import CHANGEABLE
from sfumato.tables.joins.alternatives import ALTERNATIVES, attributes_at, samples_of
from sfumato.tables.joins.join import Arriving, JoinTableConfig, TableJoin
from sfumato.tables.joins.metric import PLAIN, Metric
from sfumato.tables.operator import ROW
from sfumato.tables.row_store import RowStore


@dataclass(frozen=True, kw_only=True)
class SimilarityJoinTableConfig(JoinTableConfig):
    """strategy : as for `SimilarityJoin`    metric : how attributes span the distance

    tasks : how many operators share the join, see `Task`    task : the number of this one
    """

    strategy: str = "auto"
    metric: Metric = PLAIN
    tasks: int = 1
    task: int = field(default=0, metadata=CHANGEABLE)

    kind, version = "similarity join table", 5
    counters: ClassVar[tuple[str, ...]] = (
        "rows", "late", "unaligned", "pairs", "out_of_order", "overflow",
    )  # fmt: skip

    def for_task(self, number: int) -> SimilarityJoinTableConfig:
        return replace(self, task=number)

    def make(self) -> TableSimilarityJoin:
        return TableSimilarityJoin(self)


class TableSimilarityJoin(TableJoin):
    """`SimilarityJoin` over Arrow tables: rows are the certain columns, beside `alternatives`."""

    config: SimilarityJoinTableConfig
    operator: SimilarityJoin

    def __init__(self, config: SimilarityJoinTableConfig) -> None:
        super().__init__(config)
        self.kept = (ALTERNATIVES,) if config.alternatives else ()
        self.operator = SimilarityJoin(
            config.metric.dimensions(len(config.on)),
            config.metric.limit(config.within),
            config.probability,
            config.windows,
            strategy=config.strategy,
            output=config.output,
            alternatives=config.alternatives,
            task=Task(config.task, config.tasks),
        )
        self.operator.most_pairs = config.max_alternatives

    def join(self, arriving: Arriving) -> Answers:
        samples = [samples_of(table, self.config.on) for table in arriving.tables]
        of = SampledTuples.joined(samples).take(arriving.order)
        points = self.config.metric.points(of.points)
        return self.operator.process(
            Arrivals(arriving.side, arriving.code, of.offsets, of.prob, points, arriving.time)
        )

    def side(
        self, store: RowStore, numbers: np.ndarray, sample: np.ndarray, lengths: np.ndarray
    ) -> tuple[pa.ChunkedArray, dict[str, pa.Array]]:
        rows = store.take(numbers)
        pairs = attributes_at(rows, sample, lengths) if self.config.alternatives else {}
        return rows.column(ROW), pairs

    def after_loading(self) -> None:
        super().after_loading()
        if not self.kept:
            return
        held = self.operator.tuples
        samples = np.diff(held.offsets)
        for number, store in enumerate(self.stores):
            # Of tuples that another task owns no samples are held.
            of = np.flatnonzero((held.code % 2 == number) & (samples > 0))
            if not of.size:
                continue
            rows = store.take(held.number[of]).column(ALTERNATIVES)
            if not np.array_equal(pc.list_value_length(rows).to_numpy(), samples[of]):
                raise ValueError("rows have other alternatives than the tuples that are held")

    def done(self) -> dict[str, int]:
        return {"overflow": self.operator.overflow}

    def counters(self) -> dict[str, int]:
        found = super().counters()
        if self.config.task == 0:
            return found
        return dict.fromkeys(found, 0) | {"pairs": found["pairs"]}  # the first one counts rows

    def gauges(self) -> dict[str, Any]:
        found = super().gauges()
        if self.config.task:  # every task knows all keys, and pairs its own tuples with arrivals
            found |= {"keys": 0, "new_keys": 0}
        return found
