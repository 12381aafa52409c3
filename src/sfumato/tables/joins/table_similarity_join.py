"""The similarity join of two streams, or of one with itself, over Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.joins.answers import Answers, SampledTuples
from sfumato.operators.joins.arrivals import Arrivals, Task
from sfumato.operators.joins.similarity_join import SimilarityJoin
from sfumato.operators.state.config import CHANGEABLE
from sfumato.operators.state.declared import Part
from sfumato.tables.arrival_order import Arrival
from sfumato.tables.disorder.released import PUNCTUATION, punctuations_of
from sfumato.tables.joins.metric import EUCLIDEAN, JoinMetric
from sfumato.tables.joins.table_join import (
    ALTERNATIVES,
    ArrivalBatch,
    JoinTableConfig,
    Numbers,
    RowsOfSide,
    TableJoin,
    attributes_at,
    samples_of,
)
from sfumato.tables.operator import ROW
from sfumato.tables.row_store import RowStore


@dataclass(frozen=True, kw_only=True)
class SimilarityJoinTableConfig(JoinTableConfig):
    """strategy : as for `SimilarityJoin`    metric : how attributes span the distance

    tasks : how many operators share the join, see `Task`    task : the number of this one
    """

    strategy: str = "auto"
    metric: JoinMetric = EUCLIDEAN
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
    """`SimilarityJoin` over Arrow tables: rows have the certain columns and `alternatives`."""

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

    def join(self, batch: ArrivalBatch) -> Answers:
        samples = [samples_of(table, self.config.on) for table in batch.tables]
        of = SampledTuples.joined(samples).take(batch.order)
        points = self.config.metric.points(of.points)
        return self.operator.process(
            Arrivals(batch.side, batch.code, of.offsets, of.prob, points, batch.time)
        )

    def rows_of_side(
        self, store: RowStore, numbers: np.ndarray, sample: np.ndarray, lengths: np.ndarray
    ) -> RowsOfSide:
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
            # The operator has no samples of tuples that another task owns.
            of = np.flatnonzero((held.code % 2 == number) & (samples > 0))
            if not of.size:
                continue
            rows = store.take(held.number[of]).column(ALTERNATIVES)
            if not np.array_equal(pc.list_value_length(rows).to_numpy(), samples[of]):
                raise ValueError("rows have other alternatives than the tuples that are held")

    def operator_counters(self) -> dict[str, int]:
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


@dataclass(frozen=True, kw_only=True)
class SelfJoinTableConfig(SimilarityJoinTableConfig):
    """marks_late : rows have the columns `late` and `punctuation` of a disorder controller; late
    rows are left out, and rows of one event time follow each other by their punctuations."""

    marks_late: bool = False

    kind, version = "self join table", 2
    counters = ("rows", "late", "pairs", "out_of_order", "overflow")

    def arrival(self, side: int = 0) -> Arrival:
        first, *others = super().arrival(side).columns
        return Arrival((first, *([PUNCTUATION] if self.marks_late else []), *others))

    def make(self) -> TableSelfJoin:
        return TableSelfJoin(self)


class TableSelfJoin(TableSimilarityJoin):
    """`SimilarityJoin` of a stream, on the left, with itself, on the right.

    A row comes on the left first and is matched with earlier rows, which have come on the right as
    well. Then it comes on the right, where every match is with itself or known already, and is left
    out. So `left` of an answer is the row that arrives, `right` an earlier one. A row has the same
    number on both sides, and is stored once.
    """

    config: SelfJoinTableConfig
    state = {"operator": Part(), "left": Part()}

    @property
    def stores(self) -> tuple[RowStore, ...]:
        return (self.left,)

    def live(self, number: int) -> Numbers:
        return np.union1d(self.operator.live(0), self.operator.live(1))

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        tables = [table for _, table in batch]
        self.counts["rows"] += sum(table.num_rows for table in tables)
        if self.config.marks_late:
            tables = [self.without_late(table) for table in tables]
        return self._joined([(side, table) for side in (0, 1) for table in tables])

    def join(self, batch: ArrivalBatch) -> Answers:
        answers = super().join(batch)
        return answers.take(np.flatnonzero(answers.left > answers.right))

    def released(self, tables: Sequence[pa.Table]) -> list[Numbers]:
        if not self.config.marks_late:
            return []
        return [np.concatenate([punctuations_of(table) for table in tables])]

    def ties(self, side: Numbers, tie: Numbers, within_side: Numbers) -> list[Numbers]:
        return [tie, within_side, side]

    def note_order(self, columns: Sequence[np.ndarray]) -> None:
        if self.config.marks_late and not self.config.one_controller:
            return  # each key of the controller has its own order
        before = self.counts["out_of_order"]
        super().note_order([column[::2] for column in columns])  # a row is there twice
        self.require_one_controller(self.counts["out_of_order"] - before)

    def after_loading(self) -> None:
        super().after_loading()
        left, right = self.operator.given.given
        if left != right:
            raise ValueError("rows are numbered differently on the two sides")

    def operator_counters(self) -> dict[str, int]:
        return {"overflow": self.operator.overflow // 2}
