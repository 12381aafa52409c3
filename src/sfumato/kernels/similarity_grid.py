"""Join of two uncertain windows by a grid over the tuples' regions (Index-Match, Grid).

One hash table holds the grids of all windows: a tuple is linked into the bucket of its window and
cell, in O(1). Each window has its own cell side and up to three axes, chosen from its content
and chosen again as the content is renewed. Windows of fewer than SMALL tuples, and searches that
would visit more cells than there are tuples, are scanned instead: this is also the fallback in
high dimensions, where 3**d cells would be visited. Neither choice changes an answer.

The largest reach in a window (r_max) is kept by a monotone queue: in queue[front:back], slots in
order of arrival with falling reach; a new reach pops the smaller ones, an evicted slot the front.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from sfumato.kernels.arrival_groups import arrival_group
from sfumato.kernels.match_probability import (
    SLACK,
    match_probability,
    match_probability_in_balls,
)
from sfumato.kernels.similarity_nested import CANDIDATES, PAIRS, VISITED, keep
from sfumato.kernels.trimmed_radius import prunes

SMALL = 48  # tuples: below, a scan costs less than two or three look-ups
MANY = 24  # samples: from here on it pays to sift them before they are paired
AXES = 3
FARTHEST = 2.0**50  # cell numbers are cut off here; tuples beyond share the last cell
NONE = -1


class Grid(NamedTuple):
    """The index over all windows.

    buckets : int64[power of two], the first slot of each bucket or NONE
    after, before : int64[slots], doubly linked lists; before the first is NONE
    cell : int64[slots], hash of window and cell
    queue : int64[slots], the monotone queues, each in its window's range
    front, back : int64[windows], their ends
    side : float64[windows], cell side, 0 while the window has no cells
    axes : int64[windows, AXES], the coordinates that span the cells
    due : int64[windows], arrivals until the side is chosen again
    """

    buckets: np.ndarray
    after: np.ndarray
    before: np.ndarray
    cell: np.ndarray
    queue: np.ndarray
    front: np.ndarray
    back: np.ndarray
    side: np.ndarray
    axes: np.ndarray
    due: np.ndarray


@njit(cache=True, nogil=True)
def _cell(x, side):
    """Number of the cell of a coordinate; never falls as x rises, whatever the rounding."""
    return np.int64(math.floor(min(max(x / side, -FARTHEST), FARTHEST)))


@njit(cache=True, nogil=True)
def _hash(w, x, y, z):
    h = np.int64(w) * np.int64(0x2545F4914F6CDD1D) + x
    h = (h ^ (h >> 32)) * np.int64(0x1B03738712FAD5C9) + y
    h = (h ^ (h >> 32)) * np.int64(0x1B03738712FAD5C9) + z
    h = (h ^ (h >> 29)) * np.int64(0x369DEA0F31A53F85)
    return h ^ (h >> 32)


@njit(cache=True, nogil=True)
def _link(grid, tuples, w, s, d):
    side, summary, axes = grid.side[w], tuples.summary, grid.axes
    y = _cell(summary[s, axes[w, 1]], side) if d > 1 else 0
    z = _cell(summary[s, axes[w, 2]], side) if d > 2 else 0
    h = _hash(w, _cell(summary[s, axes[w, 0]], side), y, z)
    bucket = h & (grid.buckets.size - 1)
    first = grid.buckets[bucket]
    grid.cell[s], grid.after[s], grid.before[s] = h, first, NONE
    if first != NONE:
        grid.before[first] = s
    grid.buckets[bucket] = s


@njit(cache=True, nogil=True)
def _unlink(grid, s):
    after, before = grid.after[s], grid.before[s]
    if before == NONE:
        grid.buckets[grid.cell[s] & (grid.buckets.size - 1)] = after
    else:
        grid.after[before] = after
    if after != NONE:
        grid.before[after] = before


@njit(cache=True, nogil=True)
def _choose_side(grid, tuples, windows, w, d, within):
    """Axes of the largest extents, and a side for them.

    As small as is useful: about one tuple a cell, but not so small that the usual search, of
    radius within + radius + r_max, visits more than about 5 cells (1-D), 9 (2-D) or 8 (3-D).
    """
    head, tail = windows.head[w], windows.tail[w]
    extent = np.empty(d)
    radius = 0.0
    for a in range(d):
        low, high = np.inf, -np.inf
        for s in range(head, tail):
            low, high = min(low, tuples.summary[s, a]), max(high, tuples.summary[s, a])
        extent[a] = min(high - low, 1e300)
    for s in range(head, tail):
        line = tuples.summary[s]
        radius += (0.5 * line[3] - 0.5 * line[2] if d == 1 else line[d + 1]) / (tail - head)
    reach = within + radius + max(0.0, tuples.summary[grid.queue[grid.front[w]], d])
    axes = min(d, AXES)
    order = np.argsort(-extent)
    side = 1.0
    for a in range(axes):
        grid.axes[w, a] = order[a]
        side *= (extent[order[a]] / reach + 1e-9) / (tail - head) ** (1.0 / axes)
    side = reach * side ** (1.0 / axes)
    finest = reach * (0.5 if d == 1 else 1.0 if d == 2 else 2.0)
    grid.side[w] = min(max(side, finest, 1e-300), 1e300)


@njit(cache=True, nogil=True)
def _unlink_all(grid, windows, w):
    if grid.side[w] > 0.0:
        for s in range(windows.head[w], windows.tail[w]):
            _unlink(grid, s)
    grid.side[w] = 0.0


@njit(cache=True, nogil=True)
def rebuild_window(grid, tuples, windows, w, d, within):
    """Queue and cells of one window from its tuples, none of which is linked. O(tuples held)."""
    head, tail = windows.head[w], windows.tail[w]
    grid.front[w] = grid.back[w] = windows.base[w]
    for s in range(head, tail):
        _enqueue(grid, tuples, w, s, d)
    grid.side[w] = 0.0
    grid.due[w] = SMALL
    if tail - head >= SMALL:
        grid.due[w] = 2 * (tail - head)
        _choose_side(grid, tuples, windows, w, d, within)
        for s in range(head, tail):
            _link(grid, tuples, w, s, d)


@njit(cache=True, nogil=True)
def rebuild_all(grid, tuples, windows, d, within):
    """The whole index from the windows' tuples. O(buckets + tuples held)."""
    grid.buckets[:] = NONE
    for w in range(windows.head.size):
        rebuild_window(grid, tuples, windows, w, d, within)


