"""The boundary of an uncertain count window, decided exactly at a cost of O(sqrt(w)) an arrival.

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

from __future__ import annotations

from typing import NamedTuple

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
FRESH = 2.0**-53  # unit roundoff

# Places in `marks`, the window's integers.
HEAD, MID, TAIL, ONES, BUILT, BLOCK, ROWS_NEEDED, SAVED_NEEDED, ARRIVED = range(9)
OVERFLOW, SHORT, ZONE_LOW, ZONE_HIGH, ROW_BASE, RECURSIONS, SHIFT = range(9, 16)
MARKS = 16


class CountWindow(NamedTuple):
    """State of one window; the operator makes the arrays larger when a kernel asks for it.

    held : float64[capacity], existence of the held tuples at head ... tail - 1, all above 0
    at : int64[capacity], their stream indices
    front : float64[w + BUFFER], R: 1 below ZONE_LOW, then between, 0 from ZONE_HIGH on
    saved : float64[...], suffix laws, 2**SHIFT tuples apart, packed
    extent : int64[at most MOST_SAVED + 1, 3], of each saved law: where in `saved`, low, high
    rows : float64[2**SHIFT, width], the suffix laws of the block in use, counts from ROW_BASE
    bands : int64[2**SHIFT, 2], their low and high
    marks : int64[MARKS]
    """

    held: np.ndarray
    at: np.ndarray
    front: np.ndarray
    saved: np.ndarray
    extent: np.ndarray
    rows: np.ndarray
    bands: np.ndarray
    marks: np.ndarray


@compiled
def exact_tail(held, begin, end, w, target):
    """Whether Pr(at least w of held[begin:end] exist) >= target, by the plain recursion (RF1).

    Arrival order, oldest first, float64, every count below w kept. The tail is 1 minus the sum of
    the counts below w (A, equation (5)); for targets below 1/2 it is instead what left these
    counts upwards, which keeps the digits of a small tail.
    Cost: O(w (end - begin)).  Source: A, section 5.1.
    """
    # Count k lies at w - 1 - k, so that the update in place runs forward (and in SIMD).
    law = np.zeros(w + 1)
    law[w - 1] = 1.0
    tail = 0.0
    for i in range(begin, end):
        p = held[i]
        q = 1.0 - p
        tail += p * law[0]
        for k in range(max(0, w - 1 - (i - begin + 1)), w):
            law[k] = q * law[k] + p * law[k + 1]
    if target < 0.5:
        return tail >= target
    below = 0.0
    for k in range(w - 1, -1, -1):
        below += law[k]
    return 1.0 - below >= target


@lean_fused
def _enter(front, marks, p, negligible):
    """R after one more tuple in the newer part: R[x] = q R[x] + p R[x + 1], in place."""
    low, high = marks[ZONE_LOW], marks[ZONE_HIGH]
    q = 1.0 - p
    # R only falls as tuples come, so both ends of the zone only move down. An end that would be 1
    # to within rounding stays outside: an error of the same size as the roundings of the others.
    reach = q + p * front[low]
    zone = front[low:]
    for x in range(padded(high - low)):
        zone[x] = q * zone[x] + p * zone[x + 1]
    if low > 0 and reach < 1.0 - FRESH:
        low -= 1
        front[low] = reach
    while high > low and front[high - 1] < negligible:
        high -= 1
        front[high] = 0.0
    marks[ZONE_LOW], marks[ZONE_HIGH] = low, high


@compiled
def _flip(window, w, negligible):
    """Make everything held the older part: save its suffix laws, empty the newer part.

    False, with the sizes needed in `marks`, when `saved` or `rows` are too small.
    Cost: O(tuples held * band) once per time the window's content is renewed.
    """
    held, marks = window.held, window.marks
    if window.front.size == 0:  # a window that was never full has no room for laws at all
        marks[ROWS_NEEDED] = 1
        return False
    tail = marks[TAIL]
    shift = LEAST_SHIFT
    while (tail - marks[HEAD]) >> shift > MOST_SAVED:
        shift += 1
    marks[SHIFT] = shift
    stride = 1 << shift
    laws = (tail - marks[HEAD] - 1) >> shift
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
    marks[SAVED_NEEDED] = place
    marks[ROWS_NEEDED] = widest + stride + LEAD + 2 * LANES
    small = window.rows.shape[0] < stride or window.rows.shape[1] < marks[ROWS_NEEDED]
    if small or window.saved.size < place:
        marks[BUILT] = 0
        return False
    marks[MID] = tail
    marks[BLOCK] = -1
    marks[BUILT] = 1
    marks[ZONE_LOW] = w
    marks[ZONE_HIGH] = w
    for x in range(window.front.size):
        window.front[x] = 1.0 if x < w else 0.0
    return True


@lean_fused
def _rebuild(window, block, last_row, w, negligible):
    """Suffix laws of `block` from its saved one: row r for held[mid - block * stride - r : mid]."""
    marks, rows, bands = window.marks, window.rows, window.bands
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
    newest = marks[MID] - (block << marks[SHIFT])
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
    marks[ROW_BASE] = base
    marks[BLOCK] = block


# A sum of nonnegative terms: any order of summation keeps the stated bound, so SIMD may choose it.
@lean_dot
def _below(rows, bands, front, marks, row):
    """Pr(N <= w - 1) of the window without its oldest tuple: S_{head+1}, in `row`, times R."""
    low, high = bands[row, 0], min(bands[row, 1], marks[ZONE_HIGH])
    law, least = rows[row, low - marks[ROW_BASE] :], front[low:]
    total = 0.0
    for k in range(padded(high - low)):
        total += law[k] * least[k]
    return total


@compiled
def _decide(below, held, target, negligible):
    """1 if 1 - below >= target for certain, 0 if it is not for certain, -1 if rounding decides.

    held : the number of tuples behind `below`. Roundings are relative to `below`; the dropped
    entries and the comparison's own roundings are not.
    """
    bound = held * (16.0 * FRESH * below + 3.0 * negligible) + 4.0 * FRESH
    if below < 1.0 - target - bound:
        return 1
    return 0 if below > 1.0 - target + bound else -1


@compiled
def may_go_by_counting(held, marks, w, target):
    """For targets 0 (Pr > 0) and 1 (certainty): whether the oldest tuple may go."""
    if target <= 0.0:
        return True
    return marks[ONES] - (held[marks[HEAD]] == 1.0) >= w


@compiled
def append(held, at, marks, p):
    """Write one tuple at the tail; False, with nothing changed, when there is no room."""
    if marks[TAIL] == held.size:
        head, tail = marks[HEAD], marks[TAIL]
        if head <= held.size // 2:
            return False
        for i in range(head, tail):
            held[i - head] = held[i]
            at[i - head] = at[i]
        marks[HEAD] = 0
        marks[MID] -= head
        marks[TAIL] = tail - head
    held[marks[TAIL]] = p
    at[marks[TAIL]] = marks[ARRIVED]
    marks[TAIL] += 1
    marks[ONES] += p == 1.0
    return True


@compiled
def evict(held, marks):
    """Let the oldest tuple go."""
    marks[ONES] -= held[marks[HEAD]] == 1.0
    if marks[HEAD] == marks[MID]:
        marks[BUILT] = 0  # it was counted in R, which cannot forget
    marks[HEAD] += 1


@compiled
def oldest(at, marks):
    """Stream index of the oldest tuple held; the next arrival's when none is held."""
    return at[marks[HEAD]] if marks[HEAD] < marks[TAIL] else marks[ARRIVED] + 1


