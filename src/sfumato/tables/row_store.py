"""The rows that belong to numbered tuples, kept while an operator may still answer with them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from sfumato.operators.state.declared import Array, Value
from sfumato.operators.state.stateful import Stateful
from sfumato.tables.declared import Table


class RowStore(Stateful):
    """Arrow rows by tuple number: append at the end, take by number, forget what is not needed.

    Numbers count all rows ever appended, from 0. Forgetting is lazy: rows are only copied
    together once fewer than half of those stored are needed, so that it costs O(1) a row.
    """

    state = {"stored": Table("rows"), "numbers": Array(int, "rows", low=0), "next": Value(low=0)}

    def __init__(
        self, rows: pa.Table | None = None, numbers: np.ndarray | None = None, next_: int = 0
    ):
        """rows, numbers : what is stored, in ascending order of number; next_ : the next number."""
        self._tables: list[pa.Table] = [] if rows is None else [rows]
        self.numbers = np.empty(0, np.int64) if numbers is None else numbers  # of the rows stored
        self.next = next_

    def append(self, rows: pa.Table) -> None:
        """Store rows under the next numbers."""
        fresh = np.arange(self.next, self.next + rows.num_rows)
        self._tables.append(rows)
        self.numbers = np.concatenate([self.numbers, fresh])
        self.next += rows.num_rows

    def take(self, numbers: np.ndarray) -> pa.Table:
        """The rows of `numbers`, in that order. Raises KeyError for a number not stored."""
        if not np.isin(numbers, self.numbers).all():
            raise KeyError("a row is wanted that was forgotten or never stored")
        places = np.searchsorted(self.numbers, numbers)
        return self.rows().take(pa.array(places))

    def rows(self) -> pa.Table:
        """All rows stored."""
        self._tables = [pa.concat_tables(self._tables).combine_chunks()]
        return self._tables[0]

    def forget(self, live: np.ndarray) -> None:
        """Only the rows numbered `live` (any order) are needed from now on."""
        if len(self.numbers) > 2 * len(live) + 64:
            self.keep(live)

    def keep(self, live: np.ndarray) -> None:
        """Drop all rows but those numbered `live`, now."""
        if self._tables:
            wanted = np.isin(self.numbers, live)
            self._tables = [self.rows().filter(pa.array(wanted))]
            self.numbers = self.numbers[wanted]

    @property
    def stored(self) -> pa.Table | None:
        """All rows stored; None where no row was ever stored."""
        return self.rows() if self._tables else None

    @stored.setter
    def stored(self, rows: pa.Table | None) -> None:
        self._tables = [] if rows is None else [rows]

    def after_loading(self) -> None:
        if (np.diff(self.numbers) <= 0).any() or (self.numbers >= self.next).any():
            raise ValueError("the numbers of stored rows must ascend, up to the next one")
