"""The best fixed slack, chosen with hindsight: the peer of the adaptive disorder controllers.

Three ways to hold a fixed slack s, each with the smallest s that drops at most the wanted share:
behind the newest event time (p = max τ - s), behind the arrival clock (p = t - s), and a sort
buffer of s rows (Aurora's SLACK). A released row waited until the arrival that released it.
"""

from __future__ import annotations

import numpy as np


def waits(event_time: np.ndarray, arrival: np.ndarray, punctuation: np.ndarray) -> tuple:
    """(late bool[n], wait int64[n]) under given punctuations; a late row waits 0."""
    before = np.concatenate([[np.iinfo(np.int64).min], punctuation[:-1]])
    late = event_time < before
    position = np.arange(len(event_time))
    release = np.maximum(np.searchsorted(punctuation, event_time, "left"), position)
    release = np.minimum(release, len(event_time) - 1)
    return late, np.where(late, 0, arrival[release] - arrival)


def displacement(event_time: np.ndarray) -> np.ndarray:
    """int64[n]: how many earlier rows have an event time at or above this row's."""
    n = len(event_time)
    rank = np.unique(-event_time, return_inverse=True)[1].reshape(-1) + 1
    tree = [0] * (n + 2)
    out = np.empty(n, np.int64)
    for i, r in enumerate(rank.tolist()):
        total, k = 0, r
        while k:
            total += tree[k]
            k &= k - 1
        out[i] = total
        k = r
        while k <= n:
            tree[k] += 1
            k += k & -k
    return out


def smallest(lateness: np.ndarray, allowed: int) -> int:
    """The smallest s >= 0 with at most `allowed` rows of lateness >= s."""
    return max(int(np.partition(lateness, -allowed - 1)[-allowed - 1]) + 1, 0)


def nth_largest(event_time: np.ndarray, n: int) -> np.ndarray:
    """int64[]: the (n + 1)-th largest event time so far; the int64 minimum while there is none."""
    import heapq

    heap: list[int] = []
    out = np.full(len(event_time), np.iinfo(np.int64).min)
    for i, tau in enumerate(event_time.tolist()):
        if len(heap) <= n:
            heapq.heappush(heap, tau)
        else:
            heapq.heappushpop(heap, tau)
        if len(heap) > n:
            out[i] = heap[0]
    return out


def best_fixed(
    event_time: np.ndarray,
    arrival: np.ndarray,
    drop_ratio: float,
    displaced: np.ndarray | None = None,
) -> dict[str, float]:
    """Mean wait (microseconds) of each kind of fixed slack that drops at most `drop_ratio`.

    displaced : `displacement(event_time)`, for who has it by a faster way
    """
    allowed = int(drop_ratio * len(event_time) + 1e-9)
    newest = np.maximum.accumulate(event_time)
    behind = np.empty_like(event_time)
    behind[0], behind[1:] = -1, newest[:-1] - event_time[1:]
    clock = np.empty_like(event_time)
    clock[0], clock[1:] = np.iinfo(np.int64).min // 2, arrival[:-1] - event_time[1:]
    result = {}
    slack = smallest(behind, allowed)
    result["event"] = waits(event_time, arrival, newest - slack)[1].mean()
    # Clocks may be apart: a negative fixed delay is as good as a positive one.
    slack = int(np.partition(clock, -allowed - 1)[-allowed - 1]) + 1
    result["arrival"] = waits(event_time, arrival, arrival - slack)[1].mean()
    displaced = displacement(event_time) if displaced is None else displaced
    rows = max(int(np.partition(displaced, -allowed - 1)[-allowed - 1]), 0)
    result["rows"] = waits(event_time, arrival, nth_largest(event_time, rows))[1].mean()
    return result
