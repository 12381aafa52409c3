"""The full distribution function of a Poisson-binomial count against scipy.stats.poisson_binom."""

from __future__ import annotations

import time

import numpy as np
from scipy import stats

from sfumato import PoissonBinomial

# n: goal
SETTINGS = {100: None, 1_000: 300}
MOST_ERROR = 1e-12
REPEATS = 30


def run() -> list[dict]:
    """One row a comparison: name, setting, ours, peer, ratio, goal, met."""
    return [row for n in SETTINGS for row in compare(n)]


def compare(n: int) -> list[dict]:
    p, k = np.random.default_rng(n).random(n), np.arange(n + 1)

    def ours() -> np.ndarray:
        return PoissonBinomial(p).cdf(k)

    def peer() -> np.ndarray:
        return stats.poisson_binom.cdf(k, p)

    error = max(np.abs(ours() - peer()).max(), np.abs(ours() - plain_recursion(p)).max())
    ours_us, peer_us = microseconds(ours, REPEATS), microseconds(peer, 5)
    ratio, goal = peer_us / ours_us, SETTINGS[n]
    setting = f"n = {n:,}"
    return [
        {
            "name": "full CDF / scipy",
            "setting": setting,
            "ours": f"{ours_us:,.1f} us",
            "peer": f"{peer_us:,.1f} us",
            "ratio": ratio,
            "goal": f">= {goal}" if goal else "",
            "met": goal is None or ratio >= goal,
        },
        {
            "name": "full CDF, error",
            "setting": setting,
            "ours": f"{error:.1e}",
            "peer": f"{MOST_ERROR:.0e}",
            "ratio": error / MOST_ERROR,
            "goal": "<= 1",
            "met": error <= MOST_ERROR,
        },
    ]


def plain_recursion(p: np.ndarray) -> np.ndarray:
    """RF1 with 80-bit floats, as a judge of the error."""
    law = np.zeros(p.size + 1, dtype=np.longdouble)
    law[0] = 1
    for x in p.astype(np.longdouble):
        law[1:] = law[1:] * (1 - x) + law[:-1] * x
        law[0] *= 1 - x
    return np.cumsum(law)


def microseconds(work, repeats: int) -> float:
    """The best of some runs."""
    times = []
    for _ in range(repeats):
        begin = time.thread_time()
        work()
        times.append(time.thread_time() - begin)
    return min(times) * 1e6
