"""Boxes around the samples of imputed objects, for pruning pairs without samples.

An arrival is compared with the boxes of all objects in a window, in SIMD. There is no grid, because
few objects have small boxes in every attribute and a grid would store each object in many cells.
If boxes or regions are conclusive, they decide pairs with near boxes. Otherwise samples are
compared along the one axis in which most objects' samples differ.

Source: Ren et al. (2019), Algorithm 2 and Lemmas 4.1, 4.2, with a scan of boxes instead of the
grid's cells.
"""

import numpy as np

from sfumato.kernels.compile import lean
from sfumato.kernels.tolerances import SIFT_SLACK

NEVER_SURE = -1.0  # `certain_square` if boxes cannot imply a match


def certain_square(within: float, probability: float, pairs_wanted: bool) -> float:
    """Return the largest squared distance of box ends that implies a match, or NEVER_SURE."""
    square = within * within
    trusted = probability <= 1.0 - SIFT_SLACK and not pairs_wanted and 1e-280 < square < 1e300
    return square * (1.0 - 4.0 * SIFT_SLACK) if trusted else NEVER_SURE


@lean
def farthest_square(box, d, u, v):
    """Return the squared largest distance between points of two slots' boxes."""
    farthest = 0.0
    for a in range(d):
        reach = max(box[d + a, v] - box[a, u], box[d + a, u] - box[a, v])
        farthest += reach * reach
    return farthest


@lean
def near_boxes(box, d, u, begin, end, reach, nearest, out):
    """Write the slots in [begin, end) whose boxes may be within `reach` of slot u's box to `out`.

    nearest : working memory, float64[>= end - begin]
    Returns the number of slots, in ascending order.  O((end - begin) * d), in SIMD.
    """
    bound, n = reach * reach * (1.0 + 4.0 * SIFT_SLACK) + 1e-300, 0
    # Unsigned places, because a test for negative places would prevent SIMD.
    first, count = np.uint64(begin), np.uint64(end - begin)
    for j in range(count):
        nearest[j] = 0.0
    for a in range(d):
        low, high, lows, highs = box[a, u], box[d + a, u], np.uint64(a), np.uint64(d + a)
        for j in range(count):
            gap = max(box[lows, first + j] - high, low - box[highs, first + j], 0.0)
            nearest[j] += gap * gap
    for v in range(begin, end):
        if nearest[v - begin] <= bound:
            out[n] = v
            n += 1
    return n