@compiled
def slide(window, existence, begin, w, target, max_tuples, starts):
    """Algorithms 1 and 2 over existence[begin:], as far as the arrays of `window` have room.

    existence : float64[n] in [0, 1], in arrival order; tuples of existence 0 only count as arrived
    target : float64, evict the oldest while Pr(N without it >= w) >= target; 1 demands certainty
        (w tuples of existence exactly 1), 0 a positive probability
    max_tuples : int64, more than these are evicted, counted and leave the mark SHORT
    starts : int64[n], written: stream index of the oldest tuple held after each arrival
    Returns the position reached: n, or that of the first tuple not processed for want of room.

    Cost: O(band) amortised an arrival, the band about 18 standard deviations of the count.
    Error: none in the decisions, see _oldest_may_go: a test closer to its target than the bound
    of the banded computation is decided by the plain recursion (exact_tail).
    Source: A, Algorithms 1 and 2; two-stack queue over generating polynomials: this project.
    """
    # Arrays are passed one by one where it is hot: to pass the tuple costs a reference count each.
    held, at, front, marks = window.held, window.at, window.front, window.marks
    rows, bands = window.rows, window.bands
    negligible = max(1e-17 * (1.0 - target), 1e-290)
    for t in range(begin, existence.size):
        p = existence[t]
        if p > 0.0:
            if not append(held, at, marks, p):
                return t
            if marks[BUILT] == 1:
                _enter(front, marks, p, negligible)
            while True:
                others = marks[TAIL] - marks[HEAD] - 1
                if others < w:
                    break
                if target <= 0.0 or target >= 1.0:
                    verdict = may_go_by_counting(held, marks, w, target)
                else:
                    spent = marks[BUILT] == 0 or marks[HEAD] == marks[MID]
                    if spent and not _flip(window, w, negligible):
                        # Take the arrival back; the laws are to be built anew anyway.
                        marks[TAIL] -= 1
                        marks[ONES] -= p == 1.0
                        return t
                    depth = marks[MID] - marks[HEAD] - 1
                    block = depth >> marks[SHIFT]
                    row = depth - (block << marks[SHIFT])
                    if block != marks[BLOCK]:
                        _rebuild(window, block, row, w, negligible)
                    below = _below(rows, bands, front, marks, row)
                    verdict = _decide(below, others, target, negligible)
                    if verdict == -1:
                        marks[RECURSIONS] += 1
                        verdict = exact_tail(held, marks[HEAD] + 1, marks[TAIL], w, target)
                if verdict == 0:
                    break
                evict(held, marks)
                marks[SHORT] = 0
            while marks[TAIL] - marks[HEAD] > max_tuples:
                evict(held, marks)
                marks[OVERFLOW] += 1
                marks[SHORT] = 1
        starts[t] = oldest(at, marks)
        marks[ARRIVED] += 1
    return existence.size
