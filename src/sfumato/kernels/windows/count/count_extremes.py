"""Distributions of the largest value of the w newest existing tuples, by the few candidates for it.

Values are passed from the largest on. When all down to x are passed, tuple i takes its passed part
(exists with a passed value) with probability k_i; the largest inside value is below x if no inside
tuple takes its passed part. Of the tuples that take theirs, let a be the newest:

    Pr(none inside) = prod (1 - k_i) + sum over a of k_a D_a Pr(at least w others newer than a)
    Pr(one inside)  =                  sum over a of k_a D_a Pr(fewer than w others newer than a)

D_a the product of the 1 - k_i of newer tuples, and the others counted given that none takes its
passed part. All terms are positive: the smaller of the two sums keeps its digits, and the law's
probabilities are the differences of that. Only for the few candidates near the window's old end
is the first probability not 0; the candidates and counts are those of `extreme_candidates`.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import with_room
from sfumato.kernels.compile import compiled, lean, lean_dot
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import (
    BELOW_ONE,
    LEAST_OUTCOME,
    NEGLIGIBLE,
    NEGLIGIBLE_DEEP,
    OUTCOME_ROUNDING,
    REMAINDER,
)
from sfumato.kernels.windows.count.extreme_candidates import (
    build,
    enter,
    evict,
    mix,
    mix_reach,
    unlikely,
)


# Any order of summation keeps the error bound, so SIMD may choose it.
@lean_dot
def _reach(law, begin, end, front, low, high):
    """Pr(count >= w): a law over counts begin ... end - 1 with F."""
    reach, middle = 0.0, max(begin, low)
    count = min(end, high) - middle
    if count > 0:
        own, f = law[middle - begin :], front[0, middle:]
        for x in range(count):
            reach += own[x] * f[x]
    for x in range(max(begin, high), end):
        reach += law[x - begin]
    return reach


# Any order of summation keeps the error bound, so SIMD may choose it.
@lean_dot
def _split(law, begin, end, front, low, high):
    """Pr(count >= w), Pr(count < w): a law over counts begin ... end - 1 with F and G."""
    reach, stay = 0.0, 0.0
    for x in range(begin, min(low, end)):
        stay += law[x - begin]
    middle = max(begin, low)
    count = min(end, high) - middle
    if count > 0:
        own, f, g = law[middle - begin :], front[0, middle:], front[1, middle:]
        for x in range(count):
            reach += own[x] * f[x]
            stay += own[x] * g[x]
    for x in range(max(begin, high), end):
        reach += law[x - begin]
    return reach, stay


@lean
def _copy(source, low, high, target):
    for plane in range(2):
        for x in range(low, high + 1):
            target[plane, x] = source[plane, x]


@lean
def deep_candidates(state, w, base):
    """End of the candidates that may lie outside, the oldest ones; their OUTSIDE is written."""
    marks, facts, places = state.marks[0], state.facts, state.places
    deep = marks.first
    while deep < marks.end and places[deep].index < marks.mid:
        newer = facts[deep].mu + state.reals[0].mu
        if unlikely(w - newer, facts[deep].pq + state.reals[0].pq):
            break
        deep += 1
    if deep == marks.first:
        return deep
    low, high = marks.low, marks.high
    _copy(state.front, low, high, base)
    for slot in range(deep, marks.end):
        low, high = mix_reach(base, low, high, facts[slot].existence, NEGLIGIBLE)
    end = marks.first
    for slot in range(deep - 1, end - 1, -1):
        own = places[slot]
        reach = _reach(state.saved[own.place :], own.low, own.high, base, low, high)
        facts[slot].outside = reach + facts[slot].over
        if end == marks.first and facts[slot].outside > NEGLIGIBLE_DEEP:
            end = slot + 1
        if slot > marks.first:
            low, high = mix_reach(base, low, high, facts[slot].existence, NEGLIGIBLE)
    return end


@lean
def bound_of_none(state, deep, clear):
    """A bound of Pr(none inside), cheap; clear : that of the shallow tuples alone."""
    facts, total = state.facts, 0.0
    for slot in range(deep - 1, state.marks[0].first - 1, -1):
        total += clear * facts[slot].killed * facts[slot].outside
        clear *= 1.0 - facts[slot].existence + facts[slot].left
    return total + clear


@lean
def _mixed(front, low, high, p, negligible, both):
    """One more tuple counted, by F alone or by both F and G."""
    if both:
        return mix(front, low, high, p, negligible)
    return mix_reach(front, low, high, p, negligible)


@lean
def _terms(state, deep, front, low, high, none, some, negligible):
    """Pr(none inside), Pr(one inside); none, some : of the shallow tuples alone.

    Above 1/2 the second is not computed: nobody asks.  front : F and G with the shallow tuples,
    overwritten.
    """
    facts, places, oldest, both = state.facts, state.places, state.marks[0].first, some < 0.5
    while oldest < deep and facts[oldest].killed == 0.0:
        oldest += 1
    total, clear = 0.0, none
    for slot in range(deep - 1, oldest - 1, -1):
        if clear < NEGLIGIBLE_DEEP:
            break
        killed, left = clear * facts[slot].killed, facts[slot].left
        if killed > 0.0:
            law = state.saved[places[slot].place :]
            begin, end, stay = places[slot].low, places[slot].high, 0.0
            if both:
                reach, stay = _split(law, begin, end, front, low, high)
            else:
                reach = _reach(law, begin, end, front, low, high)
            total += killed * (reach + facts[slot].over)
            some += killed * stay
        rest = 1.0 - facts[slot].existence + left
        clear *= rest
        if slot > oldest and left > 0.0:
            low, high = _mixed(front, low, high, left / rest, negligible, both)
    return total + clear, some


@lean
def add_deep_terms(state, deep, stages, begin, last, work):
    """none, some of stages begin ... last - 1, which have deep tuples among the passed.

    From the last stage backwards, so that tuples not passed any more are counted as they come.
    """
    marks, facts, outcomes, owner = state.marks[0], state.facts, state.outcomes, state.owner
    ends, none, some = stages.end, stages.none, stages.some
    low, high = marks.low, marks.high
    base, front = work[0], work[1]
    _copy(state.front, low, high, base)
    # Where less is at stake, less of the ends matters.
    least, alone = (
        min(NEGLIGIBLE_DEEP / max(none[begin], NEGLIGIBLE_DEEP), 1e-3),
        some[begin] >= 0.5,
    )
    for slot in range(deep, marks.end):
        if facts[slot].left == facts[slot].existence:
            low, high = _mixed(base, low, high, facts[slot].existence, least, not alone)
    for s in range(last - 1, begin - 1, -1):
        negligible, both = min(NEGLIGIBLE_DEEP / max(none[s], NEGLIGIBLE_DEEP), 1e-3), some[s] < 0.5
        near, far = low, high
        while near < far and base[0, near] < negligible:
            near += 1
        while far > near and not both and base[0, far - 1] >= BELOW_ONE:
            far -= 1
        _copy(base, near, far, front)
        front[0, far], front[1, far] = 1.0, 0.0
        for slot in range(deep, marks.end):
            left, exists = facts[slot].left, facts[slot].existence
            if 0.0 < left < exists:
                p = left / (1.0 - exists + left)
                near, far = _mixed(front, near, far, p, negligible, both)
        none[s], some[s] = _terms(
            state, deep, front, near, far, none[s], some[s], negligible
        )  # fmt: skip
        for j in range(ends[s] - 1, (ends[s - 1] if s > 0 else 0) - 1, -1):
            slot = owner[j]
            exists, counted = facts[slot].existence, facts[slot].left == facts[slot].existence
            facts[slot].left = outcomes[j].left_before
            facts[slot].killed = outcomes[j].killed_before
            # An outcome too unlikely to change `left` leaves a tuple whole, and counted.
            if slot >= deep and not counted and facts[slot].left == exists:
                low, high = _mixed(base, low, high, exists, least, not alone)


class Stages(NamedTuple):
    """When each value is passed: end : int64[room], end of its outcomes; none, some :
    float64[room], Pr(none inside), Pr(one inside)."""

    end: np.ndarray
    none: np.ndarray
    some: np.ndarray


class ExtremeLaws(NamedTuple):
    """Distributions, one after the other.

    places : int64[arrivals + 1], where each begins; prob, value : float64[...], probabilities and
    ascending values of the inside tuples' extreme, made longer where they are too short; the rest
    to 1 is that there is no value
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
        left = before - p if before - p > REMAINDER * exists else 0.0
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
    while j < marks.outcomes and most >= LEAST_OUTCOME:
        j, reached, one, deeper = _pass_value(state, j, deep, reached, one)
        ends[last], none[last], some[last] = j, reached, one
        if deeper and begin < 0:
            begin = last
        most = reached if begin < 0 else bound_of_none(state, deep, reached)
        last += 1
    if most >= LEAST_OUTCOME and state.reals[0].floor > -np.inf:
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
        if left < LEAST_OUTCOME:
            break
        taken = some[s] - before if some[s] < 0.5 else left - none[s]
        if taken > OUTCOME_ROUNDING * (some[s] if some[s] < 0.5 else left):
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
def _stages(room):
    return Stages(np.empty(room, np.int64), np.empty(room), np.empty(room))


