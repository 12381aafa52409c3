"""Arrow rows in event-time order: `Reorder` for the times, and the rows that it holds back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.disorder.reorder import NO_CODES, Reorder
from sfumato.operators.disorder.rows import Released
from sfumato.operators.state.declared import Declaration, Part
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrow import taken
from sfumato.tables.row_store import RowStore


@dataclass(frozen=True)
class OrderedRows(Released):
    """Rows that came out, in order of output, with what `Released` says of them."""

    rows: pa.Table

    def then(self, other: OrderedRows) -> OrderedRows:
        """These rows and then others."""
        rows = pa.concat_tables([self.rows, other.rows])
        return self._made(
            lambda name: np.concatenate([getattr(self, name), getattr(other, name)]), rows
        )

    def take(self, places: np.ndarray) -> OrderedRows:
        """The rows at some places."""
        return self._made(lambda name: getattr(self, name)[places], taken(self.rows, places))

    def _made(self, array: Callable[[str], np.ndarray], rows: pa.Table) -> OrderedRows:
        return OrderedRows(**{of.name: array(of.name) for of in fields(Released)}, rows=rows)


class RowReorder(Stateful):
    """`Reorder` with the rows themselves: what goes in by number comes out by number."""

    state: ClassVar[Mapping[str, Declaration]] = {"operator": Part(), "held": Part()}

    def __init__(self, operator: Reorder) -> None:
        self.operator = operator
        self.held = RowStore()

    def process(
        self,
        keys: np.ndarray,
        event_time: np.ndarray,
        arrival: np.ndarray,
        rows: pa.Table,
        sources: np.ndarray | None = None,
    ) -> OrderedRows:
        """What comes out at the next n arrivals, as `Reorder.process` says.

        rows : n rows; the schema stays that of the first call
        Raises what `Reorder.process` raises, and ValueError for other rows.
        Cost: one Arrow take of what comes out, and one of what stays.
        """
        self._check(rows, len(keys))
        first = self.operator.arrived
        released = self.operator.process(keys, event_time, arrival, sources)
        return self._taken(released, rows, first)

    def idle(self, sources: np.ndarray | None = None, keys: np.ndarray = NO_CODES) -> OrderedRows:
        """`Reorder.idle`, with the rows."""
        return self._drained(self.operator.idle(sources, keys))

    def flush(self) -> OrderedRows:
        """`Reorder.flush`, with the rows."""
        return self._drained(self.operator.flush())

    def forget(self, keys: np.ndarray) -> OrderedRows:
        """`Reorder.forget`, with the rows."""
        return self._drained(self.operator.forget(keys))

    def _drained(self, released: Released) -> OrderedRows:
        none = pa.table({}) if self.held.empty is None else self.held.empty
        return self._taken(released, none, self.operator.arrived)

    def _taken(self, released: Released, rows: pa.Table, first: int) -> OrderedRows:
        table = self._rows(released.number, rows, first)
        staying = self.operator.stayed
        if rows.num_columns:
            self.held.append(taken(rows, staying - first), staying)
        if self.held.crowded(self.operator.holds):
            self.held.keep(self.operator.waiting.number)
        return OrderedRows(**vars(released), rows=table)

    def _rows(self, numbers: np.ndarray, rows: pa.Table, first: int) -> pa.Table:
        """The rows numbered `numbers`: those below `first` were held, the others are in `rows`."""
        held, places = self.held.parts(numbers), numbers - first
        before = 0
        for place, part in held:
            places[place] = before + np.arange(part.num_rows)
            before += part.num_rows
        if not held:
            return taken(rows, places)
        places[numbers >= first] += before
        return taken(pa.concat_tables([*(part for _, part in held), rows]).combine_chunks(), places)

    def _check(self, rows: pa.Table, wanted: int) -> None:
        if rows.num_rows != wanted:
            raise ValueError(f"`rows` must have {wanted} rows, as `keys`; got {rows.num_rows}")
        known = self.held.empty
        if known is not None and not rows.schema.equals(known.schema):
            raise ValueError(
                f"`rows` must keep its schema; got {rows.schema} after {known.schema}: "
                "start a new operator, or cast the columns"
            )

    def before_saving(self) -> None:
        self.held.keep(self.operator.waiting.number)

    def after_loading(self) -> None:
        if not np.array_equal(self.held.numbers, self.operator.waiting.number):
            raise ValueError("its rows are not those held")
