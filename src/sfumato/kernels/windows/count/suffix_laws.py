"""Laws of the two parts of a count window, banded: what a test of its boundary costs O(sqrt(w)) by.

The window is a queue of existence probabilities. To know Pr(N >= w) for the window without its
oldest tuple, the queue is cut in two, as a queue made of two stacks:

    held:    head ................. mid ................. tail
             older part             newer part
             suffix laws S_i of     R[x] = Pr(B + x <= w - 1), B the
             held[i:mid], i > head  count of held[mid:tail]

so that Pr(N <= w - 1) without the oldest is the dot product of S_{head+1} with R. An arrival
updates R, an eviction steps to the next suffix law, and when the older part runs out everything
held becomes the older part. All laws are banded, to about 9 standard deviations on each side.

Suffix laws are kept only at a stride (`saved`, packed one after the other); the laws between two
of them are rebuilt, a stride at a time, when they are needed (`rows`). To build each law twice is
cheaper than to keep them all: those in use fit a fast cache.
"""

import numpy as np

from sfumato.kernels.compile import compiled, lean_dot, lean_fused
from sfumato.kernels.laws.poisson_binomial import (
    LANES,
    MARGIN,
    clear,
    convolve_four,
    copy,
    padded,
    trim,
)

LEAST_SHIFT = 3  # the least stride is 8
MOST_SAVED = 512  # and it doubles when more laws than these would be saved
LEAD = 1  # cells before a row's first count, so that count k - 1 always exists
BUFFER = 4 * (MARGIN + LANES)
ROUNDOFF = 2.0**-53


@lean_fused
def enter(front, marks, p, negligible):
    """R after one more tuple in the newer part: R[x] = q R[x] + p R[x + 1], in place."""
    low, high = marks.zone_low, marks.zone_high
    q = 1.0 - p
    # R only falls as tuples come, so both ends of the zone only move down. An end that would be 1
    # to within rounding stays outside: an error of the same size as the roundings of the others.
    reach = q + p * front[low]
    zone = front[low:]
    for x in range(padded(high - low)):
        zone[x] = q * zone[x] + p * zone[x + 1]
    if low > 0 and reach < 1.0 - ROUNDOFF:
        low -= 1
        front[low] = reach
    while high > low and front[high - 1] < negligible:
        high -= 1
        front[high] = 0.0
    marks.zone_low, marks.zone_high = low, high


@compiled
def build(window, w, negligible):
    """Make everything held the older part: save its suffix laws, empty the newer part.

    False, with the sizes needed in `marks`, when there is no room.  O(tuples held * band).
    """
    held, marks = window.held, window.marks[0]
    if window.front.size == 0:  # a window that was never full has no room for laws at all
        marks.rows_needed = 1
        return False
    tail = marks.tail
    shift = LEAST_SHIFT
    while (tail - marks.head) >> shift > MOST_SAVED:
        shift += 1
    marks.shift = shift
    stride = 1 << shift
    laws = (tail - marks.head - 1) >> shift
    backwards = np.empty(laws << shift)
    for i in range(backwards.size):
        backwards[i] = held[tail - 1 - i]
    one, other = np.empty(w + BUFFER), np.empty(w + BUFFER)
    one[MARGIN] = 1.0
    low, high, place, widest = np.int64(0), np.int64(1), np.int64(0), np.int64(1)
    for law in range(laws):
        for begin in range(law * stride, (law + 1) * stride, 4):
            convolve_four(one, low, high, backwards, begin, other)
            low, high = trim(other, low, min(high + 4, w), negligible)
            one, other = other, one
        size = high - low
        widest = max(widest, size)
        if place + size <= window.saved.size:
            copy(one, low + MARGIN, window.saved, place, size)
        window.extent[law + 1, 0] = place
        window.extent[law + 1, 1] = low
        window.extent[law + 1, 2] = high
        place += size
    marks.saved_needed = place
    marks.rows_needed = widest + stride + LEAD + 2 * LANES
    small = window.rows.shape[0] < stride or window.rows.shape[1] < marks.rows_needed
    if small or window.saved.size < place:
        marks.built = 0
        return False
    marks.mid = tail
    marks.block = -1
    marks.built = 1
    marks.zone_low = w
    marks.zone_high = w
    for x in range(window.front.size):
        window.front[x] = 1.0 if x < w else 0.0
    return True


@lean_fused
def rebuild(window, block, last_row, w, negligible):
    """Suffix laws of `block` from its saved one: row r for held[mid - block * stride - r : mid]."""
    marks, rows, bands = window.marks[0], window.rows, window.bands
    low, high = np.int64(0), np.int64(1)
    first = rows[0]
    first[0] = 0.0
    first[LEAD] = 1.0
    if block > 0:
        place = window.extent[block, 0]
        low, high = window.extent[block, 1], window.extent[block, 2]
        copy(window.saved, place, first, np.int64(LEAD), high - low)
    base = low - LEAD
    clear(first, high - base, LANES + 1)
    bands[0, 0], bands[0, 1] = low, high
    newest = marks.mid - (block << marks.shift)
    for r in range(1, last_row + 1):
        p = window.held[newest - r]
        q = 1.0 - p
        old, before, new = rows[r - 1, low - base :], rows[r - 1, low - base - 1 :], rows[r]
        new[low - base - 1] = 0.0
        law = new[low - base :]
        for k in range(padded(high - low + 1)):
            law[k] = q * old[k] + p * before[k]
        high = min(high + 1, w)
        while high - low > 1 and new[low - base] < negligible:
            low += 1
        while high - low > 1 and new[high - 1 - base] < negligible:
            high -= 1
        clear(new, high - base, LANES + 1)
        bands[r, 0], bands[r, 1] = low, high
    marks.row_base = base
    marks.block = block


# A sum of nonnegative terms: any order of summation keeps the stated bound, so SIMD may choose it.
@lean_dot
def probability_below(rows, bands, front, marks, row):
    """Pr(N <= w - 1) of the window without its oldest tuple: S_{head+1}, in `row`, times R."""
    low, high = bands[row, 0], min(bands[row, 1], marks.zone_high)
    law, least = rows[row, low - marks.row_base :], front[low:]
    total = 0.0
    for k in range(padded(high - low)):
        total += law[k] * least[k]
    return total
