"""The rows of a disorder controller in the order of their release, whatever moved them since.

Each row carries what its place depends on. Rows in order have ascending punctuations, and those of
one punctuation come in order of event time. A late row stands behind the rows in order that the
punctuation it carries has released, and before those of a higher one: they did not know it. So the
rows of a static frame, or of a micro-batch, can be shuffled, sorted or joined in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.operators.arrays import longer
from sfumato.operators.state.declared import Array, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrival_order import arrival_order
from sfumato.tables.arrow import UNKNOWN, as_numbers
from sfumato.tables.declared import Table
from sfumato.tables.keys import KeyIndex
from sfumato.tables.operator import TIE

PUNCTUATION = "punctuation"
RELEASED = (PUNCTUATION, "late", "order0")  # rows of a controller come in order of these columns
ARRIVAL = "arrival"  # of late rows: they come in this order where they have one punctuation


def punctuations_of(rows: pa.Table) -> np.ndarray:
    """int64[n]: the punctuations of the rows; UNKNOWN where none is known yet."""
    return _times(rows, PUNCTUATION)


def lateness_of(rows: pa.Table) -> np.ndarray:
    """bool[n]: the rows that are marked late."""
    marked: np.ndarray = as_numbers(rows.column("late")) != 0
    return marked


def release_order(rows: pa.Table) -> np.ndarray:
    """int64[n]: places of the rows in the order of their release.

    Late rows of one punctuation come in order of the column `arrival`, if there is one.
    """
    late = lateness_of(rows)
    columns = [punctuations_of(rows), late]
    if ARRIVAL in rows.column_names:
        columns.append(np.where(late, _times(rows, ARRIVAL), UNKNOWN))
    columns.append(as_numbers(rows.column("order0")))
    return arrival_order(columns, [as_numbers(rows.column(TIE))])


def _times(rows: pa.Table, name: str) -> np.ndarray:
    column = rows.column(name)
    unknown = pc.is_null(column).to_numpy()
    if not unknown.any():
        return as_numbers(column)
    known = np.full(len(column), UNKNOWN)
    known[~unknown] = as_numbers(column.drop_null())
    return known


class LateRowBuffer(Stateful):
    """Late rows of sources that are ahead, until the rows that stand before them have come.

    The punctuation of a late row is that of its own source. Where that is ahead of the key's, rows
    in order that the late row stands behind are still held by the controller. So the late row waits
    until a row in order of its scope has a higher punctuation: then all of them have come.

    scope : numbers of the keys that share a punctuation
    """

    state: ClassVar[Mapping[str, Any]] = {
        "scopes": Part(),
        "reached": Array(int, "scopes"),
        "waiting": Table(),
    }

    def __init__(self, scope: Sequence[int]) -> None:
        self.names = [f"key{i}" for i in scope]
        self.scopes = KeyIndex()
        self.reached = np.empty(0, np.int64)  # of each scope: its greatest punctuation
        self.waiting: pa.Table | None = None

    def settled(self, rows: pa.Table) -> pa.Table:
        """Take rows; return those whose place is known now, in any order."""
        late, punctuation = lateness_of(rows), punctuations_of(rows)
        scope = self.scopes.encode(rows.select(self.names))
        self.reached = longer(self.reached, int(scope.max(initial=-1)) + 1, UNKNOWN)
        np.maximum.at(self.reached, scope[~late], punctuation[~late])
        if self.waiting is not None:
            rows = pa.concat_tables([self.waiting, rows]).combine_chunks()
            late, punctuation = lateness_of(rows), punctuations_of(rows)
            scope = self.scopes.encode(rows.select(self.names))
        elif not late.any():
            return rows
        waits = late & (punctuation >= self.reached[scope])
        self.waiting = rows.filter(pa.array(waits)) if waits.any() else None
        return rows.filter(pa.array(~waits)) if waits.any() else rows

    def rest(self) -> pa.Table | None:
        """Return the rows that wait: the stream has ended. None where there are none."""
        rows, self.waiting = self.waiting, None
        return rows

    def after_loading(self) -> None:
        if len(self.reached) != (len(self.scopes) if self.names else min(len(self.reached), 1)):
            raise ValueError("every scope of late rows has a punctuation")
