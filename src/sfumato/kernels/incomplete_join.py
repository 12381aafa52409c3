"""Join of streams with missing values: objects are imputed only where the join needs it.

Every window of a stream is a ring of at most `rows` slots; it wraps only when it is full, so that
its objects always fill the slots from `base` on, in any order:

    slots   | base ======= held objects ======= base + held   room   base + capacity |

An object is at first known by a box: its present attributes, and for a missing one the interval of
the repository's values in the index nodes that its rule's box meets. Only when that box comes
within reach of an object held opposite is it imputed; its box shrinks, and its samples are written.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from sfumato.kernels.box_distance import (
    box_squares,
    boxes_in_reach,
    certain_pairs,
    squares_in_window,
)
from sfumato.kernels.imputation import impute_object
from sfumato.kernels.match_probability import SLACK, matching_pairs
from sfumato.kernels.pair_refinement import UNKNOWN, pair_probability, refine
from sfumato.kernels.rule_choice import COMPLETE, IMPUTED, PRESENT, new_scratch, scale
from sfumato.kernels.trimmed_radius import summarise
from sfumato.kernels.uncertain_tuples import LEAN, Tuples, existences, padded, write_tuples

COARSE, WHOLE, KEPT = 0, 1, 2  # states of an object: a box; imputed; imputed by other rows

# Places in `counters`: pairs of an arrival and an object held opposite; those whose boxes are
# within reach; those accepted for certain by their boxes; those whose samples were paired; objects
# with missing values that entered; those of them that were imputed.
PAIRS, CANDIDATES, CERTAIN, REFINED, INCOMPLETE, COMPLETED = range(6)
COUNTERS = 6


class Rings(NamedTuple):
    """Windows by code, int64 each: first slot, slots of room, objects held, slot of the oldest."""

    base: np.ndarray
    capacity: np.ndarray
    held: np.ndarray
    oldest: np.ndarray


class Objects(NamedTuple):
    """What is known of an object beside its samples, by slot.

    state : uint8[slots], COARSE, WHOLE, KEPT    raw : float64[slots, D], NaN = missing
    rule : int64[slots, T], see `imputation`    low, high : float64[T, slots], the box
    gap : int64[slots], the missing attribute of an object that lacks one, of T; else -1
    """

    state: np.ndarray
    raw: np.ndarray
    rule: np.ndarray
    low: np.ndarray
    high: np.ndarray
    gap: np.ndarray


class Match(NamedTuple):
    """What makes a match: float64[6] `numbers`, and the units of distances, float64[T] each.

    numbers : within, limit, least, probability (see `match_probability`), then the largest square
        that may be within reach and the largest that certainly is (-1: none)
    """

    numbers: np.ndarray
    shift: np.ndarray
    span: np.ndarray


@njit(cache=True, nogil=True, error_model="numpy")
def block_size(dimensions, count):
    """Places of a block of so many samples."""
    return (dimensions + 1) * padded(count)


@njit(cache=True, nogil=True, error_model="numpy")
def room_for_block(tuples, rings, dimensions, used, needed):
    """Tuples with room for a block of so many places, and the place after the last block.

    Where there is none the blocks of all held and imputed objects move to larger room.
    """
    if used + needed <= tuples.blocks.size:
        return tuples, used
    live = needed
    for w in range(rings.base.size):
        for s in range(rings.base[w], rings.base[w] + rings.held[w]):
            if tuples.samples[s] > 0:
                live += block_size(dimensions, tuples.samples[s])
    blocks, used = np.empty(2 * live), 0
    for w in range(rings.base.size):
        for s in range(rings.base[w], rings.base[w] + rings.held[w]):
            size = block_size(dimensions, tuples.samples[s]) if tuples.samples[s] > 0 else 0
            at = tuples.at[s]
            for i in range(size):
                blocks[used + i] = tuples.blocks[at + i]
            tuples.at[s] = used
            used += size
    moved = Tuples(
        blocks, tuples.at, tuples.samples, tuples.existence, tuples.number, tuples.summary
    )
    return moved, used


@njit(cache=True, nogil=True, error_model="numpy")
def write_samples(tuples, rings, objects, match, s, prob, points, used):
    """Write an object's samples into a block and shrink its box to them; (tuples, used)."""
    d, count = points.shape[1], prob.size
    # A block lent to a slot before must not be moved for this one: it is no longer its object's.
    tuples.samples[s] = 0
    tuples, used = room_for_block(tuples, rings, d, used, block_size(d, count))
    slots, number = np.empty(1, np.int64), np.empty(1, np.int64)
    slots[0], number[0] = s, tuples.number[s]
    offsets = np.empty(2, np.int64)
    offsets[0], offsets[1] = 0, count
    used = write_tuples(
        tuples, slots, offsets, prob, points, existences(offsets, prob), number, used
    )
    summarise(tuples, slots, d, match.numbers[2])
    for a in range(d):
        low, high = np.inf, -np.inf
        for k in range(count):
            low, high = min(low, points[k, a]), max(high, points[k, a])
        objects.low[a, s], objects.high[a, s] = low, high
    objects.state[s] = WHOLE
    return tuples, used


