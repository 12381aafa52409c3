"""The probabilities that two uncertain tuples match, and that a tuple has no near partner.

The probabilities exclude T_j, the probability that the held tuple is still in its window (see
`inside_probabilities`).

Pairs of samples are compared in SIMD. If a tuple's samples differ along one axis only (one imputed
attribute, or one sample), each pair costs one comparison. For very many samples in one dimension,
the sum is computed by sorting. Near the threshold the defining sum decides, because other sums
round differently.
"""

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import stable_order
from sfumato.kernels.compile import compiled_ieee, inlined, lean, lean_inline, lean_sum
from sfumato.kernels.distributions.tuples import round_to_one
from sfumato.kernels.joins.tuple_store import padded
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import CERTAIN, EPSILON, SIFT_SLACK

FEW_PAIRS = 9  # of samples; up to this number, the defining sum is also the fastest
MANY_PAIRS = 1 << 22  # of samples in one dimension; beyond it, the sum is computed by sorting
FINITE = float(np.finfo(np.float64).max)
UNDECIDED = -3.0  # placeholder for a probability that is not yet computed


class Criterion(NamedTuple):
    """Criteria for a match of samples and a match of tuples.

    d : dimensions    within : the distance, 0 with radii    limit : see `distance_limit`
    probability : the threshold    least : the threshold, reduced by SIFT_SLACK
    radii : whether the distance of two tuples is the sum of their radii instead of `within`
    sphere : radius of the sphere on which distances are arcs; 0 for Euclidean distances
    """

    d: int
    within: float
    limit: float
    probability: float
    least: float
    radii: bool
    sphere: float


def criterion(
    dimensions: int, within: float | None, probability: float, sphere: float = 0.0
) -> Criterion:
    """Return a `Criterion`; within : None for the sum of the tuples' radii."""
    distance = 0.0 if within is None else within
    if sphere > 0.0:
        distance = chord.py_func(distance, sphere)
    least, limit = probability * (1.0 - SIFT_SLACK), distance_limit(distance, dimensions)
    return Criterion(dimensions, distance, limit, probability, least, within is None, sphere)


def distance_limit(within: float, dimensions: int) -> float:
    """Return the limit of a coordinate difference (1-D) or a squared distance.

    In more than one dimension, the limit is the largest float s with sqrt(s) <= within. Square
    roots are correctly rounded, so `squared <= s` is equivalent to `sqrt(squared) <= within`.
    """
    if dimensions == 1:
        return within
    limit = min(within * within, FINITE)
    while math.sqrt(limit) > within:
        limit = math.nextafter(limit, 0.0)
    while limit < FINITE and math.sqrt(math.nextafter(limit, math.inf)) <= within:
        limit = math.nextafter(limit, math.inf)
    return limit


@lean_inline
def widest_reach(within, rounding):
    """Return the largest distance between floats whose decimals are `within` apart.

    For example, 0.8 is then within 0.1 of 0.7, as in decimal arithmetic.
    rounding : at least the sum of both tuples' roundings; 0 for integers, which are exact
    """
    return within if rounding == 0.0 else within * (1.0 + 4.0 * EPSILON) + rounding


@lean_inline
def chord(arc, sphere):
    """Return the length of an arc's chord on a sphere of radius `sphere`.

    If the arc is at least half a circumference, the returned length exceeds the diameter, so all
    points are within it.
    """
    angle = arc / sphere
    return 2.0 * sphere * math.sin(angle / 2.0) if angle < math.pi else 3.0 * sphere


@lean_inline
def match_distance(radius, u, v, criterion):
    """Return the distance within which the samples of two slots match."""
    if not criterion.radii:
        return criterion.within
    radii = radius[u] + radius[v]
    return radii if criterion.sphere == 0.0 else chord(radii, criterion.sphere)


