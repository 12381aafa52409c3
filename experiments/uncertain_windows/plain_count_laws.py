"""Methods of Dallachiesa et al. (2015) for a count's distribution that the library does not use."""

import math
from typing import Any

import numpy as np

from experiments.uncertain_windows.approximate_laws import approximate_tails, moments
from sfumato.kernels.compile import compiled
from sfumato.kernels.distributions.poisson_binomial import distribution_of_sum

# Methods for Pr(N <= k); 1 to 3 are also in `approximate_laws`.
RF1, POISSON, NORMAL, REFINED_NORMAL, BANDED = range(5)


@compiled
def rf1(p: Any, k: int) -> float:
    """Pr(at most k of the tuples exist) by the plain recursion; p float64[n]. O(n k).

    Source: Dallachiesa et al. (2015), equations (5)-(8), RF1.
    """
    law = np.zeros(k + 1)
    law[0] = 1.0
    for j in range(p.size):
        x = p[j]
        for i in range(min(j + 1, k), 0, -1):
            law[i] = (1.0 - x) * law[i] + x * law[i - 1]
        law[0] *= 1.0 - x
    return law.sum()


@compiled
def sum_of_cdfs(method: int, tuples: Any, k: int) -> float:
    """The sum of Pr(N <= k) over the rows of `tuples`, float64[rows, n]: for timing, each a CDF."""
    total = 0.0
    for i in range(tuples.shape[0]):
        p = tuples[i]
        if method == RF1:
            total += rf1(p, k)
        elif method == BANDED:
            total += distribution_of_sum(p, 1e-25)[: k + 1].sum()
        else:
            mu, variance, skew = moments(p)
            total += approximate_tails(method, float(k), mu, variance, skew)[0]
    return total


@compiled
def poisson_in_doubles(k: int, mu: float) -> float:
    """Pr(N <= k) by equation (14) term by term, mu^i e^-mu / i!, in float64, from i = 0."""
    total, power, factorial = 1.0, 1.0, 1.0
    for i in range(1, k + 1):
        power *= mu
        factorial *= i
        total += power / factorial
    return total * math.exp(-mu)


@compiled
def starts_in_doubles(p: Any, w: int, target: float) -> Any:
    """Where the window begins after each arrival, decided by `poisson_in_doubles`; int64[n]."""
    starts = np.zeros(p.size, np.int64)
    begin, mu = 0, 0.0
    for t in range(p.size):
        mu += p[t]
        while t - begin >= w and 1.0 - poisson_in_doubles(w - 1, mu - p[begin]) >= target:
            mu -= p[begin]
            begin += 1
        starts[t] = begin
    return starts


@compiled
def positions_by(method: int, p: Any, first: Any, last: Any, w: int) -> Any:
    """Pr(at most w - 1 of p[first:last] exist) by an approximation, float64[m]; see `positions`.

    method : POISSON, NORMAL or REFINED_NORMAL; else `poisson_in_doubles`
    """
    result = np.ones(first.size)
    for i in range(first.size):
        known = method in (POISSON, NORMAL, REFINED_NORMAL)
        if known and last[i] - first[i] < w:
            continue  # 1, whatever the law
        mu, variance, skew = moments(p[first[i] : last[i]])
        if known:
            result[i] = approximate_tails(method, w - 1.0, mu, variance, skew)[0]
        else:
            result[i] = poisson_in_doubles(w - 1, mu)
    return result
