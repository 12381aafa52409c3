"""Join of two uncertain windows of numbers by sorting their samples (Sort-Match).

The samples of a window and of all arrivals that will enter it are sorted once per batch, instead of
keeping a tree that changes with each arrival.
"""

import numpy as np

from sfumato.kernels.arrays import sort_slots, stable_order
from sfumato.kernels.compile import compiled_ieee, inlined, lean
from sfumato.kernels.joins.grid import evict_expired, insert_arrival, opposite_window
from sfumato.kernels.joins.match_probability import match_probability, widest_reach
from sfumato.kernels.joins.similarity_join import MATCHED_PAIR, add_pair
from sfumato.kernels.joins.tuple_store import is_local, padded, widest_window
from sfumato.kernels.signals import after_signals


@compiled_ieee
def _sorted_samples(store, begin, end):
    """Return (value, prob, slot) of the owned tuples' samples in [begin, end), by value."""
    tuples, n = store.tuples, 0
    for s in range(begin, end):
        n += tuples.samples[s] if is_local(store, s) else 0
    value, prob, slot, n = np.empty(n), np.empty(n), np.empty(n, np.int64), 0
    for s in range(begin, end):
        at, count = tuples.at[s], tuples.samples[s] if is_local(store, s) else 0
        for k in range(at, at + count):
            value[n], prob[n], slot[n] = tuples.blocks[k + padded(count)], tuples.blocks[k], s
            n += 1
    order = stable_order(value)
    return value[order], prob[order], slot[order]


@inlined
def _first_near(value, x, limit):
    """Return the first index of ascending values with x - value <= limit (rounds monotonically)."""
    low, high = 0, value.size
    while low < high:
        middle = (low + high) >> 1
        if x - value[middle] > limit:
            low = middle + 1
        else:
            high = middle
    return low


@lean
def _find_candidates(tuples, u, begin, end, held, criterion, limit, mass, likely):
    """Write tuples in [begin, end) whose near samples have enough mass to `likely`, ascending.

    held : from `_sorted_samples`    mass : float64[slots of a window], all -1 before and after
    Returns the numbers of tuples and of visited samples.
    """
    (value, prob, slot), n, visited = held, 0, 0
    at, length = tuples.at[u], padded(tuples.samples[u])
    for k in range(at, at + tuples.samples[u]):
        x = tuples.blocks[k + length]
        for j in range(_first_near(value, x, limit), value.size):
            if value[j] - x > limit:
                break
            visited += 1
            if begin <= slot[j] < end:
                if mass[slot[j] - begin] < 0.0:
                    mass[slot[j] - begin] = 0.0
                    likely[n] = slot[j]
                    n += 1
                mass[slot[j] - begin] += tuples.blocks[k] * prob[j]
    found = 0
    for i in range(n):
        if mass[likely[i] - begin] >= criterion.least:
            likely[found] = likely[i]
            found += 1
        mass[likely[i] - begin] = -1.0
    sort_slots(likely, found)
    return found, visited


@compiled_ieee
def join_sorted(store, batch, criterion, counts):
    """Return the same pairs as `join_tuples`, ordered by key first, for one dimension.

    The counter `visited` counts samples.
    Cost: O(n log n) per batch with n held and arriving samples; O(l log n) plus the matching pairs
    of samples per arrival with l samples.
    Source: Dallachiesa et al. (2015), section 6.2.2 (Sort-Match), with sorted arrays instead of a
    red-black tree.
    """
    widest, tuples, windows = widest_window(store.windows), store.tuples, store.windows
    # Fields are read once, because each access costs two atomic reference counts per array.
    code, slots, head, tail = batch.code, batch.slots, windows.head, windows.tail
    radius, rounding = windows.radius, windows.rounding
    likely, mass, streams = np.empty(widest, np.int64), np.full(widest, -1.0), store.span.size
    found, n, steps, written = np.empty(64, MATCHED_PAIR), np.int64(0), np.int64(0), tail.copy()
    for i in range(code.size):
        written[code[i]] = slots[i] + 1
    first = second = _sorted_samples(store, 0, 0)
    key = -1
    for i in stable_order(code // streams):
        u, o = slots[i], opposite_window(store, code[i])
        if o // streams != key:
            key = o // streams
            w, last = key * streams, (key + 1) * streams - 1  # equal if there is one stream
            first = _sorted_samples(store, head[w], written[w])
            second = _sorted_samples(store, head[last], written[last]) if last > w else first
        evict_expired(store, o, batch.time[i])
        begin, end = head[o], tail[o]
        farthest = criterion.within + tuples.radius[u] + radius[o]
        limit = widest_reach(farthest, tuples.rounding[u] + rounding[o])
        held = second if o > key * streams else first
        count, visited = _find_candidates(
            tuples, u, begin, end, held, criterion, limit, mass, likely
        )
        counts[0].visited += visited
        counts[0].pairs += end - begin
        counts[0].candidates += count
        for c in range(count):
            v = likely[c]
            steps = after_signals(steps + tuples.samples[u] * tuples.samples[v])
            total = match_probability(tuples, u, v, criterion)
            if total >= 0.0:
                found = add_pair(found, n, i, o, v, end, total)
                n += 1
        insert_arrival(store, batch, i)
    return found[:n]