@lean_inline
def limit_of(tuples, u, v, criterion):
    """Return the limit of differences (1-D) or squared distances for two tuples."""
    distance = match_distance(tuples.radius, u, v, criterion)
    reach = widest_reach(distance, tuples.rounding[u] + tuples.rounding[v])
    if reach == distance and not criterion.radii:
        return criterion.limit
    # The square of an integer sum of radii is exact.
    slack = 0.0 if reach == distance else 4.0 * EPSILON
    return reach if criterion.d == 1 else min(reach * reach * (1.0 + slack), FINITE)


@lean_inline
def is_near(blocks, x, x_length, y, y_length, d, limit):
    """Return whether the samples at places x and y of blocks of these lengths are near."""
    if d == 1:
        return abs(blocks[x + x_length] - blocks[y + y_length]) <= limit
    squared = 0.0
    for a in range(1, d + 1):
        difference = blocks[x + a * x_length] - blocks[y + a * y_length]
        squared += difference * difference
    return squared <= limit


@lean
def defining_sum(tuples, u, v, criterion, wanted=True):
    """Sum Pr(u_k) Pr(v_l) over the pairs of samples that are near (if `wanted`) or not near.

    This sum is the definition of Pr(match), and decides near the threshold.
    u, v : slots of the arriving and the held tuple    O(pairs * d), without SIMD.
    Source: Dallachiesa et al. (2015), equations (20), (21); Lian and Chen (2009), equation (2).
    """
    blocks, d, limit = tuples.blocks, criterion.d, limit_of(tuples, u, v, criterion)
    x, x_count, y, y_count = tuples.at[u], tuples.samples[u], tuples.at[v], tuples.samples[v]
    x_length, y_length = padded(x_count), padded(y_count)
    total, steps = 0.0, np.int64(0)
    for k in range(x, x + x_count):
        steps = after_signals(steps + y_count)
        for j in range(y, y + y_count):
            if is_near(blocks, k, x_length, j, y_length, d, limit) == wanted:
                total += blocks[k] * blocks[j]
    return total


@lean
def _near_number(x, y, limit):
    return abs(x - y) <= limit


@lean_sum
def _mass_near(blocks, at, row, count, place, limit):
    """Return the mass within the distance `limit` of `place`.

    at, row, count : unsigned, for SIMD
    """
    mass = 0.0
    for k in range(count):
        mass += blocks[at + k] if _near_number(blocks[row + k], place, limit) else 0.0
    return mass


@inlined
def _sum_of_numbers(tuples, slot, other_slot, limit, least):
    """Compute the sum in one dimension, in any order; stop if it is certainly below `least`."""
    blocks, u, v = tuples.blocks, np.uint64(tuples.at[slot]), np.uint64(tuples.at[other_slot])
    # Padding has probability 0, and without a remainder SIMD is faster.
    length, total = np.uint64(padded(tuples.samples[slot])), 0.0
    mass, left = tuples.existence[slot], tuples.existence[other_slot]
    others = v + np.uint64(padded(tuples.samples[other_slot]))
    for j in range(np.uint64(tuples.samples[other_slot])):
        if total + left * mass < least:
            break
        near = _mass_near(blocks, u, u + length, length, blocks[others + j], limit)
        total += blocks[v + j] * near
        left -= blocks[v + j]
    return total


@lean
def _at_most(x, y, limit):
    return (x - y) * (x - y) <= limit


@lean_sum
def _masses(blocks, at, row, count, place, low, high):
    """Return the masses within squared distances `low` and `high` of `place`.

    at, row, count : unsigned, for SIMD
    """
    sure, possible = 0.0, 0.0
    for k in range(count):
        p, x = blocks[at + k], blocks[row + k]
        sure += p if _at_most(x, place, low) else 0.0
        possible += p if _at_most(x, place, high) else 0.0
    return sure, possible


