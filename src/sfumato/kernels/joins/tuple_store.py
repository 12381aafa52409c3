"""The tuples of a join: samples in blocks, one line per tuple, windows as ranges of lines.

Tuples of one window (one stream of one key) lie in consecutive slots, oldest first:

    slots   | ... base . . head ============ tail . . . base + capacity ... |
                           oldest held       next arrival

so that a window is scanned like an array, arrivals are written at `tail` and evictions only move
`head`. A window that runs into its end is moved: to its own base if it fills at most half of its
room, else to larger room. Both cost O(1) amortised an arrival.

Where several tasks share a join, each has the lines of all tuples, so that it knows what windows
hold, and the samples of its own ones: of tuples whose number leaves `task` when divided by `tasks`.
Samples of others are there while they arrive, and no index names them.

The samples of a tuple are a block of rows of equal padded length L: the probabilities, then
one row for each coordinate. Padding has probability 0 and coordinate NaN: it is near nothing.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled_ieee, lean, lean_inline
from sfumato.kernels.tolerances import EPSILON


@lean
def compact_blocks(store, heads, d, blocks):
    """Copy the blocks of all tuples since `heads` into `blocks`; the place after them.

    heads : int64[windows], where each began.  With `blocks` empty only the place is computed.
    """
    used, tuples = 0, store.tuples
    for w in range(heads.size):
        for s in range(heads[w], store.windows.tail[w]):
            size = block_size(d, tuples.samples[s])
            if blocks.size > 0:
                at = tuples.at[s]
                for i in range(size):
                    blocks[used + i] = tuples.blocks[at + i]
                tuples.at[s] = used
            used += size
    return used


@lean
def copy_tuple(source, s, target, t):
    """Copy the line of slot s to slot t (not its block)."""
    target.at[t], target.samples[t] = source.at[s], source.samples[s]
    target.existence[t], target.number[t] = source.existence[s], source.number[s]
    target.time[t], target.rounding[t] = source.time[s], source.rounding[s]
    for c in range(source.summary.shape[1]):
        target.summary[t, c] = source.summary[s, c]


@lean
def room_for(held, arriving):
    """Slots to give a window, so that moving it again costs O(1) amortised an arrival."""
    return 2 * (held + arriving) + 8


@lean
def plan_moves(store, code, moves):
    """Which windows must move before arrivals can be written at the end of each.

    code : int64[n], windows of the arrivals
    moves : MOVE[n], written: of those that move, each once
    Returns (how many move, the first slot beyond all windows' room then). O(n).
    """
    windows, found, end = store.windows, 0, store.ends[0].slots
    for i in range(code.size):
        windows.arriving[code[i]] += 1
    for i in range(code.size):
        w = code[i]
        arriving = windows.arriving[w]
        windows.arriving[w] = 0
        if arriving == 0 or windows.tail[w] + arriving <= windows.base[w] + windows.capacity[w]:
            continue
        room = room_for(windows.tail[w] - windows.head[w], arriving)
        moves[found].window = w
        if room <= windows.capacity[w]:
            moves[found].base, moves[found].capacity = windows.base[w], windows.capacity[w]
        else:
            moves[found].base, moves[found].capacity = end, room
            end += room
        found += 1
    return found, end


@lean
def move_window(store, move):
    """Move one window as `plan_moves` says. O(tuples moved)."""
    windows, w, base = store.windows, move.window, move.base
    shift = base - windows.head[w]  # copies down, or to room of its own: never onto its rest
    store.rounding[w] = 0.0
    for s in range(windows.head[w], windows.tail[w]):
        store.rounding[w] = max(store.rounding[w], store.tuples.rounding[s])
        copy_tuple(store.tuples, s, store.tuples, s + shift)
    windows.head[w] += shift
    windows.tail[w] += shift
    windows.base[w], windows.capacity[w] = base, move.capacity


@lean
def move_windows(store, moves):
    """Move windows as `plan_moves` says. O(tuples moved)."""
    for i in range(moves.size):
        move_window(store, moves[i])


@lean
def repack(store, code, target):
    """Copy all windows' tuples into the lines of a new pool; the end of the room given out.

    code : int64[n], windows of the arrivals that are to have room as well
    With no lines in `target`, `StoredTuples`, only the end is computed. O(tuples held + windows).
    """
    windows, end = store.windows, 0
    for i in range(code.size):
        windows.arriving[code[i]] += 1
    for w in range(windows.head.size):
        held, arriving = windows.tail[w] - windows.head[w], windows.arriving[w]
        room = room_for(held, arriving) if held + arriving > 0 else 0
        if target.at.size > 0:
            for i in range(held):
                copy_tuple(store.tuples, windows.head[w] + i, target, end + i)
            windows.base[w], windows.capacity[w] = end, room
            windows.head[w], windows.tail[w] = end, end + held
        end += room
        windows.arriving[w] = 0
    return end


SAMPLE_LANES = 4  # samples are padded to a multiple of this, so that SIMD needs no remainder
FOREVER = 2**62  # a span that no two times are apart

ENDS = integers("places slots")
MOVE = integers("window base capacity")


class StoredTuples(NamedTuple):
    """Tuples by slot.

    blocks : float64[...], all samples, padded
    at, samples : int64[slots], where a tuple's block begins and its number of samples (0: none yet)
    existence : float64[slots]
    number : int64[slots], running number of the tuple in its stream
    time : int64[slots], not falling in a window
    summary : float64[slots, columns], see `regions`
    rounding : float64[slots], see `rounding_of`
    """

    blocks: np.ndarray
    at: np.ndarray
    samples: np.ndarray
    existence: np.ndarray
    number: np.ndarray
    time: np.ndarray
    summary: np.ndarray
    rounding: np.ndarray


class StoreWindows(NamedTuple):
    """Windows by code, streams * key + stream; int64 each.

    base, capacity : first slot and slots of a window's room    head, tail : what it holds
    arriving : zero between calls, to count a batch's arrivals in
    """

    base: np.ndarray
    capacity: np.ndarray
    head: np.ndarray
    tail: np.ndarray
    arriving: np.ndarray


class Store(NamedTuple):
    """All that a join holds.

    span : int64[streams], a tuple leaves its window once another of its key is so much later
    held : int64[streams], tuples in all windows of a stream
    ends : ENDS[1], how far `blocks` is written, and how many slots are given out
    task, tasks : int64, which of how many tasks this is
    rounding : float64[windows], at least that of every tuple of the window
    """

    tuples: StoredTuples
    windows: StoreWindows
    span: np.ndarray
    held: np.ndarray
    ends: np.ndarray
    task: np.int64
    tasks: np.int64
    rounding: np.ndarray


class Batch(NamedTuple):
    """n arrivals with m samples, in order.

    code, number, time : int64[n], of the window, in the stream, and microseconds (0: no matter);
        the times of one key do not fall
    existence : float64[n]    offsets : int64[n + 1]    prob : float64[m]    points : float64[m, d]
    slots, begins : int64[n], written: where a tuple lies, and where its window begins once it has
        entered (and what `span` excludes is gone)
    """

    code: np.ndarray
    number: np.ndarray
    time: np.ndarray
    existence: np.ndarray
    offsets: np.ndarray
    prob: np.ndarray
    points: np.ndarray
    slots: np.ndarray
    begins: np.ndarray


@lean_inline
def padded(count):
    """Length of the rows of a block of `count` samples."""
    return (count + SAMPLE_LANES - 1) // SAMPLE_LANES * SAMPLE_LANES


@lean_inline
def block_size(d, count):
    """Places of a block of so many samples."""
    return (d + 1) * padded(count)


@lean_inline
def rounding_of(points, first, last):
    """Upper bound of the distance between the coordinates of samples and the decimals they stand
    for, per coordinate; 0 if all are whole numbers, which are exact.

    points : float64[m, d]    first, last : the samples of one tuple
    """
    largest, whole = 0.0, True
    for k in range(first, last):
        for a in range(points.shape[1]):
            largest = max(largest, abs(points[k, a]))
            whole &= points[k, a] == np.floor(points[k, a])
    return 0.0 if whole else largest * EPSILON


@lean_inline
def write_block(tuples, s, used, prob, points, first, last):
    """Write samples [first, last) as those of slot s, a block at place `used`; the place after it.

    prob : float64[m]    points : float64[m, d]
    """
    count, d = last - first, points.shape[1]
    length = padded(count)
    tuples.at[s], tuples.samples[s] = used, count
    tuples.rounding[s] = rounding_of(points, first, last)
    for k in range(count):
        tuples.blocks[used + k] = prob[first + k]
    for k in range(count, length):
        tuples.blocks[used + k] = 0.0
    for a in range(d):
        row = used + (a + 1) * length
        for k in range(count):
            tuples.blocks[row + k] = points[first + k, a]
        for k in range(count, length):
            tuples.blocks[row + k] = np.nan
    return used + (d + 1) * length


@compiled_ieee
def lone_tuples(offsets, prob, points, existence, columns):
    """`StoredTuples` of no window, in slots 0, 1, ..; `columns` of their summaries, not written."""
    n, d, places = offsets.size - 1, points.shape[1], 0
    for i in range(n):
        places += block_size(d, offsets[i + 1] - offsets[i])
    tuples = StoredTuples(
        np.empty(places), np.empty(n, np.int64), np.empty(n, np.int64), existence.copy(),
        np.arange(n), np.zeros(n, np.int64), np.empty((n, columns)),
        np.empty(n),
    )  # fmt: skip
    used = 0
    for i in range(n):
        used = write_block(tuples, i, used, prob, points, offsets[i], offsets[i + 1])
    return tuples


@lean
def write_batch(store, batch, rows):
    """Give arrivals slots at the ends of their windows and write them; the windows do not move.

    rows : int64[streams], tuples a window holds; begins are written as if all tuples surely existed
    Every window has room. O(samples * d).
    """
    tuples, windows, code = store.tuples, store.windows, batch.code
    used, streams = store.ends[0].places, store.span.size
    for i in range(code.size):
        w = code[i]
        s = windows.tail[w] + windows.arriving[w]
        windows.arriving[w] += 1
        batch.slots[i] = s
        batch.begins[i] = max(windows.head[w], s + 1 - rows[w % streams])
        tuples.number[s], tuples.time[s] = batch.number[i], batch.time[i]
        tuples.existence[s] = batch.existence[i]
        used = write_block(
            tuples, s, used, batch.prob, batch.points, batch.offsets[i], batch.offsets[i + 1]
        )
        store.rounding[w] = max(store.rounding[w], tuples.rounding[s])
    store.ends[0].places = used
    for i in range(code.size):
        windows.arriving[code[i]] = 0


@lean_inline
def owned(store, s):
    """Whether this task compares arrivals with the tuple of slot s."""
    return store.tasks == 1 or store.tuples.number[s] % store.tasks == store.task


@lean_inline
def write_owned(store, begin, end, out):
    """Write the slots of [begin, end) that are owned, of one window, to `out`; how many.

    O(owned) where the numbers follow each other, as without key, else O(end - begin).
    """
    n, step, tasks = 0, 1, store.tasks
    if begin < end and tasks > 1:
        number = store.tuples.number
        if number[end - 1] - number[begin] == end - 1 - begin:
            begin += (store.task - number[begin]) % tasks
            step = tasks
    for s in range(begin, end, step):
        if owned(store, s):
            out[n] = s
            n += 1
    return n


@lean_inline
def first_in_time(store, w, now):
    """Where window w begins at a time, by its span alone. O(tuples that left)."""
    head, tail = store.windows.head[w], store.windows.tail[w]
    oldest, time = now - store.span[w % store.span.size], store.tuples.time
    while head < tail and time[head] <= oldest:
        head += 1
    return head


@compiled_ieee
def read_tuples(tuples, slots, d):
    """The samples of some tuples: (offsets int64[n + 1], prob float64[m], points float64[m, d])."""
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


@lean
def widest_window(windows):
    """Slots of the window with the largest room, at least 1."""
    widest = 1
    for room in windows.capacity:
        widest = max(widest, room)
    return widest


@compiled_ieee
def held_slots(windows):
    """Slots of all held tuples, window after window, oldest first, and their windows."""
    total = 0
    for w in range(windows.head.size):
        total += windows.tail[w] - windows.head[w]
    slots, code, i = np.empty(total, np.int64), np.empty(total, np.int64), 0
    for w in range(windows.head.size):
        for s in range(windows.head[w], windows.tail[w]):
            slots[i], code[i] = s, w
            i += 1
    return slots, code


@compiled_ieee
def expired(store, heads, batch):
    """Tuples that a batch made leave, by arrival: (the arrival, the stream, their numbers).

    heads : int64[windows], where the windows began before the batch; written
    The batch is done, its tuples are in their slots.
    """
    tuples, streams = store.tuples, store.span.size
    ends, total = store.windows.tail, 0
    for w in range(heads.size):
        total += store.windows.head[w] - heads[w]
    arrival, number = np.empty(total, np.int64), np.empty(total, np.int64)
    stream, n = np.empty(total, np.int64), 0
    for i in range(batch.code.size):
        key = batch.code[i] // streams * streams
        for w in range(key, key + streams):
            oldest = batch.time[i] - store.span[w - key]
            while heads[w] < ends[w] and (
                (tuples.time[heads[w]] <= oldest)
                or (w == batch.code[i] and heads[w] < batch.begins[i])
            ):
                arrival[n], stream[n], number[n] = i, w - key, tuples.number[heads[w]]
                heads[w] += 1
                n += 1
    return arrival, stream, number
