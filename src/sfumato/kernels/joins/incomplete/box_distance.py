"""Boxes of a window that may be within reach of one box, and those that certainly are."""

import numpy as np

from sfumato.kernels.compile import lean
from sfumato.kernels.joins.match_probability import OPEN


@lean
def squares_in_window(low, high, u, base, held, nearest, farthest):
    """As `box_squares`, of slot u's box and every one of a window, by place there.  O(held * T), in
    SIMD."""
    # Unsigned places: no test for negative ones, which would keep the lanes from becoming SIMD.
    first, count = np.uint64(base), np.uint64(held)
    for j in range(count):
        nearest[j], farthest[j] = 0.0, 0.0
    for a in range(low.shape[0]):
        lows, highs, axis = low[a, u], high[a, u], np.uint64(a)
        for j in range(count):
            ahead, behind = low[axis, first + j] - highs, lows - high[axis, first + j]
            gap = max(ahead, behind, 0.0)
            reach = max(high[axis, first + j] - lows, highs - low[axis, first + j])
            nearest[j] += gap * gap
            farthest[j] += reach * reach


@lean
def boxes_in_reach(nearest, base, held, bound, out):
    """Slots of a window whose boxes are within sqrt(bound), to `out`; how many.  Source: E, Lemma
    4.1."""
    n = 0
    for j in range(held):
        out[n] = base + j
        n += nearest[j] <= bound
    return n


@lean
def box_squares(low, high, u, v):
    """Squares of the least and the greatest distance of two boxes."""
    near, far = 0.0, 0.0
    for a in range(low.shape[0]):
        gap = max(low[a, v] - high[a, u], low[a, u] - high[a, v], 0.0)
        reach = max(high[a, u] - low[a, v], high[a, v] - low[a, u])
        near += gap * gap
        far += reach * reach
    return near, far


@lean
def certain_pairs(farthest, begin, sure, reached):
    """Which of the reached are certainly within reach: 1 in totals, else OPEN; how many."""
    certain = 0
    for i in range(reached.number):
        is_near = farthest[reached.near[i] - begin] <= sure
        reached.totals[i] = 1.0 if is_near else OPEN
        certain += is_near
    return certain