@lean
def _sum_along_axis(tuples, u, v, criterion):
    """Return bounds of the sum if the samples of slot u differ along one axis, for d > 1.

    A sample x of u is near a sample of v if (x - place)**2 <= budget: `place` is the value of v's
    sample on that axis, and `budget` is the limit minus the squared differences of all other
    coordinates. The rounding error of budgets is at most `band`. Summation stops once `least`
    cannot be reached; the returned values are then below `least` and are not bounds.
    O(samples of v * (d + samples of u)), in SIMD over u.
    """
    blocks, d, axis, other = tuples.blocks, criterion.d, tuples.axis[u] + 1, tuples.axis[v] + 1
    x, y, m = np.uint64(tuples.at[u]), np.uint64(tuples.at[v]), tuples.samples[v]
    length, width, one = np.uint64(padded(tuples.samples[u])), np.uint64(padded(m)), np.uint64(1)
    row, places = np.uint64(axis) * length, np.uint64(axis) * width
    first, last = x, x + np.uint64(tuples.samples[u])
    mass, left, sure, possible = tuples.existence[u], tuples.existence[v], 0.0, 0.0
    limit = limit_of(tuples, u, v, criterion)
    band = (2.0 * d + 6.0) * EPSILON * limit
    if other > 0:  # the other coordinates are the same for all samples
        for c in range(1, d + 1):
            if c != axis and c != other:
                difference = blocks[x + np.uint64(c) * length] - blocks[y + np.uint64(c) * width]
                limit -= difference * difference
        if limit + band < 0.0:
            return 0.0, 0.0
    if other > 0 and other != axis:  # the places are also equal; masses near them decide most pairs
        at, place, wide = np.uint64(other), blocks[y + places], limit + band
        while first < last and not _at_most(blocks[first + row], place, wide):
            first += one
        while first < last and not _at_most(blocks[last - one + row], place, wide):
            last -= one
        mass = _masses(blocks, first, first + row, last - first, place, wide, wide)[1]
        place = blocks[x + at * length]
        near = _masses(blocks, y, y + at * width, np.uint64(m), place, wide, wide)[1]
        if mass * near < criterion.least:
            return 0.0, 0.0
    for j in range(y, y + np.uint64(m)):
        if possible + left * mass < criterion.least:
            break
        left -= blocks[j]
        budget = limit
        for c in range(1, d + 1):
            if c != axis and (other == 0 or c == other):
                difference = blocks[j + np.uint64(c) * width] - blocks[x + np.uint64(c) * length]
                budget -= difference * difference
        if budget + band >= 0.0:
            near, wide = _masses(
                blocks, first, first + row, last - first, blocks[j + places], budget - band,
                budget + band,
            )  # fmt: skip
            sure += blocks[j] * near
            possible += blocks[j] * wide
    return sure, possible


@lean
def _near_columns(u, k, v, j, limit):
    squared = 0.0
    for a in range(1, len(u)):
        difference = u[a][k] - v[a][j]
        squared += difference * difference
    return squared <= limit


@lean_sum
def _sum_columns(u, v, n, limit, least, left, other):
    """Compute the sum for tuples of columns; masses, but not squares, may be reordered."""
    p, q, total, steps = u[0], v[0], 0.0, np.int64(0)
    for k in range(n):
        if total + left * other < least:
            return -1.0
        steps = after_signals(steps + q.size)
        mass = 0.0
        for j in range(q.size):
            mass += q[j] if _near_columns(u, k, v, j, limit) else 0.0
        total += p[k] * mass
        left -= p[k]
    return total


@lean_sum
def _mass_within(prob, squared, limit):
    mass = 0.0
    for j in range(squared.size):
        mass += prob[j] if squared[j] <= limit else 0.0
    return mass


@inlined
def _sum_any(us, vs, n, limit, least, left, other):
    squared, total, steps = np.empty(vs.shape[1]), 0.0, np.int64(0)
    for k in range(n):
        if total + left * other < least:
            return -1.0
        steps = after_signals(steps + us.shape[0] * squared.size)
        squared[:] = 0.0
        for a in range(1, us.shape[0]):
            x, row = us[a, k], vs[a]
            for j in range(squared.size):
                squared[j] += (x - row[j]) * (x - row[j])
        total += us[0, k] * _mass_within(vs[0], squared, limit)
        left -= us[0, k]
    return total


