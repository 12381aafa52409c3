"""The similarity join with windows in lockstep, over Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.state.declared import Part
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrow import SavedTable, as_numbers
from sfumato.tables.joins.table_similarity_join import (
    SimilarityJoinTableConfig,
    TableSimilarityJoin,
)
from sfumato.tables.operator import SIDES


class NewestTime(Stateful):
    """The rows with the newest time so far; rows must arrive in time order."""

    state = dict.fromkeys(SIDES, SavedTable())

    def __init__(self) -> None:
        self.left: pa.Table | None = None
        self.right: pa.Table | None = None

    def add(self, batch: Sequence[tuple[int, pa.Table]]) -> list[tuple[int, pa.Table]]:
        """Add rows; return all rows before the newest time."""
        given = [*self.take_waiting(), *((side, table) for side, table in batch if table.num_rows)]
        times = [as_numbers(table.column("order0")) for _, table in given]
        newest = max((time.max() for time in times), default=None)
        ready = []
        for (side, table), time in zip(given, times, strict=True):
            before, waits = getattr(self, SIDES[side]), pa.array(time == newest)
            tables = [*([] if before is None else [before]), table.filter(waits)]
            setattr(self, SIDES[side], pa.concat_tables(tables))
            ready.append((side, table.filter(pc.invert(waits))))
        return ready

    def take_waiting(self) -> list[tuple[int, pa.Table]]:
        """Remove and return the waiting rows."""
        tables = [(side, getattr(self, name)) for side, name in enumerate(SIDES)]
        self.left = self.right = None
        return [(side, table) for side, table in tables if table is not None and table.num_rows]


@dataclass(frozen=True, kw_only=True)
class LockstepJoinTableConfig(SimilarityJoinTableConfig):
    """Settings of a similarity join in lockstep over tables."""

    kind, version = "lockstep join table", 2

    def make(self) -> TableLockstepJoin:
        return TableLockstepJoin(self)


class TableLockstepJoin(TableSimilarityJoin):
    """`SimilarityJoin` in lockstep, which processes all rows of one time in one call.

    Aligned sides emit these rows together; rows of static frames wait for a row with a later time.
    """

    config: LockstepJoinTableConfig
    state = {"waiting": Part()}

    def __init__(self, config: LockstepJoinTableConfig) -> None:
        super().__init__(config)
        self.waiting = NewestTime()

    def _join_rows(self, batch: Sequence[tuple[int, pa.Table]]) -> list[pa.Table]:
        return super()._join_rows(batch if self.sides is not None else self.waiting.add(batch))

    def flush(self) -> list[pa.Table]:
        if self.sides is not None:
            return super().flush()
        return super()._join_rows(self.waiting.take_waiting())
