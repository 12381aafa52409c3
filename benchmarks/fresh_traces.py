"""Fresh traces, on which no constant of the conformal estimator was chosen.

The families of `data/traces.py`, with seeds used nowhere else, in several lengths. A trace is
missed if more than 1.05 times the drop ratio comes late, from the first row on.

**Apart** are counted, by the trace alone, whether they are held or not:
- *bursts*: the rule that waits, behind the newest event time and from the 16th row on, as long as
  the largest lateness it has seen, and at least twice the best fixed slack for what has come so
  far, drops too much. A burst looks like what came before it until its first row is there, and
  then what a punctuation has passed is lost: whoever waits no longer than that rule drops as much.
- *short*: the stream lasts less than three times the lateness that the drop ratio leaves in time.
  So much of it is still under way at any time that its tail is a guess.

The estimator is known to fail the families of HARD: links that stall while others go on, storms and
uploads after outages, a step of the delays in the last tenth, streams of two minutes, clocks that
jump back. The others are to be missed less than once in a hundred.
"""

from __future__ import annotations

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
MISSED = 1.05  # drop ratios
KNOWN = 16  # rows before the rule of the bursts begins
SHORT = 3  # times the lateness of the drop ratio


def fresh(seeds: tuple[int, ...]) -> Iterator[tuple[str, str, int, int, traces.Trace]]:
    """(family, name, length, seed, trace) of every trace with these seeds."""
    for family, lengths in FAMILIES:
        for n in lengths:
            for seed in seeds:
                for name, trace in family(n, seed):
                    yield family.__name__, name, n, seed, trace


def hard(name: str) -> bool:
    """Whether a trace is of a family that the estimator is known to fail."""
    return any(word in name for word in HARD)


@compiled
def lost_to_bursts(lateness, event, share, known):
    """How many rows are late for the rule of the bursts; see the head of this file.

    lateness : int64[n] behind the newest event time before     event : int64[n]
    O(share n) a row that is among the latest, else O(1).
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
    """Why a trace is counted apart: "burst", "short", or ""."""
    newest = np.maximum.accumulate(event)
    lateness = np.maximum(np.concatenate([[0], newest[:-1] - event[1:]]), 0)
    if lost_to_bursts(lateness, event, drop_ratio, KNOWN) > MISSED * drop_ratio * len(event):
        return "burst"
    lasts = event.max() - event.min()
    return "short" if lasts < SHORT * np.quantile(lateness, 1 - drop_ratio) else ""
