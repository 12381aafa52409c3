"""Rows in a reorder buffer, by key and in order of arrival."""

from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

import numpy as np

from sfumato.kernels.disorder.state import EARLIER_CALL as EARLIER_CALL
from sfumato.kernels.disorder.state import NO_IDS as NO_IDS
from sfumato.kernels.disorder.state import UNSEEN as UNSEEN
from sfumato.kernels.disorder.state import RowIds as RowIds
from sfumato.operators.arrays import Bools, Ints, ranges_of
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array

FAR_TIME_US = 1 << 58  # microseconds from 1970 (year 11,103); times are clipped to this distance
NO_CODES = np.empty(0, np.int64)


class KeyedRecords(Columns):
    """Records with one key code each."""

    key: Ints


@dataclass
class EmittedRows(KeyedRecords):
    """Emitted rows, in order of output.

    number : int64[n], the row's position among all arrivals (0, 1, 2, ...)
    late : bool[n]    key : int64[n], codes    event_time : int64[n] microseconds
    punctuation : int64[n] microseconds, the key's punctuation at emission (the int64 minimum if
        unknown)
    wait : int64[n] microseconds, from the row's arrival to the arrival that released it
    """

    number: Ints
    late: Bools
    punctuation: Ints
    key: Ints
    event_time: Ints
    wait: Ints


@dataclass
class WaitingRows(KeyedRecords):
    """Held rows; within each key they ascend by number, in order of arrival.

    source : code of the source    of_source : the row's number within its source
    tied : whether the row waits because its event time equalled its source's punctuation at arrival
    """

    number: Annotated[Ints, Array(int, "held", low=0)]
    key: Annotated[Ints, Array(int, "held", low=0)]
    source: Annotated[Ints, Array(int, "held", low=0)]
    of_source: Annotated[Ints, Array(int, "held", low=0)]
    event_time: Annotated[Ints, Array(int, "held")]
    arrival: Annotated[Ints, Array(int, "held")]
    tied: Annotated[Bools, Array(bool, "held")]

    @property
    def due(self) -> Ints:
        """The punctuation that releases each row, int64[n] microseconds."""
        return self.event_time + self.tied

    def has_number_in(self, source: int, first: int, end: int) -> Bools:
        """Return bool[n]: whether rows are of this source and have `of_source` in [first, end)."""
        return (self.source == source) & (self.of_source >= first) & (self.of_source < end)


KeyedRows = TypeVar("KeyedRows", bound=KeyedRecords)


class KeyedRuns(Generic[KeyedRows]):
    """Rows by key, in a few sorted runs of geometrically decreasing size.

    A look-up costs O(rows of the keys), plus one binary search per key and run. Each row is sorted
    O(log n) times in total. A run is rewritten once more than half of its rows have been removed.
    """

    def __init__(self, kind: type[KeyedRows]) -> None:
        self._none = kind.empty()
        # Rows by key, and a mask of the rows still held.
        self._runs: list[tuple[KeyedRows, Bools]] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def rows(self) -> KeyedRows:
        """All rows; rows of one key are in order of insertion."""
        return self._none.concat([self._none, *(rows.take(alive) for rows, alive in self._runs)])

    @rows.setter
    def rows(self, rows: KeyedRows) -> None:
        self._runs, self._size = [], 0
        self.add(rows)

    def add(self, rows: KeyedRows) -> None:
        self._size += len(rows.key)
        while self._runs and len(self._runs[-1][1]) < 2 * len(rows.key):
            older, alive = self._runs.pop()
            rows = self._none.concat([older.take(alive), rows])
        if len(rows.key):
            order = np.argsort(rows.key, kind="stable")
            self._runs.append((rows.take(order), np.ones(len(order), bool)))

    def rows_of(self, keys: Ints) -> tuple[KeyedRows, Ints]:
        """Return the rows of these ascending, distinct keys, and their places for `remove`."""
        parts, places, base = [self._none], [NO_CODES], 0
        for rows, alive in self._runs:
            first, end = (np.searchsorted(rows.key, keys, side) for side in ("left", "right"))
            at = ranges_of(first, end - first)[1]
            at = at[alive[at]]
            parts.append(rows.take(at))
            places.append(base + at)
            base += len(alive)
        return self._none.concat(parts), np.concatenate(places)

    def remove(self, places: Ints) -> None:
        """Remove rows at places from `rows_of`; `add` must not have been called in between."""
        if not len(places):
            return
        runs, base = [], 0
        for rows, alive in self._runs:
            alive[places[(places >= base) & (places < base + len(alive))] - base] = False
            base += len(alive)
            kept = np.count_nonzero(alive)
            if 2 * kept >= len(alive):
                runs.append((rows, alive))
            elif kept:
                runs.append((rows.take(alive), np.ones(kept, bool)))
        self._runs, self._size = runs, self._size - len(places)


def checked_times(event_time: np.ndarray, arrival: np.ndarray) -> tuple[Ints, Ints]:
    """Return both times as clipped int64[n] microseconds. Raises TypeError or ValueError."""
    event, arrived = _microseconds("event_time", event_time), _microseconds("arrival", arrival)
    if len(event) != len(arrived):
        raise ValueError(
            "`event_time` and `arrival` must have the same length; "
            f"got {len(event)} and {len(arrived)}"
        )
    return event, arrived


def _microseconds(name: str, values: np.ndarray) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind == "M":
        if np.isnat(array).any():
            raise ValueError(f"`{name}` must have a time in each row; got NaT. Leave such rows out")
        array = array.astype("datetime64[us]").astype(np.int64)
    if array.dtype.kind not in "iu" and array.size:
        raise TypeError(
            f"`{name}` must be int64 microseconds (or datetime64); got {array.dtype}. Convert "
            "seconds with (seconds * 1e6).astype('int64')"
        )
    if array.ndim != 1:
        raise ValueError(f"`{name}` must be one-dimensional; got shape {array.shape}")
    array = np.require(array, np.int64, ["C", "W"])
    if max(int(array.max(initial=0)), -int(array.min(initial=0))) > FAR_TIME_US:
        return np.clip(array, -FAR_TIME_US, FAR_TIME_US)  # so that differences fit in int64
    return array
