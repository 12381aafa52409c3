"""Tuples of a join: samples in blocks, one line per tuple, and windows as ranges of lines.

The tuples of one window (one stream of one key) lie in consecutive slots, oldest first:

    slots   | ... base . . head ============ tail . . . base + capacity ... |
                           oldest held       next arrival

A full window moves to a larger range of slots after all others. If no such range is left, all held
tuples are copied to new arrays. Both cost O(1) amortised per arrival.

The samples of a tuple form a block of rows of equal padded length L: the probabilities, then one
row per coordinate. Padding has probability 0 and coordinate NaN, so it never matches.

Several tasks may share a join. Each task has the lines of all tuples, but keeps only the samples of
tuples whose number modulo `tasks` is `task`.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, inlined, lean, lean_inline
from sfumato.kernels.tolerances import EPSILON

SAMPLE_LANES = 4  # samples are padded to a multiple of this, so that SIMD needs no remainder
MAX_SPAN = 2**62  # a span longer than any difference between times


class StoredTuples(NamedTuple):
    """Columns of tuples, by slot.

    blocks : float64[...], all samples    at, samples : int64[slots], place and length of a block
    existence : float64[slots]    number : int64[slots], running number of the tuple in its stream
    time : int64[slots], non-decreasing within a window
    radius : float64[slots], how far tuples reach beyond `Criterion.within`; 0 without radii
    rounding : float64[slots], bound of the distance between coordinates and the decimals that they
        represent; 0 if coordinates and radius are integers, which are exact
    axis : int64[slots], the only coordinate in which the samples differ; -1 for several
    summary : float64[slots, columns], see `regions`
    box : float64[rows, slots], lowest and highest coordinates, then values of the join; or empty
    """

    blocks: np.ndarray
    at: np.ndarray
    samples: np.ndarray
    existence: np.ndarray
    number: np.ndarray
    time: np.ndarray
    radius: np.ndarray
    rounding: np.ndarray
    axis: np.ndarray
    summary: np.ndarray
    box: np.ndarray


class StoreWindows(NamedTuple):
    """Windows, indexed by code = streams * key + stream.

    base, capacity : int64, first slot and number of slots    head, tail : range of held slots
    arriving : int64, zero between calls, for counting a batch's arrivals
    radius, rounding : float64, upper bounds for all tuples of the window
    """

    base: np.ndarray
    capacity: np.ndarray
    head: np.ndarray
    tail: np.ndarray
    arriving: np.ndarray
    radius: np.ndarray
    rounding: np.ndarray


class Store(NamedTuple):
    """The state of a join.

    grid : `grid.Grid`    within : float64, match distance used by the grid; -1 without a grid
    span : int64[streams], a tuple is evicted once a tuple of its key is at least this much later
    held : int64[streams], number of tuples in all windows of a stream
    used : int64[2], numbers of written places in `blocks` and of slots assigned to windows
    """

    tuples: StoredTuples
    windows: StoreWindows
    grid: NamedTuple
    within: np.float64
    span: np.ndarray
    held: np.ndarray
    used: np.ndarray
    task: np.int64
    tasks: np.int64
    dimensions: np.int64


class Batch(NamedTuple):
    """n arrivals with m samples, in order.

    code, number, time : int64[n], window, number in the stream, and microseconds (0 if unused);
        times of one key do not decrease
    offsets : int64[n + 1]    prob : float64[m]    points : float64[m, d]
    slots, begins : int64[n], written: the tuple's slot, and its window's first slot at that time
    """

    code: np.ndarray
    number: np.ndarray
    time: np.ndarray
    existence: np.ndarray
    radius: np.ndarray
    offsets: np.ndarray
    prob: np.ndarray
    points: np.ndarray
    slots: np.ndarray
    begins: np.ndarray


@lean_inline
def padded(count):
    """Return the row length of a block of `count` samples."""
    return (count + SAMPLE_LANES - 1) // SAMPLE_LANES * SAMPLE_LANES


@lean_inline
def block_size(d, count):
    """Return the number of places of a block of `count` samples in d dimensions."""
    return (d + 1) * padded(count)


@compiled_ieee
def empty_tuples(slots, places, columns, rows):
    """Return `StoredTuples` with unwritten slots and places."""
    return StoredTuples(
        np.empty(places), np.zeros(slots, np.int64), np.zeros(slots, np.int64), np.empty(slots),
        np.empty(slots, np.int64), np.empty(slots, np.int64), np.zeros(slots), np.empty(slots),
        np.empty(slots, np.int64), np.empty((slots, columns)), np.empty((rows, slots)),
    )  # fmt: skip


@lean
def write_block(tuples, s, used, prob, points, first, last):
    """Write samples [first, last) to slot s, as a block at place `used`; return the next place.

    prob : float64[m]    points : float64[m, d]
    Also writes at, samples, rounding, axis and box. The radius of slot s must already be written.
    """
    blocks, count, d = tuples.blocks, last - first, points.shape[1]
    length = padded(count)
    tuples.at[s], tuples.samples[s] = used, count
    for k in range(count):
        blocks[used + k] = prob[first + k]
    for k in range(count, length):
        blocks[used + k] = 0.0
    largest, axis, differing = tuples.radius[s], 0, 0
    whole = largest == np.floor(largest)
    for a in range(d):
        row, low, high = used + (a + 1) * length, np.inf, -np.inf
        for k in range(count):
            x = points[first + k, a]
            blocks[row + k] = x
            low, high = min(low, x), max(high, x)
            whole &= x == np.floor(x)
        for k in range(count, length):
            blocks[row + k] = np.nan
        largest = max(largest, high, -low)
        if low < high:
            axis = a
            differing += 1
        if tuples.box.shape[0] > 0:
            tuples.box[a, s], tuples.box[d + a, s] = low, high
    tuples.axis[s] = axis if differing <= 1 else -1
    tuples.rounding[s] = 0.0 if whole else largest * EPSILON
    return used + (d + 1) * length


@inlined
def copy_line(source, s, target, t):
    """Copy the line of slot s to slot t, without its block."""
    target.at[t], target.samples[t] = source.at[s], source.samples[s]
    target.existence[t], target.number[t] = source.existence[s], source.number[s]
    target.time[t], target.radius[t] = source.time[s], source.radius[s]
    target.rounding[t], target.axis[t] = source.rounding[s], source.axis[s]
    for c in range(source.summary.shape[1]):
        target.summary[t, c] = source.summary[s, c]
    for c in range(source.box.shape[0]):
        target.box[c, t] = source.box[c, s]


@compiled_ieee
def tuples_without_windows(offsets, prob, points, existence, columns):
    """Return `StoredTuples` in slots 0, 1, ... without windows; summaries are not written yet."""
    n, d, places = offsets.size - 1, points.shape[1], 0
    for i in range(n):
        places += block_size(d, offsets[i + 1] - offsets[i])
    tuples, used = empty_tuples(n, places, columns, 0), 0
    for i in range(n):
        used = write_block(tuples, i, used, prob, points, offsets[i], offsets[i + 1])
        tuples.existence[i] = existence[i]
    return tuples


@compiled_ieee
def read_tuples(tuples, slots, d):
    """Return the tuples' samples: (offsets int64[n + 1], prob float64[m], points float64[m, d])."""
    offsets = np.zeros(slots.size + 1, np.int64)
    for i in range(slots.size):
        offsets[i + 1] = offsets[i] + tuples.samples[slots[i]]
    prob, points = np.empty(offsets[-1]), np.empty((offsets[-1], d))
    for i in range(slots.size):
        at, count = tuples.at[slots[i]], tuples.samples[slots[i]]
        length = padded(count)
        for k in range(count):
            prob[offsets[i] + k] = tuples.blocks[at + k]
            for a in range(d):
                points[offsets[i] + k, a] = tuples.blocks[at + (a + 1) * length + k]
    return offsets, prob, points


