"""Earlier values in a stream: the newest known value of every attribute, and its age."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.kernels.imputation import known_values
from sfumato.operators.arguments import whole
from sfumato.operators.arrays import Floats, pad
from sfumato.operators.state.declared import Array
from sfumato.operators.state.stateful import Operator


@dataclass(frozen=True)
class EarlierValuesConfig:
    """Config of `EarlierValues`. attributes : int >= 1."""

    attributes: int

    def __post_init__(self) -> None:
        whole("attributes", self.attributes)


def grow(array: Any, keys: int, fill: float) -> Any:
    """Pad an array to at least `keys` entries, with room for keys that arrive one by one."""
    return array if keys <= len(array) else pad(array, max(keys, len(array) * 3 // 2), fill)


class EarlierValues(Operator):
    """Newest known value of every attribute among the earlier rows of each row's key.

    Parameters
    ----------
    attributes
        int >= 1, number T of attributes

    Raises
    ------
    ValueError
        For arguments outside these ranges.

    Notes
    -----
    Earlier values can be determinants for imputation: a sensor that read 20.5 a minute ago reads
    about the same now. Dependencies like `earlier, age -> value : 0.01, 0.1 -> 0.02` also
    compare the ages of earlier values. The repository needs the same columns, with ages as in the
    stream: insert the stream's gaps into the repository's rows, process these rows with
    `EarlierValues`, and add the results to the complete rows.

    The newest value is the newest by time. A row older than the known value (with a negative age)
    changes nothing. Results do not depend on how rows are split into calls.
    Cost: O(T) per row. State: 2 T numbers per key.

    Examples
    --------
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
        self.since = np.empty((0, attributes))  # time of that value

    def process(
        self, key: npt.ArrayLike, time: npt.ArrayLike, values: npt.ArrayLike
    ) -> tuple[Floats, Floats]:
        """Return earlier values and their ages, float64[n, T] each; NaN where none is known yet.

        Arguments, cost and errors as for `process_times`; ages are negative where time decreases.
        """
        earlier, since = self.process_times(key, time, values)
        return earlier, np.asarray(time, np.float64)[:, None] - since

    def process_times(
        self, key: npt.ArrayLike, time: npt.ArrayLike, values: npt.ArrayLike
    ) -> tuple[Floats, Floats]:
        """Return earlier values and their times, float64[n, T] each; NaN where none is known yet.

        key : int64[n], codes 0, 1, 2, ...    time : float64[n]
        values : float64[n, T], missing if NaN or infinite
        Rows are processed in the given order.
        Cost: O(n T).  Raises ValueError, with state unchanged, for wrong shapes.
        """
        keys, times = np.asarray(key, np.int64), np.asarray(time, np.float64)
        rows = np.asarray(values, np.float64)
        n = keys.size
        if keys.shape != (n,) or times.shape != (n,) or rows.shape != (n, self.attributes):
            raise ValueError(
                "`key` and `time` must have shape (n,), and `values` must have shape (n, "
                f"{self.attributes}); got {keys.shape}, {times.shape} and {rows.shape}"
            )
        if n and keys.min() < 0:
            raise ValueError(f"`key` must be at least 0; got {keys.min()}")
        if np.isnan(times).any():
            raise ValueError("`time` must be known for every row; got NaN")
        known = int(keys.max(initial=-1)) + 1
        self.known, self.since = (grow(of, known, np.nan) for of in (self.known, self.since))
        return known_values.earlier_values(
            *(np.require(a, requirements=["C", "W"]) for a in (keys, times, rows)),
            self.known,
            self.since,
        )

    def forget(self, keys: npt.ArrayLike) -> None:
        """Delete the values of these keys (int64[], codes)."""
        codes = np.asarray(keys, np.int64)
        codes = codes[codes < len(self.known)]
        self.known[codes] = self.since[codes] = np.nan
