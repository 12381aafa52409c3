"""A grid over the tuples' regions: which tuples of a window may be near a place.

One hash table holds the grids of all windows: a tuple is linked into the bucket of its window and
cell, in O(1). Each window has its own cell side and up to three axes, chosen from its content
and chosen again as the content is renewed. Windows of fewer than SMALL tuples have no cells.
Of several tasks each has the tuples that it owns here, and no others.

The largest reach in a window (r_max) is kept by a monotone queue: in queue[front:back], slots in
order of arrival with falling reach; a new reach pops the smaller ones, an evicted slot the front.
"""

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean, lean_inline
from sfumato.kernels.joins.match_probability import SLACK
from sfumato.kernels.joins.similarity_nested import enter, forget_before
from sfumato.kernels.joins.store_room import move_window
from sfumato.kernels.joins.tuple_store import first_in_time, owned

SMALL = 48  # tuples: below, a scan costs less than two or three look-ups
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


def new_grid(slots: int, windows: int) -> Grid:
    """An empty grid."""
    buckets = 64
    while buckets < 2 * slots:
        buckets *= 2
    return Grid(
        buckets=np.full(buckets, NONE, np.int64),
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
    return np.int64(math.floor(min(max(x / side, -FARTHEST), FARTHEST)))


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
    grid.cell[s], grid.after[s], grid.before[s] = h, first, NONE
    if first != NONE:
        grid.before[first] = s
    grid.buckets[bucket] = s


@lean_inline
def _unlink(grid, s):
    later, earlier = grid.after[s], grid.before[s]
    if earlier == NONE:
        grid.buckets[grid.cell[s] & (grid.buckets.size - 1)] = later
    else:
        grid.after[earlier] = later
    if later != NONE:
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
    grid.buckets[:] = NONE
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
        reach = radius + SLACK * abs(radius) + 1e-15 * abs(x)
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
                while s != NONE:
                    if cell[s] == h and head <= s < tail:
                        if n == out.size:
                            return -1
                        out[n] = s
                        n += 1
                    s = after[s]
    return n
