"""A grid over the regions of tuples, as an index of all windows of a store.

One hash table holds the grids of all windows: a tuple is linked into the bucket of its window and
cell, in O(1). Each window has its own cell side and up to three axes, which are chosen from its
content and updated as the content changes. A task indexes only the tuples that it owns. Tuples with
an exceptional reach share a bucket that every search visits, so a few large radii do not widen all
searches.

Windows are scanned if they have fewer than SMALL_WINDOW tuples, or if a search would visit more
cells than tuples, which is usual in high dimensions (3**d cells).
Source: Lian and Chen (2009), sections 5 and 6 (Grid, r_max); Dallachiesa et al. (2015), section
6.2.1 (Index-Match).
"""

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, inlined, lean, lean_inline
from sfumato.kernels.joins.tuple_store import is_local, write_owned
from sfumato.kernels.tolerances import SIFT_SLACK

SMALL_WINDOW = 48  # tuples; scanning fewer costs less than two or three look-ups
MAX_AXES = 3
# Tuples whose reach exceeds this multiple of (within + mean reach) are in no cell.
EXCEPTIONAL_REACH_RATIO = 4.0
LAST_CELL = 2.0**50  # cell numbers are clamped here; all tuples beyond share the last cell
NO_CELL = np.int64(2**60)  # cell number of exceptional tuples
NO_ENTRY = -1


class Grid(NamedTuple):
    """The index over all windows.

    buckets : int64[power of two], first slot of each bucket, or NO_ENTRY
    after, before : int64[slots], doubly linked lists that end in NO_ENTRY
    cell : int64[slots], hash of window and cell
    reach : float64[windows], largest reach of a tuple in a cell since the cells were chosen (r_max)
    most : float64[windows], largest reach with which a tuple is put in a cell
    exceptions : int64[windows], number of tuples with a larger reach since the cells were chosen
    side : float64[windows], cell side, 0 while the window has no cells
    axes : int64[windows, MAX_AXES], coordinates that span the cells
    due : int64[windows], arrivals until the side is chosen again
    centre, box : float64[d], int64[MAX_AXES, 2], working memory
    """

    buckets: np.ndarray
    after: np.ndarray
    before: np.ndarray
    cell: np.ndarray
    reach: np.ndarray
    most: np.ndarray
    exceptions: np.ndarray
    side: np.ndarray
    axes: np.ndarray
    due: np.ndarray
    centre: np.ndarray
    box: np.ndarray


@compiled_ieee
def empty_grid(slots, windows, d):
    buckets = 64
    while buckets < 2 * slots:
        buckets *= 2
    return Grid(
        np.full(buckets, NO_ENTRY), np.empty(slots, np.int64), np.empty(slots, np.int64),
        np.empty(slots, np.int64), np.full(windows, -np.inf), np.full(windows, np.inf),
        np.zeros(windows, np.int64), np.zeros(windows), np.zeros((windows, MAX_AXES), np.int64),
        np.full(windows, SMALL_WINDOW), np.empty(d), np.empty((MAX_AXES, 2), np.int64),
    )  # fmt: skip


@lean
def _cell(x, side):
    """Return the cell number of a coordinate; monotonic in x despite rounding."""
    return np.int64(math.floor(min(max(x / side, -LAST_CELL), LAST_CELL)))


@lean
def _hash(w, x, y, z):
    h = np.int64(w) * np.int64(0x2545F4914F6CDD1D) + x
    h = (h ^ (h >> 32)) * np.int64(0x1B03738712FAD5C9) + y
    h = (h ^ (h >> 32)) * np.int64(0x1B03738712FAD5C9) + z
    h = (h ^ (h >> 29)) * np.int64(0x369DEA0F31A53F85)
    return h ^ (h >> 32)


@lean_inline
def _hash_of_exceptions(w):
    return _hash(w, NO_CELL, NO_CELL, NO_CELL)


@lean_inline
def _reach(store, s):
    """Return the distance from the key of slot s within which a matching point lies."""
    return store.tuples.summary[s, store.dimensions] + store.tuples.radius[s]


