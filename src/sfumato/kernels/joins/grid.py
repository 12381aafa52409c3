"""Join of two uncertain windows by a grid over the tuples' regions (Index-Match, Grid).

The grid tells which tuples of a window may be near a place. One hash table holds the grids of all
windows: a tuple is linked into the bucket of its window and cell, in O(1). Each window has its own
cell side and up to three axes, chosen from its content and chosen again as the content is renewed.
Windows of fewer than SMALL tuples have no cells. Of several tasks each has the tuples that it owns
here, and no others.

The largest reach in a window (r_max) is kept by a monotone queue: in queue[front:back], slots in
order of arrival with falling reach; a new reach pops the smaller ones, an evicted slot the front.

Windows without cells, and searches that would visit more cells than there are tuples, are scanned
instead: this is also the fallback in high dimensions, where 3**d cells would be visited. Neither
choice changes an answer.
"""

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import sort_slots
from sfumato.kernels.compile import compiled_ieee, lean, lean_inline
from sfumato.kernels.joins.match_probability import (
    UNDECIDED,
    pair_probability,
    quick_probability,
    widest_reach,
)
from sfumato.kernels.joins.regions import prunes
from sfumato.kernels.joins.similarity_nested import FOUND, add_found, enter, forget_before
from sfumato.kernels.joins.tuple_store import (
    first_in_time,
    move_window,
    owned,
    widest_window,
    write_owned,
)
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import SIFT_SLACK

SMALL = 48  # tuples: below, a scan costs less than two or three look-ups
AXES = 3
LAST_CELL = 2.0**50  # cell numbers are cut off here; tuples beyond share the last cell
NO_ENTRY = -1


class Grid(NamedTuple):
    """The index over all windows.

    buckets : int64[power of two], the first slot of each bucket or NO_ENTRY
    after, before : int64[slots], doubly linked lists; before the first is NO_ENTRY
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


def new_grid(slots: int, windows: int) -> Grid:
    """An empty grid."""
    buckets = 64
    while buckets < 2 * slots:
        buckets *= 2
    return Grid(
        buckets=np.full(buckets, NO_ENTRY, np.int64),
        after=np.empty(slots, np.int64),
        before=np.empty(slots, np.int64),
        cell=np.empty(slots, np.int64),
        queue=np.empty(slots, np.int64),
        front=np.zeros(windows, np.int64),
        back=np.zeros(windows, np.int64),
        side=np.zeros(windows),
        axes=np.zeros((windows, AXES), np.int64),
        due=np.full(windows, SMALL, np.int64),
    )


@lean
def _cell(x, side):
    """Number of the cell of a coordinate; never falls as x rises, whatever the rounding."""
    return np.int64(math.floor(min(max(x / side, -LAST_CELL), LAST_CELL)))


@lean
def _hash(w, x, y, z):
    h = np.int64(w) * np.int64(0x2545F4914F6CDD1D) + x
    h = (h ^ (h >> 32)) * np.int64(0x1B03738712FAD5C9) + y
    h = (h ^ (h >> 32)) * np.int64(0x1B03738712FAD5C9) + z
    h = (h ^ (h >> 29)) * np.int64(0x369DEA0F31A53F85)
    return h ^ (h >> 32)


@lean_inline
def _link(grid, summary, w, s, d):
    width, axes = grid.side[w], grid.axes
    y = _cell(summary[s, axes[w, 1]], width) if d > 1 else 0
    z = _cell(summary[s, axes[w, 2]], width) if d > 2 else 0
    h = _hash(w, _cell(summary[s, axes[w, 0]], width), y, z)
    bucket = h & (grid.buckets.size - 1)
    first = grid.buckets[bucket]
    grid.cell[s], grid.after[s], grid.before[s] = h, first, NO_ENTRY
    if first != NO_ENTRY:
        grid.before[first] = s
    grid.buckets[bucket] = s


@lean_inline
def _unlink(grid, s):
    later, earlier = grid.after[s], grid.before[s]
    if earlier == NO_ENTRY:
        grid.buckets[grid.cell[s] & (grid.buckets.size - 1)] = later
    else:
        grid.after[earlier] = later
    if later != NO_ENTRY:
        grid.before[later] = earlier


@lean
def _choose_side(grid, store, w, count, within, extent):
    """Axes of the largest extents, and a side for them: as small as is useful.

    About one tuple a cell, but not so small that the usual search, of radius within + radius +
    r_max, visits more than about 5 cells (1-D), 9 (2-D) or 8 (3-D).

    count : of the tuples owned, at least 1    extent : float64[d], written
    """
    head, tail, summary = store.windows.head[w], store.windows.tail[w], store.tuples.summary
    radius, d = 0.0, extent.size
    for a in range(d):
        low, high = np.inf, -np.inf
        for s in range(head, tail):
            if owned(store, s):
                low, high = min(low, summary[s, a]), max(high, summary[s, a])
        extent[a] = min(high - low, 1e300)
    for s in range(head, tail):
        if owned(store, s):
            line = summary[s]
            radius += (0.5 * line[3] - 0.5 * line[2] if d == 1 else line[d + 1]) / count
    reach = within + radius + max(0.0, summary[grid.queue[grid.front[w]], d])
    axes = min(d, AXES)
    side = 1.0
    for a in range(axes):
        widest = 0
        for b in range(d):
            if extent[b] > extent[widest]:
                widest = b
        grid.axes[w, a] = widest
        side *= (extent[widest] / reach + 1e-9) / count ** (1.0 / axes)
        extent[widest] = -1.0
    side = reach * side ** (1.0 / axes)
    finest = reach * (0.5 if d == 1 else 1.0 if d == 2 else 2.0)
    grid.side[w] = min(max(side, finest, 1e-300), 1e300)


@lean
def _unlink_all(grid, store, w):
    if grid.side[w] > 0.0:
        for s in range(store.windows.head[w], store.windows.tail[w]):
            if owned(store, s):
                _unlink(grid, s)
    grid.side[w] = 0.0


@lean
def _rebuild_window(grid, store, w, within, extent):
    """Queue and cells of one window from its tuples, none of which is linked. O(tuples held)."""
    d, count = extent.size, 0
    head, tail, summary = store.windows.head[w], store.windows.tail[w], store.tuples.summary
    grid.front[w] = grid.back[w] = store.windows.base[w]
    for s in range(head, tail):
        if owned(store, s):
            _enqueue(grid, summary, w, s, d)
            count += 1
    grid.side[w] = 0.0
    grid.due[w] = SMALL
    if count >= SMALL:
        grid.due[w] = 2 * count
        _choose_side(grid, store, w, count, within, extent)
        for s in range(head, tail):
            if owned(store, s):
                _link(grid, summary, w, s, d)


@compiled_ieee
def rebuild_all(grid, store, d, within):
    """The whole index from the windows' tuples. O(buckets + tuples held)."""
    grid.buckets[:] = NO_ENTRY
    extent = np.empty(d)
    for w in range(store.windows.head.size):
        _rebuild_window(grid, store, w, within, extent)


