"""The pairs of samples that make up a match."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, inlined, lean, lean_inline
from sfumato.kernels.joins.match_probability import (
    MANY_PAIRS,
    Sorted,
    limit_of,
    near_ranges,
    sorted_samples,
)
from sfumato.kernels.joins.tuple_store import padded
from sfumato.kernels.signals import after_signals

GOLDEN_RATIO = 0.6180339887498949  # its multiples modulo 1 are evenly spread


class Pairs(NamedTuple):
    """Matching pairs of samples: their probability, and the indices of both samples, int32."""

    prob: np.ndarray
    left: np.ndarray
    right: np.ndarray


class Match(NamedTuple):
    """A match of slots u (arriving) and v (held), whose samples are near within `limit`.

    factor : T_j, see `match_probability`
    exchange : -1 if the arrival is on the right, otherwise 0
    """

    u: int
    v: int
    d: int
    limit: float
    factor: float
    exchange: int


class PairWork(NamedTuple):
    """Working memory per sample of a held tuple: squared distance, and a uint8 flag of nearness."""

    squared: np.ndarray
    near: np.ndarray


class NearRanges(NamedTuple):
    """Samples of v sorted by value, and the range of samples near each sample of u."""

    ordered: Sorted
    first: np.ndarray
    last: np.ndarray


@lean
def _flag_near(tuples, match, k, work):
    """Flag in work.near the samples of v near sample k of u, for d > 1; return their number."""
    blocks, squared, near, d, limit = tuples.blocks, work.squared, work.near, match.d, match.limit
    x_length, y_length = padded(tuples.samples[match.u]), padded(tuples.samples[match.v])
    # Unsigned places, because a test for negative places would prevent SIMD.
    x, y, length = tuples.at[match.u] + k, np.uint64(tuples.at[match.v]), np.uint64(y_length)
    for j in range(length):
        squared[j] = 0.0
    for a in range(1, d + 1):
        value, row = blocks[x + a * x_length], y + np.uint64(a) * length
        for j in range(length):
            squared[j] += (value - blocks[row + j]) * (value - blocks[row + j])
    n = 0
    for j in range(length):
        near[j] = squared[j] <= limit
        n += near[j]
    return n


@lean
def _numbers_of(tuples, match):
    """Return the places of both tuples' values in one dimension, unsigned for SIMD."""
    x, y = tuples.at[match.u], tuples.at[match.v]
    x += padded(tuples.samples[match.u])
    return np.uint64(x), np.uint64(y + padded(tuples.samples[match.v]))


@lean
def _count_near(tuples, match, work):
    n, steps = 0, np.int64(0)
    if match.d == 1:  # without flags, which cost as much as the comparisons
        blocks, limit, (values, others) = tuples.blocks, match.limit, _numbers_of(tuples, match)
        for k in range(tuples.samples[match.u]):
            value = blocks[values + np.uint64(k)]
            for j in range(tuples.samples[match.v]):
                n += abs(value - blocks[others + np.uint64(j)]) <= limit
        return n
    for k in range(tuples.samples[match.u]):
        steps = after_signals(steps + (match.d + 1) * tuples.samples[match.v])
        n += _flag_near(tuples, match, k, work)
    return n


@lean
def _write_near(tuples, match, n, pairs, work):
    """Write all near pairs, starting at place n; one place after the last is also overwritten."""
    blocks, x, y, near = tuples.blocks, tuples.at[match.u], tuples.at[match.v], work.near
    steps, exchange = np.int64(0), match.exchange
    if match.d == 1:
        prob, left, right, limit = pairs.prob, pairs.left, pairs.right, match.limit
        (values, others), first = _numbers_of(tuples, match), np.uint64(y)
        for k in range(tuples.samples[match.u]):
            value, weight = blocks[values + np.uint64(k)], blocks[x + k]
            for j in range(tuples.samples[match.v]):
                prob[n] = weight * blocks[first + np.uint64(j)] * match.factor
                other = (k ^ j) & exchange  # exchanges k and j
                left[n], right[n] = k ^ other, j ^ other
                n += abs(value - blocks[others + np.uint64(j)]) <= limit
        return
    for k in range(tuples.samples[match.u]):
        steps = after_signals(steps + (match.d + 1) * tuples.samples[match.v])
        if _flag_near(tuples, match, k, work) == 0:
            continue
        for j in range(tuples.samples[match.v]):
            _write(pairs, n, blocks[x + k] * blocks[y + j] * match.factor, match, k, j)
            n += near[j]


@compiled_ieee
def _near_row(tuples, match, ranges, k, work):
    """Return the places of v's samples near sample k of u, and their cumulated probabilities."""
    if ranges.ordered.place.size > 0:
        low, high = ranges.first[k], ranges.last[k]
        return ranges.ordered.place[low:high], ranges.ordered.sum[low : high + 1]
    _flag_near(tuples, match, k, work)
    places = np.flatnonzero(work.near[: tuples.samples[match.v]])
    masses = np.zeros(places.size + 1)
    for i in range(places.size):
        masses[i + 1] = masses[i] + tuples.blocks[tuples.at[match.v] + places[i]]
    return places, masses


