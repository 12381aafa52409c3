"""Join of two uncertain windows without an index: all held tuples, all pairs of samples."""

import numpy as np

from sfumato.kernels.arrays import integers, with_room
from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.joins.grid import enter, evict_expired, opposite_window
from sfumato.kernels.joins.match_probability import match_probability
from sfumato.kernels.joins.tuple_store import is_local
from sfumato.kernels.signals import after_signals

# Numbers of pairs of an arrival and a tuple of the opposite window, of examined pairs, and of pairs
# left after pruning, whose samples were compared.
JOIN_COUNTS = integers("pairs visited candidates")

# A pair: the arrival's place in its batch; window and slot of the held tuple, and the window's end
# at that time; Pr(match) without T_j.
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


@compiled_ieee
def join_nested(store, batch, criterion, counts):
    """Return the pairs of an arrival and a tuple then held opposite with Pr(match) >= probability.

    store : `Store` with two streams, or one stream joined with itself; arrivals are written, but
        windows not yet moved. A task compares arrivals with the tuples that it owns
    criterion : `Criterion`, whose probability excludes T_j    counts : JOIN_COUNTS[1], updated
    Returns MATCHED_PAIR[m], by arrival, then by held tuple, oldest first; the windows are moved.
    Cost: O(held tuples * samples**2 * d) per arrival.  Error: see `match_probability`.
    Source: Dallachiesa et al. (2015), section 5 (baseline); Lian and Chen (2009), WoP.
    """
    found, n, tuples, slots = np.empty(64, MATCHED_PAIR), 0, store.tuples, batch.slots
    steps = np.int64(0)
    for i in range(slots.size):
        o = opposite_window(store, batch.code[i])
        evict_expired(store, o, batch.time[i])
        begin, end = store.windows.head[o], store.windows.tail[o]
        for v in range(begin, end):
            if not is_local(store, v):
                continue
            steps = after_signals(steps + tuples.samples[slots[i]] * tuples.samples[v])
            total = match_probability(tuples, slots[i], v, criterion)
            if total >= 0.0:
                found = add_pair(found, n, i, o, v, end, total)
                n += 1
        counts[0].pairs += end - begin
        counts[0].visited += end - begin
        counts[0].candidates += end - begin
        enter(store, batch, i)
    return found[:n]
