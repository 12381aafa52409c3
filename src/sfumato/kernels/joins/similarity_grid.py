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

from sfumato.kernels.arrays import sort_slots
from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.joins.arrival_groups import arrival_group, ball_of
from sfumato.kernels.joins.match_probability import (
    FEW_PAIRS,
    SLACK,
    decided,
    defining_sum,
    match_probability,
    match_probability_in_balls,
    sum_of_numbers,
)
from sfumato.kernels.joins.regions import prunes
from sfumato.kernels.joins.similarity_nested import CANDIDATES, PAIRS, VISITED, keep

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


@lean
def _cell(x, side):
    """Number of the cell of a coordinate; never falls as x rises, whatever the rounding."""
    return np.int64(math.floor(min(max(x / side, -FARTHEST), FARTHEST)))


@lean
def _hash(w, x, y, z):
    h = np.int64(w) * np.int64(0x2545F4914F6CDD1D) + x
    h = (h ^ (h >> 32)) * np.int64(0x1B03738712FAD5C9) + y
    h = (h ^ (h >> 32)) * np.int64(0x1B03738712FAD5C9) + z
    h = (h ^ (h >> 29)) * np.int64(0x369DEA0F31A53F85)
    return h ^ (h >> 32)


# Functions on the way of every arrival take plain arrays: a field of a named tuple costs two atomic
# reference counts each time it is taken out.
@lean
def _link(buckets, after, before, cell, side, axes, summary, w, s, d):
    width = side[w]
    y = _cell(summary[s, axes[w, 1]], width) if d > 1 else 0
    z = _cell(summary[s, axes[w, 2]], width) if d > 2 else 0
    h = _hash(w, _cell(summary[s, axes[w, 0]], width), y, z)
    bucket = h & (buckets.size - 1)
    first = buckets[bucket]
    cell[s], after[s], before[s] = h, first, NONE
    if first != NONE:
        before[first] = s
    buckets[bucket] = s


@lean
def _unlink(buckets, after, before, cell, s):
    later, earlier = after[s], before[s]
    if earlier == NONE:
        buckets[cell[s] & (buckets.size - 1)] = later
    else:
        after[earlier] = later
    if later != NONE:
        before[later] = earlier


@compiled_ieee
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
    side = 1.0
    for a in range(axes):
        widest = 0
        for b in range(d):
            if extent[b] > extent[widest]:
                widest = b
        grid.axes[w, a] = widest
        side *= (extent[widest] / reach + 1e-9) / (tail - head) ** (1.0 / axes)
        extent[widest] = -1.0
    side = reach * side ** (1.0 / axes)
    finest = reach * (0.5 if d == 1 else 1.0 if d == 2 else 2.0)
    grid.side[w] = min(max(side, finest, 1e-300), 1e300)


@compiled_ieee
def _unlink_all(grid, windows, w):
    if grid.side[w] > 0.0:
        for s in range(windows.head[w], windows.tail[w]):
            _unlink(grid.buckets, grid.after, grid.before, grid.cell, s)
    grid.side[w] = 0.0


@compiled_ieee
def rebuild_window(grid, tuples, windows, w, d, within):
    """Queue and cells of one window from its tuples, none of which is linked. O(tuples held)."""
    head, tail = windows.head[w], windows.tail[w]
    grid.front[w] = grid.back[w] = windows.base[w]
    for s in range(head, tail):
        _enqueue(grid.queue, grid.front, grid.back, tuples.summary, w, s, d)
    grid.side[w] = 0.0
    grid.due[w] = SMALL
    if tail - head >= SMALL:
        grid.due[w] = 2 * (tail - head)
        _choose_side(grid, tuples, windows, w, d, within)
        buckets, after, before, cell = grid.buckets, grid.after, grid.before, grid.cell
        for s in range(head, tail):
            _link(buckets, after, before, cell, grid.side, grid.axes, tuples.summary, w, s, d)


@compiled_ieee
def rebuild_all(grid, tuples, windows, d, within):
    """The whole index from the windows' tuples. O(buckets + tuples held)."""
    grid.buckets[:] = NONE
    for w in range(windows.head.size):
        rebuild_window(grid, tuples, windows, w, d, within)


@compiled_ieee
def unlink_windows(grid, windows, moves):
    """Take windows out of the cells, before `move_windows`. O(tuples)."""
    for i in range(moves.shape[0]):
        _unlink_all(grid, windows, moves[i, 0])


@compiled_ieee
def relink_windows(grid, tuples, windows, moves, d, within):
    """Put windows in again, after `move_windows`. O(tuples)."""
    for i in range(moves.shape[0]):
        rebuild_window(grid, tuples, windows, moves[i, 0], d, within)


@lean
def _enqueue(queue, front, back, summary, w, s, d):
    reach, end = summary[s, d], back[w]
    while end > front[w] and summary[queue[end - 1], d] <= reach:
        end -= 1
    queue[end] = s
    back[w] = end + 1


@lean
def _dequeue(queue, front, back, w, s):
    if front[w] < back[w] and queue[front[w]] == s:
        front[w] += 1


