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
def defining_sum(tuples, u, v, d, limit):
    """Sum of Pr(u_k) Pr(v_l) over the near pairs of samples, k outer and l inner, one by one.

    The definition, and the judge where rounding decides. O(samples of u * samples of v * d), a
    serial addition a pair.  Source: A, equations (20), (21); B, equation (2).
    """
    blocks = tuples.blocks
    x, y = tuples.at[u], tuples.at[v]
    x_length, y_length = padded(tuples.count[u]), padded(tuples.count[v])
    total = 0.0
    for k in range(x, x + tuples.count[u]):
        for j in range(y, y + tuples.count[v]):
            if near(blocks, k, x_length, j, y_length, d, limit):
                total += blocks[k] * blocks[j]
    return total


@njit(cache=True, nogil=True)
def _near_number(x, y, limit):
    return abs(x - y) <= limit


@njit(cache=True, nogil=True)
def _near_2(x, a, y, b, limit):
    first, second = x - a, y - b
    return first * first + second * second <= limit


@njit(cache=True, nogil=True)
def _near_3(x, a, y, b, z, c, limit):
    first, second, third = x - a, y - b, z - c
    return first * first + second * second + third * third <= limit


# Reassociation in these is for sums alone: the comparisons above are compiled without it. Columns
# are slices made once a pair of tuples: a slice costs two atomic reference counts.
@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _sum_1(p, x, q, a, limit, total, open_mass, other, least):
    for k in range(p.size):
        if total + open_mass * other < least:
            return -1.0
        mass = 0.0
        for j in range(q.size):
            mass += q[j] if _near_number(x[k], a[j], limit) else 0.0
        total += p[k] * mass
        open_mass -= p[k]
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _sum_2(p, x, y, q, a, b, limit, total, open_mass, other, least):
    for k in range(p.size):
        if total + open_mass * other < least:
            return -1.0
        mass = 0.0
        for j in range(q.size):
            mass += q[j] if _near_2(x[k], a[j], y[k], b[j], limit) else 0.0
        total += p[k] * mass
        open_mass -= p[k]
    return total


@njit(cache=True, nogil=True, fastmath={"reassoc", "nsz"})
def _sum_3(p, x, y, z, q, a, b, c, limit, total, open_mass, other, least):
    for k in range(p.size):
        if total + open_mass * other < least:
            return -1.0
        mass = 0.0
        for j in range(q.size):
            mass += q[j] if _near_3(x[k], a[j], y[k], b[j], z[k], c[j], limit) else 0.0
        total += p[k] * mass
        open_mass -= p[k]
    return total


@njit(cache=True, nogil=True)
def _sum_any(us, u_count, u_length, vs, v_length, d, limit, total, open_mass, other, least):
    squared = np.empty(v_length)
    for k in range(u_count):
        if total + open_mass * other < least:
            return -1.0
        squared[:] = 0.0
        for a in range(1, d + 1):
            x, row = us[a * u_length + k], vs[a * v_length : (a + 1) * v_length]
            for j in range(v_length):
                squared[j] += (x - row[j]) * (x - row[j])
        mass = 0.0
        for j in range(v_length):
            mass += vs[j] * (squared[j] <= limit)
        total += us[k] * mass
        open_mass -= us[k]
    return total


@njit(cache=True, nogil=True)
def _sum_near(us, u_count, u_length, vs, v_length, d, limit, total, open_mass, other, least):
    """total + the sum over near pairs of two blocks; -1 as soon as that is surely below `least`.

    us, vs : blocks, beginning at 0    open_mass, other : probability in them
    Cost: O(u_count * v_length * d), in SIMD over v. Added in any order.
    """
    n, m = u_length, v_length
    p, q = us[:u_count], vs[:m]
    x, a = us[n : n + u_count], vs[m : 2 * m]
    if d == 1:
        return _sum_1(p, x, q, a, limit, total, open_mass, other, least)
    y, b = us[2 * n : 2 * n + u_count], vs[2 * m : 3 * m]
    if d == 2:
        return _sum_2(p, x, y, q, a, b, limit, total, open_mass, other, least)
    if d == 3:
        z, c = us[3 * n : 3 * n + u_count], vs[3 * m : 4 * m]
        return _sum_3(p, x, y, z, q, a, b, c, limit, total, open_mass, other, least)
    return _sum_any(us, u_count, n, vs, m, d, limit, total, open_mass, other, least)