SIFTED_SAMPLES = 24  # minimum number of samples for which sifting is faster


@compiled_ieee
def _sift(tuples, s, other, criterion):
    """Split the samples of slot s by their distance from another slot's ball (see `regions`).

    Returns (columns float64[d + 1, padded] of samples that may be near to some points of the ball,
    but not certainly to all; their number and probability; the probability of samples near to all
    points).  Source: this project; bounds as in Lian and Chen (2009), Lemma 5.1.
    """
    at, count, d, n = tuples.at[s], tuples.samples[s], criterion.d, 0
    length, mass, certain = padded(count), 0.0, 0.0
    columns = tuples.blocks[at : at + (d + 1) * length].reshape(d + 1, length)
    if tuples.summary.shape[1] == 0 or min(count, tuples.samples[other]) < SIFTED_SAMPLES:
        return columns, count, tuples.existence[s], certain
    centre, radius = tuples.summary[other], tuples.summary[other, d + 1]
    distance = match_distance(tuples.radius, s, other, criterion)
    inner, outer = distance - radius, np.sqrt(limit_of(tuples, s, other, criterion)) + radius
    inner = max(inner, 0.0) * inner * (1.0 - 3.0 * SIFT_SLACK)
    outer *= outer * (1.0 + 3.0 * SIFT_SLACK)
    squared, chosen = np.zeros(length), np.empty(length, np.int64)
    for a in range(d):
        row = columns[a + 1]
        for k in range(length):
            squared[k] += (row[k] - centre[a]) * (row[k] - centre[a])
    for k in range(count):
        sure, none = squared[k] < inner, squared[k] > outer
        chosen[n] = k
        certain += columns[0, k] if sure else 0.0
        mass += 0.0 if sure or none else columns[0, k]
        n += not (sure or none)
    kept = np.empty((d + 1, padded(n)))
    for a in range(d + 1):
        kept[a, n:] = 0.0 if a == 0 else np.nan
        for i in range(n):
            kept[a, i] = columns[a, chosen[i]]
    return kept, n, mass, certain


@inlined
def _sum_of_points(tuples, u, v, criterion):
    """Compute the sum in several dimensions, in any order; return -1 if certainly below `least`.

    Samples too far from the other tuple's ball are dropped. Samples near to the whole ball are
    counted without pairing. O(samples of u * samples of v * d), in SIMD over v.
    """
    d, least, limit = criterion.d, criterion.least, limit_of(tuples, u, v, criterion)
    us, n, left, certain = _sift(tuples, u, v, criterion)
    known = certain * tuples.existence[v]
    if known + left * tuples.existence[v] < least:
        return -1.0
    vs, _, other, certain = _sift(tuples, v, u, criterion)
    known += left * certain
    least -= known
    # Columns are sliced once per pair of tuples: a slice costs two atomic reference counts.
    if d == 2:
        left_2, right_2 = (us[0], us[1], us[2]), (vs[0], vs[1], vs[2])
        total = _sum_columns(left_2, right_2, n, limit, least, left, other)
    elif d == 3:
        left_3, right_3 = (us[0], us[1], us[2], us[3]), (vs[0], vs[1], vs[2], vs[3])
        total = _sum_columns(left_3, right_3, n, limit, least, left, other)
    else:
        total = _sum_any(us, vs, n, limit, least, left, other)
    return -1.0 if total < 0.0 else known + total


@lean
def resolve_near_one(tuples, u, v, criterion, total):
    """Return the answer for a sum: 1 if only rounding separates it from 1, -1 below the threshold.

    This is the rule of `reaches`. Near 1, the sum of the complement decides, because its rounding
    error is much smaller.
    """
    if total >= criterion.probability:
        return min(total, 1.0)
    exists = tuples.existence[u] * tuples.existence[v]
    if total < 1.0 - SIFT_SLACK or exists < 1.0 - CERTAIN:
        return total if total >= criterion.probability * (1.0 - CERTAIN) else -1.0
    return 1.0 if defining_sum(tuples, u, v, criterion, False) <= CERTAIN else -1.0


