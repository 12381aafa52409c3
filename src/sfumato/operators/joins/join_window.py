"""What the window of a stream holds in a join."""

from collections.abc import Sequence
from typing import Any

from sfumato.windows import JoinWindow, Range, Rows, window_of

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
