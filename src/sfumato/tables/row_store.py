"""Stores of Arrow rows that an operator may still need."""

from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Bools, Ints
from sfumato.operators.state.declared import Array, Value
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.arrow import SavedTable

# A chunk with more numbers per row, or fewer rows, has no table of all numbers.
SPARSE, SMALL = 4, 1024


class _StoredRows(NamedTuple):
    """Rows and their ascending numbers.

    place : int64[], the place of each number from the first one on; that of the next number where
        it is not stored. None: see `_chunk`
    """

    numbers: Ints
    rows: pa.Table
    place: Ints | None

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, wanted: Ints) -> Ints:
        """Return int64[n]: the places of these numbers, right for those stored."""
        if self.place is None:
            found = np.searchsorted(self.numbers, wanted)
        else:
            found = self.place[np.clip(wanted - self.numbers[0], 0, len(self.place) - 1)]
        return np.minimum(found, len(self.numbers) - 1)


def _chunk(numbers: Ints, rows: pa.Table) -> _StoredRows:
    """Return a chunk. Dense numbers are found by a table: a search among many that are not in the
    processor's cache takes ten times as long."""
    span = int(numbers[-1] - numbers[0]) + 1
    if span > SPARSE * len(numbers) or len(numbers) < SMALL:
        return _StoredRows(numbers, rows, None)
    stored = np.zeros(span + 1, np.int64)
    stored[numbers - numbers[0] + 1] = 1
    return _StoredRows(numbers, rows, np.cumsum(stored)[:-1])


class RowStore(Stateful):
    """Rows under numbers that only grow: append, take, forget; each is copied O(log n) times.

    There are a few chunks of geometrically falling size, with ascending numbers. Rows that are not
    needed are dropped once they are more than half.
    """

    state = {
        "stored": SavedTable("rows"),
        "numbers": Array(int, "rows", low=0),
        "next": Value(low=0),
    }

    def __init__(self) -> None:
        self._chunks: list[_StoredRows] = []
        self.empty: pa.Table | None = None  # no row, of the schema; None before the first row
        self.next = 0  # above all numbers so far

    def __len__(self) -> int:
        """The number of rows stored."""
        return sum(map(len, self._chunks))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and their numbers."""
        places = [at.nbytes for *_, at in self._chunks if at is not None]
        return sum(each.numbers.nbytes + each.rows.nbytes for each in self._chunks) + sum(places)

    def append(self, rows: pa.Table, numbers: Ints | None = None) -> Ints:
        """Store rows under ascending numbers from `next` on (None: the next ones); return them."""
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

    def take(self, numbers: Ints) -> pa.Table:
        """Return the rows of `numbers`, in that order. Raises KeyError for a missing number."""
        if len(numbers) > len(self):
            self._merge(0)  # then one look-up each is quicker
        parts = self.parts(numbers)
        places = np.concatenate([np.empty(0, np.int64), *(at for at, _ in parts)])
        if len(places) < len(numbers):
            raise KeyError("a row is wanted that was forgotten or never stored")
        if len(parts) < 2:
            return parts[0][1] if parts else self.empty
        rows = pa.concat_tables([rows for _, rows in parts]).combine_chunks()
        return rows.take(pa.array(np.argsort(places)))

    def parts(self, numbers: Ints) -> list[tuple[Ints, pa.Table]]:
        """Return the rows of those numbers that are stored: (places in `numbers`, rows)."""
        parts = []
        for chunk in self._chunks:
            at = chunk.at(numbers)
            places = np.flatnonzero(chunk.numbers[at] == numbers)
            if len(places):
                parts.append((places, chunk.rows.take(pa.array(at[places]))))
        return parts

    def forget(self, live: Ints) -> None:
        """Note that only the rows numbered `live`, in any order, are needed from now on."""
        if self.crowded(len(live)):
            self.keep(live)

    def crowded(self, live: int) -> bool:
        """Whether more than twice the rows are stored that are needed."""
        return len(self) > 2 * live + 64

    def keep(self, live: Ints) -> None:
        """Drop all rows except those numbered `live`."""
        self._merge(0)
        for numbers, rows, _ in self._chunks:
            wanted = np.isin(numbers, live)
            kept = rows.filter(pa.array(wanted))
            self._chunks = [_chunk(numbers[wanted], kept)] if wanted.any() else []

    def _merge(self, first: int) -> None:
        """Merge the chunks from chunk `first` on."""
        tail = self._chunks[first:]
        if len(tail) > 1:
            rows = pa.concat_tables([chunk.rows for chunk in tail]).combine_chunks()
            numbers = np.concatenate([chunk.numbers for chunk in tail])
            self._chunks[first:] = [_chunk(numbers, rows)]

    @property
    def stored(self) -> pa.Table | None:
        """All rows stored; None before the first row."""
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
        """int64[]: the numbers of the rows stored, ascending."""
        return np.concatenate([np.empty(0, np.int64), *(each.numbers for each in self._chunks)])

    @numbers.setter
    def numbers(self, numbers: Ints) -> None:
        self._chunks = [_StoredRows(numbers, chunk.rows, None) for chunk in self._chunks]

    def after_loading(self) -> None:
        numbers = self.numbers
        if (np.diff(numbers) <= 0).any() or (numbers >= self.next).any():
            raise ValueError("the numbers of stored rows must ascend, up to the next one")
        self._chunks = [_chunk(chunk.numbers, chunk.rows) for chunk in self._chunks]


@dataclass
class BufferedRows:
    """Rows that wait, and arrays whose last axis has one entry per row, in a subclass's fields."""

    rows: pa.Table

    def _arrays(self) -> list[Any]:
        return [getattr(self, field.name) for field in fields(self)[1:]]

    def where(self, wanted: Bools) -> Self:
        """Return some of the rows."""
        arrays = (array[..., wanted] for array in self._arrays())
        return type(self)(self.rows.filter(pa.array(wanted)), *arrays)

    def then(self, later: Self) -> Self:
        """Return these rows followed by later ones."""
        pairs = zip(self._arrays(), later._arrays(), strict=True)
        rows = pa.concat_tables([self.rows, later.rows]).combine_chunks()
        return type(self)(rows, *(np.concatenate(pair, axis=-1) for pair in pairs))
