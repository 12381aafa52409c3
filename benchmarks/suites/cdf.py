"""The full distribution function of a Poisson-binomial count against scipy.stats.poisson_binom."""

import numpy as np
from scipy import stats

from benchmarks.harness import Row, fastest, row
from sfumato.engine_free import PoissonBinomial

SETTINGS = {100: None, 1_000: 300}  # n: goal
QUICK = {"SETTINGS": {100: None}, "REPEATS": 2}
MOST_ERROR = 1e-12
REPEATS = 30


def run() -> list[Row]:
    return [found for n in SETTINGS for found in compare(n)]


def compare(n: int) -> list[Row]:
    p, k = np.random.default_rng(n).random(n), np.arange(n + 1)

    def ours() -> np.ndarray:
        return PoissonBinomial(p).cdf(k)

    def peer() -> np.ndarray:
        return stats.poisson_binom.cdf(k, p)

    error = max(np.abs(ours() - peer()).max(), np.abs(ours() - plain_recursion(p)).max())
    mine, theirs = 1e6 * fastest(ours, REPEATS), 1e6 * fastest(peer, 5)
    setting, times = f"n = {n:,}", (f"{mine:,.1f} µs", f"{theirs:,.1f} µs")
    errors = f"{error:.1e}", f"{MOST_ERROR:.0e}"
    return [
        row("full CDF / scipy", setting, *times, theirs / mine, least=SETTINGS[n]),
        row("full CDF, error", setting, *errors, error / MOST_ERROR, most=1),
    ]


def plain_recursion(p: np.ndarray) -> np.ndarray:
    """Compute RF1 with 80-bit floats, as a reference for the error."""
    law = np.zeros(p.size + 1, dtype=np.longdouble)
    law[0] = 1
    for x in p.astype(np.longdouble):
        law[1:] = law[1:] * (1 - x) + law[:-1] * x
        law[0] *= 1 - x
    return np.cumsum(law)