@compiled_ieee
def move_indexed(grid, store, moves, d, within):
    """`move_windows`, whose tuples are taken out of the cells and put in again. O(tuples)."""
    extent = np.empty(d)
    for i in range(moves.size):
        _unlink_all(grid, store, moves[i].window)
        move_window(store, moves[i])
        _rebuild_window(grid, store, moves[i].window, within, extent)


@lean_inline
def _enqueue(grid, summary, w, s, d):
    reach, end, queue = summary[s, d], grid.back[w], grid.queue
    while end > grid.front[w] and summary[queue[end - 1], d] <= reach:
        end -= 1
    queue[end] = s
    grid.back[w] = end + 1


@lean_inline
def leave(grid, store, w, begin):
    """Take the tuples of a window before `begin` out of its queue and cells, and forget them."""
    for s in range(store.windows.head[w], begin):
        if grid.front[w] < grid.back[w] and grid.queue[grid.front[w]] == s:
            grid.front[w] += 1
        if grid.side[w] > 0.0 and owned(store, s):
            _unlink(grid, s)
    forget_before(store, w, begin)


@compiled_ieee
def empty_indexed(grid, store, windows):
    """`empty_windows`, and their cells. O(tuples)."""
    for w in windows:
        leave(grid, store, w, store.windows.tail[w])
        grid.side[w], grid.due[w] = 0.0, SMALL


@lean_inline
def enter_indexed(grid, store, batch, i, criterion, extent):
    """Take arrival i into its window, and out of it what leaves."""
    w, s, d = batch.code[i], batch.slots[i], criterion.d
    leave(grid, store, w, first_in_time(store, w, batch.time[i]))
    enter(store, w, s)
    if owned(store, s):
        _enqueue(grid, store.tuples.summary, w, s, d)
        if grid.side[w] > 0.0:
            _link(grid, store.tuples.summary, w, s, d)
        grid.due[w] -= 1
    if grid.due[w] <= 0:
        _unlink_all(grid, store, w)
        _rebuild_window(grid, store, w, criterion.within, extent)
    leave(grid, store, w, batch.begins[i])


@lean_inline
def cells_around(grid, w, centre, d, radius, box):
    """Write the cells within `radius` of a place to `box`, int64[AXES, 2]; how many there are."""
    cells, axes, width = 1.0, grid.axes, grid.side[w]
    for a in range(AXES):
        box[a, 0] = box[a, 1] = 0
    for a in range(min(d, AXES)):
        x = centre[axes[w, a]]
        reach = radius + SIFT_SLACK * abs(radius) + 1e-15 * abs(x)
        box[a, 0], box[a, 1] = _cell(x - reach, width), _cell(x + reach, width)
        cells *= max(0.0, box[a, 1] - box[a, 0] + 1.0)
    return cells


