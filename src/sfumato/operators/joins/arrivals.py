"""The arrivals, windows and shards of a join."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.operators.arguments import arrays_of, check_shapes, whole
from sfumato.operators.arrays import Ints
from sfumato.operators.state.columns import Columns
from sfumato.operators.state.declared import Array
from sfumato.operators.state.stateful import Stateful
from sfumato.windows import LONGEST, JoinWindow, Range, Rows, window_of


@dataclass(frozen=True)
class Task:
    """Task `number`, from 0, of `tasks`.

    All tasks get all arrivals and know what every window holds. Each keeps the samples of the
    tuples that it owns, every `tasks`-th of a stream, and answers the pairs of an arrival and a
    tuple of these; so every pair has one task, and all tasks together give the answers of one.
    """

    number: int = 0
    tasks: int = 1

    def __post_init__(self) -> None:
        whole("tasks", self.tasks)
        if type(self.number) is not int or not 0 <= self.number < self.tasks:
            raise ValueError(f"`number` must be from 0 to {self.tasks - 1}; got {self.number!r}")


ALONE = Task()


Window = Rows | Range | JoinWindow


def windows_of(window: Window | Sequence[Window]) -> tuple[JoinWindow, ...]:
    """The windows of all streams, from one for both or one for each of two or more.

    Raises TypeError for anything else, ValueError for a range with another slide than its length:
    a join's window moves with every tuple.
    """
    several: list[Any] = list(window) if isinstance(window, list | tuple) else [window] * 2
    several = [window_of(one) for one in several]
    if len(several) < 2 or not all(isinstance(one, Window) for one in several):
        raise TypeError(
            '`window` must be sf.Rows(500), sf.Rows(500, within="10 minutes"), sf.Range("10 '
            f'minutes") or a pair of them, for left and right; got {window!r}'
        )
    return tuple(map(_one, several))


def pair_of(window: Window | Sequence[Window]) -> tuple[JoinWindow, JoinWindow]:
    """`windows_of` for two sides. Raises TypeError for more."""
    windows = windows_of(window)
    if len(windows) != 2:
        raise TypeError(
            "`window` of a join of two sides must be one for both, or a pair for left and right; "
            f"got {len(windows)} windows"
        )
    return windows[0], windows[1]


def require_one(window: Any) -> None:
    """Raise TypeError for what is not the one window of a stream that is joined with itself."""
    if isinstance(window, list | tuple) or not isinstance(window_of(window), Window):
        raise TypeError(
            '`window` of a stream with itself is one window: sf.Rows(500), sf.Rows(500, within="10 '
            f'minutes") or sf.Range("10 minutes"); got {window!r}'
        )


def _one(window: Window) -> JoinWindow:
    if isinstance(window, JoinWindow):
        return window
    if isinstance(window, Rows):
        return JoinWindow(window.rows, window.confidence, window.max_tuples, window.within)
    if window.slide is not None or window.idle_timeout is not None or window.empty:
        raise ValueError(
            "`window` of a join takes a sf.Range by its length alone: it moves with every tuple "
            f"and has no extents; got {window!r}"
        )
    return JoinWindow(span=window.length)


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
