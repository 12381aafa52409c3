"""Pr(match) of two uncertain tuples, and the pairs of samples that make it up."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean, lean_sum
from sfumato.kernels.joins.tuple_store import LANES, padded

# Fast sums and pruning bounds may round differently from the defining sum. They decide alone
# only when they are farther than this from the threshold, relatively.
SLACK = 1e-9
FEW_PAIRS = 9  # of samples: up to here the defining sum is also the fastest
MANY = 24  # samples: from here on it pays to sift them before they are paired


class Criterion(NamedTuple):
    """What makes a match of samples, and a match of tuples an answer.

    d : dimensions    within : the distance    limit : see `distance_limit`
    probability : the threshold    least : the same, reduced by SLACK
    """

    d: int
    within: float
    limit: float
    probability: float
    least: float


class Samples(NamedTuple):
    """A block of `number` samples that begins at 0 in an array: see `tuple_store`."""

    block: np.ndarray
    number: int
    length: int


class Flat(NamedTuple):
    """Columns of a block in two dimensions: probabilities and coordinates."""

    p: np.ndarray
    x: np.ndarray
    y: np.ndarray


class Solid(NamedTuple):
    """The same in three dimensions."""

    p: np.ndarray
    x: np.ndarray
    y: np.ndarray
    z: np.ndarray


class Sum(NamedTuple):
    """A sum of which `total` is known; `open_mass` * `other` at most are to come."""

    total: float
    open_mass: float
    other: float


class Pairs(NamedTuple):
    """Pairs of samples that match: their probability, and the places of both."""

    prob: np.ndarray
    left: np.ndarray
    right: np.ndarray


def criterion(dimensions: int, within: float, probability: float) -> Criterion:
    """The criterion that kernels take."""
    limit = distance_limit(within, dimensions)
    return Criterion(dimensions, within, limit, probability, probability * (1.0 - SLACK))


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


@lean
def defining_sum(blocks, x, x_count, y, y_count, d, limit):
    """Sum of Pr(u_k) Pr(v_l) over the near pairs of samples, k outer and l inner, one by one.

    x, y : places of the blocks of the arriving and of the held tuple    d : dimensions
    limit : float64, see `distance_limit`
    The definition, and the judge where rounding decides. O(x_count * y_count * d), a serial
    addition a pair.  Source: A, equations (20), (21); B, equation (2).
    """
    x_length, y_length = padded(x_count), padded(y_count)
    total = 0.0
    for k in range(x, x + x_count):
        for j in range(y, y + y_count):
            if d == 1:
                near = abs(blocks[k + x_length] - blocks[j + y_length]) <= limit
            else:
                squared = 0.0
                for a in range(1, d + 1):
                    difference = blocks[k + a * x_length] - blocks[j + a * y_length]
                    squared += difference * difference
                near = squared <= limit
            if near:
                total += blocks[k] * blocks[j]
    return total


@lean
def _near_number(x, y, limit):
    return abs(x - y) <= limit


@lean
def _near_2(x, a, y, b, limit):
    first, second = x - a, y - b
    return first * first + second * second <= limit


@lean
def _near_3(x, a, y, b, z, c, limit):
    first, second, third = x - a, y - b, z - c
    return first * first + second * second + third * third <= limit


@lean
def sum_of_numbers(blocks, x, x_count, y, y_count, limit):
    """Sum of Pr(u_k) Pr(v_l) over the near pairs of samples of two blocks, in one dimension.

    x, y : places of the blocks in `blocks`; four samples of v are taken side by side.
    """
    # Unsigned places: no test for negative ones, which would keep the lanes from becoming SIMD.
    u, v = np.uint64(x), np.uint64(y)
    end = u + np.uint64(x_count)
    values, others = np.uint64(padded(x_count)), np.uint64(padded(y_count))
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    total = 0.0
    for _ in range(0, y_count, LANES):
        a, b = blocks[v + others], blocks[v + others + one]
        c, d = blocks[v + others + two], blocks[v + others + three]
        near_a, near_b, near_c, near_d = 0.0, 0.0, 0.0, 0.0
        for k in range(u, end):
            p, value = blocks[k], blocks[k + values]
            near_a += p if _near_number(value, a, limit) else 0.0
            near_b += p if _near_number(value, b, limit) else 0.0
            near_c += p if _near_number(value, c, limit) else 0.0
            near_d += p if _near_number(value, d, limit) else 0.0
        total += (
            near_a * blocks[v]
            + near_b * blocks[v + one]
            + near_c * blocks[v + two]
            + near_d * blocks[v + three]
        )
        v += np.uint64(LANES)
    return total


# Sums are reassociated in these: the comparisons above are compiled without that.
@lean_sum
def _sum_2(u, v, limit, least, known):
    (p, x, y), (q, a, b), (total, open_mass, other) = u, v, known
    for k in range(p.size):
        if total + open_mass * other < least:
            return -1.0
        mass = 0.0
        for j in range(q.size):
            mass += q[j] if _near_2(x[k], a[j], y[k], b[j], limit) else 0.0
        total += p[k] * mass
        open_mass -= p[k]
    return total


@lean_sum
def _sum_3(u, v, limit, least, known):
    (p, x, y, z), (q, a, b, c), (total, open_mass, other) = u, v, known
    for k in range(p.size):
        if total + open_mass * other < least:
            return -1.0
        mass = 0.0
        for j in range(q.size):
            mass += q[j] if _near_3(x[k], a[j], y[k], b[j], z[k], c[j], limit) else 0.0
        total += p[k] * mass
        open_mass -= p[k]
    return total


@compiled_ieee
def _sum_any(u, v, d, limit, least, known):
    (us, u_count, u_length), (vs, _, v_length), (total, open_mass, other) = u, v, known
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


@compiled_ieee
def _sum_near(u, v, criterion, known):
    """known.total + the sum over near pairs of two blocks, d > 1; -1 if surely below `least`.

    u, v : `Samples`    known : `Sum`, of which open_mass and other are the blocks' probabilities
    Cost: O(samples of u * length of v * d), in SIMD over v. Added in any order.
    """
    us, u_count, n = u
    vs, _, m = v
    d, limit, least = criterion.d, criterion.limit, criterion.least
    if d > 3:
        return _sum_any(u, v, d, limit, least, known)
    # Columns are slices made once a pair of tuples: a slice costs two atomic reference counts.
    p, q = us[:u_count], vs[:m]
    x, a = us[n : n + u_count], vs[m : 2 * m]
    y, b = us[2 * n : 2 * n + u_count], vs[2 * m : 3 * m]
    if d == 2:
        return _sum_2(Flat(p, x, y), Flat(q, a, b), limit, least, known)
    z, c = us[3 * n : 3 * n + u_count], vs[3 * m : 4 * m]
    return _sum_3(Solid(p, x, y, z), Solid(q, a, b, c), limit, least, known)


@lean
def decided(tuples, u, v, criterion, total):
    """A sum as the answer, -1 if it is below the threshold; the definition decides near it."""
    probability = criterion.probability
    if abs(total - probability) <= 2.0 * SLACK * probability:
        total = defining_sum(
            tuples.blocks, tuples.at[u], tuples.samples[u], tuples.at[v], tuples.samples[v],
            criterion.d, criterion.limit,
        )  # fmt: skip
    return total if total >= probability else -1.0


@compiled_ieee
def match_probability(tuples, u, v, criterion):
    """Pr(match) without T_j if it is at least the criterion's probability, else -1.

    tuples : `Tuples`    u, v : slots of the arriving and the held tuple

    Cost: O(samples of u * samples of v * d), in SIMD; less where the mass left cannot suffice.
    Error: the decision is that of `defining_sum`, which is asked within SLACK of the threshold;
    elsewhere the value may round differently, by at most the number of samples * 2**-52.
    Source: as `defining_sum`.
    """
    u_count, v_count = tuples.samples[u], tuples.samples[v]
    if u_count * v_count <= FEW_PAIRS:
        total = defining_sum(
            tuples.blocks, tuples.at[u], u_count, tuples.at[v], v_count,
            criterion.d, criterion.limit,
        )  # fmt: skip
        return total if total >= criterion.probability else -1.0
    if criterion.d == 1:
        total = sum_of_numbers(
            tuples.blocks, tuples.at[u], u_count, tuples.at[v], v_count, criterion.limit
        )
        return decided(tuples, u, v, criterion, total)
    us = Samples(tuples.blocks[tuples.at[u] :], u_count, padded(u_count))
    vs = Samples(tuples.blocks[tuples.at[v] :], v_count, padded(v_count))
    known = Sum(0.0, tuples.existence[u], tuples.existence[v])
    return decided(tuples, u, v, criterion, _sum_near(us, vs, criterion, known))


@compiled_ieee
def _sift(tuples, s, other, other_radius, criterion, out):
    """Split the samples of slot s by their distance from another tuple's ball.

    other : slot of the other, whose ball is about its summary[:d]
    out : float64[(d + 1) * padded(samples of s)], written: a block of the samples that may be near
        to some of the ball and need not be near to all of it
    Returns (their number, their probability, the probability of those near to all of the ball).
    """
    blocks, at, count, d = tuples.blocks, tuples.at[s], tuples.samples[s], criterion.d
    centre, length = tuples.summary[other], padded(count)
    inner = criterion.within - other_radius
    outer = (criterion.within + other_radius) * (1.0 + SLACK)
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
def match_probability_in_balls(tuples, u, v, criterion):
    """As `match_probability`, for tuples of many samples, d > 1, in balls about their centroids.

    Both sets of samples are first held against the other tuple's ball: samples too far from all of
    it are dropped, samples near to all of it count without being paired. Only the rest is paired.

    The balls are those of `regions`: about summary[:d], of radius summary[d + 1].
    Cost: O((samples of u + samples of v) * d) and the pairs of the rest, in SIMD.
    Error: as `match_probability`.  Source: this project; bounds as in B, Lemma 5.1.
    """
    d, summary = criterion.d, tuples.summary
    us = np.empty((d + 1) * padded(tuples.samples[u]))
    vs = np.empty((d + 1) * padded(tuples.samples[v]))
    n, u_mass, certain = _sift(tuples, u, v, summary[v, d + 1], criterion, us)
    total = certain * tuples.existence[v]
    if total + u_mass * tuples.existence[v] < criterion.least:
        return -1.0
    m, v_mass, certain = _sift(tuples, v, u, summary[u, d + 1], criterion, vs)
    known = Sum(total + u_mass * certain, u_mass, v_mass)
    total = _sum_near(Samples(us, n, padded(n)), Samples(vs, m, padded(m)), criterion, known)
    return decided(tuples, u, v, criterion, total)


@compiled_ieee
def pair_probability(tuples, u, v, criterion):
    """`match_probability`, by whichever way is the faster for these tuples."""
    if criterion.d == 1 or min(tuples.samples[u], tuples.samples[v]) < MANY:
        return match_probability(tuples, u, v, criterion)
    return match_probability_in_balls(tuples, u, v, criterion)


@compiled_ieee
def match_probabilities(tuples, one, other, criterion):
    """`match_probability` of pairs of slots, int64[n] each: float64[n]."""
    result = np.empty(one.size)
    for i in range(one.size):
        result[i] = match_probability(tuples, one[i], other[i], criterion)
    return result


@lean
def _pairs_of_numbers(tuples, u, v, limit, factor, swap, n, pairs):
    """Write the near pairs of two tuples from place n on; the place after them. One dimension.

    swap : 0, or -1 to exchange left and right    With no room at all they are only counted.
    """
    blocks, x, y = tuples.blocks, np.uint64(tuples.at[u]), np.uint64(tuples.at[v])
    x_count, y_count = tuples.samples[u], tuples.samples[v]
    prob, left, right = pairs.prob, pairs.left, pairs.right
    values, others = x + np.uint64(padded(x_count)), y + np.uint64(padded(y_count))
    for k in range(x_count):
        weight, value = blocks[x + np.uint64(k)], blocks[values + np.uint64(k)]
        if prob.size == 0:
            for j in range(y_count):
                n += abs(value - blocks[others + np.uint64(j)]) <= limit
            continue
        for j in range(y_count):
            prob[n] = weight * blocks[y + np.uint64(j)] * factor
            other = (k ^ j) & swap
            left[n], right[n] = k ^ other, j ^ other
            n += abs(value - blocks[others + np.uint64(j)]) <= limit
    return n


@compiled_ieee
def _near_row(tuples, u, k, v, criterion, squared, near):
    """Which samples of slot v are near sample k of slot u: near, uint8; how many."""
    x_length, y_length = padded(tuples.samples[u]), padded(tuples.samples[v])
    columns, x = tuples.blocks[tuples.at[v] :], tuples.at[u] + k
    squared[:y_length] = 0.0
    for a in range(1, criterion.d + 1):
        value, others = tuples.blocks[x + a * x_length], columns[a * y_length : (a + 1) * y_length]
        for j in range(y_length):
            squared[j] += (value - others[j]) * (value - others[j])
    count = 0
    for j in range(y_length):
        near[j] = squared[j] <= criterion.limit
        count += near[j]
    return count


@compiled_ieee
def matching_pairs(tuples, arriving, held, swap, factor, criterion):
    """The pairs of samples behind answers, as alternatives: (offsets int64[n + 1], `Pairs`).

    arriving, held : int64[n], slots    factor : float64[n], T_j
    swap : int64[n], 0 where the arrival is on the left, -1 where it is on the right
    The pairs' prob, float64[m], is Pr(u_k) Pr(v_l) T_j; left and right int32[m].
    O(samples of u * samples of v * d) an answer, without branches on what is near: counted
    first, as writing the pairs costs more than finding them twice.
    """
    offsets = np.zeros(arriving.size + 1, np.int64)
    pairs = Pairs(np.empty(0), np.empty(0, np.int32), np.empty(0, np.int32))
    blocks, at, count = tuples.blocks, tuples.at, tuples.samples
    longest = 0
    for i in range(arriving.size):
        longest = max(longest, padded(count[held[i]]))
    near, squared = np.empty(longest, np.uint8), np.empty(longest)
    for writing in (False, True):
        if writing:  # one more than there are, as every pair is written before it is judged
            m = offsets[-1] + 1
            pairs = Pairs(np.empty(m), np.empty(m, np.int32), np.empty(m, np.int32))
        prob, left, right, n = pairs.prob, pairs.left, pairs.right, 0
        for i in range(arriving.size):
            u, v = arriving[i], held[i]
            if criterion.d == 1:
                n = _pairs_of_numbers(tuples, u, v, criterion.limit, factor[i], swap[i], n, pairs)
                offsets[i + 1] = n
                continue
            for k in range(count[u]):
                found = _near_row(tuples, u, k, v, criterion, squared, near)
                if not writing or found == 0:
                    n += found
                    continue
                weight = blocks[at[u] + k]
                for j in range(count[v]):
                    prob[n] = weight * blocks[at[v] + j] * factor[i]
                    other = (k ^ j) & swap[i]  # exchanges k and j
                    left[n], right[n] = k ^ other, j ^ other
                    n += near[j]
            offsets[i + 1] = n
    m = offsets[-1]
    return offsets, Pairs(pairs.prob[:m], pairs.left[:m], pairs.right[:m])
