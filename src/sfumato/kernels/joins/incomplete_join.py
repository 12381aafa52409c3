"""The join of imputed objects: boxes are scanned, then samples are compared.

An arrival is compared with the boxes of all objects in a window, in SIMD. There is no grid, because
few objects have small boxes in every attribute and a grid would hold each object in many cells.
Pairs within reach are decided by their boxes, or by regions of most of their probability, if the
boxes or regions are conclusive. Otherwise samples are compared along the one axis in which most
objects' samples differ.
"""

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.joins.grid import enter, evict_expired, opposite_window
from sfumato.kernels.joins.match_probability import match_probability, widest_reach
from sfumato.kernels.joins.regions import cannot_match
from sfumato.kernels.joins.similarity_nested import MATCHED_PAIR, add_pair
from sfumato.kernels.joins.tuple_store import widest_window
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import SIFT_SLACK

# Numbers of pairs of an arrival and an opposite object, of pairs with boxes within reach, of pairs
# accepted by their boxes alone, and of pairs with compared samples.
INCOMPLETE_COUNTS = integers("pairs candidates certain refined")


def certain_square(within: float, probability: float, pairs_wanted: bool) -> float:
    """Return the largest squared box distance that surely matches, or -1 without such a limit."""
    square = within * within
    trusted = probability <= 1.0 - SIFT_SLACK and not pairs_wanted and 1e-280 < square < 1e300
    return square * (1.0 - 4.0 * SIFT_SLACK) if trusted else -1.0


@lean
def _box_distances(box, d, u, begin, held, nearest, farthest):
    """Write the squared least and largest distances from slot u's box to each box of a window.

    box : see `StoredTuples`    begin, held : first slot and number of slots of the window
    nearest, farthest : float64[>= held]    O(held * d), in SIMD.
    """
    # Unsigned places, because a test for negative places would prevent SIMD.
    first, count = np.uint64(begin), np.uint64(held)
    for j in range(count):
        nearest[j], farthest[j] = 0.0, 0.0
    for a in range(d):
        low, high, lows, highs = box[a, u], box[d + a, u], np.uint64(a), np.uint64(d + a)
        for j in range(count):
            gap = max(box[lows, first + j] - high, low - box[highs, first + j], 0.0)
            reach = max(box[highs, first + j] - low, high - box[lows, first + j])
            nearest[j] += gap * gap
            farthest[j] += reach * reach


@compiled_ieee
def join_incomplete(store, batch, criterion, sure, counts):
    """Match arrivals, in order, with the objects then held by the other stream of their key.

    store, batch : as for `join_nested`, with two streams; the arrivals' `summary` lines and boxes
        are written
    sure : see `certain_square`    counts : INCOMPLETE_COUNTS[1], updated
    Returns MATCHED_PAIR[m], by arrival, then by held object, oldest first.
    Cost: O(held * d) per arrival in SIMD, and `match_probability` for undecided pairs.
    Source: Ren et al. (2019), Algorithm 2 and Lemmas 4.1, 4.2, with a scan of boxes instead of the
    grid's cells.
    """
    windows, tuples = store.windows, store.tuples
    head, tail, summary, rounding = windows.head, windows.tail, tuples.summary, tuples.rounding
    found, n, steps, within = np.empty(64, MATCHED_PAIR), 0, np.int64(0), criterion.within
    nearest, farthest = np.empty((2, widest_window(windows)))
    for i in range(batch.code.size):
        u, o = batch.slots[i], opposite_window(store, batch.code[i])
        evict_expired(store, o, batch.time[i])
        enter(store, batch, i)
        begin, held = head[o], tail[o] - head[o]
        reach = widest_reach(within, rounding[u] + windows.rounding[o])
        bound = reach * reach * (1.0 + 4.0 * SIFT_SLACK) + 1e-300
        _box_distances(tuples.box, criterion.d, u, begin, held, nearest, farthest)
        counts[0].pairs += held
        steps = after_signals(steps + held)
        for v in range(begin, begin + held):
            if not nearest[v - begin] <= bound:
                continue
            counts[0].candidates += 1
            total = 1.0
            if farthest[v - begin] <= sure:
                counts[0].certain += 1
            elif cannot_match(
                summary, u, v, criterion.d, widest_reach(within, rounding[u] + rounding[v])
            ):
                continue
            else:
                counts[0].refined += 1
                steps = after_signals(steps + tuples.samples[u] * tuples.samples[v])
                total = match_probability(tuples, u, v, criterion)
            if total >= 0.0:
                found = add_pair(found, n, i, o, v, tail[o], total)
                n += 1
    return found[:n]
