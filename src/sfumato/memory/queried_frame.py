"""A table in memory over which expressions are computed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sfumato.memory.expressions import ArrowExpressions
from sfumato.memory.frame import ArrowFrame, frame_of
from sfumato.memory.uncertain_time import by_extent, true_extents
from sfumato.tables.reading.queried_frame import QueriedFrame
from sfumato.windows import Range


class QueriedArrowFrame(ArrowFrame, QueriedFrame):
    """A table whose expressions and uncertain event times are known."""

    @classmethod
    def of(cls, given: Any, argument: str) -> QueriedArrowFrame:
        """Return the frame of a pandas, Polars or Arrow table; see `frame_of`."""
        frame = frame_of(given, argument)
        return cls(frame.table, frame.forgotten)

    @property
    def expressions(self) -> ArrowExpressions:
        return ArrowExpressions(self)

    def by_extent(self, order: str, window: Range) -> tuple[QueriedArrowFrame, str, Range]:
        rows, at, extents = by_extent(self, order, window)
        return QueriedArrowFrame(rows, self.forgotten), at, extents

    def with_true_extents(self, answers: pa.Table, window: Range) -> pa.Table:
        return true_extents(answers, window)
