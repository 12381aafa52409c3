"""Laws of the largest value of the w newest existing tuples, by the few candidates for it.

Values are passed from the largest on. When all down to x are passed, tuple i takes its passed part
(exists with a passed value) with probability k_i; the largest inside value is below x if no inside
tuple takes its passed part. Of the tuples that take theirs, let a be the newest:

    Pr(none inside) = prod (1 - k_i) + sum over a of k_a D_a Pr(at least w others newer than a)
    Pr(one inside)  =                  sum over a of k_a D_a Pr(fewer than w others newer than a)

D_a the product of the 1 - k_i of newer tuples, and the others counted given that none takes its
passed part. All terms are positive: the smaller of the two sums keeps its digits, and the law's
probabilities are the differences of that. Only for the few candidates near the window's old end
is the first probability not 0; the candidates and counts are those of `extremes_state`.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled, lean
from sfumato.kernels.signals import after_signals
from sfumato.kernels.windows.count.candidates import build, enter, evict
from sfumato.kernels.windows.count.deep_candidates import (
    add_deep_terms,
    bound_of_none,
    deep_candidates,
)
from sfumato.kernels.windows.count.extremes_state import LAST, SURE

ROUNDING = 1e-15  # a smaller share of what it was taken from is no outcome but a rounding


class Stages(NamedTuple):
    """When each value is passed: end : int64[room], end of its outcomes; none, some :
    float64[room], Pr(none inside), Pr(one inside)."""

    end: np.ndarray
    none: np.ndarray
    some: np.ndarray


class ExtremeLaws(NamedTuple):
    """Where laws are written, one after the other.

    places : int64[arrivals + 1], where each begins; prob, value : float64[...], probabilities and
    ascending values of the inside tuples' extreme; the rest to 1 is that there is no value
    """

    places: np.ndarray
    prob: np.ndarray
    value: np.ndarray


@lean
def _pass_value(state, j, deep, reached, some):
    """Pass outcomes of one value from j on; (the next j, Pr(no shallow tuple takes its passed
    part), Pr(one does), whether a deep one is among them)."""
    outcomes, facts, x, deeper = state.outcomes, state.facts, state.outcomes[j].value, False
    while j < state.marks[0].outcomes and outcomes[j].value == x:
        slot, p = state.owner[j], outcomes[j].prob
        before, killed, exists = facts[slot].left, facts[slot].killed, facts[slot].existence
        outcomes[j].left_before, outcomes[j].killed_before = before, killed
        left = before - p if before - p > SURE * exists else 0.0
        facts[slot].left, facts[slot].killed = left, min(killed + p, exists)
        rest = 1.0 - exists + before
        if slot < deep:
            deeper = True
        elif rest > 0.0:
            some += reached * min(p / rest, 1.0)
            reached *= (1.0 - exists + left) / rest
        j += 1
    return j, reached, some, deeper


@lean
def _pass_values(state, w, stages, work):
    """Write the Stages; how many there are, or -1 if the candidates do not suffice."""
    marks, facts, deep = state.marks[0], state.facts, deep_candidates(state, w, work[0])
    ends, none, some = stages.end, stages.none, stages.some
    for slot in range(marks.first, marks.end):
        facts[slot].left, facts[slot].killed = facts[slot].existence, 0.0
    j, last, begin, most, reached, one = np.int64(0), 0, -1, 1.0, 1.0, 0.0
    while j < marks.outcomes and most >= LAST:
        j, reached, one, deeper = _pass_value(state, j, deep, reached, one)
        ends[last], none[last], some[last] = j, reached, one
        if deeper and begin < 0:
            begin = last
        most = reached if begin < 0 else bound_of_none(state, deep, reached)
        last += 1
    if most >= LAST and state.reals[0].floor > -np.inf:
        return -1
    if begin >= 0:
        add_deep_terms(state, deep, stages, begin, last, work)
    return last


@lean
def _write_law(state, last, stages, laws, at):
    """Write the law of `last` values from place `at` on, ascending; where it ends."""
    none, some, to_prob, to_value = stages.none, stages.some, laws.prob, laws.value
    left, before, size = 1.0, 0.0, at
    for s in range(last):
        if left < LAST:
            break
        taken = some[s] - before if some[s] < 0.5 else left - none[s]
        if taken > ROUNDING * (some[s] if some[s] < 0.5 else left):
            to_prob[size] = taken
            to_value[size] = state.sign * state.outcomes[stages.end[s] - 1].value
            size += 1
        left, before = none[s], some[s]
    if state.sign > 0.0:
        for k in range((size - at) // 2):
            a, b = at + k, size - 1 - k
            to_prob[a], to_prob[b] = to_prob[b], to_prob[a]
            to_value[a], to_value[b] = to_value[b], to_value[a]
    return size


@compiled
def slide_extremes(state, tuples, existence, heads, done, w, limit, laws):
    """Laws after each of the arrivals from number `done` on.

    tuples, heads, done, w, limit : as in `slide_moments`; existence : float64[n]
    laws : ExtremeLaws, written
    Returns how many arrivals are done: all, or less for want of room (sizes in `marks`, or in
    `laws`, which must have `limit` of `marks` places more).
    Cost an arrival: O(values passed * (deep candidates + those passed in part) * band) amortised
    and O(c * band) for c candidates, the band about sqrt(w). A share of about band / w of the
    candidates is deep, so that with one alternative a tuple this is O(c^2 + c sqrt(w)), c some
    dozens at ordinary existences whatever w.
    Error: relative 1e-13 of the probabilities, absolute 1e-17.
    Source: T_j of A, equation (24), for the candidates; the rest this project.
    """
    marks, work, room = state.marks[0], np.empty((2, 2, w + 2)), state.owner.size
    stages = Stages(np.empty(room, np.int64), np.empty(room), np.empty(room))
    offsets, first, places = tuples.offsets, tuples.first, laws.places
    begin, steps = offsets.size - 1 - heads.size, np.int64(0)
    for t in range(done, heads.size):
        i, head = begin + t, heads[t]
        steps = after_signals(steps + 64 * marks.outcomes + 8 * w)
        if marks.built == 1:
            evict(state, first + head, w)
        last, size = np.int64(-1), places[t]
        while last < 0:
            arriving = offsets[i + 1] - offsets[i]
            stale = marks.built == 0 or first + i - marks.mid >= limit
            stale = stale or marks.outcomes + arriving > marks.limit
            if stale and not build(state, tuples, existence, head, i, w, True):
                return t
            if places[t] + marks.limit > laws.prob.size:
                return t
            enter(state, tuples, existence, i)
            last = _pass_values(state, w, stages, work)
            size = _write_law(state, last, stages, laws, places[t])
            if last < 0:
                marks.want, marks.built = 2 * max(marks.outcomes, 64), 0
        marks.want = 0
        places[t + 1] = size
    return heads.size


@compiled
def resume_extremes(state, tuples, existence, mid, w):
    """The state of a restored window: older part up to position `mid`, the rest newer.

    `floor` and `limit` of the state are those saved. False for want of room.
    """
    if not build(state, tuples, existence, np.int64(0), mid, w, False):
        return False
    for i in range(mid, tuples.offsets.size - 1):
        evict(state, tuples.first, w)  # those that were outside for certain when it came
        enter(state, tuples, existence, i)
    return True
