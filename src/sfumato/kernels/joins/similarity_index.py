"""Join of two uncertain windows with a grid over the tuples' regions (Index-Match, Grid)."""

import numpy as np

from sfumato.kernels.arrays import sort_slots
from sfumato.kernels.compile import compiled_ieee, lean_inline
from sfumato.kernels.joins.grid import enter, evict_expired, opposite_window, search
from sfumato.kernels.joins.match_probability import (
    UNDECIDED,
    match_distance,
    match_probability,
    probability_if_cheap,
    widest_reach,
)
from sfumato.kernels.joins.regions import ball_of, cannot_match
from sfumato.kernels.joins.similarity_nested import MATCHED_PAIR, add_pair
from sfumato.kernels.joins.tuple_store import widest_window
from sfumato.kernels.signals import after_signals


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
def join_indexed(store, batch, criterion, counts):
    """Return the same pairs as `join_nested`, found with the store's grid.

    The arrivals' `summary` lines are written.
    Cost: O(1) per tuple to index, then the tuples in the visited cells, then the samples of the
    candidates that regions do not prune; O(held tuples) if cells do not help.
    Source: Lian and Chen (2009), sections 5 and 6 (OP, SP, Grid, r_max); Dallachiesa et al. (2015),
    section 6.2.1 (Index-Match).
    """
    d, widest = criterion.d, widest_window(store.windows)
    candidates = np.empty(widest, np.int64)
    # Fields are read once, because each access costs two atomic reference counts per array.
    tuples, windows, code, slots = store.tuples, store.windows, batch.code, batch.slots
    head, tail, largest = windows.head, windows.tail, windows.rounding
    found, n, steps, centre = np.empty(64, MATCHED_PAIR), 0, np.int64(0), store.grid.centre
    for i in range(code.size):
        u, w, o = slots[i], code[i], opposite_window(store, code[i])
        evict_expired(store, o, batch.time[i])
        radius = widest_reach(criterion.within, largest[w] + largest[o]) + tuples.radius[u]
        radius += ball_of(tuples.summary, u, d, centre)
        reached = search(store, o, radius, candidates)
        left = filter_regions(tuples, u, candidates, reached, criterion)
        counts[0].pairs += tail[o] - head[o]
        counts[0].visited += reached
        counts[0].candidates += left
        steps += reached
        for c in range(left):
            v = candidates[c]
            steps = after_signals(steps + tuples.samples[u] * tuples.samples[v])
            total = probability_if_cheap(tuples, u, v, criterion)
            if total == UNDECIDED:
                total = match_probability(tuples, u, v, criterion)
            if total >= 0.0:
                found = add_pair(found, n, i, o, v, tail[o], total)
                n += 1
        enter(store, batch, i)
    return found[:n]
