"""Pr(match) of two uncertain tuples, and the pairs of samples that make it up."""

from __future__ import annotations

import math

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean, lean_sum
from sfumato.kernels.joins.tuple_store import LANES, padded

# Fast sums and pruning bounds may round differently from the defining sum. They decide alone
# only when they are farther than this from the threshold, relatively.
SLACK = 1e-9
FEW_PAIRS = 9  # of samples: up to here the defining sum is also the fastest


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


@compiled_ieee
def _near_number(x, y, limit):
    return abs(x - y) <= limit


@compiled_ieee
def _near_2(x, a, y, b, limit):
    first, second = x - a, y - b
    return first * first + second * second <= limit


@compiled_ieee
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


# Reassociation in these is for sums alone: the comparisons above are compiled without it. Columns
# are slices made once a pair of tuples: a slice costs two atomic reference counts.
@lean_sum
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


@lean_sum
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


@compiled_ieee
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


@compiled_ieee
def _sum_near(us, u_count, u_length, vs, v_length, d, limit, total, open_mass, other, least):
    """total + the sum over near pairs of two blocks, d > 1; -1 if that is surely below `least`.

    us, vs : blocks, beginning at 0    open_mass, other : probability in them
    Cost: O(u_count * v_length * d), in SIMD over v. Added in any order.
    """
    n, m = u_length, v_length
    p, q = us[:u_count], vs[:m]
    x, a = us[n : n + u_count], vs[m : 2 * m]
    y, b = us[2 * n : 2 * n + u_count], vs[2 * m : 3 * m]
    if d == 2:
        return _sum_2(p, x, y, q, a, b, limit, total, open_mass, other, least)
    if d == 3:
        z, c = us[3 * n : 3 * n + u_count], vs[3 * m : 4 * m]
        return _sum_3(p, x, y, z, q, a, b, c, limit, total, open_mass, other, least)
    return _sum_any(us, u_count, n, vs, m, d, limit, total, open_mass, other, least)


@compiled_ieee
def decided(tuples, u, v, d, limit, probability, total):
    """A sum as the answer, -1 if it is below the threshold; the definition decides near it."""
    if abs(total - probability) <= 2.0 * SLACK * probability:
        u_count, v_count = tuples.samples[u], tuples.samples[v]
        total = defining_sum(tuples.blocks, tuples.at[u], u_count, tuples.at[v], v_count, d, limit)
    return total if total >= probability else -1.0


@compiled_ieee
def match_probability(tuples, u, v, d, limit, least, probability):
    """Pr(match) without T_j if it is at least `probability`, else -1.

    u, v : slots of the arriving and the held tuple    d : dimensions
    limit : float64, see `distance_limit`    probability : the threshold, `least` less SLACK of it

    Cost: O(samples of u * samples of v * d), in SIMD; less where the mass left cannot suffice.
    Error: the decision is that of `defining_sum`, which is asked within SLACK of the threshold;
    elsewhere the value may round differently, by at most the number of samples * 2**-52.
    Source: as `defining_sum`.
    """
    u_count, v_count = tuples.samples[u], tuples.samples[v]
    if u_count * v_count <= FEW_PAIRS:
        total = defining_sum(tuples.blocks, tuples.at[u], u_count, tuples.at[v], v_count, d, limit)
        return total if total >= probability else -1.0
    if d == 1:
        total = sum_of_numbers(tuples.blocks, tuples.at[u], u_count, tuples.at[v], v_count, limit)
        return decided(tuples, u, v, d, limit, probability, total)
    u_length, v_length = padded(u_count), padded(v_count)
    us, vs = tuples.blocks[tuples.at[u] :], tuples.blocks[tuples.at[v] :]
    total = _sum_near(
        us, u_count, u_length, vs, v_length,
        d, limit, 0.0, tuples.existence[u], tuples.existence[v], least,
    )  # fmt: skip
    return decided(tuples, u, v, d, limit, probability, total)


@compiled_ieee
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