@lean_inline
def _link(store, w, s):
    grid, summary, d = store.grid, store.tuples.summary, store.dimensions
    width, axes = grid.side[w], grid.axes
    y = _cell(summary[s, axes[w, 1]], width) if d > 1 else 0
    z = _cell(summary[s, axes[w, 2]], width) if d > 2 else 0
    h = _hash(w, _cell(summary[s, axes[w, 0]], width), y, z)
    if _reach(store, s) > grid.most[w]:
        h = _hash_of_exceptions(w)
        grid.exceptions[w] += 1
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


@inlined
def _choose_side(store, w, count):
    """Choose the axes with the largest extents and a cell side for `count` >= 1 owned tuples.

    A cell holds about one tuple, but is large enough that the usual search, with radius within +
    radius + r_max, visits at most about 5 cells (1-D), 9 (2-D) or 8 (3-D).
    """
    head, tail, summary = store.windows.head[w], store.windows.tail[w], store.tuples.summary
    grid, d, radius, largest = store.grid, store.dimensions, 0.0, 0.0
    extent, o = grid.centre, opposite_window(store, w)
    for a in range(d):
        low, high = np.inf, -np.inf
        for s in range(head, tail):
            if is_local(store, s):
                low, high = min(low, summary[s, a]), max(high, summary[s, a])
        extent[a] = min(high - low, 1e300)
        largest = max(largest, extent[a])
    for s in range(head, tail):
        if is_local(store, s):
            line = summary[s]
            radius += (0.5 * line[3] - 0.5 * line[2] if d == 1 else line[d + 1]) / count
    others = store.windows.tail[o] - store.windows.head[o]
    for s in range(store.windows.head[o], store.windows.tail[o]):
        radius += store.tuples.radius[s] / others
    reach = max(store.within + radius + max(0.0, grid.reach[w]), 1e-12 * largest, 1e-300)
    axes, side = min(d, MAX_AXES), 1.0
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
def unlink_window(store, w):
    """Remove all tuples of window w from its cells."""
    if store.grid.side[w] > 0.0:
        for s in range(store.windows.head[w], store.windows.tail[w]):
            if is_local(store, s):
                _unlink(store.grid, s)
    store.grid.side[w] = 0.0


@lean
def index_window(store, w):
    """Choose and fill the cells of a window without linked tuples. O(held tuples)."""
    if store.within < 0.0:
        return
    grid, count, head, tail = store.grid, 0, store.windows.head[w], store.windows.tail[w]
    mean = 0.0
    for s in range(head, tail):
        if is_local(store, s):
            mean += max(0.0, _reach(store, s))
            count += 1
    grid.most[w] = EXCEPTIONAL_REACH_RATIO * (store.within + mean / max(count, 1))
    grid.reach[w], grid.exceptions[w] = -np.inf, 0
    for s in range(head, tail):
        if is_local(store, s) and _reach(store, s) <= grid.most[w]:
            grid.reach[w] = max(grid.reach[w], _reach(store, s))
    grid.side[w], grid.due[w] = 0.0, SMALL_WINDOW
    if count >= SMALL_WINDOW:
        grid.due[w] = 2 * count
        _choose_side(store, w, np.int64(count))
        for s in range(head, tail):
            if is_local(store, s):
                _link(store, w, s)


@inlined
def _index(store, w, s):
    grid = store.grid
    if is_local(store, s):
        if _reach(store, s) <= grid.most[w]:
            grid.reach[w] = max(grid.reach[w], _reach(store, s))
        if grid.side[w] > 0.0:
            _link(store, w, s)
        grid.due[w] -= 1
    if grid.due[w] <= 0:
        unlink_window(store, w)
        index_window(store, w)


