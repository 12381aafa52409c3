"""Arrow rows under numbers that only grow, kept while an operator may still need them."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sfumato.operators.arrays import Ints
from sfumato.operators.state.declared import Array, Value
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.declared import Table

SPARSE = 4  # so many numbers a row, or so few rows, and a chunk has no table of all numbers
SMALL = 1024


class _Chunk(NamedTuple):
    """Rows, their ascending numbers, and where each number from the first one on is kept.

    place : int64[]; for a number that is not stored that of the one after it. None: see `_chunk`
    """

    numbers: Ints
    rows: pa.Table
    place: Ints | None

    def __len__(self) -> int:
        return len(self.numbers)

    def at(self, wanted: Ints) -> Ints:
        """int64[n]: where these numbers are, those stored at least."""
        if self.place is None:
            found = np.searchsorted(self.numbers, wanted)
        else:
            found = self.place[np.clip(wanted - self.numbers[0], 0, len(self.place) - 1)]
        return np.minimum(found, len(self.numbers) - 1)


def _chunk(numbers: Ints, rows: pa.Table) -> _Chunk:
    """Numbers that are close together are found by a table, others by a search: a search among
    many that are not in the processor's cache takes ten times as long."""
    span = int(numbers[-1] - numbers[0]) + 1
    if span > SPARSE * len(numbers) or len(numbers) < SMALL:
        return _Chunk(numbers, rows, None)
    stored = np.zeros(span + 1, np.int64)
    stored[numbers - numbers[0] + 1] = 1
    return _Chunk(numbers, rows, np.cumsum(stored)[:-1])


class RowStore(Stateful):
    """Rows by number: append at the end, take, forget; each row is copied O(log n) times in all.

    A few chunks of geometrically falling size; the rows of a chunk have ascending numbers, all
    below those of the next chunk. Rows not needed leave once they are more than half.
    """

    state = {"stored": Table("rows"), "numbers": Array(int, "rows", low=0), "next": Value(low=0)}

    def __init__(self) -> None:
        self._chunks: list[_Chunk] = []
        self.empty: pa.Table | None = None  # no row, of the schema; None before the first row
        self.next = 0  # above all numbers so far

    def __len__(self) -> int:
        """Rows stored."""
        return sum(map(len, self._chunks))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows and of what finds them."""
        places = [at.nbytes for *_, at in self._chunks if at is not None]
        return sum(each.numbers.nbytes + each.rows.nbytes for each in self._chunks) + sum(places)

    def append(self, rows: pa.Table, numbers: Ints | None = None) -> Ints:
        """Store rows under ascending numbers from `next` on (None: the next ones); these."""
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
        """The rows of `numbers`, in that order. Raises KeyError for a number not stored."""
        if len(numbers) > len(self):
            self._merge(0)  # one look-up each is quicker then
        parts = self.parts(numbers)
        places = np.concatenate([np.empty(0, np.int64), *(at for at, _ in parts)])
        if len(places) < len(numbers):
            raise KeyError("a row is wanted that was forgotten or never stored")
        if len(parts) < 2:
            return parts[0][1] if parts else self.empty
        rows = pa.concat_tables([rows for _, rows in parts]).combine_chunks()
        return rows.take(pa.array(np.argsort(places)))

    def parts(self, numbers: Ints) -> list[tuple[Ints, pa.Table]]:
        """Of some numbers those that are stored: places in `numbers`, and the rows of these."""
        parts = []
        for chunk in self._chunks:
            at = chunk.at(numbers)
            places = np.flatnonzero(chunk.numbers[at] == numbers)
            if len(places):
                parts.append((places, chunk.rows.take(pa.array(at[places]))))
        return parts

    def forget(self, live: Ints) -> None:
        """Only the rows numbered `live` (any order) are needed from now on."""
        if self.crowded(len(live)):
            self.keep(live)

    def crowded(self, live: int) -> bool:
        """Whether more rows are stored than twice as many as are needed."""
        return len(self) > 2 * live + 64

    def keep(self, live: Ints) -> None:
        """Drop all rows but those numbered `live`, now."""
        self._merge(0)
        for numbers, rows, _ in self._chunks:
            wanted = np.isin(numbers, live)
            kept = rows.filter(pa.array(wanted))
            self._chunks = [_chunk(numbers[wanted], kept)] if wanted.any() else []

    def _merge(self, first: int) -> None:
        """One chunk of all from number `first` on."""
        tail = self._chunks[first:]
        if len(tail) > 1:
            rows = pa.concat_tables([chunk.rows for chunk in tail]).combine_chunks()
            numbers = np.concatenate([chunk.numbers for chunk in tail])
            self._chunks[first:] = [_chunk(numbers, rows)]

    @property
    def stored(self) -> pa.Table | None:
        """All rows stored; None where no row was ever stored."""
        self._merge(0)
        return self._chunks[0].rows if self._chunks else self.empty

    @stored.setter
    def stored(self, rows: pa.Table | None) -> None:
        self.empty = None if rows is None else rows.schema.empty_table()
        self._chunks = []
        if rows is not None and rows.num_rows:
            self._chunks = [_Chunk(np.arange(rows.num_rows), rows, None)]

    @property
    def numbers(self) -> Ints:
        """int64[]: those of the rows stored, ascending."""
        return np.concatenate([np.empty(0, np.int64), *(each.numbers for each in self._chunks)])

    @numbers.setter
    def numbers(self, numbers: Ints) -> None:
        self._chunks = [_Chunk(numbers, chunk.rows, None) for chunk in self._chunks]

    def after_loading(self) -> None:
        numbers = self.numbers
        if (np.diff(numbers) <= 0).any() or (numbers >= self.next).any():
            raise ValueError("the numbers of stored rows must ascend, up to the next one")
        self._chunks = [_chunk(chunk.numbers, chunk.rows) for chunk in self._chunks]