@njit(cache=True, nogil=True)
def unlink_windows(grid, windows, moves):
    """Take windows out of the cells, before `move_windows`. O(tuples)."""
    for i in range(moves.shape[0]):
        _unlink_all(grid, windows, moves[i, 0])


@njit(cache=True, nogil=True)
def relink_windows(grid, tuples, windows, moves, d, within):
    """Put windows in again, after `move_windows`. O(tuples)."""
    for i in range(moves.shape[0]):
        rebuild_window(grid, tuples, windows, moves[i, 0], d, within)


@njit(cache=True, nogil=True)
def _enqueue(grid, tuples, w, s, d):
    reach, back = tuples.summary[s, d], grid.back[w]
    while back > grid.front[w] and tuples.summary[grid.queue[back - 1], d] <= reach:
        back -= 1
    grid.queue[back] = s
    grid.back[w] = back + 1


@njit(cache=True, nogil=True)
def _enter(grid, tuples, windows, w, s, d, within):
    """Take in arrival s at the end of its window."""
    windows.tail[w] = s + 1
    _enqueue(grid, tuples, w, s, d)
    if grid.side[w] > 0.0:
        _link(grid, tuples, w, s, d)
    grid.due[w] -= 1
    if grid.due[w] <= 0:
        _unlink_all(grid, windows, w)
        rebuild_window(grid, tuples, windows, w, d, within)


@njit(cache=True, nogil=True)
def _evict(grid, windows, w, head):
    """Let the tuples before `head` go."""
    for s in range(windows.head[w], head):
        if grid.front[w] < grid.back[w] and grid.queue[grid.front[w]] == s:
            grid.front[w] += 1
        if grid.side[w] > 0.0:
            _unlink(grid, s)
    windows.head[w] = head


