"""Pr(match) of tuples of many samples: most of them are judged by balls, and not paired."""

import numpy as np

from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.joins.match_probability import (
    SLACK,
    decided,
    limit_of,
    match_probability,
    reach_of,
    sum_near,
)
from sfumato.kernels.joins.tuple_store import padded

MANY = 24  # samples: from here on it pays to sift them before they are paired


@compiled_ieee
def _sift(tuples, s, other, other_radius, criterion, out):
    """Split the samples of slot s by their distance from the ball of slot `other`.

    out : written: a block of the samples that may be near to some of the ball and need not be to
    all
    Returns (their number, their probability, the probability of those near to all of the ball).
    """
    blocks, at, count, d = tuples.blocks, tuples.at[s], tuples.samples[s], criterion.d
    centre, length = tuples.summary[other], padded(count)
    inner = criterion.within - other_radius
    outer = (reach_of(tuples, s, other, criterion) + other_radius) * (1.0 + SLACK)
    inner, outer = max(inner, 0.0) * inner * (1.0 - 3.0 * SLACK), outer * outer
    squared = np.zeros(length)
    for a in range(d):
        row = blocks[at + (a + 1) * length : at + (a + 2) * length]
        for k in range(length):
            squared[k] += (row[k] - centre[a]) * (row[k] - centre[a])
    chosen = np.empty(length, np.int64)
    n, mass, certain = 0, 0.0, 0.0
    for k in range(count):
        chosen[n] = k
        p = blocks[at + k]
        sure, none = squared[k] < inner, squared[k] > outer
        certain += p if sure else 0.0
        mass += 0.0 if sure or none else p
        n += not (sure or none)
    width = padded(n)
    for a in range(d + 1):
        for i in range(n):
            out[a * width + i] = blocks[at + a * length + chosen[i]]
        for i in range(n, width):
            out[a * width + i] = 0.0 if a == 0 else np.nan
    return n, mass, certain


@compiled_ieee
def _match_probability_in_balls(tuples, u, v, criterion):
    """As `match_probability`, for tuples of many samples, d > 1, in balls about their centroids.

    Samples too far from all of the other tuple's ball (see `regions`) are dropped, samples near to
    all of it count without being paired. Only the rest is paired.
    Source: this project; bounds as in B, Lemma 5.1.
    """
    d, summary = criterion.d, tuples.summary
    us = np.empty((d + 1) * padded(tuples.samples[u]))
    vs = np.empty((d + 1) * padded(tuples.samples[v]))
    n, u_mass, certain = _sift(tuples, u, v, summary[v, d + 1], criterion, us)
    total = certain * tuples.existence[v]
    if total + u_mass * tuples.existence[v] < criterion.least:
        return -1.0
    m, v_mass, certain = _sift(tuples, v, u, summary[u, d + 1], criterion, vs)
    known = total + u_mass * certain, u_mass, v_mass
    limit = limit_of(tuples, u, v, criterion)
    total = sum_near((us, n, padded(n)), (vs, m, padded(m)), criterion, limit, known)
    return decided(tuples, u, v, criterion, total)


@compiled_ieee
def pair_probability(tuples, u, v, criterion):
    """`match_probability`, by whichever way is the faster for these tuples."""
    if criterion.d == 1 or min(tuples.samples[u], tuples.samples[v]) < MANY:
        return match_probability(tuples, u, v, criterion)
    return _match_probability_in_balls(tuples, u, v, criterion)
