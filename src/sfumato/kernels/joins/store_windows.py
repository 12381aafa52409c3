"""Allocation of slots for arrivals in a store's windows, and the tuples evicted from them."""

import numpy as np

from sfumato.kernels.arrays import write_at
from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.joins.grid import empty_grid, index_window, unlink_window
from sfumato.kernels.joins.tuple_store import (
    Store,
    StoreWindows,
    block_size,
    copy_line,
    empty_tuples,
    write_block,
)


@compiled_ieee
def empty_store(d, columns, rows, within, span, task, tasks):
    """Return a store without windows; columns, rows : of `summary` and `box` in `StoredTuples`."""
    none = np.empty(0, np.int64)
    return Store(
        empty_tuples(0, 0, columns, rows),
        StoreWindows(none, none, none, none, none, np.empty(0), np.empty(0)),
        empty_grid(0, 0, d),
        within, span, np.zeros(span.size, np.int64), np.zeros(2, np.int64), task, tasks, d,
    )  # fmt: skip


@lean
def _slots_for(held, arriving):
    """Return the number of slots with which moving a window costs O(1) amortised per arrival."""
    return 2 * (held + arriving) + 8 if held + arriving > 0 else 0


@lean
def _copy_window(store, w, tuples, base, room):
    """Copy a window's lines to `base` and update its range."""
    windows = store.windows
    held = windows.tail[w] - windows.head[w]
    windows.radius[w] = windows.rounding[w] = 0.0
    for i in range(held):
        copy_line(store.tuples, windows.head[w] + i, tuples, base + i)
        windows.radius[w] = max(windows.radius[w], tuples.radius[base + i])
        windows.rounding[w] = max(windows.rounding[w], tuples.rounding[base + i])
    windows.base[w], windows.capacity[w] = base, room
    windows.head[w], windows.tail[w] = base, base + held


@compiled_ieee
def make_room(store, code, places):
    """Move windows so that arrivals fit at their ends; return whether all arrivals fit.

    code : int64[n], the arrivals' windows, which all exist    places : int64, size of their blocks
    O(n + moved tuples).
    """
    windows, used, tuples = store.windows, store.used, store.tuples
    fits = used[0] + places <= tuples.blocks.size
    for w in code:
        windows.arriving[w] += 1
    for w in code:
        arriving, held = windows.arriving[w], windows.tail[w] - windows.head[w]
        windows.arriving[w] = 0
        if windows.tail[w] + arriving > windows.base[w] + windows.capacity[w]:
            room = _slots_for(held, arriving)
            fits = fits and used[1] + room <= tuples.at.size
            if fits:
                unlink_window(store, w)
                _copy_window(store, w, tuples, used[1], room)
                used[1] += room
                index_window(store, w)
    return fits


@compiled_ieee
def enlarge_store(store, code, places):
    """Return a copy of the store with room for arrivals and for new windows.

    code, places : see `make_room`, but windows may be new    O(held samples + windows).
    """
    old, streams, known = store.tuples, store.span.size, store.windows.head.size
    d = store.dimensions
    count = known
    for w in code:
        count = max(count, (w // streams + 1) * streams)
    count = max(count, 2 * known) if count > known else known
    lines, most = np.zeros((5, count), np.int64), np.zeros((2, count))
    windows = StoreWindows(lines[0], lines[1], lines[2], lines[3], lines[4], most[0], most[1])
    write_at(windows.head, 0, store.windows.head)
    write_at(windows.tail, 0, store.windows.tail)
    for w in code:
        windows.arriving[w] += 1
    slots = 0
    for w in range(count):
        slots += _slots_for(windows.tail[w] - windows.head[w], windows.arriving[w])
        for s in range(windows.head[w], windows.tail[w]):
            places += block_size(d, old.samples[s])
    tuples = empty_tuples(2 * slots, 2 * places, old.summary.shape[1], old.box.shape[0])
    grid = empty_grid(2 * slots if store.within >= 0.0 else 0, count, d)
    used = np.zeros(2, np.int64)
    about = store.within, store.span, store.held, used, store.task, store.tasks, d
    before, after = Store(old, windows, grid, *about), Store(tuples, windows, grid, *about)
    for w in range(count):
        room = _slots_for(windows.tail[w] - windows.head[w], windows.arriving[w])
        windows.arriving[w] = 0
        _copy_window(before, w, tuples, used[1], room)
        used[1] += room
        for s in range(windows.head[w], windows.tail[w]):
            at, size = tuples.at[s], block_size(d, tuples.samples[s])
            write_at(tuples.blocks, used[0], old.blocks[at : at + size])
            tuples.at[s] = used[0]
            used[0] += size
    index_windows(after)
    return after


@lean
def index_windows(store):
    """Index all windows of a restored store. O(held tuples)."""
    for w in range(store.windows.head.size):
        index_window(store, w)


@lean
def write_batch(store, batch, rows):
    """Write arrivals to slots at the ends of their windows; windows do not move.

    Every window must have room. `begins` is written as if all tuples were certain.
    rows : int64[streams], tuples per window    O(samples * d).
    """
    tuples, windows, code = store.tuples, store.windows, batch.code
    streams = store.span.size
    for i in range(code.size):
        w = code[i]
        s = windows.tail[w] + windows.arriving[w]
        windows.arriving[w] += 1
        batch.slots[i] = s
        batch.begins[i] = max(windows.head[w], s + 1 - rows[w % streams])
        tuples.number[s], tuples.time[s] = batch.number[i], batch.time[i]
        tuples.existence[s], tuples.radius[s] = batch.existence[i], batch.radius[i]
        store.used[0] = write_block(
            tuples, s, store.used[0], batch.prob, batch.points, batch.offsets[i],
            batch.offsets[i + 1],
        )  # fmt: skip
        windows.radius[w] = max(windows.radius[w], tuples.radius[s])
        windows.rounding[w] = max(windows.rounding[w], tuples.rounding[s])
    for w in code:
        windows.arriving[w] = 0


@compiled_ieee
def list_evicted(store, heads, batch):
    """Return (arrival, stream, number) of the tuples that a joined batch evicted, by arrival.

    heads : int64[windows], `head` of the windows before the batch; overwritten
    """
    tuples, streams = store.tuples, store.span.size
    total = (store.windows.head - heads).sum()
    arrival, number = np.empty(total, np.int64), np.empty(total, np.int64)
    stream, n = np.empty(total, np.int64), 0
    for i in range(batch.code.size):
        key = batch.code[i] // streams * streams
        for w in range(key, key + streams):
            oldest = batch.time[i] - store.span[w - key]
            while heads[w] < store.windows.tail[w] and (
                (tuples.time[heads[w]] <= oldest)
                or (w == batch.code[i] and heads[w] < batch.begins[i])
            ):
                arrival[n], stream[n], number[n] = i, w - key, tuples.number[heads[w]]
                heads[w] += 1
                n += 1
    return arrival, stream, number
