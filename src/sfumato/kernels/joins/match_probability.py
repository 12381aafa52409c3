"""The probability that two uncertain tuples match.

Of many samples in one dimension the sum is taken by sorting. The samples of one tuple that are near
to a sample of the other one lie next to each other once they are sorted by value, and their
probability is a difference of two running sums. These are kept as unevaluated sums of two floats,
so that the differences lose no digits.
"""

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean, lean_inline, lean_sum
from sfumato.kernels.joins.tuple_store import SAMPLE_LANES, padded
from sfumato.kernels.laws.tuples import rounded_to_one
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import CERTAIN, EPSILON, SIFT_SLACK


class Sorted(NamedTuple):
    """The samples of a tuple by value.

    place : int64[n], of each sample among those of the tuple    value : float64[n], ascending
    sum, rest : float64[n + 1], the probability of the first samples, as sum + rest
    """

    place: np.ndarray
    value: np.ndarray
    sum: np.ndarray
    rest: np.ndarray


@compiled_ieee
def sorted_samples(tuples, s):
    """Return the `Sorted` samples of slot s.  O(n log n)."""
    at, n = tuples.at[s], tuples.samples[s]
    row = at + padded(n)
    values = tuples.blocks[row : row + n]
    place = np.argsort(values, kind="mergesort")
    value, total, rest = np.empty(n), np.zeros(n + 1), np.zeros(n + 1)
    for i in range(n):
        value[i] = values[place[i]]
        total[i + 1], rest[i + 1] = _added(total[i], rest[i], tuples.blocks[at + place[i]])
    return Sorted(place, value, total, rest)


@lean_inline
def _added(total, rest, term):
    """A sum of two floats and one more float, as two floats."""
    larger = total + term
    part = larger - total
    rest += (total - (larger - part)) + (term - part)
    whole = larger + rest
    return whole, rest - (whole - larger)


@lean
def near_places(value, x, limit, low, high):
    """Where the values within `limit` of x begin and end: low and high, moved.

    value : float64[n], ascending    low, high : those of a smaller x, or 0
    A difference rounds monotonically, so that these are the same as by comparing one by one.
    """
    while low < value.size and x - value[low] > limit:
        low += 1
    high = max(high, low)
    while high < value.size and value[high] - x <= limit:
        high += 1
    return low, high


@lean_inline
def mass_between(ordered, low, high):
    """The probability of the sorted samples [low, high)."""
    return (ordered.sum[high] - ordered.sum[low]) + (ordered.rest[high] - ordered.rest[low])


@compiled_ieee
def sorted_sum(tuples, u, v, limit):
    """Sum of Pr(u_k) Pr(v_l) over the near samples of slots u and v, one dimension.

    O(n log n) for n samples of both.  Error: relative, a few 2**-53; sums that miss 1 by roundings
    are 1, as in `existence_within`.
    """
    one, other = sorted_samples(tuples, u), sorted_samples(tuples, v)
    total, rest, low, high = 0.0, 0.0, 0, 0
    at = tuples.at[u]
    for i in range(one.place.size):
        low, high = near_places(other.value, one.value[i], limit, low, high)
        if high > low:
            mass = mass_between(other, low, high)
            total, rest = _added(total, rest, tuples.blocks[at + one.place[i]] * mass)
    return rounded_to_one(total + rest, one.place.size + other.place.size)


@compiled_ieee
def near_ranges(tuples, u, ordered, limit):
    """For each sample of slot u, in their order, where the near ones of `ordered` begin and end:
    int64[n], int64[n].  O(n log n)."""
    one = sorted_samples(tuples, u)
    first, last = np.empty(one.place.size, np.int64), np.empty(one.place.size, np.int64)
    low, high = 0, 0
    for i in range(one.place.size):
        low, high = near_places(ordered.value, one.value[i], limit, low, high)
        first[one.place[i]], last[one.place[i]] = low, high
    return first, last


# Fast sums and pruning bounds may round differently from the defining sum. They decide alone
# only when they are farther than this from the threshold, relatively.
FEW_PAIRS = 9  # of samples: up to here the defining sum is also the fastest
MANY_PAIRS = 1 << 22  # of samples in one dimension: beyond, the sum is taken by sorting
FINITE = float(np.finfo(np.float64).max)
UNDECIDED = -3.0  # in place of a probability: to be found


class Criterion(NamedTuple):
    """What makes a match of samples, and a match of tuples an answer.

    d : dimensions    within : the distance    limit : see `distance_limit`
    probability : the threshold    least : the same, reduced by SIFT_SLACK
    """

    d: int
    within: float
    limit: float
    probability: float
    least: float


def criterion(dimensions: int, within: float, probability: float) -> Criterion:
    """The criterion that kernels take."""
    limit = distance_limit(within, dimensions)
    return Criterion(dimensions, within, limit, probability, probability * (1.0 - SIFT_SLACK))


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


