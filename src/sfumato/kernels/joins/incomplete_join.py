"""The join of imputed objects: boxes of their samples are scanned, then the samples compared.

An arrival is held against the boxes of all objects of a window, in SIMD. Those within reach are
decided by their boxes, or by regions of most of their probability, where these leave no doubt. Else
the samples are summed: most objects lack one attribute alone and share one line of samples, so that
a pair of samples costs one comparison (`one_axis`). Where rounding might decide, the definition
does.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled_ieee, lean, lean_sum
from sfumato.kernels.joins.match_probability import (
    UNDECIDED,
    Criterion,
    decided,
    limit_of,
    pair_probability,
    reach_of,
    widest_reach,
)
from sfumato.kernels.joins.one_axis import (
    NO_MATCH,
    Reached,
    SumWork,
    cumulated,
    new_entries,
    sums_over_axis,
)
from sfumato.kernels.joins.regions import prunes
from sfumato.kernels.joins.similarity_nested import FOUND, add_found, enter, forget_before
from sfumato.kernels.joins.tuple_store import first_in_time, padded, widest_window
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import EPSILON, SIFT_SLACK

# Pairs of an arrival and an object held opposite; those whose boxes are within reach; those
# accepted for certain by their boxes; those whose samples were paired; objects that were imputed.
INCOMPLETE_COUNTS = integers("pairs candidates certain refined completed")
STEPS_PER_PAIR = 10_000  # about: pairs of samples


class Nearness(NamedTuple):
    """What makes a match.

    criterion : `Criterion`    sure : the largest square of a distance of boxes that certainly is
        within reach (-1: none); see `largest_square` for the largest that may be
    """

    criterion: Criterion
    sure: float


@lean
def largest_square(within, rounding):
    """The largest square of a distance of boxes that may be within reach; rounding : of both."""
    reach = widest_reach(within, rounding)
    return reach * reach * (1.0 + 4.0 * SIFT_SLACK) + 1e-300


def certain_square(within: float, probability: float, pairs_wanted: bool) -> float:
    """The largest square of a distance of boxes that certainly is within reach, or -1."""
    square = within * within
    trusted = probability <= 1.0 - SIFT_SLACK and not pairs_wanted and 1e-280 < square < 1e300
    return square * (1.0 - 4.0 * SIFT_SLACK) if trusted else -1.0


@lean
def squares_in_window(low, high, u, base, held, nearest, farthest):
    """As `box_squares`, of slot u's box and every one of a window, by place there.  O(held * T), in
    SIMD."""
    # Unsigned places: no test for negative ones, which would keep the lanes from becoming SIMD.
    first, count = np.uint64(base), np.uint64(held)
    for j in range(count):
        nearest[j], farthest[j] = 0.0, 0.0
    for a in range(low.shape[0]):
        lows, highs, axis = low[a, u], high[a, u], np.uint64(a)
        for j in range(count):
            ahead, behind = low[axis, first + j] - highs, lows - high[axis, first + j]
            gap = max(ahead, behind, 0.0)
            reach = max(high[axis, first + j] - lows, highs - low[axis, first + j])
            nearest[j] += gap * gap
            farthest[j] += reach * reach


@lean
def boxes_in_reach(nearest, base, held, bound, out):
    """Slots of a window whose boxes are within sqrt(bound), to `out`; how many.  Source: E, Lemma
    4.1."""
    n = 0
    for j in range(held):
        out[n] = base + j
        n += nearest[j] <= bound
    return n


@lean
def _prune(tuples, nearness, u, begin, reached, farthest):
    """Decide slot u and those reached by boxes and regions: (how many certain, still UNDECIDED).

    farthest : see `squares_in_window`
    Source: E, Lemmas 4.1 and 4.2 (by regions of most of the probability).
    """
    certain, still, near, totals = 0, 0, reached.near, reached.totals
    for i in range(reached.number):
        v = near[i]
        if farthest[v - begin] <= nearness.sure:
            totals[i] = 1.0
            certain += 1
            continue
        reach = reach_of(tuples, u, v, nearness.criterion)
        out = prunes(tuples.summary, u, v, nearness.criterion.d, reach)
        totals[i] = NO_MATCH if out else UNDECIDED
        still += not out
    return certain, still


@compiled_ieee
def _at_most(x, y, bound):
    return (x - y) * (x - y) <= bound


@lean_sum
def _masses(blocks, place, row, length, value, low, high):
    """Probability of a block's samples whose squared difference is <= low, and of those <= high."""
    sure, possible = 0.0, 0.0
    for j in range(length):
        p, y = blocks[place + j], blocks[row + j]
        sure += p if _at_most(value, y, low) else 0.0
        possible += p if _at_most(value, y, high) else 0.0
    return sure, possible


@lean
def _exact_mass(blocks, x, x_length, y, y_count, d, limit):
    """Probability of a block's samples near one sample, as `defining_sum` decides (d > 1)."""
    y_length, mass = padded(y_count), 0.0
    for j in range(y, y + y_count):
        squared = 0.0
        for a in range(1, d + 1):
            difference = blocks[x + a * x_length] - blocks[j + a * y_length]
            squared += difference * difference
        if squared <= limit:
            mass += blocks[j]
    return mass


