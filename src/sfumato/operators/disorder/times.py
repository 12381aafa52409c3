"""Event times and arrivals as the kernels take them."""

import numpy as np

FARTHEST = 1 << 58  # microseconds from 1970, about the year 11,000: beyond it times are one


def as_microseconds(name: str, values: np.ndarray) -> np.ndarray:
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


def within_range(time: np.ndarray) -> np.ndarray:
    """Times cut to +-FARTHEST, so that differences fit in int64; the same array if they are."""
    if len(time) and max(int(time.max()), -int(time.min())) > FARTHEST:
        return np.clip(time, -FARTHEST, FARTHEST)
    return time


def check_lengths(event_time: np.ndarray, arrival: np.ndarray) -> None:
    """Raise ValueError unless both arrays have one length."""
    if len(event_time) != len(arrival):
        raise ValueError(
            f"`event_time` and `arrival` must have one length; got {len(event_time)} and "
            f"{len(arrival)}"
        )
