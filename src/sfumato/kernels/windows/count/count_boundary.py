"""The boundary of an uncertain count window, decided exactly at a cost of O(sqrt(w)) per arrival.

Whether the oldest tuple may go is Pr(N >= w) of the window without it. To know it, the queue of
existence probabilities is cut in two, as a queue made of two stacks:

    held:    head ................. mid ................. tail
             front stack            back stack
             suffix laws S_i of     R[x] = Pr(B + x <= w - 1), B the
             held[i:mid], i > head  count of held[mid:tail]

so that Pr(N <= w - 1) without the oldest is the dot product of S_{head+1} with R. An arrival
updates R, an eviction steps to the next suffix law, and when the front stack runs out everything
held becomes the front stack. All laws are banded, to about 9 standard deviations on each side.

Suffix laws are kept only at a stride (`saved`, packed one after the other); the laws between two
of them are rebuilt, a stride at a time, when they are needed (`rows`). To build each law twice is
cheaper than to keep them all: those in use fit a fast cache. A test too close for the error bound
of these is decided by the plain recursion over all held tuples.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, with_room
from sfumato.kernels.compile import compiled, lean_dot, lean_fused
from sfumato.kernels.laws.poisson_binomial import (
    LANES,
    MARGIN,
    clear,
    convolve_four,
    copy,
    count_one,
    padded,
    trim,
)
from sfumato.kernels.tolerances import NEGLIGIBLE_POSITION, UNIT_ROUNDOFF

# The window's integers:
# head, mid, tail : places in `held`; ones : tuples held of existence 1; arrived : tuples so far
# built : 1 if the laws belong to the tuples held; block : the block in `rows`, -1 for none
# overflow : tuples evicted by `max_tuples`; short : 1 while the window is shorter for that
# zone_low, zone_high : where R is neither 1 nor 0; row_base : count of the first cell of `rows`
# recursions : tests that the plain recursion decided; shift : log2 of the stride
# pending : 1 if the next arrival is in `held` already, and waits for the laws to be built
WINDOW_MARKS = integers(
    "head mid tail ones built block arrived overflow short zone_low zone_high row_base recursions "
    "shift pending"
)


class CountWindow(NamedTuple):
    """State of one window; what only a full window needs is made when it is full.

    held : float64[capacity], existence of the held tuples at head ... tail - 1, all above 0
    at : int64[capacity], their stream indices
    front : float64[w + BUFFER], R: 1 below zone_low, then between, 0 from zone_high on
    saved : float64[...], suffix laws, 2**shift tuples apart, packed
    extent : int64[at most MOST_SAVED + 1, 3], of each saved law: where in `saved`, low, high
    rows : float64[2**shift, width], the suffix laws of the block in use, counts from row_base
    bands : int64[2**shift, 2], their low and high
    sums : float64[6], of an approximate method: mu, variance and skew, each a two-word sum
    marks : WINDOW_MARKS[1]
    """

    held: np.ndarray
    at: np.ndarray
    front: np.ndarray
    saved: np.ndarray
    extent: np.ndarray
    rows: np.ndarray
    bands: np.ndarray
    sums: np.ndarray
    marks: np.ndarray


def empty_window(capacity: int) -> CountWindow:
    """One that holds no tuple.  NumPy."""
    return CountWindow(
        held=np.empty(capacity),
        at=np.empty(capacity, dtype=np.int64),
        front=np.empty(0),
        saved=np.empty(0),
        extent=np.empty((0, 3), dtype=np.int64),
        rows=np.empty((0, 0)),
        bands=np.empty((0, 2), dtype=np.int64),
        sums=np.zeros(6),
        marks=np.zeros(1, WINDOW_MARKS),
    )


@compiled
def append(held, at, marks, p):
    """Write one tuple at the tail; False, with nothing changed, when there is no room."""
    if marks.tail == held.size:
        return False
    held[marks.tail] = p
    at[marks.tail] = marks.arrived
    marks.tail += 1
    marks.ones += p == 1.0
    return True


@compiled
def evict(held, marks):
    """Evict the oldest tuple."""
    marks.ones -= held[marks.head] == 1.0
    if marks.head == marks.mid:
        marks.built = 0  # it was counted in R, which cannot forget
    marks.head += 1


@compiled
def oldest(at, marks):
    """Stream index of the oldest tuple held; the next arrival's when none is held."""
    return at[marks.head] if marks.head < marks.tail else marks.arrived + 1


@compiled
def may_go_by_counting(held, marks, w, target):
    """For targets 0 (Pr > 0) and 1 (certainty): whether the oldest tuple may go."""
    if target <= 0.0:
        return True
    return marks.ones - (held[marks.head] == 1.0) >= w