@njit(cache=True, nogil=True)
def _search(grid, tuples, windows, w, d, centre, radius, box, out):
    """Write to `out` all slots of window w whose key may lie within `radius` of `centre`.

    box : int64[AXES, 2], scratch    Returns how many, in no order and perhaps twice.
    """
    head, tail, side = windows.head[w], windows.tail[w], grid.side[w]
    cells = 1.0
    box[:] = 0
    if side > 0.0:
        for a in range(min(d, AXES)):
            x = centre[grid.axes[w, a]]
            reach = radius + SLACK * abs(radius) + 1e-15 * abs(x)
            box[a, 0], box[a, 1] = _cell(x - reach, side), _cell(x + reach, side)
            cells *= max(0.0, box[a, 1] - box[a, 0] + 1.0)
    n = 0
    if side == 0.0 or cells > tail - head:
        for s in range(head, tail):
            out[n] = s
            n += 1
        return n
    for x in range(box[0, 0], box[0, 1] + 1):
        for y in range(box[1, 0], box[1, 1] + 1):
            for z in range(box[2, 0], box[2, 1] + 1):
                h = _hash(w, x, y, z)
                s = grid.buckets[h & (grid.buckets.size - 1)]
                while s != NONE:
                    if grid.cell[s] == h and head <= s < tail:
                        if n == out.size:  # only after a collision of 64-bit hashes
                            return _search_all(windows, w, out)
                        out[n] = s
                        n += 1
                    s = grid.after[s]
    return n


@njit(cache=True, nogil=True)
def _search_all(windows, w, out):
    n = windows.tail[w] - windows.head[w]
    for i in range(n):
        out[i] = windows.head[w] + i
    return n


@njit(cache=True, nogil=True)
def _filter(summary, u, visited, n, d, within, candidates):
    """Candidates among visited[:n]: not pruned by regions, ascending, each once; how many."""
    m = 0
    for i in range(n):
        if not prunes(summary, u, visited[i], d, within):
            candidates[m] = visited[i]
            m += 1
    if m > 32:
        candidates[:m].sort()
    else:
        for i in range(1, m):
            s, j = candidates[i], i
            while j > 0 and candidates[j - 1] > s:
                candidates[j] = candidates[j - 1]
                j -= 1
            candidates[j] = s
    distinct = min(m, 1)
    for i in range(1, m):
        if candidates[i] != candidates[i - 1]:
            candidates[distinct] = candidates[i]
            distinct += 1
    return distinct


@njit(cache=True, nogil=True)
def _examine(tuples, u, v, d, within, limit, least, probability):
    """Pr(match) of a candidate, or -1; through balls where there are samples enough to sift."""
    if tuples.existence[u] * tuples.existence[v] < least:
        return -1.0
    if d == 1 or min(tuples.count[u], tuples.count[v]) < MANY:
        return match_probability(tuples, u, v, d, limit, least, probability)
    return match_probability_in_balls(
        tuples, u, v, tuples.summary[u, d + 1], tuples.summary[v, d + 1],
        d, within, limit, least, probability,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def join_grid(
    tuples, windows, grid, code, slots, after, d, within, limit, least, probability, counters
):
    """Pairs of each arrival with the tuples then held opposite it, Pr(match) >= probability.

    grid : `Grid` over the windows as they are before the batch; kept up to date
    within : float64, the distance; the rest, and the result, as for `join_nested`

    Cost: O(1) a tuple to index, then the tuples in the cells visited, then the samples of
    the candidates that regions do not prune; O(tuples held) where cells do not help.
    Error: none by pruning; see `match_probability`.
    Source: B, sections 5 and 6 (OP, SP, Grid, r_max, batches); A, section 6.2.1 (Index-Match).
    """
    found, totals, n = np.empty((64, 3), np.int64), np.empty(64), 0
    widest = 1
    for w in range(windows.capacity.size):
        widest = max(widest, windows.capacity[w])
    visited, candidates = np.empty(widest, np.int64), np.empty(widest, np.int64)
    centre, scratch = np.empty(d), np.empty((2, d))
    box = np.empty((AXES, 2), np.int64)
    i = 0
    while i < code.size:
        w = code[i]
        o = w ^ 1
        begin, end = windows.head[o], windows.tail[o]
        group_end = i + 1
        if begin < end:
            margin = within + tuples.summary[grid.queue[grid.front[o]], d]
            group_end, radius = arrival_group(tuples, code, slots, i, d, margin, centre, scratch)
            reached = _search(grid, tuples, windows, o, d, centre, radius + margin, box, visited)
            for j in range(i, group_end):
                counters[PAIRS] += end - begin
                counters[VISITED] += reached
                u = slots[j]
                left = _filter(tuples.summary, u, visited, reached, d, within, candidates)
                counters[CANDIDATES] += left
                for c in range(left):
                    v = candidates[c]
                    total = _examine(tuples, u, v, d, within, limit, least, probability)
                    if total >= 0.0:
                        found, totals = keep(found, totals, n, j, v, end, total)
                        n += 1
        for j in range(i, group_end):
            _enter(grid, tuples, windows, w, slots[j], d, within)
            _evict(grid, windows, w, after[j])
        i = group_end
    return found[:n], totals[:n]
