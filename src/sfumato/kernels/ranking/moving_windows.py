"""Several windows and their arrivals: what time shows, and where the tuples of each run lie."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled


class MovingWindows(NamedTuple):
    """w windows, each with the tuples it held and then its arrivals: n tuples in all.

    begin : int64[w + 1], window j's tuples are those at begin[j] ... begin[j + 1]
    fresh : int64[w], place of its first arrival
    row, time : int64[n]
    since : int64[n], of an arrival the number of the oldest tuple that a window of so many rows
        holds behind it;  before : int64[w], the same before all of them
    length : int, of windows of time; 0 where they hold so many rows
    """

    begin: np.ndarray
    fresh: np.ndarray
    row: np.ndarray
    time: np.ndarray
    since: np.ndarray
    before: np.ndarray
    length: int


@compiled
def newest_times(time, begin, latest, until):
    """How far time has come with each arrival, and behind all of a window's.

    time : int64[n], of arrivals alone, window j's at begin[j] ... begin[j + 1]
    latest, until : int64[w], known before, and known by something else behind the arrivals
    Returns newest int64[n], last int64[w], and how many arrivals were older than the newest before
    them, int64[w].
    """
    newest, last, older = np.empty_like(time), until.copy(), np.zeros_like(until)
    for j in range(latest.size):
        known = latest[j]
        for i in range(begin[j], begin[j + 1]):
            older[j] += time[i] < known
            known = max(known, time[i])
            newest[i] = known
        last[j] = max(known, last[j])
    return newest, last, older


@compiled
def _span(windows, j, instant, visible):
    """First place, and the one behind the last, of what window j holds at an instant, of the tuples
    before place `visible`."""
    begin, end = windows.begin[j], windows.begin[j + 1]
    if windows.length == 0:
        since = windows.since[visible - 1] if visible > windows.fresh[j] else windows.before[j]
        return begin + np.searchsorted(windows.row[begin:end], since), visible
    time = windows.time[begin:end]
    first = begin + np.searchsorted(time, instant - windows.length)
    return first, min(begin + np.searchsorted(time, instant), visible)


@compiled
def window_spans(windows, newest, until, instants, runs):
    """Where the tuples of each run lie, and when it is answered.

    newest : int64[arrivals];  until : int64[w], see `newest_times`
    instants : int64[r], window j's at runs[j] ... runs[j + 1], ascending
    Returns first, last and answered, int64[r] each, and bool[w], whether all times of a window
    ascend: where they do not, those between `first` and `last` are in a window of time, or not.
    """
    r, w = instants.size, windows.fresh.size
    first, last = np.empty(r, np.int64), np.empty(r, np.int64)
    answered, ascending = np.empty(r, np.int64), np.empty(w, np.bool_)
    arrived = 0
    for j in range(w):
        begin, end = windows.begin[j], windows.begin[j + 1]
        ascending[j] = np.all(np.diff(windows.time[begin:end]) >= 0)
        shown = newest[arrived : arrived + end - windows.fresh[j]]
        arrived += shown.size
        for run in range(runs[j], runs[j + 1]):
            reached = np.searchsorted(shown, instants[run])  # this arrival shows that it is past
            answered[run] = shown[reached] if reached < shown.size else until[j]
            visible = windows.fresh[j] + reached
            if windows.length == 0 or ascending[j]:
                first[run], last[run] = _span(windows, j, instants[run], visible)
            else:
                first[run], last[run] = begin, visible
    return first, last, answered, ascending
