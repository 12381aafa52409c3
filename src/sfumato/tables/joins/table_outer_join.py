"""The similarity join that also emits rows without a partner, over Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.joins.answers import Answers, Unmatched
from sfumato.operators.joins.outer_join import OuterJoin
from sfumato.tables.joins.table_join import AnswerTypes, TypedAnswersConfig, answers_table
from sfumato.tables.joins.table_similarity_join import (
    SimilarityJoinTableConfig,
    TableSimilarityJoin,
)
from sfumato.tables.operator import SIDES


@dataclass(frozen=True, kw_only=True)
class OuterJoinTableConfig(TypedAnswersConfig, SimilarityJoinTableConfig):
    """Settings of an outer similarity join over tables. how : as for `OuterJoin`"""

    how: str

    kind, version = "outer join table", 3
    counters: ClassVar[tuple[str, ...]] = (*SimilarityJoinTableConfig.counters, "unmatched")

    def make(self) -> TableOuterJoin:
        return TableOuterJoin(self)


class TableOuterJoin(TableSimilarityJoin):
    """`OuterJoin` over Arrow tables: rows without a partner follow the pairs of a micro-batch."""

    config: OuterJoinTableConfig
    operator: OuterJoin
    make_operator = OuterJoin

    @staticmethod
    def options(config: OuterJoinTableConfig) -> dict[str, Any]:
        return {"how": config.how}

    def __init__(self, config: OuterJoinTableConfig) -> None:
        super().__init__(config)
        self.types = AnswerTypes.of(config.answers)

    def process(self, batch: Sequence[tuple[int, pa.Table]], now: int) -> list[pa.Table]:
        return [*super().process(batch, now), *self._unmatched()]

    def idle(self, now: int) -> list[pa.Table]:
        return [*super().idle(now), *self._unmatched()]

    def flush(self) -> list[pa.Table]:
        return [*super().flush(), *self._unmatched(end=True)]

    def _table(self, answers: Answers) -> pa.Table:
        return self.types.apply(super()._table(answers))

    def _unmatched(self, end: bool = False) -> list[pa.Table]:
        """Return the rows that can no longer get a partner."""
        reached = None if self.sides is None else self.sides.emitted_until()
        found = self.operator.release(reached, end)
        return [self._unmatched_table(side, of) for side, of in found if len(of.number)]

    def _unmatched_table(self, side: int, found: Unmatched) -> pa.Table:
        self.counts["unmatched"] += len(found.number)
        mine, other = self.stores[side], self.stores[1 - side]
        sizes = np.diff(found.offsets)
        sample = np.arange(len(found.prob)) - np.repeat(found.offsets[:-1], sizes)
        known = None if other.empty is None else other.empty.schema
        sides = [
            self.rows_of_side(mine, found.number, sample, sizes),
            self.types.nulls(SIDES[1 - side], len(found.number), len(found.prob), known),
        ]
        left, right = sides if side == 0 else sides[::-1]
        return self.types.apply(answers_table(left, right, found, self.config.alternatives))