@compiled
def slide_extremes(state, tuples, existence, heads, w, limit, laws):
    """Distributions after each of the arrivals, the last of the tuples.

    tuples, heads, w, limit : as in `slide_moments`; existence : float64[n]; laws : ExtremeLaws
    Returns the ExtremesState and the ExtremeLaws to go on with.
    Cost per arrival: O(values passed * (deep candidates + those passed in part) * band) amortised
    and O(c * band) for c candidates, the band about sqrt(w). A share of about band / w of the
    candidates is deep, so that with one alternative per tuple this is O(c^2 + c sqrt(w)), c some
    dozens at ordinary existences whatever w.
    Error: relative 1e-13 of the probabilities, absolute 1e-17.
    Source: T_j of A, equation (24), for the candidates; the rest this project.
    """
    work, stages, marks = np.empty((2, 2, w + 2)), _stages(state.owner.size), state.marks[0]
    offsets, first, (places, prob, value) = tuples.offsets, tuples.first, laws
    begin, steps = offsets.size - 1 - heads.size, np.int64(0)
    for t in range(heads.size):
        i, head = begin + t, heads[t]
        steps = after_signals(steps + 64 * marks.outcomes + 8 * w)
        if marks.built == 1:
            evict(state, first + head, w)
        last = np.int64(-1)
        while last < 0:
            arriving = offsets[i + 1] - offsets[i]
            stale = marks.built == 0 or first + i - marks.mid >= limit
            if stale or marks.outcomes + arriving > marks.limit:
                state = build(state, tuples, existence, head, i, w, True)
                if stages.end.size < state.owner.size:
                    stages = _stages(state.owner.size)
            enter(state, tuples, existence, i)
            last = _pass_values(state, w, stages, work)
            if last < 0:
                marks.want, marks.built = 2 * max(marks.outcomes, 64), 0
        marks.want = 0
        room = places[t] + marks.limit
        prob, value = with_room(prob, room), with_room(value, room)
        places[t + 1] = _write_law(state, last, stages, ExtremeLaws(places, prob, value), places[t])
    return state, ExtremeLaws(places, prob, value)


@compiled
def resume_extremes(state, tuples, existence, mid, w):
    """The state of a restored window: front stack up to position `mid`, the rest the back stack.

    `floor` and `limit` of the state are those saved.
    """
    state = build(state, tuples, existence, np.int64(0), mid, w, False)
    for i in range(mid, tuples.offsets.size - 1):
        evict(state, tuples.first, w)  # those that were outside for certain when it came
        enter(state, tuples, existence, i)
    return state
