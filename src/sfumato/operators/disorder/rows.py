"""Rows in a reorder buffer, by key and in order of time."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import numpy as np

from sfumato.operators.arrays import Bools, Ints, offsets_of, spans
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array, Declaration


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


class _KeyedChunk(Generic[Rows]):
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


def _chunk(rows: Rows) -> _KeyedChunk[Rows]:
    return _KeyedChunk(rows.take(np.argsort(rows.key, kind="stable")))


class ByKey(Generic[Rows]):
    """Rows of one kind, in a few chunks of geometrically falling size, each newer than the last.

    Cost: of a look at some keys, their rows and O(1) a key and chunk (O(log n) in a chunk with few
    of the keys); each row is sorted O(log n) times in all. Rows that are no longer held leave a
    chunk once they are half of it.
    """

    def __init__(self, kind: type[Rows], rows: Rows | None = None) -> None:
        self._none = kind.none()
        self._chunks: list[_KeyedChunk[Rows]] = []
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
                self._chunks[number] = _KeyedChunk(chunk.kept())
        self._chunks = [chunk for chunk in self._chunks if len(chunk)]


FAR_TIME_US = 1 << 58  # microseconds from 1970, about the year 11,000: beyond it times are one


@dataclass(frozen=True)
class Released:
    """Rows that came out, in order of output.

    number : int64[n], the row's place among all that arrived (0, 1, 2, ...)
    late : bool[n]                             key : int64[n], its code
    punctuation : int64[n] microseconds, their key's punctuation when they came out (the int64
        minimum while none was known)          event_time : int64[n] microseconds
    by : int64[n], the number of the row at whose arrival it came out; -1: no row's (idle, the end)
    """

    number: np.ndarray
    late: np.ndarray
    punctuation: np.ndarray
    key: np.ndarray
    event_time: np.ndarray
    by: np.ndarray

    @property
    def size(self) -> int:
        """Rows."""
        return len(self.number)


@dataclass
class WaitingRows(Keyed):
    """The held rows, ascending by number (which is order of arrival)."""

    number: np.ndarray
    key: np.ndarray
    source: np.ndarray
    event_time: np.ndarray
    of_source: np.ndarray  # the row's number among the rows of its source
    tied: np.ndarray  # had the event time of its source's punctuation when it arrived

    layout: ClassVar[Mapping[str, Declaration]] = {
        "number": Array(int, "held", low=0),
        "key": Array(int, "held", low=0),
        "source": Array(int, "held", low=0),
        "event_time": Array(int, "held"),
        "of_source": Array(int, "held", low=0),
        "tied": Array(bool, "held"),
    }

    @property
    def due(self) -> np.ndarray:
        """int64[n] microseconds: the punctuation at which each row comes out."""
        return self.event_time + self.tied


@dataclass(frozen=True)
class Judged:
    """The rows of one call, grouped by key, and what the controllers said of each.

    rows : they themselves     starts, present : where each key's rows begin; the keys
    before, own : punctuation of the row's source before and after the row     late : bool
    least : that of the key after it     expelled : (place, first, end): at this row, those held of
    its source that are numbered from `first` to before `end` come out as late
    """

    rows: WaitingRows
    starts: np.ndarray
    present: np.ndarray
    before: np.ndarray
    own: np.ndarray
    late: np.ndarray
    least: np.ndarray
    expelled: list[tuple[int, int, int]]


def checked(event_time: np.ndarray, arrival: np.ndarray, codes: list[Any]) -> list[np.ndarray]:
    """Times within range and int64 codes (of keys, then sources). Raises TypeError, ValueError."""
    event_time = _as_microseconds("event_time", event_time)
    arrival = _as_microseconds("arrival", arrival)
    if len(event_time) != len(arrival):
        raise ValueError(
            f"`event_time` and `arrival` must have one length; got {len(event_time)} and "
            f"{len(arrival)}"
        )
    out = [_within_range(event_time), _within_range(arrival)]
    for name, values in zip(("keys", "sources"), codes, strict=False):
        array = np.asarray(values)
        if array.dtype.kind not in "iu" or array.shape != event_time.shape:
            raise TypeError(
                f"`{name}` must be int64 codes, one a row ({len(event_time)}); "
                f"got {array.dtype} of shape {array.shape}"
            )
        if len(array) and array.min() < 0:
            raise ValueError(f"`{name}` must be codes 0, 1, 2, ...; got {array.min()}")
        out.append(array.astype(np.int64, copy=False))
    return out


def _as_microseconds(name: str, values: np.ndarray) -> np.ndarray:
    """int64[n], contiguous and writable, of an array of int64 microseconds or of datetime64.

    Raises TypeError for another dtype and ValueError for another shape or a missing time (NaT).
    """
    array = np.asarray(values)
    if array.dtype.kind == "M":
        if np.isnat(array).any():
            raise ValueError(f"`{name}` must not miss a time; got NaT: leave such rows out")
        array = array.astype("datetime64[us]").astype(np.int64)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(
            f"`{name}` must be int64 microseconds (or datetime64); got {array.dtype}: "
            "convert seconds by (seconds * 1e6).astype('int64')"
        )
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be one-dimensional; got shape {array.shape}")
    return np.require(array, np.int64, ["C", "W"])


def _within_range(time: np.ndarray) -> np.ndarray:
    """Times cut to +-FAR_TIME_US, so that differences fit in int64; the same array if they are."""
    if len(time) and max(int(time.max()), -int(time.min())) > FAR_TIME_US:
        return np.clip(time, -FAR_TIME_US, FAR_TIME_US)
    return time
