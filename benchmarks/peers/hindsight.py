"""The best fixed slack, chosen with hindsight: the peer of the adaptive disorder controllers.

There are three kinds of fixed slack s, each with the smallest s that drops at most the requested
share: behind the newest event time (p = max τ - s), behind the arrival clock (p = t - s), and a
sort buffer of s rows (Aurora's SLACK). A row waits until the arrival that releases it.
"""

from __future__ import annotations

import heapq

import numpy as np

from sfumato.kernels.compile import compiled


def waits(event_time: np.ndarray, arrival: np.ndarray, punctuation: np.ndarray) -> tuple:
    """Return (late bool[n], wait int64[n]) under given punctuations; a late row waits 0."""
    before = np.concatenate([[np.iinfo(np.int64).min], punctuation[:-1]])
    late = event_time < before
    position = np.arange(len(event_time))
    release = np.maximum(np.searchsorted(punctuation, event_time, "left"), position)
    release = np.minimum(release, len(event_time) - 1)
    return late, np.where(late, 0, arrival[release] - arrival)


@compiled
def displacement(event_time):
    """Return how many earlier rows have an event time at or above each row's, in O(n log n)."""
    n = event_time.size
    order = np.argsort(-event_time, kind="mergesort")
    rank = np.empty(n, np.int64)
    for i in range(n):
        same = i > 0 and event_time[order[i]] == event_time[order[i - 1]]
        rank[order[i]] = rank[order[i - 1]] if same else i + 1
    tree = np.zeros(n + 1, np.int64)
    out = np.zeros(n, np.int64)
    for i in range(n):
        k = rank[i]
        while k > 0:
            out[i] += tree[k]
            k -= k & -k
        k = rank[i]
        while k <= n:
            tree[k] += 1
            k += k & -k
    return out


def nth_largest(event_time: np.ndarray, n: int) -> np.ndarray:
    """Return the (n + 1)-th largest event time so far; the int64 minimum while there is none."""
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


def best_fixed(event_time: np.ndarray, arrival: np.ndarray, drop_ratio: float) -> dict[str, float]:
    """Return the mean wait (microseconds) of each kind of slack that drops at most `drop_ratio`."""
    allowed = int(drop_ratio * len(event_time) + 1e-9)

    def exceeded(lateness: np.ndarray) -> int:
        """Return the smallest lateness that at most `allowed` rows exceed."""
        return int(np.partition(lateness, -allowed - 1)[-allowed - 1])

    newest = np.maximum.accumulate(event_time)
    behind = np.concatenate([[-1], newest[:-1] - event_time[1:]])
    clock = np.concatenate([[np.iinfo(np.int64).min // 2], arrival[:-1] - event_time[1:]])
    rows = max(exceeded(displacement(event_time)), 0)
    punctuations = {
        "event": newest - max(exceeded(behind) + 1, 0),
        # Clocks may differ: a negative fixed delay is as good as a positive one.
        "arrival": arrival - (exceeded(clock) + 1),
        "rows": nth_largest(event_time, rows),
    }
    return {kind: waits(event_time, arrival, of)[1].mean() for kind, of in punctuations.items()}
