"""The arrivals and windows of a join."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.operators.arrays import Floats, Ints
from sfumato.operators.state.columns import Columns
from sfumato.windows import Delta, JoinWindow, Range, Rows, window_of

StreamWindow = Rows | Range | Delta | JoinWindow


def windows_of(
    window: StreamWindow | Sequence[StreamWindow], least: int = 2, on: Sequence[str] = ()
) -> tuple[JoinWindow, ...]:
    """Return the windows of all streams.

    window : one window for both streams, or a list of at least `least` and at most two windows
    on : the attributes of the join, one of which a `Delta` may name
    Raises TypeError for other types, and ValueError for windows that a join does not support.
    """
    several: list[Any] = list(window) if isinstance(window, list | tuple) else [window] * 2
    several = [window_of(one) for one in several]
    if len(several) < least or not all(isinstance(one, StreamWindow) for one in several):
        raise TypeError(
            '`window` must be sf.Rows(500), sf.Rows(500, within="10 minutes"), sf.Range("10 '
            'minutes"), sf.Delta(5, on="x") or a pair of them, for left and right; got '
            f"{window!r}"
        )
    if len(several) > 2:
        raise TypeError(
            "`window` must be one window for both sides, or a pair of windows for left and right; "
            f"got {len(several)} windows"
        )
    found = tuple(_join_window(one, on) for one in several)
    if len({one.lockstep for one in found}) > 1:
        raise ValueError(f"`lockstep` of sf.Rows must be the same for both windows; got {window!r}")
    return found


def window_pair(
    window: StreamWindow | Sequence[StreamWindow], on: Sequence[str] = ()
) -> tuple[JoinWindow, JoinWindow]:
    """Return the windows of exactly two sides. Raises errors like `windows_of`."""
    left, right = windows_of(window, on=on)
    return left, right


def require_one(window: Any) -> None:
    """Raise TypeError unless `window` is a single window, for a stream joined with itself."""
    if isinstance(window, list | tuple) or not isinstance(window_of(window), StreamWindow):
        raise TypeError(
            "`window` must be one window in a join of a stream with itself, like sf.Rows(500), "
            'sf.Rows(500, within="10 minutes"), sf.Range("10 minutes") or sf.Delta(5, on="x"); '
            f"got {window!r}"
        )


def _join_window(window: StreamWindow, on: Sequence[str]) -> JoinWindow:
    if isinstance(window, JoinWindow):
        return window
    if isinstance(window, Delta):
        if window.on not in on:
            raise ValueError(
                f"`window.on` must be one of the attributes that the join compares, {list(on)}; "
                f"got {window.on!r}"
            )
        return JoinWindow(
            max_tuples=window.max_tuples,
            delta=float(window.delta),
            on=list(on).index(window.on),
            threshold=float(window.threshold),
        )
    if isinstance(window, Rows):
        if window.slide is not None:
            raise ValueError(
                "`slide` of sf.Rows is allowed only for aggregates, because the window of a join "
                f"moves with every row; got {window!r}. Leave `slide` out"
            )
        return JoinWindow(
            window.rows, window.confidence, window.max_tuples, window.within,
            lockstep=window.lockstep,
        )  # fmt: skip
    if window != Range(window.length, zone=window.zone):
        raise ValueError(
            "`window` of a join must be an sf.Range with only a length, because the window "
            f"moves with every tuple and has no extents; got {window!r}"
        )
    return JoinWindow(span=timedelta(microseconds=window.length_us))


@dataclass(frozen=True)
class ArrivalBatch(Columns, flat=("prob", "points"), begins="offsets"):
    """Tuples of both streams in one arrival order; n tuples, m samples.

    side : uint8[n], 0 left, 1 right    key : int64[n], codes 0, 1, 2, ..., the same in all calls
    offsets : int64[n + 1] of each tuple's samples    points : float64[m, d], finite
    prob : float64[m], probabilities of valid alternatives, in (0, 1]
    time : int64[n], event time in microseconds, for time windows; otherwise None
    radius : float64[n], finite and at least 0, if distances are sums of radii; otherwise None
    raw : float64[n, ...], values that an incomplete join stores with the tuples; otherwise None
    """

    side: npt.NDArray[np.uint8]
    key: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    prob: npt.NDArray[np.float64]
    points: npt.NDArray[np.float64]
    time: Ints | None = None
    radius: Floats | None = None
    raw: Floats | None = None


@dataclass(frozen=True)
class IncompleteArrivals(Columns):
    """Objects of both streams in one arrival order.

    side, key, time : as in `ArrivalBatch`
    values : float64[n, D], in the order of the imputer's `names`, NaN = missing
    """

    side: npt.NDArray[np.uint8]
    key: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    time: Ints | None = None
