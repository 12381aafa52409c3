"""Join of two uncertain windows without an index: every held tuple, every pair of samples."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.joins.match_probability import match_probability

# Places in `counters`: pairs of an arrival and a tuple held opposite it; those of them looked at
# one by one; those left after pruning, whose samples were paired.
PAIRS, VISITED, CANDIDATES = range(3)
COUNTERS = 3

# Columns of `found`: the arrival, the slot of the held tuple, the end of its window then.
ARRIVAL, HELD, NEWEST = range(3)


@compiled_ieee
def keep(found, totals, n, arrival, held, newest, total):
    """Write pair n; the arrays, twice as large if they were full."""
    if n == totals.size:
        more, more_totals = np.empty((2 * n, 3), np.int64), np.empty(2 * n)
        for i in range(n):  # loops: assigning slices compiles Numba's shape errors too
            more_totals[i] = totals[i]
            for column in range(3):
                more[i, column] = found[i, column]
        found, totals = more, more_totals
    found[n, ARRIVAL], found[n, HELD], found[n, NEWEST] = arrival, held, newest
    totals[n] = total
    return found, totals


@compiled_ieee
def join_nested(tuples, windows, code, slots, begins, d, limit, least, probability, counters):
    """Pairs of each arrival with the tuples then held opposite it, Pr(match) >= probability.

    tuples, windows : see `uncertain_tuples`; the arrivals are written, the windows not yet moved
    code, slots, begins : int64[n], in arrival order: window, slot, and where that window begins
        once the arrival has entered
    d : dimensions    limit : `distance_limit`    probability : threshold, not counting T_j
    least : `probability` reduced by SLACK    counters : int64[COUNTERS], added to
    Returns (found int64[m, 3], totals float64[m]), by arrival, then by held tuple, oldest first;
    the windows' heads and tails are moved.

    Cost: O(tuples held * samples**2 * d) an arrival.  Error: see `match_probability`.
    Source: A, section 5 (baseline); B, WoP.
    """
    found, totals, n = np.empty((64, 3), np.int64), np.empty(64), 0
    for i in range(code.size):
        w, u = code[i], slots[i]
        begin, end = windows.head[w ^ 1], windows.tail[w ^ 1]
        for v in range(begin, end):
            total = match_probability(tuples, u, v, d, limit, least, probability)
            if total >= 0.0:
                found, totals = keep(found, totals, n, i, v, end, total)
                n += 1
        for counter in range(COUNTERS):
            counters[counter] += end - begin
        windows.tail[w] = u + 1
        windows.head[w] = begins[i]
    return found[:n], totals[:n]