@lean_inline
def search(grid, w, windows, box, out):
    """Write the slots of window w in the cells of `box` to `out`; how many.

    In no order. A slot comes twice, or does not belong, only where 64-bit hashes collide; -1 if
    there is no room.
    """
    buckets, after, cell = grid.buckets, grid.after, grid.cell
    head, tail, n = windows.head[w], windows.tail[w], 0
    for x in range(box[0, 0], box[0, 1] + 1):
        for y in range(box[1, 0], box[1, 1] + 1):
            for z in range(box[2, 0], box[2, 1] + 1):
                h = _hash(w, x, y, z)
                s = buckets[h & (buckets.size - 1)]
                while s != NO_ENTRY:
                    if cell[s] == h and head <= s < tail:
                        if n == out.size:
                            return -1
                        out[n] = s
                        n += 1
                    s = after[s]
    return n


class GridWork(NamedTuple):
    """To work in.

    visited, candidates : int64[widest window]    centre : float64[d], of the ball searched
    box : int64[AXES, 2]
    """

    visited: np.ndarray
    candidates: np.ndarray
    centre: np.ndarray
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


@lean
def _ball_of(summary, s, d, centre):
    """Write the centre of a tuple's full region (see `regions`); its radius."""
    if d == 1:
        centre[0] = 0.5 * summary[s, 2] + 0.5 * summary[s, 3]
        return max(summary[s, 3] - centre[0], centre[0] - summary[s, 2])
    for a in range(d):
        centre[a] = summary[s, a]
    return summary[s, d + 1]


@lean_inline
def _visit(grid, store, batch, i, criterion, work):
    """Write the slots in reach of arrival i to work.visited; how many."""
    w, d, summary = batch.code[i], criterion.d, store.tuples.summary
    o = w ^ 1
    leave(grid, store, o, first_in_time(store, o, batch.time[i]))
    begin, end = store.windows.head[o], store.windows.tail[o]
    if grid.front[o] == grid.back[o]:
        return 0
    if grid.side[o] > 0.0:
        rounding = store.rounding[w] + store.rounding[o]
        reach = widest_reach(criterion.within, rounding) + summary[grid.queue[grid.front[o]], d]
        reach += _ball_of(summary, batch.slots[i], d, work.centre)
        cells = cells_around(grid, o, work.centre, d, reach, work.box)
        if cells <= (end - begin) // store.tasks:
            reached = search(grid, o, store.windows, work.box, work.visited)
            if reached >= 0:
                return reached
    return write_owned(store, begin, end, work.visited)


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


@compiled_ieee
def join_grid(store, grid, batch, criterion, counts):
    """Pairs of each arrival with the tuples then held opposite it, Pr(match) >= probability.

    grid : `Grid` over the windows as they are before the batch; follows them. The arrivals have
    their lines of `summary`. The rest, and the result, as for `join_nested`.
    Cost: O(1) a tuple to index, then the tuples in the cells visited, then the samples of the
    candidates that regions do not prune; O(tuples held) where cells do not help.
    Source: B, sections 5 and 6 (OP, SP, Grid, r_max; its batches of arrivals, which share a visit,
    gained nothing here); A, section 6.2.1 (Index-Match).
    """
    d, widest = criterion.d, widest_window(store.windows)
    candidates = np.empty(widest, np.int64)
    work = GridWork(
        np.empty(widest, np.int64), candidates, np.empty(d), np.empty((AXES, 2), np.int64)
    )
    # Arrays taken out of the tuples once: each time costs two atomic reference counts an array.
    tuples, tail, code, slots = store.tuples, store.windows.tail, batch.code, batch.slots
    found, n, extent, steps = np.empty(64, FOUND), 0, np.empty(d), np.int64(0)
    for i in range(code.size):
        reached, o = _visit(grid, store, batch, i, criterion, work), code[i] ^ 1
        left = _candidates(store, batch, i, reached, criterion, work, counts)
        steps += reached
        for c in range(left):
            v = candidates[c]
            steps = after_signals(steps + tuples.samples[slots[i]] * tuples.samples[v])
            total = quick_probability(tuples, slots[i], v, criterion)
            if total == UNDECIDED:
                total = pair_probability(tuples, slots[i], v, criterion)
            if total >= 0.0:
                found = add_found(found, n, i, o, v, tail[o], total)
                n += 1
        enter_indexed(grid, store, batch, i, criterion, extent)
        leave(grid, store, o, first_in_time(store, o, batch.time[i]))
    return found[:n]
