"""Pr(match) of two objects that lack one attribute each, whose samples are ascending in it.

Let u lack attribute a and v attribute b; in the others each has one value. Then

    a = b:   dist² = C + (x - y)²                  C : what all other attributes add
    a ≠ b:   dist² = C + (x - v_a)² + (y - u_b)²   over samples x of u and y of v

The first needs one pass over both objects' samples. The second is at most the product of
Pr((x - v_a)² <= e² - C) and Pr((y - u_b)² <= e² - C), which rejects most pairs (a form of E, Lemma
4.2), and only samples counted in these can be near. Where rounding might decide, the defining sum
does.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.match_probability import defining_sum
from sfumato.kernels.single_gap import ULP
from sfumato.kernels.uncertain_tuples import LEAN, padded

ROUND = 1e-12  # roots are taken a little wider, or narrower, than they are


@njit(**LEAN)
def first_at_least(blocks, begin, end, value):
    """The first place of ascending blocks[begin:end] that is >= value; without branches."""
    count = end - begin
    while count > 0:
        half = count // 2
        low = blocks[begin + half] < value
        begin += (half + 1) * low
        count = half * (1 - low) + (count - half - 1) * low
    return begin


@njit(**LEAN)
def _mass(blocks, begin, end):
    total = 0.0
    for k in range(begin, end):
        total += blocks[k]
    return total


@njit(**LEAN)
def _apart(blocks, x, x_length, y, y_length, d, a, b):
    """What the attributes but a and b add to the squared distance of every pair of samples."""
    rest = 0.0
    for c in range(d):
        if c != a and c != b:
            difference = blocks[x + (c + 1) * x_length] - blocks[y + (c + 1) * y_length]
            rest += difference * difference
    return rest


@njit(**LEAN)
def sum_over_one_gap(blocks, x, x_count, y, y_count, gap, d, limit):
    """Sum of Pr(x_k) Pr(y_l) over near pairs of two objects that lack the same attribute.

    O(x_count + y_count).  Error: nearness is decided as by the definition.
    """
    x_length, y_length = padded(x_count), padded(y_count)
    rest = _apart(blocks, x, x_length, y, y_length, d, gap, gap)
    band = (2.0 * d + 4.0) * ULP * limit
    if limit - rest + band < 0.0:
        return 0.0
    wide = np.sqrt(limit - rest + band) * (1.0 + ROUND)
    sure = limit - rest - band
    narrow = np.sqrt(sure) * (1.0 - ROUND) if sure >= 0.0 else -1.0  # nothing is near for sure
    xs, ys = x + (gap + 1) * x_length, y + (gap + 1) * y_length
    # x_k for k in [first, last) are near; those in [outer, first) and [last, beyond) might be.
    outer, first, last, beyond = 0, 0, 0, 0
    total, mass = 0.0, 0.0
    for j in range(y_count):
        value = blocks[ys + j]
        while last < x_count and blocks[xs + last] - value <= narrow:
            mass += blocks[x + last]
            last += 1
        while first < last and value - blocks[xs + first] > narrow:
            mass -= blocks[x + first]
            first += 1
        while beyond < x_count and blocks[xs + beyond] - value <= wide:
            beyond += 1
        while outer < beyond and value - blocks[xs + outer] > wide:
            outer += 1
        if beyond - outer != last - first:
            return defining_sum(blocks, x, x_count, y, y_count, d, limit)
        if first == last:
            mass = 0.0  # what rounding left of sums and differences
        total += blocks[y + j] * mass
    return total


@njit(**LEAN)
def _near_range(blocks, row, count, value, reach):
    """The samples of a row, ascending, that may be within reach of a value: [first, last)."""
    first = first_at_least(blocks, row, row + count, value - reach)
    last = first_at_least(blocks, first, row + count, np.nextafter(value + reach, np.inf))
    return first - row, last - row


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "nsz"}, _nrt=False)
def _two_masses(blocks, p, row, first, last, value, low, high):
    """Mass of a row's samples in [first, last) whose squared difference is <= low, and <= high."""
    sure, possible = 0.0, 0.0
    for j in range(first, last):
        difference = value - blocks[row + j]
        squared, q = difference * difference, blocks[p + j]
        sure += q if squared <= low else 0.0
        possible += q if squared <= high else 0.0
    return sure, possible


@njit(**LEAN)
def sum_over_two_gaps(blocks, x, x_count, a, y, y_count, b, d, limit, least):
    """Sum of Pr(x_k) Pr(y_l) over near pairs, where x lacks attribute a alone and y another, b.

    least : float64; -1 is returned where the sum cannot reach it
    O(d + log samples) to reject, else O(near x * near y) in SIMD.
    Error: nearness is decided as by the definition; summed in another order.
    """
    x_length, y_length = padded(x_count), padded(y_count)
    rest = _apart(blocks, x, x_length, y, y_length, d, a, b)
    band = (2.0 * d + 4.0) * ULP * limit
    high = limit - rest + band
    if high < 0.0:
        return -1.0
    xs, ys = x + (a + 1) * x_length, y + (b + 1) * y_length
    x_there, y_there = blocks[y + (a + 1) * y_length], blocks[x + (b + 1) * x_length]
    reach = np.sqrt(high) * (1.0 + ROUND)
    x_first, x_last = _near_range(blocks, xs, x_count, x_there, reach)
    left = _mass(blocks, x + x_first, x + x_last)
    if left < least:
        return -1.0
    y_first, y_last = _near_range(blocks, ys, y_count, y_there, reach)
    bound = _mass(blocks, y + y_first, y + y_last)
    if left * bound < least:
        return -1.0
    total = 0.0
    for k in range(x_first, x_last):
        difference = blocks[xs + k] - x_there
        spent = difference * difference
        low_left, high_left = limit - rest - spent - band, high - spent
        sure, possible = _two_masses(
            blocks, y, ys, np.uint64(y_first), np.uint64(y_last), y_there, low_left, high_left
        )
        if possible != sure:
            return defining_sum(blocks, x, x_count, y, y_count, d, limit)
        total += blocks[x + k] * sure
    return total
