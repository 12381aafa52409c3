"""Algorithms of the papers that the library has no use for, compiled for a fair comparison."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from sfumato.kernels.approximate_law import approximate_tails, moments
from sfumato.kernels.banded_law import law_of_sum
from sfumato.kernels.match_probability import defining_sum
from sfumato.kernels.similarity_nested import CANDIDATES, PAIRS, VISITED, keep
from sfumato.kernels.uncertain_tuples import padded

# Ways to Pr(N <= k); 1 to 3 are those of `approximate_law`.
RF1, POISSON, NORMAL, REFINED_NORMAL, BANDED = range(5)


@njit(cache=True)
def rf1(p: Any, k: int) -> float:
    """Pr(at most k of the tuples exist) by the plain recursion; p float64[n]. O(n k).

    Source: A, equations (5)-(8), RF1.
    """
    law = np.zeros(k + 1)
    law[0] = 1.0
    for j in range(p.size):
        x = p[j]
        for i in range(min(j + 1, k), 0, -1):
            law[i] = (1.0 - x) * law[i] + x * law[i - 1]
        law[0] *= 1.0 - x
    return law.sum()


@njit(cache=True)
def sum_of_cdfs(method: int, tuples: Any, k: int) -> float:
    """The sum of Pr(N <= k) over the rows of `tuples`, float64[rows, n]: for timing, each a CDF."""
    total = 0.0
    for i in range(tuples.shape[0]):
        p = tuples[i]
        if method == RF1:
            total += rf1(p, k)
        elif method == BANDED:
            total += law_of_sum(p, 1e-25)[: k + 1].sum()
        else:
            mu, variance, skew = moments(p)
            total += approximate_tails(method, float(k), mu, variance, skew)[0]
    return total


@njit(cache=True)
def poisson_in_doubles(k: int, mu: float) -> float:
    """Pr(N <= k) by A's (14) term by term, mu^i e^-mu / i!, each factor a float64, from i = 0.

    Powers and factorials overflow for k beyond about a hundred, and the sum is NaN.
    """
    total, power, factorial = 1.0, 1.0, 1.0
    for i in range(1, k + 1):
        power *= mu
        factorial *= i
        total += power / factorial
    return total * math.exp(-mu)


@njit(cache=True)
def starts_in_doubles(p: Any, w: int, target: float) -> Any:
    """Where A's window begins after each arrival, decided by `poisson_in_doubles`; int64[n]."""
    starts = np.zeros(p.size, np.int64)
    begin, mu = 0, 0.0
    for t in range(p.size):
        mu += p[t]
        while t - begin >= w and 1.0 - poisson_in_doubles(w - 1, mu - p[begin]) >= target:
            mu -= p[begin]
            begin += 1
        starts[t] = begin
    return starts


@njit(cache=True)
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


@njit(cache=True)
def bound(tuples: Any, slots: Any) -> None:
    """Write the least and the greatest sample of each slot to its summary."""
    for s in slots:
        length = padded(tuples.samples[s])
        values = tuples.blocks[tuples.at[s] + length : tuples.at[s] + length + tuples.samples[s]]
        tuples.summary[s, 0], tuples.summary[s, 1] = values.min(), values.max()


@njit(cache=True)
def join_plainly(
    tuples: Any,
    windows: Any,
    code: Any,
    slots: Any,
    begins: Any,
    within: float,
    probability: float,
    bounded: bool,
    counters: Any,
) -> Any:
    """As `join_nested` in one dimension, by plain loops over the pairs of samples.

    bounded : whether tuples whose regions are farther apart than `within` are passed over. In one
        dimension a region is the interval of all samples; a scan of the intervals stands for the
        paper's grid: the pairs of samples cost far more.
    Source: A, section 5 (the baseline) and 6.2.1 (Index-Match).
    """
    found, totals, n = np.empty((64, 3), np.int64), np.empty(64), 0
    for i in range(code.size):
        w, u = code[i], slots[i]
        begin, end = windows.head[w ^ 1], windows.tail[w ^ 1]
        low, high = tuples.summary[u, 0] - within, tuples.summary[u, 1] + within
        for v in range(begin, end):
            if bounded and (tuples.summary[v, 0] > high or tuples.summary[v, 1] < low):
                continue
            counters[CANDIDATES] += 1
            total = defining_sum(
                tuples.blocks, tuples.at[u], tuples.samples[u], tuples.at[v], tuples.samples[v],
                1, within,
            )  # fmt: skip
            if total >= probability:
                found, totals = keep(found, totals, n, i, v, end, total)
                n += 1
        counters[PAIRS] += end - begin
        counters[VISITED] += end - begin
        windows.tail[w] = u + 1
        windows.head[w] = begins[i]
    return found[:n], totals[:n]