@lean
def _cells(centre, axes, w, d, radius, width, box):
    """Write the cells within `radius` of a point to box, int64[AXES, 2]; how many there are."""
    cells = 1.0
    for a in range(AXES):
        box[a, 0] = box[a, 1] = 0
    for a in range(min(d, AXES)):
        x = centre[axes[w, a]]
        reach = radius + SLACK * abs(radius) + 1e-15 * abs(x)
        box[a, 0], box[a, 1] = _cell(x - reach, width), _cell(x + reach, width)
        cells *= max(0.0, box[a, 1] - box[a, 0] + 1.0)
    return cells


@lean
def _search(buckets, after, cell, w, box, head, tail, out):
    """Write the slots of window w in the cells of `box` to `out`; how many, in no order.

    A slot comes twice, or does not belong, only where 64-bit hashes collide; -1 if `out` is full.
    """
    n = 0
    for x in range(box[0, 0], box[0, 1] + 1):
        for y in range(box[1, 0], box[1, 1] + 1):
            for z in range(box[2, 0], box[2, 1] + 1):
                h = _hash(w, x, y, z)
                s = buckets[h & (buckets.size - 1)]
                while s != NONE:
                    if cell[s] == h and head <= s < tail:
                        if n == out.size:
                            return -1
                        out[n] = s
                        n += 1
                    s = after[s]
    return n


@lean
def _scan(head, tail, out):
    for s in range(head, tail):
        out[s - head] = s
    return tail - head


@lean
def _filter(summary, u, visited, n, d, within, candidates):
    """Candidates among visited[:n]: not pruned by regions, ascending, each once; how many."""
    m = 0
    for i in range(n):
        if not prunes(summary, u, visited[i], d, within):
            candidates[m] = visited[i]
            m += 1
    sort_slots(candidates, m)
    distinct = min(m, 1)
    for i in range(1, m):
        if candidates[i] != candidates[i - 1]:
            candidates[distinct] = candidates[i]
            distinct += 1
    return distinct


@compiled_ieee
def join_grid(
    tuples, windows, grid, code, slots, begins, d, within, limit, least, probability, counters
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
    head, tail, summary = windows.head, windows.tail, tuples.summary
    blocks, at, count, existence = tuples.blocks, tuples.at, tuples.samples, tuples.existence
    buckets, after, before, cell = grid.buckets, grid.after, grid.before, grid.cell
    queue, front, back, side, axes = grid.queue, grid.front, grid.back, grid.side, grid.axes
    decisive = probability * (1.0 + 3.0 * SLACK)
    i = 0
    while i < code.size:
        w = code[i]
        o = w ^ 1
        begin, end = head[o], tail[o]
        stop = i + 1
        if begin < end:
            margin = within + summary[queue[front[o]], d]
            if stop == code.size or code[stop] != w:
                radius = ball_of(summary, slots[i], d, centre)
            else:
                stop, radius = arrival_group(summary, code, slots, i, d, margin, centre, scratch)
            reached = -1
            if side[o] > 0.0:
                cells = _cells(centre, axes, o, d, radius + margin, side[o], box)
                if cells <= end - begin:
                    reached = _search(buckets, after, cell, o, box, begin, end, visited)
            if reached < 0:
                reached = _scan(begin, end, visited)
            for j in range(i, stop):
                u = slots[j]
                left = _filter(summary, u, visited, reached, d, within, candidates)
                counters[PAIRS] += end - begin
                counters[VISITED] += reached
                counters[CANDIDATES] += left
                for c in range(left):
                    v = candidates[c]
                    pairs = count[u] * count[v]
                    if pairs <= FEW_PAIRS:
                        total = defining_sum(blocks, at[u], count[u], at[v], count[v], d, limit)
                        if total < probability:
                            continue
                    elif d == 1:
                        total = sum_of_numbers(blocks, at[u], count[u], at[v], count[v], limit)
                        if total < least:
                            continue
                        if total < decisive:
                            total = decided(tuples, u, v, d, limit, probability, total)
                    elif existence[u] * existence[v] < least:
                        continue
                    elif min(count[u], count[v]) < MANY:
                        total = match_probability(tuples, u, v, d, limit, least, probability)
                    else:
                        total = match_probability_in_balls(
                            tuples, u, v, summary[u, d + 1], summary[v, d + 1],
                            d, within, limit, least, probability,
                        )  # fmt: skip
                    if total >= 0.0:
                        found, totals = keep(found, totals, n, j, v, end, total)
                        n += 1
        for j in range(i, stop):
            s = slots[j]
            tail[w] = s + 1
            _enqueue(queue, front, back, summary, w, s, d)
            if side[w] > 0.0:
                _link(buckets, after, before, cell, side, axes, summary, w, s, d)
            grid.due[w] -= 1
            if grid.due[w] <= 0:
                _unlink_all(grid, windows, w)
                rebuild_window(grid, tuples, windows, w, d, within)
            for old in range(head[w], begins[j]):
                _dequeue(queue, front, back, w, old)
                if side[w] > 0.0:
                    _unlink(buckets, after, before, cell, old)
            head[w] = begins[j]
        i = stop
    return found[:n], totals[:n]
