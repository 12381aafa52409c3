"""Duplicate detection: rows whose source has already sent a row with the same id."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Bools, Ints
from sfumato.operators.disorder.controllers import Controllers
from sfumato.operators.disorder.rows import EARLIER_CALL, UNSEEN, KeyedRecords, KeyedRuns, RowIds
from sfumato.operators.state.declared import Array, Part, Record
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrow import as_numbers, has_all_values, take_rows
from sfumato.tables.keys import group_rows, normalize_zeros
from sfumato.tables.reading.ties import ties_of
from sfumato.tables.row_store import RowStore

SOURCE = "source"  # the column of codes, next to id0..


@dataclass
class SeenRows(KeyedRecords):
    """Rows with remembered ids. key : hash of id and source    time, until : see `RowIds`"""

    key: Annotated[Ints, Array(int, "ids")]
    time: Annotated[Ints, Array(int, "ids")]
    until: Annotated[Ints, Array(int, "ids")]
    number: Annotated[Ints, Array(int, "ids", low=0)]
    source: Annotated[Ints, Array(int, "ids", low=0)]


class SeenIds(Stateful):
    """Row ids, each remembered until its source's punctuation has passed the row's event time.

    columns : number of columns id0..
    remember : microseconds by which the punctuation must exceed the event time, and for which an id
        is remembered after its row's arrival
    A row with a NULL in its id has no id. Forgotten ids are dropped once they may exceed half of
    all ids. Memory: the id and five numbers per remembered row. Cost of a call: O(its rows), plus
    one binary search per row and run of `KeyedRuns`.
    """

    state: ClassVar[Mapping[str, Any]] = {"values": Part(), "seen": Record(SeenRows)}

    def __init__(self, columns: int, remember: int) -> None:
        self.names = [f"id{i}" for i in range(columns)]
        self.remember = remember
        self.values = RowStore()  # id and source of each row, by its number
        self._seen = KeyedRuns(SeenRows)
        self._limit = 1024  # above this number of ids, forgotten ids are dropped

    def read(self, rows: pa.Table, source: Ints) -> tuple[pa.Table, RowIds]:
        """Return the ids of rows as a table, for `add`, and as codes, for the operator."""
        fresh = normalize_zeros(rows.select(self.names)).append_column(SOURCE, pa.array(source))
        earlier, _ = self._seen.rows_of(np.unique(as_numbers(ties_of(fresh))))
        earlier = earlier.take(np.argsort(earlier.number))
        old = len(earlier.number)
        every = pa.concat_tables([self.values.take(earlier.number), fresh]) if old else fresh
        slot, first = group_rows(every)
        kept = np.full((3, len(first)), UNSEEN)
        for values, of in zip(kept, (EARLIER_CALL, earlier.time, earlier.until), strict=True):
            values[slot[:old]] = of
        return fresh, RowIds(
            np.where(has_all_values(fresh, self.names), slot[old:], -1), kept, self.remember
        )

    def add(self, fresh: pa.Table, ids: RowIds, first: int, controllers: Controllers) -> None:
        """Remember the ids of processed rows. first : the number of the first row"""
        place, time, until = ids.kept
        slots = np.flatnonzero(place >= 0)
        slots = slots[np.argsort(place[slots])]
        fresh = take_rows(fresh, place[slots])
        source, keys = as_numbers(fresh.column(SOURCE)), as_numbers(ties_of(fresh))
        rows = SeenRows(keys, time[slots], until[slots], first + place[slots], source)
        alive = _are_remembered(rows, controllers)
        rows = rows.take(alive)
        self.values.append(fresh.filter(pa.array(alive)), rows.number)
        self._seen.add(rows)
        if len(self._seen) > self._limit:
            self.drop_forgotten(controllers)

    def drop_forgotten(self, controllers: Controllers) -> None:
        rows = self._seen.rows
        self._keep(rows.take(_are_remembered(rows, controllers)))

    def forget(self, sources: Ints) -> None:
        rows = self._seen.rows
        self._keep(rows.take(~np.isin(rows.source, sources)))

    def _keep(self, rows: SeenRows) -> None:
        self._seen.rows = rows
        self.values.keep(rows.number)
        self._limit = 2 * len(self._seen) + 1024

    @property
    def seen(self) -> SeenRows:
        """Return the remembered rows, ascending by number."""
        rows = self._seen.rows
        return rows.take(np.argsort(rows.number))

    @seen.setter
    def seen(self, rows: SeenRows) -> None:
        self._seen.rows = rows

    def after_loading(self) -> None:
        if not np.array_equal(self.values.numbers, self.seen.number):
            raise ValueError("its ids must match the remembered rows")


def _are_remembered(rows: SeenRows, controllers: Controllers) -> Bools:
    """Return bool[n]: whether another row with the same id would be a duplicate."""
    known = controllers.punctuation_of(rows.source)
    return (rows.time >= known) | (rows.until >= controllers.clock_of(rows.source))
