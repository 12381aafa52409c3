"""Records found by their keys without a look at the others."""

from typing import Generic, NamedTuple, TypeVar

import numpy as np

from sfumato.operators.arrays import Bools, Ints, offsets_of, spans
from sfumato.operators.state.columns import Columns


class Keyed(Columns):
    """Records with a key each: a code."""

    key: Ints


Rows = TypeVar("Rows", bound=Keyed)


class Found(NamedTuple, Generic[Rows]):
    """Rows, those of a key in the order in which they came, and where each is kept."""

    rows: Rows
    chunk: Ints
    place: Ints


SPARSE = 8  # so many codes a row, and a chunk has no table of all codes


class _Chunk(Generic[Rows]):
    """Rows by key, those of a key as they came, and which of them are still held."""

    def __init__(self, rows: Rows) -> None:
        """rows : by key"""
        self.rows, self.alive, self.dead = rows, np.ones(len(rows.key), bool), 0
        self._first = int(rows.key[0]) if len(rows.key) else 0
        self._begin: Ints | None = None  # of each code from the first; None: they are searched for
        if len(rows.key) and int(rows.key[-1]) - self._first < SPARSE * len(rows.key):
            self._begin = offsets_of(np.bincount(rows.key - self._first))

    def __len__(self) -> int:
        return len(self.alive)

    def kept(self) -> Rows:
        return self.rows.take(self.alive) if self.dead else self.rows

    def places(self, keys: Ints) -> Ints:
        """Where the rows held of these keys are."""
        if self._begin is None:
            first, end = (np.searchsorted(self.rows.key, keys, side) for side in ("left", "right"))
        else:
            code, last = keys - self._first, len(self._begin) - 1
            first, end = (self._begin[np.clip(at, 0, last)] for at in (code, code + 1))
        _, place = spans(first, end - first)
        return place[self.alive[place]]


def _chunk(rows: Rows) -> _Chunk[Rows]:
    return _Chunk(rows.take(np.argsort(rows.key, kind="stable")))


class ByKey(Generic[Rows]):
    """Rows of one kind, in a few chunks of geometrically falling size, each newer than the last.

    Cost: of a look at some keys, their rows and O(1) a key and chunk (O(log n) in a chunk with few
    of the keys); each row is sorted O(log n) times in all. Rows that are no longer held leave a
    chunk once they are half of it.
    """

    def __init__(self, kind: type[Rows], rows: Rows | None = None) -> None:
        self._none = kind.none()
        self._chunks: list[_Chunk[Rows]] = []
        self._size = 0
        if rows is not None:
            self.add(rows)

    def __len__(self) -> int:
        """Rows held."""
        return self._size

    @property
    def rows(self) -> Rows:
        """All of them, in no order but that of a key's."""
        return self._none.joined([self._none, *(chunk.kept() for chunk in self._chunks)])

    def add(self, rows: Rows) -> None:
        """Hold further rows."""
        if not len(rows.key):
            return
        self._size += len(rows.key)
        chunks = self._chunks
        chunks.append(_chunk(rows))
        while len(chunks) > 1 and len(chunks[-2]) < 2 * len(chunks[-1]):
            older, newer = chunks[-2:]
            chunks[-2:] = [_chunk(self._none.joined([older.kept(), newer.kept()]))]

    def of(self, keys: Ints) -> Found[Rows]:
        """The rows of these keys (distinct)."""
        parts, chunks, places = [self._none], [], []
        for number, chunk in enumerate(self._chunks):
            place = chunk.places(keys)
            if len(place):
                parts.append(chunk.rows.take(place))
                chunks.append(np.full(len(place), number))
                places.append(place)
        none = np.empty(0, np.int64)
        rows = self._none.joined(parts[len(parts) > 1 :])
        return Found(rows, np.concatenate([none, *chunks]), np.concatenate([none, *places]))

    def remove(self, found: Found[Rows], leaving: Bools) -> None:
        """Hold those of the rows found no more that `leaving` marks. Nothing came in between."""
        self._size -= int(leaving.sum())
        for number, chunk in enumerate(self._chunks):
            gone = found.place[leaving & (found.chunk == number)]
            chunk.alive[gone] = False
            chunk.dead += len(gone)
        for number, chunk in enumerate(self._chunks):
            if 2 * chunk.dead > len(chunk):
                self._chunks[number] = _Chunk(chunk.kept())
        self._chunks = [chunk for chunk in self._chunks if len(chunk)]
