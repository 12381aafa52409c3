"""The boundary of an uncertain count window, decided exactly in O(sqrt(w)) per arrival.

The oldest tuple may be evicted if Pr(N >= w), computed without it, reaches the target. The queue of
existence probabilities is split into two stacks:

    held:    head ................. mid ................. tail
             front stack            back stack
             distributions S_i of   R[x] = Pr(B + x <= w - 1), B the
             held[i:mid], i > head  count of held[mid:tail]

Pr(N <= w - 1) without the oldest tuple is then the dot product of S_{head+1} with R. An arrival
updates R, and an eviction steps to the next S_i. When the front stack is used up, all held tuples
become the front stack. All distributions are banded, to about 9 standard deviations on each side.

The S_i are stored only at a stride (`checkpoints`, packed). The S_i between two checkpoints are
rebuilt when they are needed (`block_rows`), so the S_i in use fit into a fast cache. If a test is
too close for the error bound, plain recursion over all held tuples decides it.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, with_room
from sfumato.kernels.compile import compiled, inlined, lean_dot, lean_fused
from sfumato.kernels.distributions.poisson_binomial import (
    LANES,
    MARGIN,
    clear,
    convolve_four,
    copy,
    count_one,
    mix_next,
    padded,
    trim,
)
from sfumato.kernels.tolerances import NEGLIGIBLE_POSITION, UNIT_ROUNDOFF

# head, mid : positions among the tuples; ones : number of held tuples of existence 1
# built : 1 if the distributions belong to the held tuples
# block : number of the block in `block_rows`, or -1; row_base : count of its first cell
# zone_low, zone_high : range where R is neither 1 nor 0
# recursions : tests decided by plain recursion; shift : log2 of the stride
BOUNDARY_HEADER = integers("head mid ones built block zone_low zone_high row_base recursions shift")


class Boundary(NamedTuple):
    """Distributions of one window; empty until the window is full.

    front : float64[w + BUFFER], R: 1 below zone_low, 0 from zone_high onwards
    checkpoints : float64[...], the S_i, 2**shift tuples apart, packed
    span : int64[<= MOST_CHECKPOINTS + 1, 3], place, low and high of each checkpoint
    block_rows : float64[2**shift, width], the S_i of the block in use, counts from row_base upwards
    support : int64[2**shift, 2], low and high of these S_i;  header : BOUNDARY_HEADER[1]
    """

    front: np.ndarray
    checkpoints: np.ndarray
    span: np.ndarray
    block_rows: np.ndarray
    support: np.ndarray
    header: np.ndarray


def empty_boundary() -> Boundary:
    """Return a boundary without tuples."""
    return Boundary(
        np.empty(0), np.empty(0), np.empty((0, 3), np.int64), np.empty((0, 0)),
        np.empty((0, 2), np.int64), np.zeros(1, BOUNDARY_HEADER),
    )  # fmt: skip


LEAST_SHIFT = 3  # the smallest stride is 8
MOST_CHECKPOINTS = 512  # maximum number of saved distributions; beyond it, the stride doubles
LEAD = 1  # cells before a row's first count, so that count k - 1 always exists
BUFFER = 4 * (MARGIN + LANES)


@lean_fused
def _add_to_back(front, header, p, negligible):
    """Add one tuple to the back stack, in place: R[x] = q R[x] + p R[x + 1]."""
    low, high = header.zone_low, header.zone_high
    q = 1.0 - p
    # R decreases with each tuple, so both ends of the zone only move down. An end within rounding
    # of 1 stays outside; this error is comparable to the other rounding errors.
    reach = q + p * front[low]
    mix_next(front[low:], padded(high - low), q, p)
    if low > 0 and reach < 1.0 - UNIT_ROUNDOFF:
        low -= 1
        front[low] = reach
    while high > low and front[high - 1] < negligible:
        high -= 1
        front[high] = 0.0
    header.zone_low, header.zone_high = low, high


@lean_fused
def _rebuild(window, held, block, last_row, w, negligible):
    """Rebuild the S_i of `block` from its checkpoint.

    Row r is the distribution of held[mid - block * stride - r : mid].
    """
    header, rows, support = window.header[0], window.block_rows, window.support
    low, high = np.int64(0), np.int64(1)
    first = rows[0]
    first[0] = 0.0
    first[LEAD] = 1.0
    if block > 0:
        place = window.span[block, 0]
        low, high = window.span[block, 1], window.span[block, 2]
        copy(window.checkpoints, place, first, LEAD, high - low)
    base = low - LEAD
    clear(first, high - base, LANES + 1)
    support[0, 0], support[0, 1] = low, high
    newest = header.mid - (block << header.shift)
    for r in range(1, last_row + 1):
        p = held[newest - r]
        q = 1.0 - p
        old, before, new = rows[r - 1, low - base :], rows[r - 1, low - base - 1 :], rows[r]
        new[low - base - 1] = 0.0
        distribution = new[low - base :]
        for k in range(padded(high - low + 1)):
            distribution[k] = q * old[k] + p * before[k]
        high = min(high + 1, w)
        while high - low > 1 and new[low - base] < negligible:
            low += 1
        while high - low > 1 and new[high - 1 - base] < negligible:
            high -= 1
        clear(new, high - base, LANES + 1)
        support[r, 0], support[r, 1] = low, high
    header.row_base = base
    header.block = block


# A sum of nonnegative terms: the error bound holds for any order, so SIMD may choose it.
@lean_dot
def _probability_below(rows, support, front, header, row):
    """Return Pr(N <= w - 1) without the oldest tuple: S_{head+1} in `row` times R."""
    low, high = support[row, 0], min(support[row, 1], header.zone_high)
    distribution, least = rows[row, low - header.row_base :], front[low:]
    total = 0.0
    for k in range(padded(high - low)):
        total += distribution[k] * least[k]
    return total


@inlined
def _exact_tail(held, begin, end, w, target):
    """Return whether Pr(at least w of held[begin:end] exist) >= target, by plain recursion (RF1).

    For targets below 1/2 the tail is summed directly, which keeps the digits of a small tail.
    O(w (end - begin)).  Source: Dallachiesa et al. (2015), section 5.1, equation (5).
    """
    # Count k lies at w - 1 - k, so that the update in place runs forwards (and in SIMD).
    distribution = np.zeros(w + 1)
    distribution[w - 1] = 1.0
    tail = 0.0
    for i in range(begin, end):
        p = held[i]
        q = 1.0 - p
        tail += p * distribution[0]
        for k in range(max(0, w - 1 - (i - begin + 1)), w):
            distribution[k] = q * distribution[k] + p * distribution[k + 1]
    if target < 0.5:
        return tail >= target
    below = 0.0
    for k in range(w - 1, -1, -1):
        below += distribution[k]
    return 1.0 - below >= target


@inlined
def _decide(below, held, target, negligible):
    """Return 1 if certainly 1 - below >= target, 0 if certainly not, -1 if rounding decides.

    Rounding errors are relative to `below`, except for dropped entries and the comparison.
    """
    bound = held * (16.0 * UNIT_ROUNDOFF * below + 3.0 * negligible) + 4.0 * UNIT_ROUNDOFF
    if below < 1.0 - target - bound:
        return 1
    return 0 if below > 1.0 - target + bound else -1


@inlined
def _build(window, held, tail, w, negligible):
    """Make held[head:tail] the front stack, and empty the back stack.  O(held tuples * band)."""
    header, front = window.header[0], window.front
    if front.size == 0:
        front = np.empty(w + BUFFER)
    shift = LEAST_SHIFT
    while (tail - header.head) >> shift > MOST_CHECKPOINTS:
        shift += 1
    stride = 1 << shift
    distributions, checkpoints = (tail - header.head - 1) >> shift, window.checkpoints
    span = window.span
    if span.shape[0] < distributions + 1:
        span = np.empty((min(MOST_CHECKPOINTS, distributions * 5 // 4) + 1, 3), np.int64)
    backwards = np.empty(distributions << shift)
    for i in range(backwards.size):
        backwards[i] = held[tail - 1 - i]
    one, other = np.empty(w + BUFFER), np.empty(w + BUFFER)
    one[MARGIN] = 1.0
    low, high, place, widest = np.int64(0), np.int64(1), np.int64(0), np.int64(1)
    for distribution in range(distributions):
        for begin in range(distribution * stride, (distribution + 1) * stride, 4):
            convolve_four(one, low, high, backwards, begin, other)
            low, high = trim(other, low, min(high + 4, w), negligible)
            one, other = other, one
        size = high - low
        widest = max(widest, size)
        checkpoints = with_room(checkpoints, place + size)
        copy(one, low + MARGIN, checkpoints, place, size)
        own = span[distribution + 1]
        own[0], own[1], own[2] = place, low, high
        place += size
    rows, support, width = window.block_rows, window.support, widest + stride + LEAD + 2 * LANES
    if rows.shape[0] < stride or rows.shape[1] < width:
        rows = np.empty((stride, max(width * 5 // 4, rows.shape[1])))
        support = np.empty((stride, 2), np.int64)
    header.mid, header.built, header.block, header.shift = tail, 1, -1, shift
    header.zone_low, header.zone_high = w, w
    for x in range(front.size):
        front[x] = 1.0 if x < w else 0.0
    return Boundary(front, checkpoints, span, rows, support, window.header)


@compiled
def _evict(held, header):
    header.ones -= held[header.head] == 1.0
    if header.head == header.mid:
        header.built = 0  # the tuple is part of R and cannot be removed from R
    header.head += 1


@inlined
def _advance(window, held, start, begin, rule, status, heads):
    """Run `slide_boundary` from arrival `start` until a rebuild is needed; return the next arrival.

    This function is separate from code that allocates memory, for speed.
    """
    # Pass arrays one by one to hot functions: passing the tuple costs a reference count per array.
    (w, target, max_tuples), front, header = rule, window.front, window.header[0]
    rows, support = window.block_rows, window.support
    negligible = max(1e-17 * (1.0 - target), 1e-290)
    for t in range(start, held.size):
        p = held[t]
        if header.built == 0 or header.mid <= t:  # otherwise the front stack has the tuple
            header.ones += p == 1.0
            if header.built == 1:
                _add_to_back(front, header, p, negligible)
        while t - header.head >= w:
            if target <= 0.0:
                verdict = 1
            elif target >= 1.0:
                verdict = 1 if header.ones - (held[header.head] == 1.0) >= w else 0
            else:
                if header.built == 0 or header.head == header.mid:
                    return t
                depth = header.mid - header.head - 1
                block = depth >> header.shift
                row = depth - (block << header.shift)
                if block != header.block:
                    _rebuild(window, held, block, row, w, negligible)
                below = _probability_below(rows, support, front, header, row)
                verdict = _decide(below, t - header.head, target, negligible)
                if verdict == -1:
                    header.recursions += 1
                    verdict = 1 if _exact_tail(held, header.head + 1, t + 1, w, target) else 0
            if verdict == 0:
                break
            _evict(held, header)
            status[1] = 0
        while t + 1 - header.head > max_tuples:
            _evict(held, header)
            status[0] += 1
            status[1] = 1
        heads[t - begin] = header.head
    return held.size


@compiled
def slide_boundary(window, held, begin, rule, status, heads):
    """Run Algorithms 1 and 2; return the new Boundary.

    held : float64[n] in (0, 1], existence of the held tuples, then of arrivals starting at `begin`
    rule : (w, target, max_tuples): evict the oldest tuple while Pr(N without it >= w) >= target; a
        target of 1 requires certainty (w tuples of existence exactly 1), and 0 any positive
        probability; also evict the oldest tuple while more than `max_tuples` are held
    status : int64[2], updated: number of evictions by `max_tuples`; 1 while such an eviction makes
        the window shorter
    heads : int64[n - begin], written: position of the oldest held tuple after each arrival
    In the next call, position 0 is the last of `heads`.
    O(band) amortised per arrival; the band is about 18 standard deviations of the count. Decisions
    are exact: `_exact_tail` decides a test closer to its target than the error bound.
    Source: Dallachiesa et al. (2015), Algorithms 1 and 2; the two-stack queue is original.
    """
    header, (w, target, _) = window.header[0], rule
    header.head, header.ones, t = 0, 0, begin
    for i in range(begin):
        header.ones += held[i] == 1.0
    while True:
        t = _advance(window, held, t, begin, rule, status, heads)
        if t == held.size:
            break
        window = _build(window, held, t + 1, w, max(1e-17 * (1.0 - target), 1e-290))
    header.mid -= header.head
    return window


@compiled
def inside_probabilities(existence, first, last, rows):
    """Return Pr(at most rows - 1 of the tuples existence[first:last] exist), one number per query.

    This is T_j, the probability that tuple j = first - 1 is among the `rows` newest existing ones
    when the newest tuple is last - 1, given that tuple j exists.
    existence : float64[n] in [0, 1], in arrival order;  rows : int >= 1
    first, last : int64[m], 0 <= first <= last <= n (an empty range gives 1)
    Returns float64[m], exactly 1.0 where fewer than `rows` of the tuples have existence > 0.
    Cost: O(sigma) per tuple, sigma the standard deviation of the count. Consecutive queries with
    the same `last` and ascending `first` share one pass over the tuples.
    Error: at most 1e-12 for up to a thousand tuples; it grows with their number (rounding of a
    recursion without subtractions; entries below 1e-22 are dropped).
    Source: Dallachiesa et al. (2015), equations (5)-(8) and section 6 (RF1); T_j of equation (24).
    """
    result, distribution = np.empty(first.size), np.zeros(rows)
    low, high, possible, at = np.int64(0), np.int64(0), 0, np.int64(-1)
    for query in range(first.size - 1, -1, -1):
        if at < first[query] or last[query] != last[query + 1]:
            low, high, possible, at = np.int64(0), np.int64(1), 0, last[query]
            distribution[0] = 1.0
        while at > first[query]:
            at -= 1
            p = existence[at]
            if p > 0.0:
                possible += 1
                low, high = count_one(
                    distribution, low, high, 1.0 - p, p, rows, NEGLIGIBLE_POSITION
                )
        result[query] = 1.0
        if possible >= rows:
            total = 0.0
            for k in range(low, high):
                total += distribution[k]
            result[query] = min(total, 1.0)
    return result
