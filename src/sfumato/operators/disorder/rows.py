"""The rows of a reorder: as they come, while they wait, judged, and as they come out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from sfumato.operators.disorder.by_key import Keyed
from sfumato.operators.state.declared import Array, Declaration

FARTHEST = 1 << 58  # microseconds from 1970, about the year 11,000: beyond it times are one


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
class Waiting(Keyed):
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

    rows: Waiting
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
    """Times cut to +-FARTHEST, so that differences fit in int64; the same array if they are."""
    if len(time) and max(int(time.max()), -int(time.min())) > FARTHEST:
        return np.clip(time, -FARTHEST, FARTHEST)
    return time
