"""Join of two uncertain windows without an index: every held tuple, every pair of samples."""

from __future__ import annotations

import numpy as np
from numba import njit

from sfumato.kernels.match_probability import match_probability, may_match

# Places in `counters`: pairs of an arrival and a tuple held opposite it; those of them looked at
# one by one; those left after pruning by regions; those whose samples were summed by definition.
PAIRS, VISITED, CANDIDATES, SUMMED = range(4)
COUNTERS = 4

# Columns of `found`: the arrival, the slot of the held tuple, the end of its window then, matches.
ARRIVAL, HELD, NEWEST, MATCHES = range(4)


@njit(cache=True, nogil=True)
def examine(tuples, u, v, d, limit, least, probability, counters):
    """(Pr(match) without T_j, matching pairs) of a candidate; (-1, 0) if below `probability`.

    The last word of every strategy: a fast sum turns away what is surely below `least`, the
    defining sum decides. O(samples of u * samples of v * d).
    """
    counters[CANDIDATES] += 1
    if tuples.existence[u] * tuples.existence[v] < least:
        return -1.0, 0
    if not may_match(tuples, u, v, d, limit, least):
        return -1.0, 0
    counters[SUMMED] += 1
    total, matches = match_probability(tuples, u, v, d, limit)
    return (total, matches) if total >= probability else (-1.0, 0)


@njit(cache=True, nogil=True)
def keep(found, totals, n, arrival, held, newest, matches, total):
    """Write pair n; the arrays, twice as large if they were full."""
    if n == totals.size:
        more, more_totals = np.empty((2 * n, 4), np.int64), np.empty(2 * n)
        more[:n], more_totals[:n] = found, totals
        found, totals = more, more_totals
    found[n, ARRIVAL], found[n, HELD] = arrival, held
    found[n, NEWEST], found[n, MATCHES] = newest, matches
    totals[n] = total
    return found, totals


@njit(cache=True, nogil=True)
def join_nested(tuples, windows, code, slots, after, d, limit, least, probability, counters):
    """Pairs of each arrival with the tuples then held opposite it, Pr(match) >= probability.

    tuples, windows : see `uncertain_tuples`; the arrivals are written, the windows not yet moved
    code, slots, after : int64[n], in arrival order: window, slot, and where that window begins
        once the arrival has entered
    d : dimensions    limit : `distance_limit`    probability : threshold, not counting T_j
    least : `probability` reduced by SLACK    counters : int64[COUNTERS], added to
    Returns (found int64[m, 4], totals float64[m]), by arrival, then by held tuple, oldest first;
    the windows' heads and tails are moved.

    Cost: O(tuples held * samples**2 * d) an arrival.  Error: see `match_probability`.
    Source: A, section 5 (baseline); B, WoP.
    """
    found, totals, n = np.empty((64, 4), np.int64), np.empty(64), 0
    for i in range(code.size):
        w, u = code[i], slots[i]
        begin, end = windows.head[w ^ 1], windows.tail[w ^ 1]
        for v in range(begin, end):
            total, matches = examine(tuples, u, v, d, limit, least, probability, counters)
            if matches > 0:
                found, totals = keep(found, totals, n, i, v, end, matches, total)
                n += 1
        counters[PAIRS] += end - begin
        counters[VISITED] += end - begin
        windows.tail[w] = u + 1
        windows.head[w] = after[i]
    return found[:n], totals[:n]
