"""Earlier values of a stream: the last known value of every attribute, and its age."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation import earlier_values as kernel
from sfumato.operators.arguments import whole
from sfumato.operators.arrays import Floats, longer
from sfumato.operators.state.declared import Array
from sfumato.operators.state.stateful import Operator


@dataclass(frozen=True)
class EarlierValuesConfig:
    """attributes : int >= 1, how many there are."""

    attributes: int

    def __post_init__(self) -> None:
        whole("attributes", self.attributes)


class EarlierValues(Operator):
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

    kind, version = "earlier_values", 2
    config: EarlierValuesConfig
    state = {
        "known": Array(float, "keys", "attributes"),
        "since": Array(float, "keys", "attributes"),
    }

    def __init__(self, attributes: int) -> None:
        self.config = EarlierValuesConfig(attributes)
        self.attributes = attributes
        self.known = np.empty((0, attributes))  # newest known value, by key
        self.since = np.empty((0, attributes))  # and its time

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
            *(np.require(a, requirements=["C", "W"]) for a in (keys, times, rows)),
            self.known,
            self.since,
        )

    def forget(self, keys: npt.ArrayLike) -> None:
        """Know nothing of these keys any more (int64[], codes)."""
        codes = np.asarray(keys, np.int64)
        codes = codes[codes < len(self.known)]
        self.known[codes] = self.since[codes] = np.nan

    def _grow(self, keys: int) -> None:
        more = keys - len(self.known)
        if more > 0:
            more = max(more, len(self.known) // 2)  # so that keys that come one by one are cheap
            wanted = len(self.known) + more
            self.known = longer(self.known, wanted, np.nan)
            self.since = longer(self.since, wanted, np.nan)
