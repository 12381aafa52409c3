"""What arrives at a join: tuples of all its streams in one order, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.operators.arguments import arrays_of, check_shapes
from sfumato.operators.arrays import Ints
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array
from sfumato.operators.state.stateful import Stateful
from sfumato.windows import LONGEST


@dataclass(frozen=True)
class Arrivals(Columns, flat=("prob", "points"), begins="offsets"):
    """Tuples of both streams in one arrival order; n tuples, m samples.

    side : uint8[n], 0 left, 1 right    key : int64[n], codes 0, 1, 2, ... kept for ever
    offsets : int64[n + 1], of each tuple's samples
    prob : float64[m], probabilities in (0, 1], valid alternatives    points : float64[m, d], finite
    time : int64[n], microseconds of event time, for windows by time; None where there are none
    """

    side: npt.NDArray[np.uint8]
    key: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    prob: npt.NDArray[np.float64]
    points: npt.NDArray[np.float64]
    time: Ints | None = None

    def checked(self, dimensions: int) -> Arrivals:
        """The same as kernels take it.

        Raises TypeError or ValueError for arrays of wrong dtype or shape, or wrong content.
        """
        dtypes = {"side": "u1", "key": "i8", "offsets": "i8", "prob": "f8", "points": "f8"}
        arrays = arrays_of(self, dtypes)
        n, m = self.side.size, self.prob.size
        shapes = {
            "side": (n,), "key": (n,), "offsets": (n + 1,), "prob": (m,), "points": (m, dimensions)
        }  # fmt: skip
        check_shapes(arrays, shapes, f"{n} tuples with {m} samples")
        if self.offsets[0] != 0 or self.offsets[-1] != m or (np.diff(self.offsets) < 0).any():
            raise ValueError(f"`offsets` must rise from 0 to the number of samples, {m}")
        _check_codes(self.side, self.key, 2)
        return Arrivals(**arrays, time=_checked_time(self.time, n))


@dataclass(frozen=True)
class IncompleteArrivals(Columns):
    """Objects of all streams in one arrival order.

    side : uint8[n], the stream: 0 left, 1 right, or more of them
    key : int64[n], codes 0, 1, 2, ... kept for ever
    values : float64[n, D], in the order of the imputer's `names`, NaN = missing
    time : as of `Arrivals`
    """

    side: npt.NDArray[np.uint8]
    key: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    time: Ints | None = None

    def checked(self, streams: int, columns: int) -> IncompleteArrivals:
        """The same as kernels take it.

        Raises TypeError or ValueError for arrays of wrong dtype or shape, or wrong content.
        """
        arrays = arrays_of(self, {"side": "u1", "key": "i8", "values": "f8"})
        n = self.side.size
        check_shapes(arrays, {"side": (n,), "key": (n,), "values": (n, columns)}, f"{n} objects")
        _check_codes(self.side, self.key, streams)
        return IncompleteArrivals(**arrays, time=_checked_time(self.time, n))


class Numbers(Stateful):
    """Running numbers of a join's tuples: the i-th of a stream, over all keys, from 0.

    Of more than two streams, streams * i + stream, so that a number says which stream it is of.
    given : int64[streams], how many each stream had so far
    """

    state = {"given": Array(int, "streams", low=0)}

    def __init__(self, streams: int) -> None:
        self.streams = streams
        self.given = np.zeros(streams, np.int64)

    def lengths(self) -> dict[str, int]:
        return {"streams": self.streams}

    def next(self, side: Ints) -> Ints:
        """Numbers for arrivals of these streams, int64[n]."""
        numbers = np.empty(side.size, np.int64)
        given = self.given.copy()
        for stream in range(self.streams):
            own = np.flatnonzero(side == stream)
            numbers[own] = given[stream] + np.arange(own.size)
            given[stream] += own.size
        self.given = given
        return self.streams * numbers + side if self.streams > 2 else numbers


def _check_codes(side: npt.NDArray[np.uint8], key: Ints, streams: int) -> None:
    if side.size and (side.max() >= streams or key.min() < 0):
        sides = "0 or 1" if streams == 2 else f"from 0 to {streams - 1}"
        raise ValueError(f"`side` must be {sides} and `key` at least 0")


def _checked_time(time: Ints | None, n: int) -> Ints | None:
    if time is None:
        return None
    if not isinstance(time, np.ndarray) or time.dtype != np.int64 or time.shape != (n,):
        raise TypeError(f"`time` must be None or int64[{n}]; got {time!r:.80}")
    if n and (time.min() < -LONGEST or time.max() > LONGEST):
        raise ValueError(f"`time` must lie within 2**60 microseconds of 1970; got {time!r:.80}")
    return np.require(time, requirements=["C", "W"])