LEAST_SHIFT = 3  # the least stride is 8
MOST_SAVED = 512  # and it doubles when more laws than these would be saved
LEAD = 1  # cells before a row's first count, so that count k - 1 always exists
BUFFER = 4 * (MARGIN + LANES)


@lean_fused
def enter(front, marks, p, negligible):
    """R after one more tuple in the back stack: R[x] = q R[x] + p R[x + 1], in place."""
    low, high = marks.zone_low, marks.zone_high
    q = 1.0 - p
    # R only falls as tuples come, so both ends of the zone only move down. An end that would be 1
    # to within rounding stays outside: an error of the same size as the roundings of the others.
    reach = q + p * front[low]
    zone = front[low:]
    for x in range(padded(high - low)):
        zone[x] = q * zone[x] + p * zone[x + 1]
    if low > 0 and reach < 1.0 - UNIT_ROUNDOFF:
        low -= 1
        front[low] = reach
    while high > low and front[high - 1] < negligible:
        high -= 1
        front[high] = 0.0
    marks.zone_low, marks.zone_high = low, high


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


@compiled
def exact_tail(held, begin, end, w, target):
    """Whether Pr(at least w of held[begin:end] exist) >= target, by the plain recursion (RF1).

    The tail is 1 minus the sum of the counts below w; for targets below 1/2 it is
    instead what left these counts upwards, which keeps the digits of a small tail.
    O(w (end - begin)).  Source: A, section 5.1, equation (5).
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


@compiled
def _verdict(below, held, target, negligible):
    """1 if 1 - below >= target for certain, 0 if it is not for certain, -1 if rounding decides.

    Roundings of `held` tuples are relative to `below`; dropped entries and the comparison's are
    not.
    """
    bound = held * (16.0 * UNIT_ROUNDOFF * below + 3.0 * negligible) + 4.0 * UNIT_ROUNDOFF
    if below < 1.0 - target - bound:
        return 1
    return 0 if below > 1.0 - target + bound else -1


@compiled
def _negligible(target):
    """What may be dropped at the ends of a distribution, where tails are compared with `target`."""
    return max(1e-17 * (1.0 - target), 1e-290)


@compiled
def _with_place(window):
    """The window with a place for one more tuple at the tail."""
    held, at, marks = window.held, window.at, window.marks[0]
    head = marks.head
    if head <= held.size // 2:
        held, at = np.empty(2 * held.size), np.empty(2 * held.size, np.int64)
    for i in range(head, marks.tail):
        held[i - head], at[i - head] = window.held[i], window.at[i]
    marks.head, marks.mid, marks.tail = 0, marks.mid - head, marks.tail - head
    return CountWindow(
        held, at, window.front, window.saved, window.extent, window.rows, window.bands,
        window.sums, window.marks,
    )  # fmt: skip


@compiled
def _build(window, w, negligible):
    """Make everything held the front stack: save its suffix laws, empty the back stack.

    Returns the CountWindow, with larger arrays where they were too small.
    O(tuples held * band).
    """
    held, marks, front = window.held, window.marks[0], window.front
    if front.size == 0:
        front = np.empty(w + BUFFER)
    tail = marks.tail
    shift = LEAST_SHIFT
    while (tail - marks.head) >> shift > MOST_SAVED:
        shift += 1
    stride = 1 << shift
    laws, saved, extent = (tail - marks.head - 1) >> shift, window.saved, window.extent
    if extent.shape[0] < laws + 1:
        extent = np.empty((min(MOST_SAVED, laws * 5 // 4) + 1, 3), np.int64)
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
        saved = with_room(saved, place + size)
        copy(one, low + MARGIN, saved, place, size)
        extent[law + 1, 0] = place
        extent[law + 1, 1] = low
        extent[law + 1, 2] = high
        place += size
    rows, bands, width = window.rows, window.bands, widest + stride + LEAD + 2 * LANES
    if rows.shape[0] < stride or rows.shape[1] < width:
        rows = np.empty((stride, max(width * 5 // 4, rows.shape[1])))
        bands = np.empty((stride, 2), np.int64)
    marks.mid, marks.built, marks.block, marks.shift = tail, 1, -1, shift
    marks.zone_low, marks.zone_high = w, w
    for x in range(front.size):
        front[x] = 1.0 if x < w else 0.0
    return CountWindow(
        held, window.at, front, saved, extent, rows, bands, window.sums, window.marks
    )


@compiled
def renewed(window, w, target):
    """The window with its laws built again, or with a place for the next arrival.

    What `slide` stops for: it is quicker without what allocates.
    """
    if window.marks[0].pending == 1:
        return _build(window, w, _negligible(target))
    return _with_place(window)


@compiled
def slide(window, existence, begin, w, target, max_tuples, starts):
    """Algorithms 1 and 2 over existence[begin:], as far as `window` needs not be `renewed`.

    existence : float64[n] in [0, 1], in arrival order; tuples of existence 0 only count as arrived
    target : float64, evict the oldest while Pr(N without it >= w) >= target; 1 demands certainty (w
    tuples of existence exactly 1), 0 a positive probability
    max_tuples : int64, more than these are evicted, counted and set `short`
    starts : int64[n], written: stream index of the oldest tuple held after each arrival
    Returns the position reached: n, or that of the first tuple not processed.
    O(band) amortised per arrival, the band about 18 standard deviations of the count. Decisions are
    exact: a test closer to its target than the banded computation's bound goes to `exact_tail`.
    Source: A, Algorithms 1 and 2; two-stack queue over generating polynomials: this project.
    """
    # Arrays are passed one by one where it is hot: to pass the tuple costs a reference count each.
    held, at, front, marks = window.held, window.at, window.front, window.marks[0]
    rows, bands = window.rows, window.bands
    negligible = _negligible(target)
    for t in range(begin, existence.size):
        p = existence[t]
        if p > 0.0:
            if marks.pending == 0:
                if not append(held, at, marks, p):
                    return t
                if marks.built == 1:
                    enter(front, marks, p, negligible)
            marks.pending = 0
            while True:
                others = marks.tail - marks.head - 1
                if others < w:
                    break
                if target <= 0.0 or target >= 1.0:
                    verdict = may_go_by_counting(held, marks, w, target)
                else:
                    if marks.built == 0 or marks.head == marks.mid:
                        marks.pending = 1
                        return t
                    depth = marks.mid - marks.head - 1
                    block = depth >> marks.shift
                    row = depth - (block << marks.shift)
                    if block != marks.block:
                        rebuild(window, block, row, w, negligible)
                    below = probability_below(rows, bands, front, marks, row)
                    verdict = _verdict(below, others, target, negligible)
                    if verdict == -1:
                        marks.recursions += 1
                        verdict = exact_tail(held, marks.head + 1, marks.tail, w, target)
                if verdict == 0:
                    break
                evict(held, marks)
                marks.short = 0
            while marks.tail - marks.head > max_tuples:
                evict(held, marks)
                marks.overflow += 1
                marks.short = 1
        starts[t] = oldest(at, marks)
        marks.arrived += 1
    return existence.size


# Entries of the law below this are dropped, so that the work is O(sigma) a tuple and not O(rows).


@compiled
def positions(existence, first, last, rows):
    """Pr(at most rows - 1 of the tuples existence[first:last] exist), one number a query.

    This is T_j, the probability that tuple j = first - 1 is among the `rows` newest existing
    ones when the newest tuple is last - 1, given that tuple j exists.
    existence : float64[n] in [0, 1], in arrival order
    first, last : int64[m], 0 <= first <= last <= n (an empty range gives 1)
    rows : int >= 1
    Returns float64[m], exactly 1.0 where fewer than `rows` of the tuples have existence > 0.
    Cost: O(sigma) a tuple, sigma the standard deviation of the count. Consecutive queries with
    the same `last` and with `first` all rising or all falling share one pass over the tuples.
    Error: within 1e-12 for up to a thousand tuples, growing with their number (roundings of a
    recursion without subtractions; entries below 1e-22 are dropped).
    Source: A, equations (5)-(8) and section 6 (RF1); T_j of its equation (24).
    """
    m = first.size
    result = np.empty(m)
    law = np.zeros(rows)
    begin = 0
    while begin < m:
        # One run of queries that can be answered by growing one law from newest to oldest.
        end = begin + 1
        step = 0
        while end < m and last[end] == last[begin]:
            direction = np.sign(first[end] - first[end - 1])
            if direction != 0:
                if step != 0 and direction != step:
                    break
                step = direction
            end += 1
        low, high, possible, at = np.int64(0), np.int64(1), 0, last[begin]
        law[0] = 1.0
        for i in range(end - begin):
            query = end - 1 - i if step > 0 else begin + i
            while at > first[query]:
                at -= 1
                if existence[at] > 0.0:
                    possible += 1
                    low, high = count_one(
                        law,
                        low,
                        high,
                        1.0 - existence[at],
                        existence[at],
                        rows,
                        NEGLIGIBLE_POSITION,
                    )
            if possible < rows:
                result[query] = 1.0
            else:
                total = 0.0
                for k in range(low, high):
                    total += law[k]
                result[query] = min(total, 1.0)
        begin = end
    return result
