"""Laws of aggregates over uncertain count windows, updated by every arrival, against recomputation.

Ours is the whole operator, finding the window, means and standard deviations included; asked for
are three quantiles of the law of sum, avg and quantile (1,000 sampled worlds) and count (exact).
The C++ peers are given where each window begins and recompute at every arrival: the same worlds,
drawn tuple by tuple, O(samples w'), and the recursion over the count, O(w w'); so they are timed on
fewer arrivals. Both answers are compared first.
"""

from __future__ import annotations

import ctypes

import numpy as np

from harness import in_turns
from peers.build import load
from sfumato.operators.laws.aggregate import Aggregate
from sfumato.operators.windows.count.count_window_aggregate import (
    CountWindowAggregate,
    WindowAnswers,
)
from window_aggregate import rows_of, stream
from windows import CONFIDENCE, FLOATS, INTS

REPEATS = 3
SHARES = np.array([0.1, 0.5, 0.9])
SEED, SAMPLES = 0, 1_000
# function and rows: arrivals of ours, of the peer, goal in tuples a second, goal against the peer
SETTINGS = {
    ("sum", 100): (2_000, 40, 5_000, 2),
    ("sum", 1_000): (2_000, 4, 5_000, 15),
    ("sum", 5_000): (2_000, 1, 5_000, 75),
    ("avg", 1_000): (2_000, 4, 5_000, 15),
    ("quantile", 100): (1_000, 10, 5_000, 10),
    ("quantile", 1_000): (1_000, 2, 5_000, 100),
    ("count", 1_000): (10_000, 100, 50_000, 10),
}
PEERS = {
    "sum": "sum_laws",
    "avg": "average_laws",
    "quantile": "median_laws",
    "count": "count_laws",
}
AGGREGATES = {
    "sum": Aggregate("sum", 0),
    "avg": Aggregate("avg", 0),
    "quantile": Aggregate("quantile", 0, 0.5),
    "count": Aggregate("count"),
}


def run() -> list[dict]:
    """Two rows a setting: tuples a second, and the peer's time over ours."""
    return [row for of in SETTINGS for kind in ("near 1", "uniform") for row in compare(*of, kind)]


def compare(function: str, w: int, kind: str) -> list[dict]:
    many, few, rate_goal, ratio_goal = SETTINGS[function, w]
    warm, existence, value = stream(w, kind, many)
    window = CountWindowAggregate(
        w, CONFIDENCE, [AGGREGATES[function]], quantiles=SHARES.tolist(), samples=SAMPLES
    )
    take(window, existence[:warm], value[:warm])
    snapshot, starts = window.snapshot(), np.zeros(existence.size, np.int64)

    def begun() -> tuple[CountWindowAggregate, WindowAnswers]:
        """Return the window after the first arrival, which begins the worlds, and its answer."""
        copy = CountWindowAggregate.restore(snapshot)
        return copy, take(copy, existence[warm : warm + 1], value[warm : warm + 1])

    def ours(of: tuple[CountWindowAggregate, WindowAnswers]) -> WindowAnswers:
        return take(of[0], existence[warm + 1 :], value[warm + 1 :])

    copy, first = begun()
    answers = ours((copy, first))
    held = np.concatenate([first.held, answers.held])
    starts[warm:] = np.arange(warm, warm + many) + 1 - held
    calls = {
        "ours": ours,
        "peer": lambda _: peer(function, existence, value, starts, warm, few, w),
    }
    seconds, found = in_turns(calls, REPEATS, prepare=begun)
    quantiles = np.concatenate([first.results[0].quantiles, answers.results[0].quantiles])
    np.testing.assert_allclose(quantiles[:few], found["peer"], rtol=1e-10)
    setting = f"w = {w:,}, existence {kind}"
    mine, theirs = seconds["ours"] / (many - 1), seconds["peer"] / few
    return rows_of(f"law of {function}", setting, mine, theirs, rate_goal, ratio_goal)


def take(window: CountWindowAggregate, existence: np.ndarray, value: np.ndarray) -> WindowAnswers:
    n = existence.size
    return window.process(np.zeros(n, np.int64), np.arange(n + 1), existence, value[:, None])


def peer(
    function: str,
    existence: np.ndarray,
    value: np.ndarray,
    starts: np.ndarray,
    begin: int,
    few: int,
    w: int,
) -> np.ndarray:
    call, size = getattr(load("window_law"), PEERS[function]), ctypes.c_int64
    call.argtypes = [
        FLOATS, FLOATS, INTS, size, size, size, ctypes.c_uint64, size, FLOATS, size, FLOATS,
    ]  # fmt: skip
    out = np.empty((few, SHARES.size))
    end = begin + few
    call(existence, value, starts, begin, end, w, SEED, SAMPLES, SHARES, SHARES.size, out)
    return out
