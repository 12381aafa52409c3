"""Arrow rows in event-time order: `Reorder` for the times, and the rows that it holds back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from sfumato.operators.disorder.reorder import Released, Reorder
from sfumato.tables.held_rows import HeldRows


@dataclass(frozen=True)
class OrderedRows:
    """Rows that came out, in order of output; the arrays are those of `Released`."""

    rows: pa.Table
    late: np.ndarray
    punctuation: np.ndarray
    key: np.ndarray
    event_time: np.ndarray


class RowReorder:
    """`Reorder` with the rows themselves: what goes in by number comes out by number."""

    def __init__(self, operator: Reorder) -> None:
        self.operator = operator
        self._held = HeldRows()
        self._schema: pa.Schema | None = None

    def process(
        self, keys: np.ndarray, event_time: np.ndarray, arrival: np.ndarray, rows: pa.Table
    ) -> OrderedRows:
        """What comes out at the next n arrivals, as `Reorder.process` says.

        rows : n rows; the schema stays that of the first call
        Raises what `Reorder.process` raises, and ValueError for other rows.
        Cost: one Arrow take of what comes out, and one of what stays.
        """
        self._check(rows, len(keys))
        first = self.operator.arrived
        released = self.operator.process(keys, event_time, arrival)
        return self._taken(released, rows, first)

    def idle(self, keys: np.ndarray | None = None) -> OrderedRows:
        """`Reorder.idle`, with the rows."""
        return self._drained(self.operator.idle(keys))

    def flush(self) -> OrderedRows:
        """`Reorder.flush`, with the rows."""
        return self._drained(self.operator.flush())

    def _drained(self, released: Released) -> OrderedRows:
        empty = (self._schema or pa.schema([])).empty_table()
        return self._taken(released, empty, self.operator.arrived)

    def _taken(self, released: Released, rows: pa.Table, first: int) -> OrderedRows:
        table = self._rows(released.number, rows, first)
        alive = self.operator.held_rows
        staying = alive[np.searchsorted(alive, first) :]
        self._held.append(staying, _take(rows, staying - first))
        self._held.forget(alive)
        return OrderedRows(
            table, released.late, released.punctuation, released.key, released.event_time
        )

    def _rows(self, numbers: np.ndarray, rows: pa.Table, first: int) -> pa.Table:
        """The rows numbered `numbers`: those below `first` were held, the others are in `rows`."""
        new = np.flatnonzero(numbers >= first)
        if len(new) == len(numbers):
            return _take(rows, numbers - first)
        parts = [*self._held.take(numbers), (new, _take(rows, numbers[new] - first))]
        places = np.argsort(np.concatenate([place for place, _ in parts]))
        return _take(pa.concat_tables([table for _, table in parts]), places)

    def _check(self, rows: pa.Table, wanted: int) -> None:
        if rows.num_rows != wanted:
            raise ValueError(f"`rows` must have {wanted} rows, as `keys`; got {rows.num_rows}")
        if self._schema is None:
            self._schema = rows.schema
        elif not rows.schema.equals(self._schema):
            raise ValueError(
                f"`rows` must keep its schema; got {rows.schema} after {self._schema}: "
                "start a new operator, or cast the columns"
            )

    @property
    def held(self) -> pa.Table | None:
        """The rows held, in order of arrival; None before the first row."""
        rows = self._held.rows(self.operator.held_rows)
        if rows is None and self._schema is not None:
            return self._schema.empty_table()
        return rows

    @classmethod
    def of(cls, operator: Reorder, held: pa.Table | None) -> RowReorder:
        """The reorder that had this operator and these rows `held`."""
        reorder = cls(operator)
        if held is not None:
            reorder._schema = held.schema
            reorder._held.append(operator.held_rows, held)
        return reorder


def _take(table: pa.Table, places: np.ndarray) -> pa.Table:
    n = len(places)
    if n == table.num_rows and np.array_equal(places, np.arange(n)):
        return table
    return table.take(pa.array(places))