@lean_inline
def evict_before(store, w, begin):
    """Evict the tuples of window w below slot `begin` from the window and its index."""
    windows, grid = store.windows, store.grid
    head = windows.head[w]
    if begin > head:
        if grid.side[w] > 0.0:
            for s in range(head, begin):
                if is_local(store, s):
                    _unlink(grid, s)
        windows.head[w] = begin
        store.held[w % store.span.size] -= begin - head


@lean_inline
def opposite_window(store, w):
    """Return the window matched with arrivals of window w: the other stream's, or w itself."""
    return w ^ (store.span.size - 1)


@lean_inline
def evict_expired(store, w, now):
    """Evict the tuples that expire by time `now` from all windows of w's key. O(evicted tuples)."""
    streams, time = store.span.size, store.tuples.time
    key = w // streams * streams
    for o in range(key, key + streams):
        head, tail, oldest = store.windows.head[o], store.windows.tail[o], now - store.span[o - key]
        while head < tail and time[head] <= oldest:
            head += 1
        evict_before(store, o, head)


@lean_inline
def insert_arrival(store, batch, i):
    """Add arrival i to its window, and evict the tuples that it displaces."""
    w, s = batch.code[i], batch.slots[i]
    store.windows.tail[w] = s + 1
    store.held[w % store.span.size] += 1
    if store.within >= 0.0:
        _index(store, w, s)
    evict_before(store, w, batch.begins[i])


@compiled_ieee
def empty_windows(store, windows):
    """Evict all tuples of some windows (int64[]). O(tuples)."""
    for w in windows:
        evict_before(store, w, store.windows.tail[w])
        store.grid.side[w], store.grid.due[w], store.grid.reach[w] = 0.0, SMALL_WINDOW, -np.inf
        store.grid.most[w] = np.inf


@lean_inline
def _read_cell(grid, h, head, tail, out, n):
    """Write the slots in [head, tail) with hash h to out[n:]; return the end, or -1 if `out` is too
    small."""
    s = grid.buckets[h & (grid.buckets.size - 1)]
    while s != NO_ENTRY:
        if grid.cell[s] == h and head <= s < tail:
            if n == out.size:
                return -1
            out[n] = s
            n += 1
        s = grid.after[s]
    return n


@inlined
def _search_cells(grid, windows, w, out):
    """Write the slots of window w in the cells of `grid.box` to `out`, in any order.

    Returns their number, or -1 if `out` is too small. Colliding hashes may repeat or add slots.
    """
    box, head, tail, n = grid.box, windows.head[w], windows.tail[w], np.int64(0)
    if grid.exceptions[w] > 0:
        n = _read_cell(grid, _hash_of_exceptions(w), head, tail, out, n)
    for x in range(box[0, 0], box[0, 1] + 1):
        for y in range(box[1, 0], box[1, 1] + 1):
            for z in range(box[2, 0], box[2, 1] + 1):
                if n >= 0:
                    n = _read_cell(grid, _hash(w, x, y, z), head, tail, out, n)
    return n


@lean_inline
def search(store, w, radius, out):
    """Write the slots of window w that may be within `radius` + r_max of `grid.centre` to `out`.

    Returns their number. O(visited cells + found slots), or O(owned tuples) if a scan is cheaper.
    """
    grid, d = store.grid, store.dimensions
    begin, end = store.windows.head[w], store.windows.tail[w]
    if grid.side[w] > 0.0:
        cells, width, box = 1.0, grid.side[w], grid.box
        radius += grid.reach[w]
        for a in range(MAX_AXES):
            box[a, 0] = box[a, 1] = 0
        for a in range(min(d, MAX_AXES)):
            x = grid.centre[grid.axes[w, a]]
            reach = radius + SIFT_SLACK * abs(radius) + 1e-15 * abs(x)
            box[a, 0], box[a, 1] = _cell(x - reach, width), _cell(x + reach, width)
            cells *= max(0.0, box[a, 1] - box[a, 0] + 1.0)
        if cells <= (end - begin) // store.tasks:
            reached = _search_cells(grid, store.windows, w, out)
            if reached >= 0:
                return reached
    return write_owned(store, begin, end, out)
