"""The join of two uncertain windows: candidates are selected, then their samples are compared.

The store determines the candidates. They are the tuples with near boxes if tuples have boxes, the
tuples that the grid finds if tuples have summaries, and otherwise all held tuples. Regions then
prune tuples with summaries. The answers do not depend on the store's boxes and summaries.
"""

import numpy as np

from sfumato.kernels.arrays import integers, sort_slots, with_room
from sfumato.kernels.compile import compiled_ieee, lean_inline
from sfumato.kernels.joins.boxes import farthest_square, near_boxes
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
            visited = near_boxes(box, d, u, head[o], tail[o], reach, nearest, candidates)
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
            if boxed and farthest_square(box, d, u, v) <= sure:
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
