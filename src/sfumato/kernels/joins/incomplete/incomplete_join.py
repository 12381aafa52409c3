"""Join of streams with missing values: objects are imputed only where the join needs it.

An arrival is known by a box at first, and so are the objects held. Only where boxes come within
reach of each other, and leave it in doubt whether the objects match, are both imputed.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.imputation.dependency_choice import COMPLETE, IMPUTED, new_scratch
from sfumato.kernels.joins.incomplete.box_distance import (
    OPEN,
    box_squares,
    boxes_in_reach,
    certain_pairs,
    squares_in_window,
)
from sfumato.kernels.joins.incomplete.gap_sums import new_entries
from sfumato.kernels.joins.incomplete.lazy_completion import complete, new_room
from sfumato.kernels.joins.incomplete.near_masses import cumulated
from sfumato.kernels.joins.incomplete.objects import COARSE, enter, place_object
from sfumato.kernels.joins.incomplete.pair_refinement import prune, refine
from sfumato.kernels.joins.match_probability import matching_pairs

# Places in `counters`: pairs of an arrival and an object held opposite; those whose boxes are
# within reach; those accepted for certain by their boxes; those whose samples were paired; objects
# with missing values that entered; those of them that were imputed.
PAIRS, CANDIDATES, CERTAIN, REFINED, INCOMPLETE, COMPLETED = range(6)
COUNTERS = 6


@compiled_ieee
def _longer(array, needed):
    if needed <= array.size:
        return array
    more = np.empty(max(needed, 2 * array.size), array.dtype)
    for i in range(array.size):
        more[i] = array[i]
    return more


@lean
def _in_doubt(objects, near, reached, nearest, farthest, begin, numbers, totals, out):
    """Those of near[:reached] that are OPEN, a box, and neither out of reach nor certain."""
    n = 0
    for i in range(reached):
        j = near[i] - begin
        out[n] = near[i]
        n += (
            (totals[i] == OPEN)
            & (objects.state[near[i]] == COARSE)
            & (nearest[j] <= numbers[4])
            & (farthest[j] > numbers[5])
        )
    return n


@lean
def _answers_by_age(near, reached, oldest, totals, slots, pr):
    """The answers among near[:reached], the object that came first in front: slots, pr; how many.

    near : ascending slots of one ring    oldest : slot of its oldest object
    """
    n = 0
    for younger in range(2):
        for i in range(reached):
            slots[n], pr[n] = near[i], totals[i]
            n += (totals[i] >= 0.0) & ((near[i] < oldest) == younger)
    return n


@lean
def _write_found(number, slots, pr, n, arrival, stream, found, probability, at):
    """Write an arrival's answers from place `at` on."""
    for j in range(n):
        found[at + j, 0], found[at + j, 1] = arrival, stream
        found[at + j, 2], probability[at + j] = number[slots[j]], pr[j]


@compiled_ieee
def match_arrival(
    repository, scratch, tuples, rings, objects, match, u, window, joint, most, room, used,
    work, near, slots, pr, counters,
):  # fmt: skip
    """Answers of slot u among one other window: slots[:n] and their Pr, by age.

    work : (float64[6, held], `Entries`)    near, slots, pr : [held + 1], written
    Returns (n, tuples, room, used).  Object level, then completion, sample level, refinement.
    Source: E, Algorithm 2 and Lemmas 4.1, 4.2.
    """
    numbers, (lines, entries) = match.numbers, work
    nearest, farthest, totals = lines[0], lines[1], lines[2]
    low, high, d = objects.low, objects.high, objects.low.shape[0]
    begin, held = rings.base[window], rings.held[window]
    counters[PAIRS] += held
    squares_in_window(low, high, u, begin, held, nearest, farthest)
    reached = boxes_in_reach(nearest, begin, held, numbers[4], near)
    counters[CANDIDATES] += reached
    # Two passes, so that what is imputed does not depend on the order of slots: first all by the
    # box that u has now, then, with u imputed, each of the others for itself.
    certain = certain_pairs(farthest, begin, numbers[5], near, reached, totals)
    counters[CERTAIN] += certain
    if certain < reached:
        if objects.state[u] == COARSE:
            tuples, room, used = complete(
                repository, scratch, tuples, rings, objects, match, u, joint, most, room, used
            )
            counters[COMPLETED] += 1
            squares_in_window(low, high, u, begin, held, nearest, farthest)
        doubtful = _in_doubt(
            objects, near, reached, nearest, farthest, begin, numbers, totals, slots
        )
        for i in range(doubtful):
            v = slots[i]
            tuples, room, used = complete(
                repository, scratch, tuples, rings, objects, match, v, joint, most, room, used
            )
            nearest[v - begin], farthest[v - begin] = box_squares(low, high, u, v)
        counters[COMPLETED] += doubtful
        certain, still = prune(
            tuples.summary, nearest, farthest, u, begin, near, reached, numbers, d, totals
        )
        counters[CERTAIN] += certain
        counters[REFINED] += still
        if still > 0:
            cumulative = cumulated(tuples.blocks, tuples.at[u], tuples.samples[u])
            refine(
                tuples, objects, numbers, u, near, reached, cumulative,
                entries, lines[3:], totals,
            )  # fmt: skip
    n = _answers_by_age(near, reached, begin + rings.oldest[window], totals, slots, pr)
    return n, tuples, room, used


@compiled_ieee
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
    Cost: an arrival O(held * T) in SIMD, then as `complete` and `refine` where needed.
    """
    n, d = code.size, repository.column_of.size
    scratch, room, longest = new_scratch(repository), new_room(repository), 1
    for w in range(rings.capacity.size):
        longest = max(longest, rings.capacity[w])
    work = np.empty((6, longest)), new_entries()
    near, slots = np.empty(longest + 1, np.int64), np.empty(longest + 1, np.int64)
    totals = np.empty(longest + 1)
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
        place_object(tuples, objects, u, numbers[i], values[i], rules[i], lows[i], highs[i])
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
                work, near, slots, totals, counters,
            )  # fmt: skip
            if answers + m > pr.size:
                more = np.empty((2 * (answers + m), 3), np.int64)
                more[:answers] = found[:answers]
                found, pr = more, _longer(pr, more.shape[0])
                offsets = _longer(offsets, more.shape[0] + 1)
            _write_found(tuples.number, slots, totals, m, i, o - key, found, pr, answers)
            offsets[answers + 1 : answers + m + 1] = samples
            if pairs_wanted and m > 0:
                begins, p, first, second = matching_pairs(
                    tuples, np.full(m, u), slots[:m], np.full(m, True), np.ones(m), d,
                    match.numbers[1],
                )  # fmt: skip
                end = samples + p.size
                prob, one, other = _longer(prob, end), _longer(one, end), _longer(other, end)
                prob[samples:end], one[samples:end], other[samples:end] = p, first, second
                offsets[answers + 1 : answers + m + 1] += begins[1:]
                samples = end
            answers += m
    return (
        tuples.blocks, used, found[:answers], pr[:answers], left[:gone],
        offsets[: answers + 1], prob[:samples], one[:samples], other[:samples],
    )  # fmt: skip
