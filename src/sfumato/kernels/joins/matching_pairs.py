"""The pairs of samples that make up a match."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean, lean_inline
from sfumato.kernels.joins.match_probability import (
    MANY_PAIRS,
    limit_of,
    mass_between,
    near_ranges,
    sorted_samples,
)
from sfumato.kernels.joins.tuple_store import padded
from sfumato.kernels.signals import after_signals

GOLDEN_RATIO = (
    0.6180339887498949  # its multiples modulo 1 are spread evenly, however many there are
)


class Pairs(NamedTuple):
    """Pairs of samples that match: their probability, and the places of both, int32."""

    prob: np.ndarray
    left: np.ndarray
    right: np.ndarray


class Match(NamedTuple):
    """Two slots that match, u of the arrival and v held; factor : T_j; exchange : -1 where the
    arrival is on the right, else 0."""

    u: int
    v: int
    factor: float
    exchange: int


@lean
def _pairs_of_numbers(tuples, match, limit, n, pairs):
    """Write the near pairs of two tuples from place n on; the place after them. One dimension.

    With no room at all they are only counted.
    """
    u, v, factor, swap = match
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
def _near_row(blocks, x, x_length, columns, limit, squared, near):
    """Which samples are near the one whose probability is at place x: near, uint8; how many.

    columns : float64[d, length], the attributes of the samples, padded
    """
    d, length = columns.shape
    squared[:length] = 0.0
    for a in range(d):
        value, others = blocks[x + (a + 1) * x_length], columns[a]
        for j in range(length):
            squared[j] += (value - others[j]) * (value - others[j])
    count = 0
    for j in range(length):
        near[j] = squared[j] <= limit
        count += near[j]
    return count


@lean_inline
def _write(pairs, n, prob, match, k, j):
    """Write the pair of sample k of the arrival and sample j held at place n."""
    other = (k ^ j) & match.exchange
    pairs.prob[n] = prob
    pairs.left[n], pairs.right[n] = k ^ other, j ^ other


@lean_inline
def _level(i, most):
    """In [0, 1): the place of representative number i of `most`, in the i-th of as many parts."""
    return (i + (0.5 + i * GOLDEN_RATIO) % 1.0) / most


@compiled_ieee
def _pairs_by_sorting(tuples, match, limit, most, n, pairs):
    """`_pairs_of_numbers` for many samples, at most `most` of them; (the place after, how many).

    O(samples log samples + pairs written).
    """
    blocks, at, count = tuples.blocks, tuples.at[match.u], tuples.samples[match.u]
    held, y = sorted_samples(tuples, match.v), tuples.at[match.v]
    first, last = near_ranges(tuples, match.u, held, limit)
    found, total, steps = 0, 0.0, np.int64(0)
    for k in range(count):
        found += last[k] - first[k]
        total += blocks[at + k] * mass_between(held, first[k], last[k])
    if pairs.prob.size == 0:
        return n + min(found, most)
    if found <= most:
        for k in range(count):
            for i in range(first[k], last[k]):
                j = held.place[i]
                _write(pairs, n, blocks[at + k] * blocks[y + j] * match.factor, match, k, j)
                n += 1
        return n
    share, k, before = total / most * match.factor, -1, 0.0
    own = 0.0  # of sample k and all that is near it
    for i in range(most):
        steps = after_signals(steps + 64)
        wanted = _level(i, most) * total
        while k < 0 or (k + 1 < count and before + own <= wanted):
            before += own
            k += 1
            own = blocks[at + k] * mass_between(held, first[k], last[k])
        while first[k] == last[k]:  # by a rounding: the last samples are near to nothing
            k -= 1
            own = blocks[at + k] * mass_between(held, first[k], last[k])
            before -= own
        inside = held.sum[first[k]] + max(wanted - before, 0.0) / blocks[at + k]
        place = np.searchsorted(held.sum[first[k] + 1 : last[k]], inside, side="right")
        _write(pairs, n, share, match, k, held.place[first[k] + place])
        n += 1
    return n


@compiled_ieee
def _placed(tuples, match, criterion):
    """Where the samples of a match's two tuples are: (x, x_length, y, columns, limit).

    x, y : int64, where their blocks begin    x_length : of the rows of the first block
    columns : float64[d, length], coordinates of the second    limit : see `limit_of`
    """
    x, y = tuples.at[match.u], tuples.at[match.v]
    y_length = padded(tuples.samples[match.v])
    columns = tuples.blocks[y + y_length : y + (criterion.d + 1) * y_length]
    limit = limit_of(tuples, match.u, match.v, criterion)
    return x, padded(tuples.samples[match.u]), y, columns.reshape(criterion.d, y_length), limit


@compiled_ieee
def _pairs_of_points(tuples, match, criterion, most, n, pairs, work):
    """The near pairs of two tuples, at most `most`, from place n on; the place after them.

    work : (near uint8[...], squared float64[...])    With no room at all they are only counted.
    """
    blocks, (near, squared) = tuples.blocks, work
    x, x_length, y, columns, limit = _placed(tuples, match, criterion)
    y_count, y_length = tuples.samples[match.v], columns.shape[1]
    begin, steps = n, np.int64(0)
    for k in range(tuples.samples[match.u]):
        steps = after_signals(steps + (criterion.d + 1) * y_length)
        found = _near_row(blocks, x + k, x_length, columns, limit, squared, near)
        if pairs.prob.size == 0 or found == 0:
            n += found
            continue
        weight = blocks[x + k]
        for j in range(y_count):
            pairs.prob[n] = weight * blocks[y + j] * match.factor
            other = (k ^ j) & match.exchange  # exchanges k and j
            pairs.left[n], pairs.right[n] = k ^ other, j ^ other
            n += near[j]
    return begin + min(n - begin, most) if pairs.prob.size == 0 else n


@compiled_ieee
def _few_of_points(tuples, match, criterion, total, most, n, pairs, work):
    """`most` of the near pairs of two tuples that have more, as representatives; `total` : the
    probability of all of them, without the factor."""
    blocks, (near, squared) = tuples.blocks, work
    x, x_length, y, columns, limit = _placed(tuples, match, criterion)
    y_count, y_length = tuples.samples[match.v], columns.shape[1]
    i, passed, steps, last = 0, 0.0, np.int64(0), (0, 0)
    wanted, share = _level(0, most) * total, total / most * match.factor
    for k in range(tuples.samples[match.u]):
        steps = after_signals(steps + (criterion.d + 2) * y_length)
        if _near_row(blocks, x + k, x_length, columns, limit, squared, near) == 0:
            continue
        for j in range(y_count):
            if not near[j]:
                continue
            passed += blocks[x + k] * blocks[y + j]
            last = (k, j)
            while i < most and wanted < passed:
                _write(pairs, n + i, share, match, k, j)
                i += 1
                wanted = _level(i, most) * total
    for rest in range(i, most):  # by a rounding
        _write(pairs, n + rest, share, match, last[0], last[1])
    return n + most


@compiled_ieee
def _mass_of_points(tuples, match, criterion, work):
    """(how many near pairs two tuples have, their probability without the factor)."""
    blocks, (near, squared) = tuples.blocks, work
    x, x_length, y, columns, limit = _placed(tuples, match, criterion)
    y_count, y_length = tuples.samples[match.v], columns.shape[1]
    found, total, steps = 0, 0.0, np.int64(0)
    for k in range(tuples.samples[match.u]):
        steps = after_signals(steps + (criterion.d + 2) * y_length)
        found += _near_row(blocks, x + k, x_length, columns, limit, squared, near)
        for j in range(y_count):
            total += blocks[x + k] * blocks[y + j] * near[j]
    return found, total


@compiled_ieee
def _pairs_of(tuples, match, criterion, most, n, pairs, work):
    """The near pairs of two tuples, at most `most`, from place n on; the place after them."""
    product = tuples.samples[match.u] * tuples.samples[match.v]
    if criterion.d == 1:
        limit = limit_of(tuples, match.u, match.v, criterion)
        if product > min(MANY_PAIRS, most):
            return _pairs_by_sorting(tuples, match, limit, most, n, pairs)
        return _pairs_of_numbers(tuples, match, limit, n, pairs)
    if product > most and pairs.prob.size > 0:
        found, total = _mass_of_points(tuples, match, criterion, work)
        if found > most:
            return _few_of_points(tuples, match, criterion, total, most, n, pairs, work)
    return _pairs_of_points(tuples, match, criterion, most, n, pairs, work)


@compiled_ieee
def matching_pairs(tuples, arriving, held, swap, factor, criterion, most):
    """The pairs of samples behind answers, as alternatives: (offsets int64[n + 1], `Pairs`).

    arriving, held : int64[n], slots    factor : float64[n], T_j
    swap : int64[n], 0 where the arrival is on the left, -1 where it is on the right
    most : int64 >= 1, pairs that come with one answer
    The probability of a pair is Pr(u_k) Pr(v_l) T_j. Of an answer with more than `most` pairs
    `most` stand for all, with equal probabilities of the same sum: the one at a place in each of
    `most` parts of equal probability, in the order of the arrival's samples (in one dimension those
    held by value). So both samples keep their distributions, to within these parts.
    O(samples of u * samples of v * d) an answer, without branches on what is near: counted
    first, as writing the pairs costs more than finding them twice. In one dimension, for many
    samples, O(samples log samples).
    """
    offsets, steps = np.zeros(arriving.size + 1, np.int64), np.int64(0)
    pairs = Pairs(np.empty(0), np.empty(0, np.int32), np.empty(0, np.int32))
    count, longest = tuples.samples, 0
    for i in range(arriving.size):
        longest = max(longest, padded(count[held[i]]))
    work = np.empty(longest, np.uint8), np.empty(longest)
    for writing in (False, True):
        if writing:  # one more than there are, as every pair is written before it is judged
            m = offsets[-1] + 1
            pairs = Pairs(np.empty(m), np.empty(m, np.int32), np.empty(m, np.int32))
        n = 0
        for i in range(arriving.size):
            u, v = arriving[i], held[i]
            steps = after_signals(steps + count[u] * min(count[v], most))
            match = Match(u, v, factor[i], -1 if swap[i] else 0)
            n = _pairs_of(tuples, match, criterion, most, n, pairs, work)
            offsets[i + 1] = n
    m = offsets[-1]
    return offsets, Pairs(pairs.prob[:m], pairs.left[:m], pairs.right[:m])
