"""New traces, which were not used to choose any constant of the conformal estimator.

The families of `data/traces.py`, in several lengths, with seeds that are used nowhere else. A trace
is missed if more than 1.05 times the drop ratio is late, from the first row onwards.

Two kinds of traces are counted **apart**, by the trace alone, whether they are missed or not:
- *bursts*: a simple rule drops too many rows. From the 16th row onwards, it waits behind the newest
  event time for the largest lateness it has seen, and at least for twice the best fixed slack for
  the rows so far. A burst looks like earlier rows until its first row arrives; by then, rows that a
  punctuation has passed are lost. Any rule that does not wait longer drops at least the same number
  of rows.
- *short*: the stream lasts less than three times the lateness quantile at 1 - drop ratio. So much
  of it is under way at any time that its tail is a guess.

The estimator is known to fail for the families of HARD: links that stall while others continue,
storms and uploads after outages, a step of the delays in the last tenth, streams of two minutes,
clocks that jump back. Fewer than one in a hundred of the other traces should be missed.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.data import traces
from sfumato.kernels.compile import compiled

FAMILIES = (
    (traces.heavy_tailed, (10_000, 40_000)),
    (traces.shifting, (10_000, 40_000)),
    (traces.mixed, (10_000, 40_000)),
    (traces.bursty, (10_000, 40_000)),
    (traces.devices, (10_000, 40_000)),
    (traces.short, (2_000, 10_000)),
)
HARD = ("stall", "storm", "uploads", "up late", "at 0.95", "two minutes", "dense", "offset back")
MISSED = 1.05  # times the drop ratio
KNOWN = 16  # rows before the burst rule starts
SHORT = 3  # times the lateness quantile at 1 - drop ratio


def fresh(seeds: tuple[int, ...]) -> Iterator[tuple[str, str, int, int, traces.Trace]]:
    """Yield (family, name, length, seed, trace) of every trace with these seeds."""
    for family, lengths in FAMILIES:
        for n in lengths:
            for seed in seeds:
                for name, trace in family(n, seed):
                    yield family.__name__, name, n, seed, trace


def hard(name: str) -> bool:
    """Return whether a trace is in a family that the estimator is known to fail for."""
    return any(word in name for word in HARD)


@compiled
def lost_to_bursts(lateness, event, share, known):
    """Return the number of rows that are late for the burst rule (see the module docstring).

    lateness : int64[n] behind the newest earlier event time     event : int64[n]
    Cost: O(share n) per row that is among the latest; otherwise O(1).
    """
    tail = np.zeros(int(share * event.size) + 2, np.int64)  # the largest lateness, descending
    size = 0
    newest = event[0]
    punctuation = np.iinfo(np.int64).min
    lost = 0
    for i in range(event.size):
        lost += event[i] <= punctuation
        if size < tail.size or lateness[i] > tail[size - 1]:
            size = min(size + 1, tail.size)
            place = size - 1
            while place > 0 and tail[place - 1] < lateness[i]:
                tail[place] = tail[place - 1]
                place -= 1
            tail[place] = lateness[i]
        newest = max(newest, event[i])
        if i + 1 >= known:
            best = tail[min(int(share * (i + 1)), size - 1)]
            punctuation = max(punctuation, newest - max(tail[0], 2 * best) - 1)
    return lost


def apart(event: np.ndarray, drop_ratio: float) -> str:
    """Return why a trace is counted apart: "burst", "short", or ""."""
    newest = np.maximum.accumulate(event)
    lateness = np.maximum(np.concatenate([[0], newest[:-1] - event[1:]]), 0)
    if lost_to_bursts(lateness, event, drop_ratio, KNOWN) > MISSED * drop_ratio * len(event):
        return "burst"
    lasts = event.max() - event.min()
    return "short" if lasts < SHORT * np.quantile(lateness, 1 - drop_ratio) else ""
