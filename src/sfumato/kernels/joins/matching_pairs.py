"""The pairs of samples that make up a match."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.joins.tuple_store import padded


class Pairs(NamedTuple):
    """Pairs of samples that match: their probability, and the places of both, int32."""

    prob: np.ndarray
    left: np.ndarray
    right: np.ndarray


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


@compiled_ieee
def matching_pairs(tuples, arriving, held, swap, factor, criterion):
    """The pairs of samples behind answers, as alternatives: (offsets int64[n + 1], `Pairs`).

    arriving, held : int64[n], slots    factor : float64[n], T_j
    swap : int64[n], 0 where the arrival is on the left, -1 where it is on the right
    The probability of a pair is Pr(u_k) Pr(v_l) T_j.
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
            # Read once: what is written into `prob` might be these arrays, as far as a loop knows.
            u, v, scale = arriving[i], held[i], factor[i]
            exchange = -1 if swap[i] else 0
            if criterion.d == 1:
                n = _pairs_of_numbers(tuples, u, v, criterion.limit, scale, exchange, n, pairs)
                offsets[i + 1] = n
                continue
            x, y, y_count = at[u], at[v], count[v]
            x_length, y_length, limit = padded(count[u]), padded(y_count), criterion.limit
            columns = blocks[y + y_length : y + (criterion.d + 1) * y_length]
            columns = columns.reshape(criterion.d, y_length)
            for k in range(count[u]):
                found = _near_row(blocks, x + k, x_length, columns, limit, squared, near)
                if not writing or found == 0:
                    n += found
                    continue
                weight = blocks[x + k]
                for j in range(y_count):
                    prob[n] = weight * blocks[y + j] * scale
                    other = (k ^ j) & exchange  # exchanges k and j
                    left[n], right[n] = k ^ other, j ^ other
                    n += near[j]
            offsets[i + 1] = n
    m = offsets[-1]
    return offsets, Pairs(pairs.prob[:m], pairs.left[:m], pairs.right[:m])
