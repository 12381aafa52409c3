"""The similarity join of a stream with itself over Arrow tables: each pair once, and none of a row
with itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.joins.answers import Answers
from sfumato.operators.state.declared import Part
from sfumato.tables.arrival_order import Arrival
from sfumato.tables.disorder.released import PUNCTUATION, punctuations_of
from sfumato.tables.joins.join import Arriving, Numbers
from sfumato.tables.joins.similarity_join import SimilarityJoinTableConfig, TableSimilarityJoin
from sfumato.tables.row_store import RowStore


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

    A row comes on the left first and is matched with the rows before it, which have come on the
    right as well; then it comes on the right, where whatever is found is a pair of the row with
    itself or one known already, and is left out. So `left` of an answer is the row that arrives,
    `right` an earlier one. Its row has the same number on both sides, and is stored once.
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
            before = sum(table.num_rows for table in tables)
            tables = [t.filter(pc.invert(pc.fill_null(t.column("late"), False))) for t in tables]
            self.counts["late"] += before - sum(table.num_rows for table in tables)
        tables = [table for table in tables if table.num_rows]
        return self._joined([(side, table) for side in (0, 1) for table in tables])

    def join(self, arriving: Arriving) -> Answers:
        answers = super().join(arriving)
        return answers.take(np.flatnonzero(answers.left > answers.right))

    def released(self, tables: Sequence[pa.Table]) -> list[Numbers]:
        if not self.config.marks_late:
            return []
        return [np.concatenate([punctuations_of(table) for table in tables])]

    def ties(self, side: Numbers, tie: Numbers, within_side: Numbers) -> list[Numbers]:
        return [tie, within_side, side]

    def note_order(self, columns: Sequence[np.ndarray]) -> None:
        if self.config.marks_late and not self.config.one_controller:
            return  # each key of the controller has an order of its own
        before = self.counts["out_of_order"]
        super().note_order([column[::2] for column in columns])  # a row is there twice
        self.require_one_controller(self.counts["out_of_order"] - before)

    def after_loading(self) -> None:
        super().after_loading()
        left, right = self.operator.given.given
        if left != right:
            raise ValueError("rows are numbered differently on the two sides")

    def done(self) -> dict[str, int]:
        return {"overflow": self.operator.overflow // 2}