@lean_inline
def widest_reach(within, rounding):
    """The distance at which floats may lie whose decimals are `within` apart.

    rounding : that of both tuples, or at least that (see `rounding_of`). Without any the distance
    itself: whole numbers are compared exactly. So 0.8 is within 0.1 of 0.7, as it is on paper.
    """
    return within if rounding == 0.0 else within * (1.0 + 4.0 * EPSILON) + rounding


@lean
def reach_of(tuples, u, v, criterion):
    """The distance up to which samples of two tuples are near."""
    return widest_reach(criterion.within, tuples.rounding[u] + tuples.rounding[v])


@lean_inline
def limit_of_reach(criterion, reach):
    """`reach` as the number that is compared, see `distance_limit`."""
    if reach == criterion.within:
        return criterion.limit
    if criterion.d == 1:
        return reach
    return min(reach * reach * (1.0 + 4.0 * EPSILON), FINITE)


@lean
def limit_of(tuples, u, v, criterion):
    """The number that differences (1-D) or squared distances of two tuples are compared with."""
    return limit_of_reach(criterion, reach_of(tuples, u, v, criterion))


@lean
def defining_sum(tuples, u, v, criterion):
    """Sum of Pr(u_k) Pr(v_l) over the near pairs of samples, k outer and l inner, one by one."""
    return _sum_of_pairs(tuples, u, v, criterion, True)


@lean
def _sum_of_pairs(tuples, u, v, criterion, wanted):
    """Sum over the pairs of samples that are near (`wanted` : True), or over the others.

    u, v : slots of the arriving and of the held tuple
    The definition, and the judge where rounding decides. O(pairs * d), a serial addition a pair.
    Source: A, equations (20), (21); B, equation (2).
    """
    blocks, d, limit = tuples.blocks, criterion.d, limit_of(tuples, u, v, criterion)
    x, x_count, y, y_count = tuples.at[u], tuples.samples[u], tuples.at[v], tuples.samples[v]
    x_length, y_length = padded(x_count), padded(y_count)
    total, steps = 0.0, np.int64(0)
    for k in range(x, x + x_count):
        steps = after_signals(steps + y_count)
        for j in range(y, y + y_count):
            if d == 1:
                near = abs(blocks[k + x_length] - blocks[j + y_length]) <= limit
            else:
                squared = 0.0
                for a in range(1, d + 1):
                    difference = blocks[k + a * x_length] - blocks[j + a * y_length]
                    squared += difference * difference
                near = squared <= limit
            if near == wanted:
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
def _sum_of_numbers(tuples, slot, other_slot, limit):
    """The same in one dimension, four samples of the held tuple side by side."""
    # Unsigned places: no test for negative ones, which would keep the lanes from becoming SIMD.
    blocks, u, v = tuples.blocks, np.uint64(tuples.at[slot]), np.uint64(tuples.at[other_slot])
    x_count, y_count = tuples.samples[slot], tuples.samples[other_slot]
    end = u + np.uint64(x_count)
    values, others = np.uint64(padded(x_count)), np.uint64(padded(y_count))
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    total = 0.0
    for _ in range(0, y_count, SAMPLE_LANES):
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
        v += np.uint64(SAMPLE_LANES)
    return total


# Sums are reassociated in these: the comparisons above are compiled without that.
@lean_sum
def _sum_2(u, v, limit, least, known):
    (p, x, y), (q, a, b), (total, open_mass, other) = u, v, known
    steps = np.int64(0)
    for k in range(p.size):
        if total + open_mass * other < least:
            return -1.0
        steps = after_signals(steps + q.size)
        mass = 0.0
        for j in range(q.size):
            mass += q[j] if _near_2(x[k], a[j], y[k], b[j], limit) else 0.0
        total += p[k] * mass
        open_mass -= p[k]
    return total


@lean_sum
def _sum_3(u, v, limit, least, known):
    (p, x, y, z), (q, a, b, c), (total, open_mass, other) = u, v, known
    steps = np.int64(0)
    for k in range(p.size):
        if total + open_mass * other < least:
            return -1.0
        steps = after_signals(steps + q.size)
        mass = 0.0
        for j in range(q.size):
            mass += q[j] if _near_3(x[k], a[j], y[k], b[j], z[k], c[j], limit) else 0.0
        total += p[k] * mass
        open_mass -= p[k]
    return total


