"""The rows a disorder controller holds back: Arrow rows under numbers that only grow."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


class HeldRows:
    """Arrow rows by number: append, take, forget; each row is copied O(log n) times in all.

    A few chunks of geometrically falling size; the rows of a chunk have ascending numbers, and
    all are below those of the next chunk. Rows not needed any more leave when chunks merge.
    """

    def __init__(self) -> None:
        self._chunks: list[tuple[np.ndarray, pa.Table]] = []

    def append(self, numbers: np.ndarray, rows: pa.Table) -> None:
        """Store rows under ascending numbers, all above those stored before."""
        if len(numbers):
            self._chunks.append((numbers, rows))

    def take(self, numbers: np.ndarray) -> list[tuple[np.ndarray, pa.Table]]:
        """The rows of `numbers` (stored, any order) as parts: places in `numbers`, and the rows."""
        parts = []
        for stored, table in self._chunks:
            wanted = np.flatnonzero((numbers >= stored[0]) & (numbers <= stored[-1]))
            if len(wanted):
                places = np.searchsorted(stored, numbers[wanted])
                parts.append((wanted, table.take(pa.array(places))))
        return parts

    def forget(self, alive: np.ndarray) -> None:
        """Only the rows numbered `alive` (ascending) are needed from now on."""
        chunks = self._chunks
        stored = sum(len(numbers) for numbers, _ in chunks)
        if not len(alive):
            chunks.clear()
        elif stored > 2 * len(alive) + 1024:
            self._merge(0, alive)
        while len(chunks) > 1 and len(chunks[-2][0]) < 2 * len(chunks[-1][0]):
            self._merge(len(chunks) - 2, alive)

    def rows(self, alive: np.ndarray) -> pa.Table | None:
        """All rows numbered `alive` (ascending), in that order; None if nothing is stored."""
        if not self._chunks:
            return None
        self._merge(0, alive)
        return self._chunks[0][1] if self._chunks else None

    def _merge(self, first: int, alive: np.ndarray) -> None:
        tail = self._chunks[first:]
        del self._chunks[first:]
        low, high = tail[0][0][0], tail[-1][0][-1]
        wanted = alive[np.searchsorted(alive, low) : np.searchsorted(alive, high, "right")]
        kept = []
        for numbers, table in tail:
            places = np.flatnonzero(np.isin(numbers, wanted, assume_unique=True))
            kept.append(table if len(places) == len(numbers) else table.take(pa.array(places)))
        if len(wanted):
            self._chunks.append((wanted, pa.concat_tables(kept).combine_chunks()))
