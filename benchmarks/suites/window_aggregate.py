"""Aggregates with mean and standard deviation over uncertain count windows, against recomputation.

Ours is the whole operator, including finding the window. The C++ peers are given the start of each
window and recompute at every arrival: for sum and avg, the recursion over the count and moments,
O(w w'); for max, a recursion over the count for each value, O(values w w'). They are therefore
timed on fewer arrivals. Both answers are compared first.
"""

from itertools import pairwise

import numpy as np

from benchmarks.data.streams import count_window_stream
from benchmarks.harness import Row, in_turns, nanoseconds, row
from benchmarks.peers.build import peer
from benchmarks.suites.windows import CONFIDENCE
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate

REPEATS = 5
BATCH = 10_000
# function and rows: our arrivals, the peer's arrivals, goal in tuples per second, goal against
# the peer
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
QUICK = {
    "SETTINGS": {(name, 100): (1_000, 40, 1, 1) for name in ("sum", "avg", "max")},
    "REPEATS": 1,
}
PEERS = {
    "sum": ("window_sum", "window_sums"),
    "avg": ("window_sum", "window_averages"),
    "max": ("window_extreme", "window_maxima"),
}


def run() -> list[Row]:
    kinds = ("near 1", "uniform")
    return [found for of in SETTINGS for kind in kinds for found in compare(*of, kind)]


def compare(function: str, w: int, kind: str) -> list[Row]:
    many, few, rate_goal, ratio_goal = SETTINGS[function, w]
    warm, existence, value = count_window_stream(w, kind, many)
    window = CountWindowAggregate(w, CONFIDENCE, [Aggregate(function, 0)])
    held = take(window, existence[:warm], value[:warm]).held
    snapshot, first = window.snapshot(), warm - held[-1]

    def ours(copy: CountWindowAggregate) -> list[np.ndarray]:
        ends = [*range(warm, warm + many, BATCH), warm + many]
        parts = [
            take(copy, existence[begin:end], value[begin:end]) for begin, end in pairwise(ends)
        ]
        of = [(part.held, part.results[0].mean, part.results[0].stddev) for part in parts]
        return [np.concatenate(column) for column in zip(*of, strict=True)]

    counts, mean, stddev = ours(CountWindowAggregate.restore(snapshot))
    starts, expected = starts_of(counts, warm), np.empty((few, 2))
    theirs = peer(*PEERS[function], existence, value, starts, warm, warm + few, w, expected)
    seconds, _ = in_turns(
        {"ours": ours, "peer": lambda _: theirs()},
        REPEATS,
        prepare=lambda: CountWindowAggregate.restore(snapshot),
    )
    assert (starts[warm:] >= first).all()
    np.testing.assert_allclose(mean[:few], expected[:, 0], rtol=1e-10)
    np.testing.assert_allclose(stddev[:few], np.sqrt(expected[:, 1]), rtol=1e-6)
    times = seconds["ours"] / many, seconds["peer"] / few
    return rows_of(f"window {function}", w, kind, *times, rate_goal, ratio_goal)


def take(window: CountWindowAggregate, existence: np.ndarray, value: np.ndarray):
    """Return the window's answers to a batch of tuples of one group."""
    n = existence.size
    return window.process(np.zeros(n, np.int64), np.arange(n + 1), existence, value[:, None])


def starts_of(held: np.ndarray, warm: int) -> np.ndarray:
    """Return where the window of each tuple starts; 0 for the first `warm` tuples."""
    begin = np.arange(warm, warm + held.size) + 1 - held
    return np.concatenate([np.zeros(warm, np.int64), begin])


def rows_of(
    name: str, w: int, kind: str, ours: float, peer: float, rate_goal: float, ratio_goal: float
) -> list[Row]:
    """Return the peer's time over ours, and tuples per second; times are seconds per tuple."""
    setting, times = f"w = {w:,}, existence {kind}", (nanoseconds(ours), nanoseconds(peer))
    return [
        row(f"{name} / recomputation in C++", setting, *times, peer / ours, least=ratio_goal),
        row(f"{name}, tuples per second", setting, *times, 1 / ours, least=rate_goal),
    ]
