"""Join of streams with missing values: objects are imputed only where the join needs it.

An arrival is known by a box at first, and so are the objects held. Only where boxes come within
reach of each other, and leave it in doubt whether the objects match, are both imputed.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.joins.incomplete.box_distance import (
    box_squares,
    boxes_in_reach,
    certain_pairs,
    squares_in_window,
)
from sfumato.kernels.joins.incomplete.gap_sums import SumWork, new_entries
from sfumato.kernels.joins.incomplete.lazy_completion import complete, complete_in_place, new_room
from sfumato.kernels.joins.incomplete.near_masses import cumulated
from sfumato.kernels.joins.incomplete.objects import COARSE, Reached, largest_square
from sfumato.kernels.joins.incomplete.pair_refinement import prune, refine
from sfumato.kernels.joins.match_probability import OPEN
from sfumato.kernels.joins.similarity_nested import FOUND, add_found, enter, forget_before
from sfumato.kernels.joins.tuple_store import first_in_time, widest_window
from sfumato.kernels.signals import after_signals

# Pairs of an arrival and an object held opposite; those whose boxes are within reach; those
# accepted for certain by their boxes; those whose samples were paired; objects that were imputed.
COUNTS = integers("pairs candidates certain refined completed")
STEPS_PER_PAIR = 10_000  # about: pairs of samples, and of objects that are imputed


class Work(NamedTuple):
    """To work in, by place in a window: see `squares_in_window`, `Reached`, `SumWork`; COUNTS[1]"""

    nearest: np.ndarray
    farthest: np.ndarray
    near: np.ndarray
    doubtful: np.ndarray
    totals: np.ndarray
    sums: SumWork
    counts: np.ndarray


@lean
def _in_doubt(objects, nearness, visit, work):
    """Those reached that are OPEN, a box, and neither out of reach nor certain: work.doubtful."""
    n, near, totals, state = 0, visit.reached.near, visit.reached.totals, objects.state
    for i in range(visit.reached.number):
        j = near[i] - visit.begin
        work.doubtful[n] = near[i]
        n += (
            (totals[i] == OPEN)
            & (state[near[i]] == COARSE)
            & (work.nearest[j] <= visit.bound)
            & (work.farthest[j] > nearness.sure)
        )
    return n


@lean
def _scan(objects, bound, u, begin, held, work):
    """How many boxes of a window are within reach of slot u's: their slots to work.near."""
    squares_in_window(objects.low, objects.high, u, begin, held, work.nearest, work.farthest)
    return boxes_in_reach(work.nearest, begin, held, bound, work.near)


@lean
def _advance(store, batch, i):
    """Take arrival i into its window; what leaves any window of its key goes."""
    w, streams = batch.code[i], store.span.size
    key = w // streams * streams
    for o in range(key, key + streams):
        forget_before(store, o, first_in_time(store, o, batch.time[i]))
    enter(store, w, batch.slots[i])
    forget_before(store, w, batch.begins[i])


class Visit(NamedTuple):
    """Slot u of an arrival, and what it may meet of another window: where that begins, how many it
    holds, the square of a distance of boxes within reach, and those reached."""

    u: int
    begin: int
    held: int
    bound: float
    reached: Reached


@lean
def _measure(objects, visit, work, s):
    """Distances anew of the boxes that object s, which was imputed, has a part in."""
    low, high, begin = objects.low, objects.high, visit.begin
    if s == visit.u:
        squares_in_window(low, high, s, begin, visit.held, work.nearest, work.farthest)
    else:
        work.nearest[s - begin], work.farthest[s - begin] = box_squares(low, high, visit.u, s)
    work.counts[0].completed += 1