@compiled_ieee
def _sum_any(u, v, d, limit, least, known):
    (us, u_count, u_length), (vs, _, v_length), (total, open_mass, other) = u, v, known
    squared, steps = np.empty(v_length), np.int64(0)
    for k in range(u_count):
        if total + open_mass * other < least:
            return -1.0
        steps = after_signals(steps + d * v_length)
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
def sum_near(u, v, criterion, limit, known):
    """The sum over near pairs of two blocks and what is known, d > 1; -1 if surely below `least`.

    u, v : array in which the block is the first, number of samples, length of its rows
    limit : of `limit_of`
    known : (the sum so far; the blocks' probabilities, whose product bounds what is to come)
    O(samples of u * length of v * d), in SIMD over v. Added in any order.
    """
    (us, u_count, n), (vs, _, m) = u, v
    d, least = criterion.d, criterion.least
    if d > 3:
        return _sum_any(u, v, d, limit, least, known)
    # Columns are slices made once a pair of tuples: a slice costs two atomic reference counts.
    p, q = us[:u_count], vs[:m]
    x, a = us[n : n + u_count], vs[m : 2 * m]
    y, b = us[2 * n : 2 * n + u_count], vs[2 * m : 3 * m]
    if d == 2:
        return _sum_2((p, x, y), (q, a, b), limit, least, known)
    z, c = us[3 * n : 3 * n + u_count], vs[3 * m : 4 * m]
    return _sum_3((p, x, y, z), (q, a, b, c), limit, least, known)


@lean
def judged(tuples, u, v, criterion, total):
    """A sum as the answer, 1 where it misses 1 by roundings alone, or -1: below the threshold.

    By the rule of `reaches`: of what is near 1 the rest is summed, which has no roundings to hide
    in.
    """
    if total >= criterion.probability:
        return min(total, 1.0)
    if total < 1.0 - SIFT_SLACK or tuples.existence[u] * tuples.existence[v] < 1.0 - CERTAIN:
        return -1.0
    return 1.0 if _sum_of_pairs(tuples, u, v, criterion, False) <= CERTAIN else -1.0


@lean
def decided(tuples, u, v, criterion, total):
    """A sum as the answer, -1 if it is below the threshold; the definition decides near it."""
    probability = criterion.probability
    if abs(total - probability) <= 2.0 * SIFT_SLACK * probability:
        total = defining_sum(tuples, u, v, criterion)
    return judged(tuples, u, v, criterion, total)


@lean_inline
def quick_probability(tuples, u, v, criterion):
    """`match_probability` where that is quick or plain, else UNDECIDED."""
    if tuples.samples[u] * tuples.samples[v] <= FEW_PAIRS:
        return judged(tuples, u, v, criterion, defining_sum(tuples, u, v, criterion))
    if criterion.d == 1 and tuples.samples[u] * tuples.samples[v] <= MANY_PAIRS:
        total = _sum_of_numbers(tuples, u, v, limit_of(tuples, u, v, criterion))
        return -1.0 if total < criterion.least else decided(tuples, u, v, criterion, total)
    return -1.0 if tuples.existence[u] * tuples.existence[v] < criterion.least else UNDECIDED


@compiled_ieee
def match_probability(tuples, u, v, criterion):
    """Pr(match) without T_j if it is at least the criterion's probability, else -1.

    tuples : `Tuples`    u, v : slots of the arriving and the held tuple
    Cost: O(samples of u * samples of v * d), in SIMD; less where the mass left cannot suffice. In
    one dimension beyond MANY_PAIRS pairs of samples: O(samples log samples), by `sorted_sum`.
    Error: the decision is that of `defining_sum`, which is asked within SIFT_SLACK of the
    threshold; elsewhere the value may round differently, by at most the number of samples * 2**-52.
    Beyond MANY_PAIRS the decision is that of `sorted_sum`, which rounds less than the definition.
    Source: as `defining_sum`.
    """
    total = quick_probability(tuples, u, v, criterion)
    if total != UNDECIDED:
        return total
    u_count, v_count = tuples.samples[u], tuples.samples[v]
    if criterion.d == 1:
        total = sorted_sum(tuples, u, v, limit_of(tuples, u, v, criterion))
        return total if total >= criterion.probability else -1.0
    us = tuples.blocks[tuples.at[u] :], u_count, padded(u_count)
    vs = tuples.blocks[tuples.at[v] :], v_count, padded(v_count)
    known = 0.0, tuples.existence[u], tuples.existence[v]
    total = sum_near(us, vs, criterion, limit_of(tuples, u, v, criterion), known)
    return decided(tuples, u, v, criterion, total)


@compiled_ieee
def match_probabilities(tuples, one, other, criterion):
    """`match_probability` of pairs of slots, int64[n] each: float64[n]."""
    result, steps = np.empty(one.size), np.int64(0)
    for i in range(one.size):
        steps = after_signals(steps + tuples.samples[one[i]] * tuples.samples[other[i]])
        result[i] = match_probability(tuples, one[i], other[i], criterion)
    return result


SIFTED_SAMPLES = 24  # samples: from here on it pays to sift them before they are paired


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
    outer = (reach_of(tuples, s, other, criterion) + other_radius) * (1.0 + SIFT_SLACK)
    inner, outer = max(inner, 0.0) * inner * (1.0 - 3.0 * SIFT_SLACK), outer * outer
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
    if criterion.d == 1 or min(tuples.samples[u], tuples.samples[v]) < SIFTED_SAMPLES:
        return match_probability(tuples, u, v, criterion)
    return _match_probability_in_balls(tuples, u, v, criterion)