@compiled_ieee
def _near_ranges(tuples, match):
    """Return `NearRanges` in one dimension; otherwise empty arrays."""
    none, numbers = np.empty(0), np.empty(0, np.int64)
    if match.d > 1:
        return NearRanges(Sorted(numbers, none, none, none), numbers, numbers)
    ordered = sorted_samples(tuples, match.v)
    first, last = near_ranges(tuples, match.u, ordered, match.limit)
    return NearRanges(ordered, first, last)


@lean_inline
def _write(pairs, n, prob, match, k, j):
    other = (k ^ j) & match.exchange
    pairs.prob[n] = prob
    pairs.left[n], pairs.right[n] = k ^ other, j ^ other


@inlined
def _write_rows(tuples, match, found, total, most, n, pairs, work):
    """Write the `found` near pairs of a match with many pairs, or `most` pairs that represent them.

    If `most` pairs are written, pair i is at a point in the i-th of `most` parts of equal
    probability.
    total : the probability of all pairs, without the factor
    """
    blocks, at, count = tuples.blocks, tuples.at[match.u], tuples.samples[match.u]
    ranges, mass, steps = _near_ranges(tuples, match), np.empty(count), np.int64(0)
    for k in range(count):
        steps = after_signals(steps + (match.d + 2) * tuples.samples[match.v])
        places, masses = _near_row(tuples, match, ranges, np.int64(k), work)
        mass[k] = blocks[at + k] * (masses[-1] - masses[0])
        if found <= most:
            for j in places:
                prob = blocks[at + k] * blocks[tuples.at[match.v] + j] * match.factor
                _write(pairs, n, prob, match, k, j)
                n += 1
    if found <= most:
        return
    whole, k, before, last = mass.sum(), 0, 0.0, np.flatnonzero(mass > 0.0)[-1]
    places, masses = _near_row(tuples, match, ranges, np.int64(k), work)
    for i in range(most):
        wanted = (i + (0.5 + i * GOLDEN_RATIO) % 1.0) / most * whole
        row = k
        while mass[k] == 0.0 or (k < last and before + mass[k] <= wanted):
            before += mass[k]
            k += 1
        if row != k:
            steps = after_signals(steps + (match.d + 2) * tuples.samples[match.v])
            places, masses = _near_row(tuples, match, ranges, np.int64(k), work)
        inside = masses[0] + max(wanted - before, 0.0) / blocks[at + k]
        j = places[np.searchsorted(masses[1:-1], inside, side="right")]
        _write(pairs, n + i, total / most * match.factor, match, k, j)


@compiled_ieee
def matching_pairs(tuples, arriving, held, swap, total, factor, criterion, most):
    """Return the matching pairs of samples of each answer: (offsets int64[n + 1], `Pairs`).

    arriving, held : int64[n], slots    total, factor : float64[n], Pr(match) without T_j, and T_j
    swap : int64[n], 0 if the arrival is on the left, -1 if on the right
    most : int64 >= 1, maximum number of pairs per answer
    The probability of a pair is Pr(u_k) Pr(v_l) T_j. If an answer has more than `most` pairs, they
    are ordered by the arrival's samples (in one dimension, then by the held values) and divided
    into `most` parts of equal probability. One pair represents each part.
    O(samples of u * samples of v * d) per answer; in one dimension with many samples O(samples log
    samples). Pairs are counted before they are written, because writing them costs more than
    finding them twice.
    """
    offsets, longest, count = np.zeros(arriving.size + 1, np.int64), 0, tuples.samples
    for v in held:
        longest = max(longest, padded(count[v]))
    work = PairWork(np.empty(longest), np.empty(longest, np.uint8))
    near, d = np.empty(arriving.size, np.int64), criterion.d
    for i in range(arriving.size):
        u, v = arriving[i], held[i]
        match = Match(u, v, d, limit_of(tuples, u, v, criterion), factor[i], -1 if swap[i] else 0)
        if d == 1 and count[u] * count[v] > min(MANY_PAIRS, most):
            ranges = _near_ranges(tuples, match)
            near[i] = (ranges.last - ranges.first).sum()
        else:
            near[i] = _count_near(tuples, match, work)
        offsets[i + 1] = offsets[i] + min(near[i], most)
    m = offsets[-1]  # there is one more place, because pairs are written before they are tested
    pairs = Pairs(np.empty(m + 1), np.empty(m + 1, np.int32), np.empty(m + 1, np.int32))
    for i in range(arriving.size):
        u, v, n = arriving[i], held[i], offsets[i]
        match = Match(u, v, d, limit_of(tuples, u, v, criterion), factor[i], -1 if swap[i] else 0)
        if count[u] * count[v] > min(MANY_PAIRS, most):
            _write_rows(tuples, match, near[i], total[i], most, n, pairs, work)
        else:
            _write_near(tuples, match, n, pairs, work)
    return offsets, Pairs(pairs.prob[:m], pairs.left[:m], pairs.right[:m])
