"""The release order of a disorder controller's rows, restored even after a shuffle.

On-time rows are ordered by punctuation, then by event time. A late row follows the rows released by
its punctuation, and precedes rows with a higher punctuation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import pad
from sfumato.operators.state.declared import Array, Optional, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrival_order import Arrival, arrival_order
from sfumato.tables.arrow import NO_PUNCTUATION, SavedTable, as_numbers
from sfumato.tables.arrow import punctuations_of as punctuations_of
from sfumato.tables.keys import KeyIndex
from sfumato.tables.operator import TIE, TableConfig, TableOperator
from sfumato.tables.reading.frame import LATE, PUNCTUATION

RELEASED = (PUNCTUATION, LATE, "order0")  # the release order
ARRIVAL = "arrival"  # orders late rows with equal punctuations


def lateness_of(rows: pa.Table) -> np.ndarray:
    marked: np.ndarray = as_numbers(rows.column("late")) != 0
    return marked


def release_order(rows: pa.Table) -> np.ndarray:
    """Return int64[n]: the positions of the rows in release order; see `ARRIVAL`."""
    late = lateness_of(rows)
    columns = [punctuations_of(rows), late]
    if ARRIVAL in rows.column_names:
        columns.append(np.where(late, punctuations_of(rows, ARRIVAL), NO_PUNCTUATION))
    columns.append(as_numbers(rows.column("order0")))
    return arrival_order(columns, [as_numbers(rows.column(TIE))])


class LateRowBuffer(Stateful):
    """A buffer that holds late rows until all preceding rows have arrived.

    A late row has the punctuation of its source. If the source's punctuation is ahead of the key's,
    the controller still holds rows that precede the late row. The late row therefore waits until an
    on-time row of its scope has a higher punctuation.

    scope : numbers of the key columns that are keys of the controller
    """

    state: ClassVar[Mapping[str, Any]] = {
        "scopes": Part(),
        "reached": Array(int, "scopes"),
        "waiting": SavedTable(),
    }

    def __init__(self, scope: Sequence[int]) -> None:
        self.names = [f"key{i}" for i in scope]
        self.scopes = KeyIndex()
        self.reached = np.empty(0, np.int64)  # highest punctuation per scope
        self.waiting: pa.Table | None = None

    def take_ordered(self, rows: pa.Table) -> pa.Table:
        """Add rows; return, in any order, the rows whose position is now known."""
        if self.waiting is not None:
            rows = pa.concat_tables([self.waiting, rows]).combine_chunks()
        late, punctuation = lateness_of(rows), punctuations_of(rows)
        scope = self.scopes.encode(rows.select(self.names))
        self.reached = pad(self.reached, int(scope.max(initial=-1)) + 1, NO_PUNCTUATION)
        np.maximum.at(self.reached, scope[~late], punctuation[~late])
        waits = late & (punctuation >= self.reached[scope])
        self.waiting = rows.filter(pa.array(waits)) if waits.any() else None
        return rows.filter(pa.array(~waits)) if waits.any() else rows

    def take_waiting(self) -> pa.Table | None:
        """Return the waiting rows (or None) at the end of the stream."""
        rows, self.waiting = self.waiting, None
        return rows

    def after_loading(self) -> None:
        if len(self.reached) != (len(self.scopes) if self.names else min(len(self.reached), 1)):
            raise ValueError("every scope of late rows must have a punctuation")


@dataclass(frozen=True, kw_only=True)
class ReleasedTableConfig(TableConfig):
    """Settings of an operator that processes a controller's rows in release order.

    scope : numbers of the key columns that are keys of the controller; None without a controller
    by_source : whether late rows have the punctuation of a source, see `LateRowBuffer`
    """

    scope: tuple[int, ...] | None = None
    by_source: bool = False

    @property
    def scope_columns(self) -> list[str]:
        return [f"key{i}" for i in self.scope or ()]

    @property
    def shared(self) -> bool:
        """Return whether several keys share a punctuation."""
        return self.scope is not None and len(self.scope) < self.keys

    def arrival(self) -> Arrival:
        return super().arrival() if self.scope is None else Arrival(RELEASED)


class ReleasedOperator(TableOperator):
    """An operator that processes a controller's rows in release order."""

    config: ReleasedTableConfig
    state = {"late_rows": Optional(Part("_new_buffer"))}

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        buffered = config.scope is not None and config.by_source
        self.late_rows = self._new_buffer() if buffered else None

    def _new_buffer(self) -> LateRowBuffer:
        return LateRowBuffer(self.config.scope or ())

    def take_ordered(self, rows: pa.Table) -> pa.Table:
        return rows if self.late_rows is None else self.late_rows.take_ordered(rows)

    def arrange(self, rows: pa.Table) -> np.ndarray:
        return super().arrange(rows) if self.config.scope is None else release_order(rows)

    def flush(self) -> list[pa.Table]:
        rest = None if self.late_rows is None else self.late_rows.take_waiting()
        return [] if rest is None else self.process_usable(rest, 0)
