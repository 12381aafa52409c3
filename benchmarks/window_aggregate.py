"""Aggregates with mean and standard deviation over uncertain count windows, against recomputation.

Ours is the whole operator, finding the window included; the C++ peers are given where each window
begins and recompute at every arrival the recursion over (count; moments), O(w w'), for sum and
avg, and one over the count for each value, O(values w w'), for max; so they are timed on fewer
arrivals. Both answers are compared first.
"""

from __future__ import annotations

import ctypes

import numpy as np

from harness import in_turns, nanoseconds, row
from peers.build import load
from sfumato.operators.laws.aggregate import Aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate
from windows import CONFIDENCE, FLOATS, INTS, existences

REPEATS = 5
BATCH = 10_000
# function and rows: arrivals of ours, of the peer, goal in tuples a second, goal against the peer
SETTINGS = {
    ("sum", 100): (30_000, 2_000, 400_000, 4),
    ("sum", 1_000): (30_000, 40, 200_000, 100),
    ("sum", 5_000): (30_000, 4, 50_000, 500),
    ("avg", 100): (30_000, 2_000, 200_000, 2),
    ("avg", 1_000): (30_000, 40, 100_000, 50),
    ("avg", 5_000): (30_000, 4, 40_000, 400),
    ("max", 100): (5_000, 200, 5_000, 1.5),
    ("max", 1_000): (5_000, 4, 10_000, 100),
}
PEERS = {
    "sum": ("window_sum", "window_sums"),
    "avg": ("window_sum", "window_averages"),
    "max": ("window_extreme", "window_maxima"),
}


def run() -> list[dict]:
    """Two rows a setting: tuples a second, and the peer's time over ours."""
    kinds = ("near 1", "uniform")
    return [found for of in SETTINGS for kind in kinds for found in compare(*of, kind)]


def compare(function: str, w: int, kind: str) -> list[dict]:
    many, few, rate_goal, ratio_goal = SETTINGS[function, w]
    warm, existence, value = stream(w, kind, many)
    window = CountWindowAggregate(w, CONFIDENCE, [Aggregate(function, 0)])
    held = [take(window, existence, value, 0, warm)[0]]
    snapshot, first = window.snapshot(), warm - held[0][-1]
    starts = np.zeros(existence.size, np.int64)

    def ours(copy: CountWindowAggregate) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        parts = [
            take(copy, existence, value, begin, min(begin + BATCH, warm + many))
            for begin in range(warm, warm + many, BATCH)
        ]
        return tuple(np.concatenate(part) for part in zip(*parts, strict=True))  # type: ignore

    counts, mean, stddev = ours(CountWindowAggregate.restore(snapshot))
    starts[warm:] = np.arange(warm, warm + many) + 1 - counts
    calls = {
        "ours": ours,
        "peer": lambda _: peer(function, existence, value, starts, warm, warm + few, w),
    }
    seconds, found = in_turns(
        calls, REPEATS, prepare=lambda: CountWindowAggregate.restore(snapshot)
    )
    expected = found["peer"]
    assert (starts[warm:] >= first).all()
    np.testing.assert_allclose(mean[:few], expected[:, 0], rtol=1e-10)
    np.testing.assert_allclose(stddev[:few], np.sqrt(expected[:, 1]), rtol=1e-6)
    setting = f"w = {w:,}, existence {kind}"
    mine, theirs = seconds["ours"] / many, seconds["peer"] / few
    return rows_of(f"window {function}", setting, mine, theirs, rate_goal, ratio_goal)


def stream(w: int, kind: str, many: int) -> tuple[int, np.ndarray, np.ndarray]:
    """How many tuples come first to fill the window; existences and values of these and `many`."""
    existence = np.maximum(existences(kind, 4 * w + many, seed=w), 1e-9)
    return 4 * w, existence, np.random.default_rng(w).normal(20.0, 5.0, existence.size)


def rows_of(
    name: str, setting: str, ours: float, peer: float, rate_goal: float, ratio_goal: float
) -> list[dict]:
    """Return the peer's time over ours, and tuples per second; times are seconds per tuple."""
    times = nanoseconds(ours), nanoseconds(peer)
    return [
        row(f"{name} / recomputation in C++", setting, *times, peer / ours, least=ratio_goal),
        row(f"{name}, tuples a second", setting, *times, 1 / ours, least=rate_goal),
    ]


def take(
    window: CountWindowAggregate, existence: np.ndarray, value: np.ndarray, begin: int, end: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n = end - begin
    answers = window.process(
        np.zeros(n, np.int64), np.arange(n + 1), existence[begin:end], value[begin:end, None]
    )
    return answers.held, answers.results[0].mean, answers.results[0].stddev


def peer(
    name: str,
    existence: np.ndarray,
    value: np.ndarray,
    starts: np.ndarray,
    begin: int,
    end: int,
    w: int,
) -> np.ndarray:
    library, function = PEERS[name]
    call, size = getattr(load(library), function), ctypes.c_int64
    call.argtypes = [FLOATS, FLOATS, INTS, size, size, size, FLOATS]
    out = np.empty((end - begin, 2))
    call(existence, value, starts, begin, end, w, out)
    return out
