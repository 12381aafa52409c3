"""Where a join keeps its tuples: samples in blocks, one line a tuple, windows as ranges of lines.

Tuples of one window (one side of one key) lie in consecutive slots, oldest first:

    slots   | ... base . . head ============ tail . . . base + capacity ... |
                           oldest held       next arrival

so that a window is scanned like an array, arrivals are written at `tail` and evictions only move
`head`. A window that runs into its end is moved: to its own base if it fills at most half of its
room, else to larger room. Both cost O(1) amortised an arrival.

The samples of a tuple are a block of rows of equal padded length L: the probabilities, then
one row for each coordinate. Padding has probability 0 and coordinate NaN: it is near nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee

LANES = 4  # samples are padded to a multiple of this, so that SIMD needs no remainder


class Tuples(NamedTuple):
    """Tuples by slot.

    blocks : float64[...], all samples, padded
    at, samples : int64[slots], where a tuple's block begins and its number of samples
    existence : float64[slots]
    number : int64[slots], running number of the tuple on its side
    summary : float64[slots, columns], see `trimmed_radius`
    """

    blocks: np.ndarray
    at: np.ndarray
    samples: np.ndarray
    existence: np.ndarray
    number: np.ndarray
    summary: np.ndarray


class Windows(NamedTuple):
    """Windows by code 2 * key + side, so that the opposing window of w is w ^ 1; int64 each."""

    base: np.ndarray
    capacity: np.ndarray
    head: np.ndarray
    tail: np.ndarray


@compiled_ieee
def padded(count):
    """Length of the rows of a block of `count` samples."""
    return (count + LANES - 1) // LANES * LANES


@compiled_ieee
def write_tuples(tuples, slots, offsets, prob, points, existence, numbers, used):
    """Write arrivals into their slots and their samples into blocks from position `used` on.

    slots, numbers : int64[n]   offsets : int64[n + 1]   prob : float64[m]   points : float64[m, d]
    Returns the position after the last block. O(samples * d).
    """
    d = points.shape[1]
    for i in range(slots.size):
        s, first, count = slots[i], offsets[i], offsets[i + 1] - offsets[i]
        length = padded(count)
        tuples.at[s] = used
        tuples.samples[s] = count
        tuples.existence[s] = existence[i]
        tuples.number[s] = numbers[i]
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
        used += (d + 1) * length
    return used


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


@compiled_ieee
def compact_blocks(tuples, windows, d, blocks):
    """Copy the blocks of all held tuples into `blocks`, one after the other; the place after them.

    With `blocks` empty only the place is computed. O(samples held * d).
    """
    used = 0
    for w in range(windows.head.size):
        for s in range(windows.head[w], windows.tail[w]):
            size = (d + 1) * padded(tuples.samples[s])
            if blocks.size > 0:
                at = tuples.at[s]
                for i in range(size):
                    blocks[used + i] = tuples.blocks[at + i]
                tuples.at[s] = used
            used += size
    return used


@compiled_ieee
def copy_tuple(source, s, target, t):
    """Copy the line of slot s to slot t (not its block)."""
    target.at[t] = source.at[s]
    target.samples[t] = source.samples[s]
    target.existence[t] = source.existence[s]
    target.number[t] = source.number[s]
    for c in range(source.summary.shape[1]):
        target.summary[t, c] = source.summary[s, c]


@compiled_ieee
def room_for(held, arriving):
    """Slots to give a window, so that moving it again costs O(1) amortised an arrival."""
    return 2 * (held + arriving) + 8


@compiled_ieee
def windows_to_move(windows, arriving, end, slots, moves):
    """Which windows must move before `arriving[w]` tuples can be written at the end of each.

    arriving : int64[windows]    end : first slot beyond all windows' room    slots : of the pool
    moves : int64[windows, 3], written: (window, new base, new capacity) of those that move
    Returns (how many move, the new end); -1 moves when the pool has not enough slots.
    """
    found = 0
    for w in range(arriving.size):
        if arriving[w] == 0 or windows.tail[w] + arriving[w] <= (
            windows.base[w] + windows.capacity[w]
        ):
            continue
        room = room_for(windows.tail[w] - windows.head[w], arriving[w])
        moves[found, 0] = w
        if room <= windows.capacity[w]:
            moves[found, 1], moves[found, 2] = windows.base[w], windows.capacity[w]
        else:
            moves[found, 1], moves[found, 2] = end, room
            end += room
        found += 1
    return (-1 if end > slots else found), end


@compiled_ieee
def move_windows(tuples, windows, moves):
    """Move windows as `windows_to_move` says. O(tuples moved)."""
    for i in range(moves.shape[0]):
        w, base = moves[i, 0], moves[i, 1]
        shift = base - windows.head[w]  # copies down, or to room of its own: never onto its rest
        for s in range(windows.head[w], windows.tail[w]):
            copy_tuple(tuples, s, tuples, s + shift)
        windows.head[w] += shift
        windows.tail[w] += shift
        windows.base[w], windows.capacity[w] = base, moves[i, 2]


@compiled_ieee
def repack(source, windows, arriving, target):
    """Copy all windows' tuples into the lines of a new pool; the end of the room given out.

    With no lines in `target` only the end is computed. O(tuples held + windows).
    """
    end = 0
    for w in range(windows.head.size):
        held = windows.tail[w] - windows.head[w]
        if held == 0 and arriving[w] == 0:
            room = 0
        else:
            room = room_for(held, arriving[w])
        if target.at.size > 0:
            for i in range(held):
                copy_tuple(source, windows.head[w] + i, target, end + i)
            windows.base[w], windows.capacity[w] = end, room
            windows.head[w], windows.tail[w] = end, end + held
        end += room
    return end


@compiled_ieee
def assign_slots(windows, code):
    """Slots of arrivals at the ends of their windows: int64[n]; the windows stay as they are.

    code : int64[n], windows of the arrivals in arrival order
    """
    ahead = np.zeros(windows.tail.size, np.int64)
    slots = np.empty(code.size, np.int64)
    for i in range(code.size):
        w = code[i]
        slots[i] = windows.tail[w] + ahead[w]
        ahead[w] += 1
    return slots


@compiled_ieee
def held_numbers(tuples, windows, side):
    """Numbers of all tuples held on one side, window after window: int64[]."""
    total = 0
    for w in range(side, windows.head.size, 2):
        total += windows.tail[w] - windows.head[w]
    numbers = np.empty(total, np.int64)
    i = 0
    for w in range(side, windows.head.size, 2):
        for s in range(windows.head[w], windows.tail[w]):
            numbers[i] = tuples.number[s]
            i += 1
    return numbers


@compiled_ieee
def expired(tuples, heads, code, begins):
    """Tuples evicted by a batch, in order: (arrival that evicted, its side, their numbers).

    heads : int64[windows], where the windows began before the batch
    code, begins : int64[n], windows of the arrivals and where each began after its arrival
    """
    total = 0
    at = heads.copy()
    for i in range(code.size):
        total += begins[i] - at[code[i]]
        at[code[i]] = begins[i]
    arrival = np.empty(total, np.int64)
    side = np.empty(total, np.int64)
    number = np.empty(total, np.int64)
    at = heads.copy()
    j = 0
    for i in range(code.size):
        w = code[i]
        for s in range(at[w], begins[i]):
            arrival[j], side[j], number[j] = i, w & 1, tuples.number[s]
            j += 1
        at[w] = begins[i]
    return arrival, side, number