@njit(cache=True, nogil=True)
def decided(tuples, u, v, d, limit, probability, total):
    """A sum as the answer, -1 if it is below the threshold; the definition decides near it."""
    if abs(total - probability) <= 2.0 * SLACK * probability:
        total = defining_sum(tuples, u, v, d, limit)
    return total if total >= probability else -1.0


@njit(cache=True, nogil=True)
def match_probability(tuples, u, v, d, limit, least, probability):
    """Pr(match) without T_j if it is at least `probability`, else -1.

    u, v : slots of the arriving and the held tuple    d : dimensions
    limit : float64, see `distance_limit`    probability : the threshold, `least` less SLACK of it

    Cost: O(samples of u * samples of v * d), in SIMD; less where the mass left cannot suffice.
    Error: the decision is that of `defining_sum`, which is asked within SLACK of the threshold;
    elsewhere the value may round differently, by at most the number of samples * 2**-52.
    Source: as `defining_sum`.
    """
    u_count = tuples.count[u]
    u_length, v_length = padded(u_count), padded(tuples.count[v])
    us, vs = tuples.blocks[tuples.at[u] :], tuples.blocks[tuples.at[v] :]
    total = _sum_near(
        us, u_count, u_length, vs, v_length,
        d, limit, 0.0, tuples.existence[u], tuples.existence[v], least,
    )  # fmt: skip
    return decided(tuples, u, v, d, limit, probability, total)


@njit(cache=True, nogil=True)
def _sift(blocks, at, count, d, centre, within, radius, out):
    """Split a block's samples by their distance from another tuple's ball, of radius `radius`.

    out : float64[(d + 1) * padded(count)], written: a block of the samples that may be near to some
        of the ball and need not be near to all of it
    Returns (their number, their probability, the probability of those near to all of the ball).
    """
    length = padded(count)
    inner, outer = within - radius, (within + radius) * (1.0 + SLACK)
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


@njit(cache=True, nogil=True)
def match_probability_in_balls(
    tuples, u, v, u_radius, v_radius, d, within, limit, least, probability
):
    """As `match_probability`, for tuples of many samples in balls about their centroids.

    Both sets of samples are first held against the other tuple's ball: samples too far from all of
    it are dropped, samples near to all of it count without being paired. Only the rest is paired.

    u_radius, v_radius : float64, radii of the balls about summary[u, :d] and summary[v, :d]
    Cost: O((samples of u + samples of v) * d) and the pairs of the rest, in SIMD.
    Error: as `match_probability`.  Source: this project; bounds as in B, Lemma 5.1.
    """
    u_count, v_count = tuples.count[u], tuples.count[v]
    us, vs = np.empty((d + 1) * padded(u_count)), np.empty((d + 1) * padded(v_count))
    n, u_mass, certain = _sift(
        tuples.blocks, tuples.at[u], u_count, d, tuples.summary[v], within, v_radius, us
    )
    total = certain * tuples.existence[v]
    if total + u_mass * tuples.existence[v] < least:
        return -1.0
    m, v_mass, certain = _sift(
        tuples.blocks, tuples.at[v], v_count, d, tuples.summary[u], within, u_radius, vs
    )
    total += u_mass * certain
    total = _sum_near(us, n, padded(n), vs, padded(m), d, limit, total, u_mass, v_mass, least)
    return decided(tuples, u, v, d, limit, probability, total)


@njit(cache=True, nogil=True)
def match_counts(tuples, arriving, held, d, limit):
    """How many pairs of samples are near in each pair of tuples: int64[n]."""
    counts = np.zeros(arriving.size, np.int64)
    blocks = tuples.blocks
    for i in range(arriving.size):
        x, y = tuples.at[arriving[i]], tuples.at[held[i]]
        x_count, y_count = tuples.count[arriving[i]], tuples.count[held[i]]
        x_length, y_length = padded(x_count), padded(y_count)
        count = 0
        for k in range(x, x + x_count):
            for j in range(y, y + y_count):
                count += near(blocks, k, x_length, j, y_length, d, limit)
        counts[i] = count
    return counts


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
