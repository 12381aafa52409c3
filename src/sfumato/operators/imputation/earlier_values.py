"""What a stream knew before: the last known value of every attribute, and how old it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation import earlier_values as kernel
from sfumato.operators.state.snapshot import Snapshot, pack, unpack

KIND, VERSION = "earlier_values", 1

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class EarlierValues:
    """For each row, every attribute's newest known value among the earlier rows of its key.

    attributes : int >= 1, T of them

    These are determinants for an imputation: a sensor that read 20.5 a minute ago reads about that
    now. Dependencies like `earlier, age -> value : 0.01, 0.1 -> 0.02` say how far that holds. The
    repository needs the same columns, as old as the stream's are: give its rows the stream's gaps,
    process them here, and put the results beside its complete rows.

    Newest by time: a row that is older than what is known (its age is negative) changes nothing.

    State: 2 T numbers a key. Results do not depend on how rows are split into calls, nor on
    snapshot and restore. Raises ValueError for arguments outside these ranges.

    >>> earlier, age = EarlierValues(1).process([0, 0, 0], [0, 60, 90], [[20.5], [np.nan], [21.0]])
    >>> earlier[:, 0].tolist(), age[:, 0].tolist()
    ([nan, 20.5, 20.5], [nan, 60.0, 90.0])
    """

    def __init__(self, attributes: int) -> None:
        if isinstance(attributes, bool) or not isinstance(attributes, int) or attributes < 1:
            raise ValueError(
                f"`attributes` must be a whole number of at least 1; got {attributes!r}"
            )
        self.attributes = attributes
        self._known = np.empty((0, attributes))  # newest known value, by key
        self._since = np.empty((0, attributes))  # and its time

    def process(
        self, key: npt.ArrayLike, time: npt.ArrayLike, values: npt.ArrayLike
    ) -> tuple[Floats, Floats]:
        """Earlier values and their ages, float64[n, T] each; NaN where nothing is known yet.

        key : int64[n], codes 0, 1, 2, ...    time : float64[n]    values : float64[n, T], NaN or
        infinite = missing. Rows are taken as they come; an age is negative where time steps back.
        O(n T).  Raises ValueError, with nothing taken, for other shapes.
        """
        keys, times = np.asarray(key, np.int64), np.asarray(time, np.float64)
        rows = np.asarray(values, np.float64)
        n = keys.size
        if keys.shape != (n,) or times.shape != (n,) or rows.shape != (n, self.attributes):
            raise ValueError(
                f"`key` and `time` must have shape (n,), `values` (n, {self.attributes}); "
                f"got {keys.shape}, {times.shape} and {rows.shape}"
            )
        if n and keys.min() < 0:
            raise ValueError(f"`key` must be at least 0; got {keys.min()}")
        if np.isnan(times).any():
            raise ValueError("`time` must be known for every row; got NaN")
        self._grow(int(keys.max(initial=-1)) + 1)
        return kernel.earlier_values(
            *map(np.ascontiguousarray, (keys, times, rows)), self._known, self._since
        )

    def snapshot(self) -> bytes:
        """The newest known values as versioned bytes."""
        values: dict[str, Any] = {"attributes": self.attributes}
        arrays = {"known": self._known, "since": self._since}
        return pack(KIND, VERSION, Snapshot(values=values, arrays=arrays))

    @classmethod
    def restore(cls, data: bytes) -> EarlierValues:
        """The operator of a snapshot. Raises SnapshotError for bytes that are damaged or others."""
        saved = unpack(data, KIND, VERSION)
        operator = cls(saved.values["attributes"])
        operator._known, operator._since = saved.arrays["known"], saved.arrays["since"]
        return operator

    def _grow(self, keys: int) -> None:
        more = keys - len(self._known)
        if more > 0:
            nothing = np.full((more, self.attributes), np.nan)
            self._known = np.concatenate([self._known, nothing])
            self._since = np.concatenate([self._since, nothing])
