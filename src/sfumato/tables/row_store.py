"""Storage for Arrow rows that an operator may need later."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Bools, Ints
from sfumato.operators.state.declared import Array, Value
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrow import SavedTable, take_rows

# A chunk of at least SMALL_STORE rows has a look-up table if it is dense: its numbers span at most
# MAX_SPARSITY times the number of rows.
MAX_SPARSITY, SMALL_STORE = 4, 1024


class _StoredRows(NamedTuple):
    """Rows and their ascending numbers.

    place : int64[], position of each number from the first to the last; for a missing number, the
        position of the next stored number. None without a look-up table, see `_chunk`
    """

    numbers: Ints
    rows: pa.Table
    place: Ints | None

    def __len__(self) -> int:
        return len(self.numbers)

    def positions(self, wanted: Ints) -> Ints:
        """Return int64[n]: positions of the numbers `wanted`, correct only for stored numbers."""
        if self.place is None:
            found = np.searchsorted(self.numbers, wanted)
        else:
            found = self.place[np.clip(wanted - self.numbers[0], 0, len(self.place) - 1)]
        return np.minimum(found, len(self.numbers) - 1)


def _chunk(numbers: Ints, rows: pa.Table) -> _StoredRows:
    """Build a chunk. Dense numbers have a look-up table, ten times faster than a search."""
    span = int(numbers[-1] - numbers[0]) + 1
    if span > MAX_SPARSITY * len(numbers) or len(numbers) < SMALL_STORE:
        return _StoredRows(numbers, rows, None)
    stored = np.zeros(span + 1, np.int64)
    stored[numbers - numbers[0] + 1] = 1
    return _StoredRows(numbers, rows, np.cumsum(stored)[:-1])


class RowStore(Stateful):
    """A store of rows under ascending numbers. Each row is copied O(log n) times.

    needed : returns the numbers of the rows that are still needed; other rows are not saved
    Rows are in a few chunks of geometrically decreasing size. Unneeded rows are dropped once they
    are the majority.
    """

    state = {
        "stored": SavedTable("rows"),
        "numbers": Array(int, "rows", low=0),
        "next": Value(low=0),
    }

    def __init__(self, needed: Callable[[], Ints] | None = None) -> None:
        self._needed = needed
        self._chunks: list[_StoredRows] = []
        self.empty: pa.Table | None = None  # the schema, without rows; None before the first row
        self.next = 0  # lower bound of the next number

    def __len__(self) -> int:
        return sum(map(len, self._chunks))

    def append(self, rows: pa.Table, numbers: Ints | None = None) -> Ints:
        """Store rows; return their numbers: ascending, >= `next`, and by default consecutive."""
        if numbers is None:
            numbers = np.arange(self.next, self.next + rows.num_rows)
        if self.empty is None:
            self.empty = rows.schema.empty_table()
        if len(numbers):
            self.next = int(numbers[-1]) + 1
            chunks = self._chunks
            chunks.append(_chunk(numbers, rows))
            while len(chunks) > 1 and len(chunks[-2]) < 2 * len(chunks[-1]):
                self._merge(len(chunks) - 2)
        return numbers

    def take(self, numbers: Ints, fresh: pa.Table | None = None) -> pa.Table:
        """Return rows in the order of `numbers`. fresh : rows from `next` on, not stored yet"""
        chunks = list(self._chunks)
        if fresh is not None and fresh.num_rows:
            given = np.arange(self.next, self.next + fresh.num_rows)
            chunks.append(_StoredRows(given, fresh, np.arange(len(given))))
        index, parts, base = np.full(len(numbers), -1), [], 0
        for chunk in chunks:
            at = chunk.positions(numbers)
            found = np.flatnonzero(chunk.numbers[at] == numbers)
            if not len(found):
                continue
            if 2 * len(found) > len(chunk):  # rows are copied only once, at the end
                parts.append(chunk.rows)
                index[found] = base + at[found]
            else:
                parts.append(chunk.rows.take(pa.array(at[found])))
                index[found] = base + np.arange(len(found))
            base += parts[-1].num_rows
        if (index < 0).any():
            raise KeyError("a requested row was deleted or never stored")
        if len(parts) < 2:
            return take_rows(parts[0], index) if parts else self.empty
        return take_rows(pa.concat_tables(parts).combine_chunks(), index)

    def drop_unneeded(self, count: int) -> None:
        """Drop unneeded rows if they are the majority. count : upper bound on the needed rows"""
        if self._needed is not None and len(self) > 2 * count + 64:
            self.keep(self._needed())

    def keep(self, live: Ints) -> None:
        self._merge(0)
        for numbers, rows, _ in self._chunks:
            wanted = np.isin(numbers, live)
            kept = rows.filter(pa.array(wanted))
            self._chunks = [_chunk(numbers[wanted], kept)] if wanted.any() else []

    def _merge(self, first: int) -> None:
        tail = self._chunks[first:]
        if len(tail) > 1:
            rows = pa.concat_tables([chunk.rows for chunk in tail]).combine_chunks()
            numbers = np.concatenate([chunk.numbers for chunk in tail])
            self._chunks[first:] = [_chunk(numbers, rows)]

    @property
    def stored(self) -> pa.Table | None:
        self._merge(0)
        return self._chunks[0].rows if self._chunks else self.empty

    @stored.setter
    def stored(self, rows: pa.Table | None) -> None:
        self.empty = None if rows is None else rows.schema.empty_table()
        self._chunks = []
        if rows is not None and rows.num_rows:
            self._chunks = [_StoredRows(np.arange(rows.num_rows), rows, None)]

    @property
    def numbers(self) -> Ints:
        return np.concatenate([np.empty(0, np.int64), *(each.numbers for each in self._chunks)])

    @numbers.setter
    def numbers(self, numbers: Ints) -> None:
        self._chunks = [_StoredRows(numbers, chunk.rows, None) for chunk in self._chunks]

    def before_saving(self) -> None:
        if self._needed is not None and self._chunks:
            self.keep(self._needed())

    def after_loading(self) -> None:
        numbers = self.numbers
        if (np.diff(numbers) <= 0).any() or (numbers >= self.next).any():
            raise ValueError("row numbers must ascend and be below the next number")
        self._chunks = [_chunk(chunk.numbers, chunk.rows) for chunk in self._chunks]


@dataclass
class HeldRows:
    """Held rows. A subclass adds arrays as fields; their last axis has one entry per row."""

    rows: pa.Table

    def _arrays(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)[1:]]

    def filter(self, wanted: Bools) -> Self:
        arrays = (array[..., wanted] for array in self._arrays())
        return type(self)(self.rows.filter(pa.array(wanted)), *arrays)

    def concat(self, later: Self) -> Self:
        """Return the held rows followed by `later`."""
        pairs = zip(self._arrays(), later._arrays(), strict=True)
        rows = pa.concat_tables([self.rows, later.rows]).combine_chunks()
        return type(self)(rows, *(np.concatenate(pair, axis=-1) for pair in pairs))
