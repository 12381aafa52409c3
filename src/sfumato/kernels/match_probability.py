"""Pr(match) of two uncertain tuples, and the pairs of samples that make it up."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from sfumato.kernels.uncertain_tuples import padded

# Fast sums and pruning bounds may round differently from the defining sum. They decide alone
# only when they are farther than this from the threshold, relatively.
SLACK = 1e-9


def distance_limit(within: float, dimensions: int) -> float:
    """The number that a coordinate difference (1-D) or a squared distance is compared with.

    In more than one dimension the largest float s with sqrt(s) <= within: as a float's square root
    is correctly rounded, `squared <= s` is exactly `sqrt(squared) <= within`, without the root.
    """
    if dimensions == 1:
        return within
    limit = min(within * within, float(np.finfo(np.float64).max))
    while math.sqrt(limit) > within:
        limit = math.nextafter(limit, 0.0)
    while limit < np.finfo(np.float64).max and math.sqrt(math.nextafter(limit, math.inf)) <= within:
        limit = math.nextafter(limit, math.inf)
    return limit


@njit(cache=True, nogil=True)
def near(blocks, x, x_length, y, y_length, d, limit):
    """Whether two samples are within the distance; x, y are the places of their probabilities."""
    if d == 1:
        return abs(blocks[x + x_length] - blocks[y + y_length]) <= limit
    squared = 0.0
    for a in range(1, d + 1):
        difference = blocks[x + a * x_length] - blocks[y + a * y_length]
        squared += difference * difference
    return squared <= limit


@njit(cache=True, nogil=True)
def match_probability(tuples, u, v, d, limit):
    """Sum of Pr(u_k) Pr(v_l) over the pairs of samples within the distance, and their number.

    u, v : slots of the arriving and the held tuple    d : dimensions
    limit : float64, see `distance_limit`
    Returns (float64, int64). O(samples of u * samples of v * d).

    Error: this sum, k outer and l inner in plain float64, is the definition that all strategies
    share; against the exact sum of products each of l**2 additions rounds once.
    Source: A, equations (20), (21); B, equation (2).
    """
    blocks = tuples.blocks
    x, y = tuples.at[u], tuples.at[v]
    x_count, y_count = tuples.count[u], tuples.count[v]
    x_length, y_length = padded(x_count), padded(y_count)
    total, matches = 0.0, 0
    for k in range(x, x + x_count):
        for j in range(y, y + y_count):
            if near(blocks, k, x_length, j, y_length, d, limit):
                total += blocks[k] * blocks[j]
                matches += 1
    return total, matches


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _mass_near(blocks, x, x_length, y, y_length, d, limit):
    """Probability of v's samples within the distance of the sample at x, in any order of adding.

    Reassociation is for the sum alone: `near` is compiled without it, so no distance changes.
    """
    mass = 0.0
    for j in range(y, y + y_length):
        mass += blocks[j] if near(blocks, x, x_length, j, y_length, d, limit) else 0.0
    return mass


@njit(cache=True, nogil=True)
def may_match(tuples, u, v, d, limit, least):
    """False only if Pr(match) is surely below `least`: the same sum in SIMD, ended early.

    Cost: O(samples of u * samples of v * d) at most; ends as soon as the mass found, or the mass
    that can still be found, decides.  Error: none in decisions, for `least` reduced by SLACK.
    """
    blocks = tuples.blocks
    x, y = tuples.at[u], tuples.at[v]
    x_length, y_length = padded(tuples.count[u]), padded(tuples.count[v])
    total, open_mass, other = 0.0, tuples.existence[u], tuples.existence[v]
    for k in range(x, x + tuples.count[u]):
        if total + open_mass * other < least:
            return False
        total += blocks[k] * _mass_near(blocks, k, x_length, y, y_length, d, limit)
        if total >= least:
            return True
        open_mass -= blocks[k]
    return False


@njit(cache=True, nogil=True)
def matching_pairs(tuples, arriving, held, arriving_left, factor, offsets, d, limit):
    """The pairs of samples behind answers, as alternatives: (prob, left sample, right sample).

    arriving, held : int64[n], slots    arriving_left : bool[n]    factor : float64[n], T_j
    offsets : int64[n + 1], from the numbers of matches
    Returns (float64[m], int32[m], int32[m]), m = offsets[n]; prob = Pr(u_k) Pr(v_l) T_j.
    """
    m = offsets[-1]
    prob = np.empty(m)
    left = np.empty(m, np.int32)
    right = np.empty(m, np.int32)
    blocks = tuples.blocks
    for i in range(arriving.size):
        u, v, to = arriving[i], held[i], offsets[i]
        x, y = tuples.at[u], tuples.at[v]
        x_length, y_length = padded(tuples.count[u]), padded(tuples.count[v])
        for k in range(tuples.count[u]):
            for j in range(tuples.count[v]):
                if near(blocks, x + k, x_length, y + j, y_length, d, limit):
                    prob[to] = blocks[x + k] * blocks[y + j] * factor[i]
                    left[to] = k if arriving_left[i] else j
                    right[to] = j if arriving_left[i] else k
                    to += 1
    return prob, left, right