@njit(cache=True, nogil=True, error_model="numpy")
def complete(repository, scratch, tuples, rings, objects, match, s, joint, most, room, used):
    """Impute slot s in full; (tuples, room, used).

    room : (scaled float64[D], counts int64[T], lengths float64[2, T], prob, points), to work in
    """
    scaled, donors, lengths, prob, points = room
    raw = objects.raw[s]
    scale(repository, raw, scaled)
    prob, points, m, _ = impute_object(
        repository, scratch, raw, scaled, objects.rule[s], joint, most,
        donors, lengths[0], lengths[1], prob, points, 0,
    )  # fmt: skip
    for k in range(m):
        for a in range(points.shape[1]):
            points[k, a] = (points[k, a] - match.shift[a]) / match.span[a]
    tuples, used = write_samples(tuples, rings, objects, match, s, prob[:m], points[:m], used)
    return tuples, (scaled, donors, lengths, prob, points), used


@njit(cache=True, nogil=True, error_model="numpy")
def new_room(repository):
    """Room for `complete`."""
    d, trees = repository.shift.size, repository.column_of.size
    return (
        np.empty(d), np.empty(trees, np.int64), np.empty((2, trees)),
        np.empty(64), np.empty((64, trees)),
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def refill(repository, tuples, rings, objects, match, offsets, prob, points, joint, most, used):
    """Samples of all held objects that have some anew, from `raw` and `rule`; (blocks, used).

    offsets, prob, points : samples of the objects of state KEPT, window after window, slot by slot
    """
    scratch, room, kept = new_scratch(repository), new_room(repository), 0
    for w in range(rings.base.size):
        for s in range(rings.base[w], rings.base[w] + rings.held[w]):
            tuples.samples[s] = 0
    for w in range(rings.base.size):
        for s in range(rings.base[w], rings.base[w] + rings.held[w]):
            if objects.state[s] == WHOLE:
                tuples, room, used = complete(
                    repository, scratch, tuples, rings, objects, match, s, joint, most, room, used
                )
            elif objects.state[s] == KEPT:
                first, last = offsets[kept], offsets[kept + 1]
                tuples, used = write_samples(
                    tuples, rings, objects, match, s, prob[first:last], points[first:last], used
                )
                objects.state[s] = KEPT
                kept += 1
    return tuples.blocks, used


@njit(cache=True, nogil=True, error_model="numpy")
def _longer(array, needed):
    if needed <= array.size:
        return array
    more = np.empty(max(needed, 2 * array.size), array.dtype)
    for i in range(array.size):
        more[i] = array[i]
    return more


@njit(**LEAN)
def _by_number(number, slots, totals, n):
    """Sort an arrival's answers by the held objects' numbers: few, by insertion."""
    for i in range(1, n):
        s, total, j = slots[i], totals[i], i
        while j > 0 and number[slots[j - 1]] > number[s]:
            slots[j], totals[j] = slots[j - 1], totals[j - 1]
            j -= 1
        slots[j], totals[j] = s, total


@njit(cache=True, nogil=True, error_model="numpy")
def enter(rings, w, rows):
    """The slot for an arrival in its window, that of the oldest object if it is full."""
    if rings.held[w] < rows:
        rings.held[w] += 1
        return rings.base[w] + rings.held[w] - 1
    s = rings.base[w] + rings.oldest[w]
    rings.oldest[w] = (rings.oldest[w] + 1) % rows
    return s


@njit(cache=True, nogil=True, error_model="numpy")
def complete_opposite(
    repository, scratch, tuples, rings, objects, match, u, begin, open_pairs, joint, most, room,
    used, nearest, farthest, near, counters,
):  # fmt: skip
    """Impute the objects of near[:open_pairs] that u leaves in doubt; (tuples, room, used)."""
    state, low, high = objects.state, objects.low, objects.high
    bound, sure = match.numbers[4], match.numbers[5]
    for i in range(open_pairs):
        v = near[i]
        j = v - begin
        if state[v] == COARSE and nearest[j] <= bound and farthest[j] > sure:
            tuples, room, used = complete(
                repository, scratch, tuples, rings, objects, match, v, joint, most, room, used
            )
            counters[COMPLETED] += 1
            nearest[j], farthest[j] = box_squares(low, high, u, v)
    return tuples, room, used


@njit(cache=True, nogil=True, error_model="numpy")
def match_arrival(
    repository, scratch, tuples, rings, objects, match, u, window, joint, most, room, used,
    nearest, farthest, near, others, pr, totals, counters,
):  # fmt: skip
    """Answers of slot u among one other window: slots and Pr in near and totals[:n], by number.

    Returns (n, tuples, room, used).  Object level, then completion, sample level, refinement.
    Source: E, Algorithm 2 and Lemmas 4.1, 4.2.
    """
    number = match.numbers
    low, high, d = objects.low, objects.high, objects.low.shape[0]
    begin, held = rings.base[window], rings.held[window]
    counters[PAIRS] += held
    squares_in_window(low, high, u, begin, held, nearest, farthest)
    reached = boxes_in_reach(nearest, begin, held, number[4], near)
    counters[CANDIDATES] += reached
    # Two passes, so that what is imputed does not depend on the order of slots: first all by the
    # box that u has now, then, with u imputed, each of the others for itself.
    n, open_pairs = certain_pairs(farthest, begin, number[5], near, reached, others)
    counters[CERTAIN] += n
    for i in range(n):
        totals[i] = 1.0
    if open_pairs > 0 and objects.state[u] == COARSE:
        tuples, room, used = complete(
            repository, scratch, tuples, rings, objects, match, u, joint, most, room, used
        )
        counters[COMPLETED] += 1
        squares_in_window(low, high, u, begin, held, nearest, farthest)
    tuples, room, used = complete_opposite(
        repository, scratch, tuples, rings, objects, match, u, begin, open_pairs, joint, most, room,
        used, nearest, farthest, near, counters,
    )  # fmt: skip
    certain, refined = refine(
        tuples.blocks, tuples.at, tuples.samples, tuples.summary, objects.gap, nearest, farthest,
        u, begin, open_pairs, near, number, d, pr,
    )  # fmt: skip
    counters[CERTAIN] += certain
    counters[REFINED] += refined
    for i in range(open_pairs):
        if pr[i] == UNKNOWN:
            pr[i] = pair_probability(
                tuples, u, near[i], d, number[0], number[1], number[2], number[3]
            )
        if pr[i] >= 0.0:
            others[n], totals[n] = near[i], pr[i]
            n += 1
    near[:n] = others[:n]
    _by_number(tuples.number, near, totals, n)
    return n, tuples, room, used


@njit(cache=True, nogil=True, error_model="numpy")
def join_incomplete(
    repository, tuples, rings, objects, match, code, values, rules, reason, lows, highs, numbers,
    streams, rows, joint, most, pairs_wanted, used, counters,
):  # fmt: skip
    """Match arrivals, in order, with the objects then held by the other streams of their key.

    code : int64[n], windows: key * streams + stream    values : float64[n, D], NaN = missing
    rules, reason, lows, highs : of `judge_batch`, the last two in units of distance
    numbers : int64[n], of the arrivals    rows : int64, objects a window holds at most
    joint, most : as for `impute_batch`
    pairs_wanted : bool, also the pairs of samples behind answers (nothing is accepted for certain)
    Every window has room for its arrivals, up to `rows`.
    Returns (blocks, used, found int64[a, 3]: arrival, stream and number of the
    held object, totals float64[a], left int64[e, 3]: arrival, window and number of an object that
    left, then offsets, prob, arriving's and held's sample as `matching_pairs`).
    Cost: an arrival O(held * T) in SIMD, then as `complete` and `match_probability` where needed.
    """
    n, d = code.size, repository.column_of.size
    scratch, room, longest = new_scratch(repository), new_room(repository), 1
    for w in range(rings.capacity.size):
        longest = max(longest, rings.capacity[w])
    nearest, farthest = np.empty(longest), np.empty(longest)
    open_pr, totals = np.empty(longest), np.empty(longest)
    near, others = np.empty(longest + 1, np.int64), np.empty(longest, np.int64)
    found, pr, answers = np.empty((64, 3), np.int64), np.empty(64), 0
    left, gone = np.empty((n, 3), np.int64), 0
    offsets, samples = np.zeros(65, np.int64), 0
    prob, one, other = np.empty(64), np.empty(64, np.int32), np.empty(64, np.int32)
    for i in range(n):
        if reason[i] > IMPUTED:
            continue
        w = code[i]
        full = rings.held[w] == rows
        u = enter(rings, w, rows)
        if full:
            left[gone, 0], left[gone, 1], left[gone, 2] = i, w, tuples.number[u]
            gone += 1
        tuples.number[u], tuples.samples[u] = numbers[i], 0
        objects.state[u] = COARSE
        for a in range(values.shape[1]):
            objects.raw[u, a] = values[i, a]
        missing = 0
        for t in range(d):
            if rules[i, t] != PRESENT:
                objects.gap[u] = t
                missing += 1
            objects.rule[u, t] = rules[i, t]
            objects.low[t, u], objects.high[t, u] = lows[i, t], highs[i, t]
        if missing != 1:
            objects.gap[u] = -1
        if reason[i] == COMPLETE:
            tuples, room, used = complete(
                repository, scratch, tuples, rings, objects, match, u, joint, most, room, used
            )
        else:
            counters[INCOMPLETE] += 1
        key = w // streams * streams
        for o in range(key, key + streams):
            if o == w:
                continue
            m, tuples, room, used = match_arrival(
                repository, scratch, tuples, rings, objects, match, u, o, joint, most, room, used,
                nearest, farthest, near, others, open_pr, totals, counters,
            )  # fmt: skip
            if answers + m > pr.size:
                more = np.empty((2 * (answers + m), 3), np.int64)
                for j in range(answers):
                    for column in range(3):
                        more[j, column] = found[j, column]
                found = more
                pr = _longer(pr, 2 * (answers + m))
                offsets = _longer(offsets, 2 * (answers + m) + 1)
            for j in range(m):
                at = answers + j
                found[at, 0], found[at, 1], found[at, 2] = i, o - key, tuples.number[near[j]]
                pr[at] = totals[j]
                offsets[at + 1] = samples
            if pairs_wanted and m > 0:
                arriving, held = np.empty(m, np.int64), np.empty(m, np.int64)
                ours, factor = np.empty(m, np.bool_), np.empty(m)
                for j in range(m):
                    arriving[j], held[j], ours[j], factor[j] = u, near[j], True, 1.0
                begins, p, first, second = matching_pairs(
                    tuples, arriving, held, ours, factor, d, match.numbers[1]
                )
                prob = _longer(prob, samples + p.size)
                one, other = _longer(one, samples + p.size), _longer(other, samples + p.size)
                for j in range(p.size):
                    prob[samples + j], one[samples + j] = p[j], first[j]
                    other[samples + j] = second[j]
                for j in range(m):
                    offsets[answers + j + 1] = samples + begins[j + 1]
                samples += p.size
            answers += m
    return (
        tuples.blocks, used, found[:answers], pr[:answers], left[:gone],
        offsets[: answers + 1], prob[:samples], one[:samples], other[:samples],
    )  # fmt: skip


def squares_of(within, probability, pairs_wanted):
    """(largest square that may be within reach, largest that certainly is, or -1)."""
    square = within * within
    bound = square * (1.0 + 4.0 * SLACK) + 1e-300
    trusted = probability <= 1.0 - SLACK and not pairs_wanted and 1e-280 < square < 1e300
    return bound, square * (1.0 - 4.0 * SLACK) if trusted else -1.0