@lean
def resolve_near_threshold(tuples, u, v, criterion, total):
    """Return the answer for a sum, or -1 below the threshold; near it, `defining_sum` decides."""
    probability = criterion.probability
    if abs(total - probability) <= 2.0 * SIFT_SLACK * probability:
        total = defining_sum(tuples, u, v, criterion)
    return resolve_near_one(tuples, u, v, criterion, total)


@lean_inline
def probability_if_cheap(tuples, u, v, criterion):
    """Return `match_probability` if it is cheap to compute or certainly -1; otherwise UNDECIDED."""
    if tuples.samples[u] * tuples.samples[v] <= FEW_PAIRS:
        return resolve_near_one(tuples, u, v, criterion, defining_sum(tuples, u, v, criterion))
    if criterion.d == 1 and tuples.samples[u] * tuples.samples[v] <= MANY_PAIRS:
        total = _sum_of_numbers(tuples, u, v, limit_of(tuples, u, v, criterion), criterion.least)
        if total < criterion.least:
            return -1.0
        return resolve_near_threshold(tuples, u, v, criterion, total)
    return -1.0 if tuples.existence[u] * tuples.existence[v] < criterion.least else UNDECIDED


@compiled_ieee
def match_probability(tuples, u, v, criterion):
    """Return Pr(match) without T_j if it reaches the criterion's probability, otherwise -1.

    tuples : `StoredTuples`    u, v : slots of the arriving and the held tuple
    Cost: O(samples of u * samples of v * d), in SIMD; less if the remaining mass cannot suffice. In
    one dimension beyond MANY_PAIRS pairs of samples: O(samples log samples), by `sorted_sum`.
    Error: `defining_sum` makes the same decision; its value may differ by at most the number of
    samples * 2**-52. Beyond MANY_PAIRS, `sorted_sum` decides; its rounding error is smaller.
    """
    total = probability_if_cheap(tuples, u, v, criterion)
    if total != UNDECIDED:
        return total
    if criterion.d == 1:
        total = sorted_sum(tuples, u, v, limit_of(tuples, u, v, criterion))
        return total if total >= criterion.probability * (1.0 - CERTAIN) else -1.0
    if tuples.axis[u] < 0 and tuples.axis[v] < 0:
        total = _sum_of_points(tuples, u, v, criterion)
        if total < criterion.least:
            return -1.0
        return resolve_near_threshold(tuples, u, v, criterion, total)
    swap = tuples.axis[u] < 0 or (tuples.axis[v] >= 0 and tuples.samples[v] > tuples.samples[u])
    along, other = (v, u) if swap else (u, v)
    total, possible = _sum_along_axis(tuples, along, other, criterion)
    if possible < criterion.least:
        return -1.0
    if possible != total:
        total = defining_sum(tuples, u, v, criterion)
    return resolve_near_threshold(tuples, u, v, criterion, total)


@compiled_ieee
def match_probabilities(tuples, one, other, criterion):
    """Return the `match_probability` of n pairs of slots: float64[n]."""
    result, steps = np.empty(one.size), np.int64(0)
    for i in range(one.size):
        steps = after_signals(steps + tuples.samples[one[i]] * tuples.samples[other[i]])
        result[i] = match_probability(tuples, one[i], other[i], criterion)
    return result


@lean
def near_mass(tuples, u, k, v, criterion):
    """Return the total probability of the samples of slot v that are near sample k of slot u."""
    blocks, d, limit, total = tuples.blocks, criterion.d, limit_of(tuples, u, v, criterion), 0.0
    x, x_length = tuples.at[u] + k, padded(tuples.samples[u])
    y, y_length = tuples.at[v], padded(tuples.samples[v])
    for j in range(y, y + tuples.samples[v]):
        total += blocks[j] if is_near(blocks, x, x_length, j, y_length, d, limit) else 0.0
    return min(total, 1.0)


