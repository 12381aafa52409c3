"""Three approximations of the distribution of a Bernoulli sum from its first moments.

They take mu = sum p, variance = sum p (1 - p) and skew = sum p (1 - p)(1 - 2 p), so that running
sums answer for any stretch of a stream in O(1). None carries a bound here: they are there to be
compared with, the exact law costs little more. Compiled, so that their times can be compared too.
"""

import math
from typing import Any

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.operators.windows.uncertain_window import UncertainWindow

POISSON, NORMAL, REFINED_NORMAL = 1, 2, 3


@compiled
def moments(p: Any) -> Any:
    """(mu, variance, skew) of the sum of independent Bernoulli(p[i]); p float64[n].  O(n)."""
    mu, variance, skew = 0.0, 0.0, 0.0
    for i in range(p.size):
        x = p[i]
        spread = x * (1.0 - x)
        mu += x
        variance += spread
        skew += spread * (1.0 - 2.0 * x)
    return mu, variance, skew


@compiled
def _stirling_error(n: Any) -> Any:
    """ln n! minus Stirling's formula, for n >= 1."""
    if n < 16.0:
        return math.lgamma(n + 1.0) - (n + 0.5) * math.log(n) + n - 0.5 * math.log(2.0 * math.pi)
    s = n * n
    return (1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / s) / s) / s) / s) / n


@compiled
def _deviance(k: Any, mu: Any) -> Any:
    """k ln(k / mu) + mu - k without cancellation where k is near mu."""
    if abs(k - mu) >= 0.1 * (k + mu):
        return k * math.log(k / mu) + mu - k
    v = (k - mu) / (k + mu)
    total, term, j = (k - mu) * v, 2.0 * k * v, 1
    while True:
        term *= v * v
        j += 2
        next_total = total + term / j
        if next_total == total:
            return total
        total = next_total


@compiled
def _poisson_mass(k: Any, mu: Any) -> Any:
    if k == 0.0:
        return math.exp(-mu)
    return math.exp(-_stirling_error(k) - _deviance(k, mu)) / math.sqrt(2.0 * math.pi * k)


@compiled
def poisson_tails(k: Any, mu: Any) -> Any:
    """(Pr(N <= k), Pr(N > k)) for N Poisson of mean mu; k >= 0 whole.

    The smaller is summed outwards from its largest term, O(sqrt(mu)).  Error: 1e-13 relative.
    Source: Dallachiesa et al. (2015), equation (14), whose sum must start at i = 0; first term:
    C. Loader (2000).
    """
    if mu <= 0.0:
        return 1.0, 0.0
    total = 0.0
    if k < mu:
        term, i = _poisson_mass(k, mu), k
        while term > total * 1e-17:
            total += term
            term *= i / mu
            i -= 1.0
        total = min(total, 1.0)
        return total, 1.0 - total
    i = k + 1.0
    term = _poisson_mass(i, mu)
    while term > total * 1e-17:
        total += term
        i += 1.0
        term *= mu / i
    total = min(total, 1.0)
    return 1.0 - total, total


@compiled
def normal_tails(k: Any, mu: Any, variance: Any, skew: Any) -> Any:
    """(Pr(N <= k), Pr(N > k)) by the normal law, refined by `skew` (0.0: plain); variance > 0.

    With x = (k + 1/2 - mu) / sigma: Phi(x) + gamma (1 - x^2) phi(x) / 6, clipped to [0, 1], gamma
    the skewness skew / sigma^3, Phi the distribution function and phi the density.
    Source: Dallachiesa et al. (2015), equations (15)-(17); below (17) the paper swaps the names of
    Phi and phi.
    """
    sigma = math.sqrt(variance)
    x = (k + 0.5 - mu) / sigma
    below, above = 0.5 * math.erfc(-x / math.sqrt(2.0)), 0.5 * math.erfc(x / math.sqrt(2.0))
    density = math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    if skew == 0.0 or density == 0.0:  # far out x * x may be infinite, and the term is nothing
        return below, above
    term = skew / (variance * sigma) * (1.0 - x * x) * density / 6.0
    return min(max(below + term, 0.0), 1.0), min(max(above - term, 0.0), 1.0)


@compiled
def approximate_tails(method: Any, k: Any, mu: Any, variance: Any, skew: Any) -> Any:
    """(Pr(N <= k), Pr(N > k)) by `method`: POISSON, NORMAL or REFINED_NORMAL; k >= 0 whole.

    variance == 0 (every p is 0 or 1) is exact under the normal laws: N = mu.
    """
    if method == POISSON:
        return poisson_tails(k, mu)
    if variance <= 0.0:
        return (1.0, 0.0) if k >= mu else (0.0, 1.0)
    return normal_tails(k, mu, variance, skew if method == REFINED_NORMAL else 0.0)


@compiled
def find_starts(p: Any, w: Any, method: Any, target: Any) -> Any:
    starts = np.zeros(p.size, np.int64)
    begin, mu, variance, skew = 0, 0.0, 0.0, 0.0
    for t in range(p.size):
        if t % 1024 == 0:  # without the roundings of tuples that have left
            mu, variance, skew = moments(p[begin:t])
        m, v, s = moments(p[t : t + 1])
        mu, variance, skew = mu + m, variance + v, skew + s
        while t - begin >= w:
            m, v, s = moments(p[begin : begin + 1])
            tails = approximate_tails(method, w - 1.0, mu - m, max(variance - v, 0.0), skew - s)
            if tails[1] < target:
                break
            mu, variance, skew, begin = mu - m, variance - v, skew - s, begin + 1
        starts[t] = begin
    return starts


def window_starts(p: Any, w: Any, confidence: Any, probability: Any, method: Any) -> Any:
    """Where the window begins after each arrival: "exact", or by an approximation.

    p : float64[n], above 0; confidence, probability : see UncertainWindow.  O(1) per arrival.
    Source: Dallachiesa et al. (2015), Algorithms 1 and 2 with equations (14)-(17).
    """
    if method == "exact":
        return UncertainWindow(w, confidence, probability).extend(p)
    target = confidence if probability is None else min(confidence, 1.0 - probability)
    number = {"poisson": POISSON, "normal": NORMAL, "refined_normal": REFINED_NORMAL}[method]
    return find_starts(p, w, number, target)
