"""Distributions of aggregates over uncertain count windows, against recomputation at every arrival.

Ours is the whole operator, including finding the window, means and standard deviations. The answers
are three quantiles of the distribution of sum, avg and quantile (1,000 sampled worlds) and count
(exact). The C++ peers are given the start of each window and recompute at every arrival: the same
worlds, drawn one tuple at a time, O(samples w'), and the recursion over the count, O(w w'). They
are therefore timed on fewer arrivals. Both answers are compared first.
"""

from typing import Any

import numpy as np

from benchmarks.data.streams import count_window_stream
from benchmarks.harness import Row, in_turns
from benchmarks.peers.build import peer
from benchmarks.suites.window_aggregate import rows_of, starts_of, take
from benchmarks.suites.windows import CONFIDENCE
from sfumato.operators.distributions.aggregate import Aggregate
from sfumato.operators.windows.count.count_window_aggregate import CountWindowAggregate

REPEATS = 3
SHARES = np.array([0.1, 0.5, 0.9])
SEED, SAMPLES = 0, 1_000
# function and rows: our arrivals, the peer's arrivals, goal in tuples per second, goal against
# the peer
SETTINGS = {
    ("sum", 100): (2_000, 40, 5_000, 2),
    ("sum", 1_000): (2_000, 4, 5_000, 15),
    ("sum", 5_000): (2_000, 1, 5_000, 75),
    ("avg", 1_000): (2_000, 4, 5_000, 15),
    ("quantile", 100): (1_000, 10, 5_000, 10),
    ("quantile", 1_000): (1_000, 2, 5_000, 100),
    ("count", 1_000): (10_000, 100, 50_000, 10),
}
FUNCTIONS = {
    "sum": ("sum_laws", Aggregate("sum", 0)),
    "avg": ("average_laws", Aggregate("avg", 0)),
    "quantile": ("median_laws", Aggregate("quantile", 0, 0.5)),
    "count": ("count_laws", Aggregate("count")),
}
QUICK = {"SETTINGS": {(name, 100): (100, 4, 1, 1) for name in FUNCTIONS}, "REPEATS": 1}


def run() -> list[Row]:
    return [row for of in SETTINGS for kind in ("near 1", "uniform") for row in compare(*of, kind)]


def compare(function: str, w: int, kind: str) -> list[Row]:
    many, few, rate_goal, ratio_goal = SETTINGS[function, w]
    warm, existence, value = count_window_stream(w, kind, many)
    name, aggregate = FUNCTIONS[function]
    window = CountWindowAggregate(
        w, CONFIDENCE, [aggregate], quantiles=SHARES.tolist(), samples=SAMPLES
    )
    take(window, existence[:warm], value[:warm])
    snapshot = window.snapshot()

    def begun() -> tuple[CountWindowAggregate, Any]:
        """Return the window after its first arrival, which draws the worlds, and its answer."""
        copy = CountWindowAggregate.restore(snapshot)
        return copy, take(copy, existence[warm : warm + 1], value[warm : warm + 1])

    def ours(of: tuple[CountWindowAggregate, Any]) -> Any:
        return take(of[0], existence[warm + 1 :], value[warm + 1 :])

    copy, first = begun()
    answers = ours((copy, first))
    starts = starts_of(np.concatenate([first.held, answers.held]), warm)
    expected = np.empty((few, SHARES.size))
    windows = existence, value, starts, warm, warm + few, w
    theirs = peer("window_law", name, *windows, SEED, SAMPLES, SHARES, SHARES.size, expected)
    seconds, _ = in_turns({"ours": ours, "peer": lambda _: theirs()}, REPEATS, prepare=begun)
    quantiles = np.concatenate([first.results[0].quantiles, answers.results[0].quantiles])
    np.testing.assert_allclose(quantiles[:few], expected, rtol=1e-10)
    times = seconds["ours"] / (many - 1), seconds["peer"] / few
    return rows_of(f"distribution of {function}", w, kind, *times, rate_goal, ratio_goal)
