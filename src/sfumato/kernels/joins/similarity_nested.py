"""Join of two uncertain windows without an index: every held tuple, every pair of samples."""

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled_ieee, lean_inline
from sfumato.kernels.joins.match_probability import match_probability
from sfumato.kernels.joins.tuple_store import first_in_time, owned
from sfumato.kernels.signals import after_signals

# pairs of an arrival and a tuple held opposite it; those of them looked at one by one; those left
# after pruning, whose samples were paired.
JOIN_COUNTS = integers("pairs visited candidates")

# A pair: the arrival's place in its batch; window and slot of the held tuple, and where that window
# ended then; Pr(match) without T_j.
FOUND = np.dtype(
    [("arrival", "i8"), ("window", "i8"), ("held", "i8"), ("newest", "i8"), ("total", "f8")]
)


@compiled_ieee
def add_found(found, n, arrival, window, held, newest, total):
    """Write pair n; `found`, or an array twice as large that begins with it."""
    if n == found.size:
        more = np.empty(2 * n, FOUND)
        for i in range(n):  # a loop: assigning slices compiles Numba's shape errors too
            more[i] = found[i]
        found = more
    pair = found[n]
    pair.arrival, pair.window, pair.held = arrival, window, held
    pair.newest, pair.total = newest, total
    return found


@lean_inline
def forget_before(store, w, begin):
    """Move the beginning of window w on to `begin`, if it is not there yet."""
    windows, left = store.windows, begin - store.windows.head[w]
    if left > 0:
        windows.head[w] = begin
        store.held[w % store.span.size] -= left


@compiled_ieee
def empty_windows(store, windows):
    """Forget all that some windows (int64[]) hold. O(windows)."""
    for w in windows:
        forget_before(store, w, store.windows.tail[w])


@lean_inline
def enter(store, w, s):
    """Take slot s, behind the others, into window w."""
    store.windows.tail[w] = s + 1
    store.held[w % store.span.size] += 1


@lean_inline
def opposite(store, batch, i):
    """The slots held opposite arrival i, (begin, end); what time excludes leaves both windows."""
    w = batch.code[i]
    o = w ^ 1
    forget_before(store, w, first_in_time(store, w, batch.time[i]))
    forget_before(store, o, first_in_time(store, o, batch.time[i]))
    return store.windows.head[o], store.windows.tail[o]


@lean_inline
def enter_behind(store, batch, i):
    """Take arrival i into its window, and out of it what leaves."""
    enter(store, batch.code[i], batch.slots[i])
    forget_before(store, batch.code[i], batch.begins[i])


@compiled_ieee
def join_nested(store, batch, criterion, counts):
    """Pairs of each arrival with the tuples then held opposite it, Pr(match) >= probability.

    store : `Store` with two streams; the arrivals are written, the windows not yet moved. Of
        several tasks each compares arrivals with the tuples that it owns
    batch : `Batch`    criterion : `Criterion`, not counting T_j    counts : COUNTS[1], added to
    Returns FOUND[m], by arrival, then by held tuple, oldest first; the windows are moved.
    Cost: O(tuples held * samples**2 * d) an arrival.  Error: see `match_probability`.
    Source: A, section 5 (baseline); B, WoP.
    """
    found, n, tuples, slots = np.empty(64, FOUND), 0, store.tuples, batch.slots
    steps = np.int64(0)
    for i in range(slots.size):
        begin, end = opposite(store, batch, i)
        for v in range(begin, end):
            if not owned(store, v):
                continue
            steps = after_signals(steps + tuples.samples[slots[i]] * tuples.samples[v])
            total = match_probability(tuples, slots[i], v, criterion)
            if total >= 0.0:
                found = add_found(found, n, i, batch.code[i] ^ 1, v, end, total)
                n += 1
        counts[0].pairs += end - begin
        counts[0].visited += end - begin
        counts[0].candidates += end - begin
        enter_behind(store, batch, i)
    return found[:n]
