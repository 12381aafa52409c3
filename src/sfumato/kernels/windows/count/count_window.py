"""The boundary of an uncertain count window, decided exactly at a cost of O(sqrt(w)) an arrival.

Whether the oldest tuple may go is Pr(N >= w) of the window without it, from the laws of the
window's two parts (`suffix_laws`). A test too close for the error bound of these is decided by the
plain recursion over all held tuples.
"""

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.windows.count.count_window_state import (
    append,
    evict,
    may_go_by_counting,
    oldest,
)
from sfumato.kernels.windows.count.suffix_laws import (
    ROUNDOFF,
    build,
    enter,
    probability_below,
    rebuild,
)


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
    bound = held * (16.0 * ROUNDOFF * below + 3.0 * negligible) + 4.0 * ROUNDOFF
    if below < 1.0 - target - bound:
        return 1
    return 0 if below > 1.0 - target + bound else -1


@compiled
def slide(window, existence, begin, w, target, max_tuples, starts):
    """Algorithms 1 and 2 over existence[begin:], as far as the arrays of `window` have room.

    existence : float64[n] in [0, 1], in arrival order; tuples of existence 0 only count as arrived
    target : float64, evict the oldest while Pr(N without it >= w) >= target; 1 demands certainty (w
    tuples of existence exactly 1), 0 a positive probability
    max_tuples : int64, more than these are evicted, counted and set `short`
    starts : int64[n], written: stream index of the oldest tuple held after each arrival
    Returns the position reached: n, or that of the first tuple not processed for want of room.
    O(band) amortised an arrival, the band about 18 standard deviations of the count. Decisions are
    exact: a test closer to its target than the banded computation's bound goes to `exact_tail`.
    Source: A, Algorithms 1 and 2; two-stack queue over generating polynomials: this project.
    """
    # Arrays are passed one by one where it is hot: to pass the tuple costs a reference count each.
    held, at, front, marks = window.held, window.at, window.front, window.marks[0]
    rows, bands = window.rows, window.bands
    negligible = max(1e-17 * (1.0 - target), 1e-290)
    for t in range(begin, existence.size):
        p = existence[t]
        if p > 0.0:
            if not append(held, at, marks, p):
                return t
            if marks.built == 1:
                enter(front, marks, p, negligible)
            while True:
                others = marks.tail - marks.head - 1
                if others < w:
                    break
                if target <= 0.0 or target >= 1.0:
                    verdict = may_go_by_counting(held, marks, w, target)
                else:
                    spent = marks.built == 0 or marks.head == marks.mid
                    if spent and not build(window, w, negligible):
                        # Take the arrival back; the laws are to be built anew anyway.
                        marks.tail -= 1
                        marks.ones -= p == 1.0
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
