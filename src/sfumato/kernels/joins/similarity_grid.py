"""Join of two uncertain windows by a grid over the tuples' regions (Index-Match, Grid).

Windows without cells, and searches that would visit more cells than there are tuples, are scanned
instead: this is also the fallback in high dimensions, where 3**d cells would be visited. Neither
choice changes an answer.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import sort_slots
from sfumato.kernels.compile import compiled_ieee, lean_inline
from sfumato.kernels.joins.arrival_groups import arrival_group, ball_of
from sfumato.kernels.joins.grid_index import AXES, cells_around, enter_indexed, leave, search
from sfumato.kernels.joins.match_probability import (
    OPEN,
    quick_probability,
    widest_reach,
)
from sfumato.kernels.joins.pair_probability import pair_probability
from sfumato.kernels.joins.regions import prunes
from sfumato.kernels.joins.similarity_nested import FOUND, add_found
from sfumato.kernels.joins.tuple_store import first_in_time, widest_window, write_owned
from sfumato.kernels.signals import after_signals


class Work(NamedTuple):
    """To work in.

    visited, candidates : int64[widest window]    centre : float64[d], of the ball searched
    scratch : float64[2, d]    box : int64[AXES, 2]
    """

    visited: np.ndarray
    candidates: np.ndarray
    centre: np.ndarray
    scratch: np.ndarray
    box: np.ndarray


@lean_inline
def _filter(tuples, u, work, n, begin, criterion):
    """Candidates of work.visited[:n]: since `begin`, not pruned, ascending, once each; how many."""
    visited, candidates, m = work.visited, work.candidates, 0
    # Taken out of the tuples once: each time costs two atomic reference counts an array.
    summary, rounding, d, within = tuples.summary, tuples.rounding, criterion.d, criterion.within
    for i in range(n):
        v = visited[i]
        if v < begin:
            continue
        if not prunes(summary, u, v, d, widest_reach(within, rounding[u] + rounding[v])):
            candidates[m] = v
            m += 1
    sort_slots(candidates, m)
    distinct = min(m, 1)
    for i in range(1, m):
        if candidates[i] != candidates[i - 1]:
            candidates[distinct] = candidates[i]
            distinct += 1
    return distinct


@lean_inline
def _visit(grid, store, batch, i, criterion, work):
    """Slots in reach of arrival i, and of those after it that share the visit: work.visited.

    Returns (how many, where the arrivals after these begin).
    """
    w, d, summary = batch.code[i], criterion.d, store.tuples.summary
    o, stop = w ^ 1, i + 1
    leave(grid, store, o, first_in_time(store, o, batch.time[i]))
    begin, end = store.windows.head[o], store.windows.tail[o]
    if grid.front[o] == grid.back[o]:
        return 0, stop
    # Of all arrivals that may share the visit: the bound of their window.
    rounding = store.rounding[w] + store.rounding[o]
    margin = widest_reach(criterion.within, rounding) + summary[grid.queue[grid.front[o]], d]
    if stop == batch.code.size or batch.code[stop] != w:
        radius = ball_of(summary, batch.slots[i], d, work.centre)
    else:
        stop, radius = arrival_group(
            summary, batch.code, batch.slots, i, d, margin, work.centre, work.scratch
        )
    if grid.side[o] > 0.0:
        cells = cells_around(grid, o, work.centre, d, radius + margin, work.box)
        if cells <= (end - begin) // store.tasks:
            reached = search(grid, o, store.windows, work.box, work.visited)
            if reached >= 0:
                return reached, stop
    return write_owned(store, begin, end, work.visited), stop


@lean_inline
def _candidates(store, batch, i, reached, criterion, work, counts):
    """Those of work.visited[:reached] that arrival i is to be held against; see `_filter`."""
    o = batch.code[i] ^ 1
    begin = first_in_time(store, o, batch.time[i])
    counts[0].pairs += store.windows.tail[o] - begin
    counts[0].visited += reached
    left = _filter(store.tuples, batch.slots[i], work, reached, begin, criterion)
    counts[0].candidates += left
    return left


@lean_inline
def _enter_all(grid, store, batch, begin, end, criterion, extent):
    """Take arrivals of one window into it; what time excludes leaves both windows."""
    for i in range(begin, end):
        enter_indexed(grid, store, batch, i, criterion, extent)
    o = batch.code[begin] ^ 1
    leave(grid, store, o, first_in_time(store, o, batch.time[end - 1]))


@compiled_ieee
def join_grid(store, grid, batch, criterion, counts):
    """Pairs of each arrival with the tuples then held opposite it, Pr(match) >= probability.

    grid : `Grid` over the windows as they are before the batch; follows them. The arrivals have
    their lines of `summary`. The rest, and the result, as for `join_nested`.
    Cost: O(1) a tuple to index, then the tuples in the cells visited, then the samples of the
    candidates that regions do not prune; O(tuples held) where cells do not help.
    Source: B, sections 5 and 6 (OP, SP, Grid, r_max, batches); A, section 6.2.1 (Index-Match).
    """
    d, widest = criterion.d, widest_window(store.windows)
    candidates = np.empty(widest, np.int64)
    work = Work(
        np.empty(widest, np.int64), candidates, np.empty(d), np.empty((2, d)),
        np.empty((AXES, 2), np.int64),
    )  # fmt: skip
    # Arrays taken out of the tuples once: each time costs two atomic reference counts an array.
    tuples, tail, code, slots = store.tuples, store.windows.tail, batch.code, batch.slots
    found, n, i, extent = np.empty(64, FOUND), 0, 0, np.empty(d)
    steps = np.int64(0)
    while i < code.size:
        reached, stop = _visit(grid, store, batch, i, criterion, work)
        for j in range(i, stop):
            left = _candidates(store, batch, j, reached, criterion, work, counts)
            steps += reached
            for c in range(left):
                v = candidates[c]
                steps = after_signals(steps + tuples.samples[slots[j]] * tuples.samples[v])
                total = quick_probability(tuples, slots[j], v, criterion)
                if total == OPEN:
                    total = pair_probability(tuples, slots[j], v, criterion)
                if total >= 0.0:
                    found = add_found(found, n, j, code[j] ^ 1, v, tail[code[j] ^ 1], total)
                    n += 1
        _enter_all(grid, store, batch, i, stop, criterion, extent)
        i = stop
    return found[:n]