@lean_inline
def is_local(store, s):
    """Return whether this task compares arrivals with the tuple in slot s."""
    return store.tasks == 1 or store.tuples.number[s] % store.tasks == store.task


@lean_inline
def write_owned(store, begin, end, out):
    """Write the owned slots of one window in [begin, end) to `out`; return their number.

    O(owned) if the numbers are consecutive, as they are without a key; otherwise O(end - begin).
    """
    n, step, tasks = 0, 1, store.tasks
    if begin < end and tasks > 1:
        number = store.tuples.number
        if number[end - 1] - number[begin] == end - 1 - begin:
            begin += (store.task - number[begin]) % tasks
            step = tasks
    for s in range(begin, end, step):
        if is_local(store, s):
            out[n] = s
            n += 1
    return n


@lean
def widest_window(windows):
    """Return the largest capacity of a window, at least 1."""
    widest = 1
    for room in windows.capacity:
        widest = max(widest, room)
    return widest


@compiled_ieee
def held_slots(windows):
    """Return the slots of all held tuples, by window and oldest first, and the window of each."""
    total = 0
    for w in range(windows.head.size):
        total += windows.tail[w] - windows.head[w]
    slots, code, i = np.empty(total, np.int64), np.empty(total, np.int64), 0
    for w in range(windows.head.size):
        for s in range(windows.head[w], windows.tail[w]):
            slots[i], code[i] = s, w
            i += 1
    return slots, code