@lean
def _complete_reached(store, objects, nearness, imputing, room, visit, work):
    """Impute the arrival and those reached that their boxes leave in doubt.

    Returns the slot of one that has no room, to be called again when it is imputed; else -1.
    """
    # Two passes, so that what is imputed does not depend on the order of slots: first all by the
    # box that u has now, then, with u imputed, each of the others for itself.
    u = visit.u
    if objects.state[u] == COARSE:
        if not complete_in_place(store, objects, nearness, imputing, room, u):
            return u
        _measure(objects, visit, work, u)
    doubtful = _in_doubt(objects, nearness, visit, work)
    for i in range(doubtful):
        v = work.doubtful[i]
        if not complete_in_place(store, objects, nearness, imputing, room, v):
            return v
        _measure(objects, visit, work, v)
    return np.int64(-1)


@lean
def _prune_reached(tuples, nearness, visit, work):
    """`prune`, counted; how many are still open."""
    certain, still = prune(tuples, nearness, visit, work.nearest, work.farthest)
    work.counts[0].certain += certain
    work.counts[0].refined += still
    return still


@compiled_ieee
def _new_work(store, counts):
    longest = widest_window(store.windows)
    lines = np.empty((6, longest + 1))
    near, doubtful = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    sums = SumWork(new_entries(), lines[3], lines[4], lines[5])
    return Work(lines[0], lines[1], near, doubtful, lines[2], sums, counts)


@compiled_ieee
def join_incomplete(store, objects, nearness, batch, whole, imputing, counts):
    """Match arrivals, in order, with the objects then held by the other streams of their key.

    store, batch : as for `join_nested`, with any number of streams; the arrivals are in `objects`,
        and have no samples yet    nearness : `Nearness`
    whole : bool[n], arrivals that lack nothing
    imputing : see `new_imputing`    counts : COUNTS[1], added to
    Returns (store, FOUND[m], by arrival, then stream, then age of the held object). The samples of
    all in FOUND are still there.
    Cost: an arrival O(held * T) in SIMD, then as `complete` and `refine` where needed.
    Source: E, Algorithm 2 and Lemmas 4.1, 4.2.
    """
    heads, work = store.windows.head.copy(), _new_work(store, counts)
    head, tail, streams = store.windows.head, store.windows.tail, store.span.size
    found, n, near, totals = np.empty(64, FOUND), 0, work.near, work.totals
    room, steps = new_room(64, objects.low.shape[0]), np.int64(0)
    for i in range(batch.code.size):
        w, u = batch.code[i], batch.slots[i]
        _advance(store, batch, i)
        if whole[i] and not complete_in_place(store, objects, nearness, imputing, room, u):
            store, room = complete(store, heads, objects, nearness, imputing, room, u)
        key = w // streams * streams
        for o in range(key, key + streams):
            begin, held = head[o], tail[o] - head[o]
            if o == w or held == 0:
                continue
            rounding = store.tuples.rounding[u] + store.rounding[o]
            bound = largest_square(nearness.criterion.within, rounding)
            reached = Reached(near, _scan(objects, bound, u, begin, held, work), totals)
            certain = certain_pairs(work.farthest, begin, nearness.sure, reached)
            counts[0].pairs += held
            steps = after_signals(steps + held + STEPS_PER_PAIR * reached.number)
            counts[0].candidates += reached.number
            counts[0].certain += certain
            if certain < reached.number:
                visit = Visit(u, begin, held, bound, reached)
                s = _complete_reached(store, objects, nearness, imputing, room, visit, work)
                while s >= 0:
                    store, room = complete(store, heads, objects, nearness, imputing, room, s)
                    _measure(objects, visit, work, s)
                    s = _complete_reached(store, objects, nearness, imputing, room, visit, work)
                if _prune_reached(store.tuples, nearness, visit, work) > 0:
                    tuples = store.tuples
                    cumulative = cumulated(tuples.blocks, tuples.at[u], tuples.samples[u])
                    refine(tuples, objects, nearness.criterion, u, reached, cumulative, work.sums)
            for j in range(reached.number):
                if totals[j] >= 0.0:
                    found = add_found(found, n, i, o, near[j], tail[o], totals[j])
                    n += 1
    return store, found[:n]