@compiled_ieee
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
    u_count, v_count = tuples.samples[u], tuples.samples[v]
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


@compiled_ieee
def _near_row(blocks, x, x_length, columns, y_length, d, limit, squared, near):
    """Which samples of a block, `columns`, are near the sample at x: near, uint8; how many."""
    squared[:y_length] = 0.0
    for a in range(1, d + 1):
        value, others = blocks[x + a * x_length], columns[a * y_length : (a + 1) * y_length]
        for j in range(y_length):
            squared[j] += (value - others[j]) * (value - others[j])
    count = 0
    for j in range(y_length):
        near[j] = squared[j] <= limit
        count += near[j]
    return count


@compiled_ieee
def _pairs_of_numbers(blocks, x, x_count, y, y_count, limit, factor, swap, n, prob, left, right):
    """Write the near pairs of two blocks from place n on; the place after them. One dimension.

    With no room at all they are only counted.
    """
    u, v = np.uint64(x), np.uint64(y)
    values, others = u + np.uint64(padded(x_count)), v + np.uint64(padded(y_count))
    for k in range(x_count):
        weight, value = blocks[u + np.uint64(k)], blocks[values + np.uint64(k)]
        if prob.size == 0:
            for j in range(y_count):
                n += abs(value - blocks[others + np.uint64(j)]) <= limit
            continue
        for j in range(y_count):
            prob[n] = weight * blocks[v + np.uint64(j)] * factor
            other = (k ^ j) & swap
            left[n], right[n] = k ^ other, j ^ other
            n += abs(value - blocks[others + np.uint64(j)]) <= limit
    return n


@compiled_ieee
def matching_pairs(tuples, arriving, held, arriving_left, factor, d, limit):
    """The pairs of samples behind answers, as alternatives: (offsets, prob, left, right sample).

    arriving, held : int64[n], slots    arriving_left : bool[n]    factor : float64[n], T_j
    Returns (int64[n + 1], float64[m], int32[m], int32[m]); prob = Pr(u_k) Pr(v_l) T_j.
    O(samples of u * samples of v * d) an answer, without branches on what is near: counted
    first, as writing the pairs costs more than finding them twice.
    """
    offsets = np.zeros(arriving.size + 1, np.int64)
    prob, left, right = np.empty(0), np.empty(0, np.int32), np.empty(0, np.int32)
    blocks, at, count = tuples.blocks, tuples.at, tuples.samples
    longest = 0
    for i in range(arriving.size):
        longest = max(longest, padded(count[held[i]]))
    near, squared = np.empty(longest, np.uint8), np.empty(longest)
    for writing in (False, True):
        if writing:  # one more than there are, as every pair is written before it is judged
            m = offsets[-1] + 1
            prob, left, right = np.empty(m), np.empty(m, np.int32), np.empty(m, np.int32)
        n = 0
        for i in range(arriving.size):
            x, y, y_count = at[arriving[i]], at[held[i]], count[held[i]]
            x_length, y_length = padded(count[arriving[i]]), padded(y_count)
            swap = 0 if arriving_left[i] else -1
            if d == 1:
                n = _pairs_of_numbers(
                    blocks, x, count[arriving[i]], y, y_count, limit,
                    factor[i], swap, n, prob, left, right,
                )  # fmt: skip
                offsets[i + 1] = n
                continue
            columns = blocks[y:]
            for k in range(count[arriving[i]]):
                found = _near_row(
                    blocks, x + k, x_length, columns, y_length, d, limit, squared, near
                )
                if not writing or found == 0:
                    n += found
                    continue
                weight = blocks[x + k]
                for j in range(y_count):
                    prob[n] = weight * blocks[y + j] * factor[i]
                    other = (k ^ j) & swap  # exchanges k and j where the arrival is on the right
                    left[n], right[n] = k ^ other, j ^ other
                    n += near[j]
            offsets[i + 1] = n
    m = offsets[-1]
    return offsets, prob[:m], left[:m], right[:m]