@compiled_ieee
def exclude_partners(tuples, slots, partners, places, alone, criterion):
    """Multiply each sample's probability of having no near partner by Pr(the partner is not near).

    Given the sample, its partners are near independently of each other.
    slots, partners : int64[n]    places : int64[n], place in `alone` of each slot's first sample
    alone : float64[m], multiplied in the order of the pairs
    Cost: O(samples of u * samples of v * d) per pair.  Source: this project.
    """
    steps = np.int64(0)
    for i in range(slots.size):
        u, v = slots[i], partners[i]
        steps = after_signals(steps + tuples.samples[u] * tuples.samples[v])
        for k in range(tuples.samples[u]):
            near = near_mass(tuples, u, k, v, criterion)
            alone[places[i] + k] *= 1.0 - round_to_one(near, tuples.samples[v])


class Sorted(NamedTuple):
    """The samples of a tuple by value.

    place : int64[n], index of each sample within the tuple    value : float64[n], ascending
    sum, rest : float64[n + 1], cumulated probability sum + rest, two floats so that differences
        lose no digits
    """

    place: np.ndarray
    value: np.ndarray
    sum: np.ndarray
    rest: np.ndarray


@lean_inline
def _add_compensated(total, rest, term):
    """Add a float to a sum of two floats; return the new sum as two floats."""
    larger = total + term
    part = larger - total
    rest += (total - (larger - part)) + (term - part)
    whole = larger + rest
    return whole, rest - (whole - larger)


@compiled_ieee
def sorted_samples(tuples, s):
    """Return the `Sorted` samples of slot s.  O(n log n)."""
    at, n = tuples.at[s], tuples.samples[s]
    values = tuples.blocks[at + padded(n) : at + padded(n) + n]
    place = stable_order(values)
    total, rest = np.zeros(n + 1), np.zeros(n + 1)
    for i in range(n):
        total[i + 1], rest[i + 1] = _add_compensated(
            total[i], rest[i], tuples.blocks[at + place[i]]
        )
    return Sorted(place, values[place], total, rest)


@lean_inline
def mass_between(ordered, low, high):
    """Return the probability of the sorted samples [low, high)."""
    return (ordered.sum[high] - ordered.sum[low]) + (ordered.rest[high] - ordered.rest[low])


@compiled_ieee
def near_ranges(tuples, u, ordered, limit):
    """Return the range of `ordered` that is near each sample of slot u: (begin, end), int64[n].

    Differences round monotonically, so pairwise comparison gives the same ranges.  O(n log n).
    """
    one, value, low, high = sorted_samples(tuples, u), ordered.value, 0, 0
    first, last = np.empty(one.place.size, np.int64), np.empty(one.place.size, np.int64)
    for i in range(one.place.size):
        x = one.value[i]
        while low < value.size and x - value[low] > limit:
            low += 1
        high = max(high, low)
        while high < value.size and value[high] - x <= limit:
            high += 1
        first[one.place[i]], last[one.place[i]] = low, high
    return first, last


@compiled_ieee
def sorted_sum(tuples, u, v, limit):
    """Sum Pr(u_k) Pr(v_l) over the near samples of slots u and v, in one dimension.

    O(n log n) for n samples of both.  Error: a few 2**-53, relative; see also `round_to_one`.
    """
    ordered, total, rest = sorted_samples(tuples, v), 0.0, 0.0
    first, last = near_ranges(tuples, u, ordered, limit)
    for k in range(first.size):
        term = tuples.blocks[tuples.at[u] + k] * mass_between(ordered, first[k], last[k])
        total, rest = _add_compensated(total, rest, term)
    return round_to_one(total + rest, first.size + ordered.place.size)