@lean
def _sum_over_gap(tuples, u, v, gap, criterion):
    """Sum of Pr(u_k) Pr(v_l) over near pairs, where v's samples differ in attribute `gap` alone.

    There are several attributes.

    -1 once it cannot reach the criterion's `least`. O(samples of u * (d + samples of v)), in SIMD.
    """
    blocks, d, least = tuples.blocks, criterion.d, criterion.least
    limit = limit_of(tuples, u, v, criterion)
    x, x_count, y, y_count = tuples.at[u], tuples.samples[u], tuples.at[v], tuples.samples[v]
    x_length, y_length = padded(x_count), padded(y_count)
    total, left, band = 0.0, 1.0, (2.0 * d + 4.0) * EPSILON * limit
    for k in range(x, x + x_count):
        if total + left < least:
            return -1.0
        left -= blocks[k]
        rest = 0.0
        for a in range(d):
            if a != gap:
                difference = blocks[k + (a + 1) * x_length] - blocks[y + (a + 1) * y_length]
                rest += difference * difference
        low, high = limit - rest - band, limit - rest + band
        if high < 0.0:
            continue
        value = blocks[k + (gap + 1) * x_length]
        # Unsigned places: no test for negative ones, which would keep the lanes from being SIMD.
        row = y + (gap + 1) * y_length
        sure, possible = _masses(
            blocks, np.uint64(y), np.uint64(row), np.uint64(y_length), value, low, high
        )
        if possible != sure:
            sure = _exact_mass(blocks, k, x_length, y, y_count, d, limit)
        total += blocks[k] * sure
    return total


@lean
def _sums_over_their_gaps(tuples, gap, u, reached, criterion):
    """Pr of slot u, which lacks several attributes, and those UNDECIDED that lack one: to
    totals."""
    for i in range(reached.number):
        v = reached.near[i]
        if reached.totals[i] == UNDECIDED and gap[v] >= 0:
            total = _sum_over_gap(tuples, u, v, gap[v], criterion)
            reached.totals[i] = decided(tuples, u, v, criterion, total)


@compiled_ieee
def refine(tuples, boxes, criterion, u, reached, cumulative, work):
    """Pr of slot u and those reached that are UNDECIDED, to their totals; NO_MATCH: no answer."""
    gap = boxes.gap
    if criterion.d > 1 and (gap[u] >= 0 or tuples.samples[u] == 1):
        sums_over_axis(tuples, boxes, criterion, u, reached, cumulative, work)
        return
    if criterion.d > 1:
        _sums_over_their_gaps(tuples, gap, u, reached, criterion)
    for i in range(reached.number):
        if reached.totals[i] == UNDECIDED:
            reached.totals[i] = pair_probability(tuples, u, reached.near[i], criterion)


@lean
def _advance(store, batch, i):
    """Take arrival i into its window; what leaves any window of its key goes."""
    w, streams = batch.code[i], store.span.size
    key = w // streams * streams
    for o in range(key, key + streams):
        forget_before(store, o, first_in_time(store, o, batch.time[i]))
    enter(store, w, batch.slots[i])
    forget_before(store, w, batch.begins[i])


@compiled_ieee
def join_incomplete(store, boxes, nearness, batch, counts):
    """Match arrivals, in order, with the objects then held by the other streams of their key.

    store, batch : as for `join_nested`, with any number of streams; the arrivals have their lines
        of `summary` and their `Boxes`
    nearness : `Nearness`    counts : INCOMPLETE_COUNTS[1], added to
    Returns FOUND[m], by arrival, then stream, then age of the held object.
    Cost: an arrival O(held * T) in SIMD, then as `refine` where needed.
    Source: E, Algorithm 2 and Lemmas 4.1, 4.2.
    """
    head, tail, streams = store.windows.head, store.windows.tail, store.span.size
    longest = widest_window(store.windows) + 1
    lines, near = np.empty((6, longest)), np.empty(longest, np.int64)
    nearest, farthest, totals = lines[0], lines[1], lines[2]
    work = SumWork(new_entries(), lines[3], lines[4], lines[5])
    tuples, found, n, steps = store.tuples, np.empty(64, FOUND), 0, np.int64(0)
    for i in range(batch.code.size):
        w, u = batch.code[i], batch.slots[i]
        _advance(store, batch, i)
        key = w // streams * streams
        for o in range(key, key + streams):
            begin, held = head[o], tail[o] - head[o]
            if o == w or held == 0:
                continue
            rounding = tuples.rounding[u] + store.rounding[o]
            bound = largest_square(nearness.criterion.within, rounding)
            squares_in_window(boxes.low, boxes.high, u, begin, held, nearest, farthest)
            reached = Reached(near, boxes_in_reach(nearest, begin, held, bound, near), totals)
            steps = after_signals(steps + held + STEPS_PER_PAIR * reached.number)
            certain, still = _prune(tuples, nearness, u, begin, reached, farthest)
            counts[0].pairs += held
            counts[0].candidates += reached.number
            counts[0].certain += certain
            counts[0].refined += still
            if still > 0:
                cumulative = cumulated(tuples.blocks, tuples.at[u], tuples.samples[u])
                refine(tuples, boxes, nearness.criterion, u, reached, cumulative, work)
            for j in range(reached.number):
                if totals[j] >= 0.0:
                    found = add_found(found, n, i, o, near[j], tail[o], totals[j])
                    n += 1
    return found[:n]
