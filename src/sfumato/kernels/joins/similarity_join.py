"""The join of two uncertain windows: candidates are selected, then their samples are compared.

The store determines the candidates. They are the tuples with near boxes if tuples have boxes, the
tuples that the grid finds if tuples have summaries, and otherwise all held tuples. Regions then
prune tuples with summaries. The answers do not depend on the store's boxes and summaries.

Boxes surround the samples of imputed tuples. Few imputed tuples have small boxes in every
attribute, and a grid would store the others in many cells, so all boxes are scanned in SIMD (Ren et
al. (2019), Algorithm 2 and Lemmas 4.1, 4.2, with a scan instead of the grid's cells).
"""

import numpy as np

from sfumato.kernels.arrays import integers, sort_slots, with_room
from sfumato.kernels.compile import compiled_ieee, lean, lean_inline
from sfumato.kernels.joins.grid import evict_expired, insert_arrival, opposite_window, search
from sfumato.kernels.joins.match_probability import (
    UNDECIDED,
    match_distance,
    match_probability,
    probability_if_cheap,
    widest_reach,
)
from sfumato.kernels.joins.regions import ball_of, cannot_match
from sfumato.kernels.joins.tuple_store import widest_window, write_owned
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import SIFT_SLACK

NEVER_SURE = -1.0  # `certain_square` if boxes cannot imply a match

# Numbers of pairs of an arrival and a tuple of the opposite window, of examined pairs, and of pairs
# left after pruning. The samples of the pairs left are compared, unless the boxes decide.
JOIN_COUNTS = integers("pairs visited candidates")

# A pair: the arrival's place in its batch; window and slot of the held tuple, and the window's end
# at that time; Pr(match) without T_j (see `match_probability`).
MATCHED_PAIR = np.dtype(
    [("arrival", "i8"), ("window", "i8"), ("held", "i8"), ("newest", "i8"), ("total", "f8")]
)


@compiled_ieee
def add_pair(found, n, arrival, window, held, newest, total):
    """Write pair n; return `found`, or a longer copy if it is full."""
    if n == found.size:
        found = with_room(found, n + 1)
    pair = found[n]
    pair.arrival, pair.window, pair.held = arrival, window, held
    pair.newest, pair.total = newest, total
    return found


def certain_square(within: float, probability: float, pairs_wanted: bool) -> float:
    """Return the largest squared distance of box ends that implies a match, or NEVER_SURE."""
    square = within * within
    trusted = probability <= 1.0 - SIFT_SLACK and not pairs_wanted and 1e-280 < square < 1e300
    return square * (1.0 - 4.0 * SIFT_SLACK) if trusted else NEVER_SURE


@lean
def _farthest_square(box, d, u, v):
    """Return the squared largest distance between points of two slots' boxes."""
    farthest = 0.0
    for a in range(d):
        reach = max(box[d + a, v] - box[a, u], box[d + a, u] - box[a, v])
        farthest += reach * reach
    return farthest


@lean
def _near_boxes(box, d, u, begin, end, reach, nearest, out):
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


@lean_inline
def filter_regions(tuples, u, slots, n, criterion):
    """Keep slots[:n] that regions do not prune, ascending and distinct; return their number."""
    # Fields are read once, because each access costs two atomic reference counts per array.
    summary, radius, rounding, m = tuples.summary, tuples.radius, tuples.rounding, 0
    for i in range(n):
        v = slots[i]
        distance = match_distance(radius, u, v, criterion)
        reach = widest_reach(distance, rounding[u] + rounding[v])
        if not cannot_match(summary, u, v, criterion.d, reach):
            slots[m] = v
            m += 1
    sort_slots(slots, m)
    distinct = min(m, 1)
    for i in range(1, m):
        if slots[i] != slots[i - 1]:
            slots[distinct] = slots[i]
            distinct += 1
    return distinct


@compiled_ieee
def join_tuples(store, batch, criterion, sure, counts):
    """Return pairs of an arrival and a tuple of the opposite window with Pr(match) >= probability.

    store : `Store` with two streams, or one stream joined with itself; arrivals are written, but
        windows are not yet moved. A task compares arrivals with the tuples that it owns
    criterion : `Criterion`, whose probability excludes T_j
    sure : see `certain_square`, for tuples with boxes    counts : JOIN_COUNTS[1], updated
    Returns MATCHED_PAIR[m], by arrival, then by held tuple, oldest first, and the number of pairs
    accepted by their boxes alone; the windows are moved.
    Cost: O(1) per tuple to index, then the tuples in the visited cells, then the samples of the
    candidates that regions do not prune; O(held tuples) if cells do not help, or without a grid.
    Error: see `match_probability`.
    Source: Dallachiesa et al. (2015), sections 5 (baseline) and 6.2.1 (Index-Match); Lian and Chen
    (2009), sections 5 and 6 (WoP, OP, SP, Grid, r_max); Ren et al. (2019), section 5.
    """
    d, widest, certain = criterion.d, widest_window(store.windows), 0
    candidates, nearest = np.empty(widest, np.int64), np.empty(widest)
    # Fields are read once, because each access costs two atomic reference counts per array.
    tuples, windows, code, slots = store.tuples, store.windows, batch.code, batch.slots
    head, tail, largest = windows.head, windows.tail, windows.rounding
    found, n, steps, centre = np.empty(64, MATCHED_PAIR), 0, np.int64(0), store.grid.centre
    box, rounding = tuples.box, tuples.rounding
    boxed, summarised = box.shape[0] > 0, tuples.summary.shape[1] > 0
    for i in range(code.size):
        u, w, o = slots[i], code[i], opposite_window(store, code[i])
        evict_expired(store, o, batch.time[i])
        if boxed:
            reach = widest_reach(criterion.within, rounding[u] + largest[o])
            visited = _near_boxes(box, d, u, head[o], tail[o], reach, nearest, candidates)
        elif summarised:
            radius = widest_reach(criterion.within, largest[w] + largest[o]) + tuples.radius[u]
            radius += ball_of(tuples.summary, u, d, centre)
            visited = search(store, o, radius, candidates)
        else:
            visited = write_owned(store, head[o], tail[o], candidates)
        left = visited
        if summarised:
            left = filter_regions(tuples, u, candidates, visited, criterion)
        counts[0].pairs += tail[o] - head[o]
        counts[0].visited += visited
        counts[0].candidates += left
        steps += visited
        for c in range(left):
            v = candidates[c]
            if boxed and _farthest_square(box, d, u, v) <= sure:
                total = 1.0
                certain += 1
            else:
                steps = after_signals(steps + tuples.samples[u] * tuples.samples[v])
                total = probability_if_cheap(tuples, u, v, criterion)
                if total == UNDECIDED:
                    total = match_probability(tuples, u, v, criterion)
            if total >= 0.0:
                found = add_pair(found, n, i, o, v, tail[o], total)
                n += 1
        insert_arrival(store, batch, i)
    return found[:n], certain
