"""Laws of the largest value of the w newest existing tuples, by the few candidates for it.

Values are passed from the largest on. When all down to x are passed, tuple i takes its passed part
(exists with a passed value) with probability k_i; the largest inside value is below x if no inside
tuple takes its passed part. Of the tuples that take theirs, let a be the newest:

    Pr(none inside) = prod (1 - k_i) + sum over a of k_a D_a Pr(at least w others newer than a)
    Pr(one inside)  =                  sum over a of k_a D_a Pr(fewer than w others newer than a)

D_a the product of the 1 - k_i of newer tuples, and the others counted given that none takes its
passed part. All terms are positive: the smaller of the two sums keeps its digits, and the law's
probabilities are the differences of that. Only for the few candidates near the window's old end
is the first probability not 0; the candidates and counts are those of `extreme_planes`.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled, lean, lean_dot
from sfumato.kernels.windows.extremes_state import (
    BAND_HIGH,
    BAND_LOW,
    BUILT,
    CERTAIN,
    END,
    EXISTENCE,
    FIRST,
    FLOOR,
    HIGH,
    INDEX,
    KILLED,
    KILLED_BEFORE,
    LAST,
    LEFT,
    LEFT_BEFORE,
    LIMIT,
    LOW,
    MID,
    MU,
    N_MU,
    N_PQ,
    NEGLIGIBLE,
    OUTCOMES,
    OUTSIDE,
    OVER,
    PLACE,
    PQ,
    PROB,
    SURE,
    VALUE,
    WANT,
    build,
    enter,
    evict,
    mix,
    mix_reach,
    unlikely,
)

ROUNDING = 1e-15  # a smaller share of what it was taken from is no outcome but a rounding
NOTHING = 1e-19


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
def _deep(state, w, base):
    """End of the candidates that may lie outside, the oldest ones; their OUTSIDE is written."""
    marks, facts, places, deep = state.marks, state.facts, state.places, state.marks[FIRST]
    while deep < marks[END] and places[deep, INDEX] < marks[MID]:
        newer = facts[deep, MU] + state.reals[N_MU]
        if unlikely(w - newer, facts[deep, PQ] + state.reals[N_PQ]):
            break
        deep += 1
    if deep == marks[FIRST]:
        return deep
    low, high = marks[LOW], marks[HIGH]
    _copy(state.front, low, high, base)
    for slot in range(deep, marks[END]):
        low, high = mix_reach(base, low, high, facts[slot, EXISTENCE], NEGLIGIBLE)
    end = marks[FIRST]
    for slot in range(deep - 1, end - 1, -1):
        law, begin, stop = state.saved[places[slot, PLACE] :], BAND_LOW, BAND_HIGH
        reach = _reach(law, places[slot, begin], places[slot, stop], base, low, high)
        facts[slot, OUTSIDE] = reach + facts[slot, OVER]
        if end == marks[FIRST] and facts[slot, OUTSIDE] > NOTHING:
            end = slot + 1
        if slot > marks[FIRST]:
            low, high = mix_reach(base, low, high, facts[slot, EXISTENCE], NEGLIGIBLE)
    return end


@lean
def _at_most(state, deep, clear):
    """A bound of Pr(none inside), cheap; clear : that of the shallow tuples alone."""
    facts, total = state.facts, 0.0
    for slot in range(deep - 1, state.marks[FIRST] - 1, -1):
        total += clear * facts[slot, KILLED] * facts[slot, OUTSIDE]
        clear *= 1.0 - facts[slot, EXISTENCE] + facts[slot, LEFT]
    return total + clear


@lean
def _pass_value(state, j, deep, reached, some):
    """Pass outcomes of one value from j on; (the next j, Pr(no shallow tuple takes its passed
    part), Pr(one does), whether a deep one is among them)."""
    outcomes, facts, x, deeper = state.outcomes, state.facts, state.outcomes[j, VALUE], False
    while j < state.marks[OUTCOMES] and outcomes[j, VALUE] == x:
        slot, p = state.owner[j], outcomes[j, PROB]
        before, killed, exists = facts[slot, LEFT], facts[slot, KILLED], facts[slot, EXISTENCE]
        outcomes[j, LEFT_BEFORE], outcomes[j, KILLED_BEFORE] = before, killed
        left = before - p if before - p > SURE * exists else 0.0
        facts[slot, LEFT], facts[slot, KILLED] = left, min(killed + p, exists)
        rest = 1.0 - exists + before
        if slot < deep:
            deeper = True
        elif rest > 0.0:
            some += reached * min(p / rest, 1.0)
            reached *= (1.0 - exists + left) / rest
        j += 1
    return j, reached, some, deeper


@lean
def _mixed(front, low, high, p, negligible, both):
    """One more tuple counted, by F alone or by both F and G."""
    if both:
        return mix(front, low, high, p, negligible)
    return mix_reach(front, low, high, p, negligible)


@lean
def _deep_terms(state, deep, front, low, high, none, some, negligible):
    """Pr(none inside), Pr(one inside); before : none, some of the shallow tuples alone.

    Above 1/2 the second is not computed: nobody asks, and G is not needed then.
    front : F and G with the shallow tuples, overwritten.  O(deep candidates * band).
    """
    facts, places, oldest, both = state.facts, state.places, state.marks[FIRST], some < 0.5
    while oldest < deep and facts[oldest, KILLED] == 0.0:
        oldest += 1
    total, clear = 0.0, none
    for slot in range(deep - 1, oldest - 1, -1):
        if clear < NOTHING:
            break
        killed, left = clear * facts[slot, KILLED], facts[slot, LEFT]
        if killed > 0.0:
            law = state.saved[places[slot, PLACE] :]
            begin, end, stay = places[slot, BAND_LOW], places[slot, BAND_HIGH], 0.0
            if both:
                reach, stay = _split(law, begin, end, front, low, high)
            else:
                reach = _reach(law, begin, end, front, low, high)
            total += killed * (reach + facts[slot, OVER])
            some += killed * stay
        rest = 1.0 - facts[slot, EXISTENCE] + left
        clear *= rest
        if slot > oldest and left > 0.0:
            low, high = _mixed(front, low, high, left / rest, negligible, both)
    return total + clear, some


@lean
def _look_deep(state, deep, stages, begin, last, none, some, work):
    """none, some of stages begin ... last - 1, which have deep tuples among the passed.

    From the last stage backwards, so that tuples not passed any more are counted as they come.
    stages : int64[...], end of each stage's outcomes    work : float64[2, 2, w + 2], overwritten
    """
    marks, facts, outcomes, owner = state.marks, state.facts, state.outcomes, state.owner
    low, high = marks[LOW], marks[HIGH]
    base, front = work[0], work[1]
    _copy(state.front, low, high, base)
    # Where less is at stake, less of the ends matters.
    least, alone = min(NOTHING / max(none[begin], NOTHING), 1e-3), some[begin] >= 0.5
    for slot in range(deep, marks[END]):
        if facts[slot, LEFT] == facts[slot, EXISTENCE]:
            low, high = _mixed(base, low, high, facts[slot, EXISTENCE], least, not alone)
    for s in range(last - 1, begin - 1, -1):
        negligible, both = min(NOTHING / max(none[s], NOTHING), 1e-3), some[s] < 0.5
        near, far = low, high
        while near < far and base[0, near] < negligible:
            near += 1
        while far > near and not both and base[0, far - 1] >= CERTAIN:
            far -= 1
        _copy(base, near, far, front)
        front[0, far], front[1, far] = 1.0, 0.0
        for slot in range(deep, marks[END]):
            left, exists = facts[slot, LEFT], facts[slot, EXISTENCE]
            if 0.0 < left < exists:
                p = left / (1.0 - exists + left)
                near, far = _mixed(front, near, far, p, negligible, both)
        none[s], some[s] = _deep_terms(
            state, deep, front, near, far, none[s], some[s], negligible
        )  # fmt: skip
        for j in range(stages[s] - 1, (stages[s - 1] if s > 0 else 0) - 1, -1):
            slot = owner[j]
            facts[slot, LEFT] = outcomes[j, LEFT_BEFORE]
            facts[slot, KILLED] = outcomes[j, KILLED_BEFORE]
            if slot >= deep and facts[slot, LEFT] == facts[slot, EXISTENCE]:
                low, high = _mixed(base, low, high, facts[slot, EXISTENCE], least, not alone)


@lean
def _pass_values(state, w, stages, none, some, work):
    """Pr(none inside), Pr(one inside) when each value is passed, written; how many values there
    are, or -1 if the candidates do not suffice."""
    marks, facts, deep = state.marks, state.facts, _deep(state, w, work[0])
    for slot in range(marks[FIRST], marks[END]):
        facts[slot, LEFT], facts[slot, KILLED] = facts[slot, EXISTENCE], 0.0
    j, last, begin, most, reached, one = np.int64(0), 0, -1, 1.0, 1.0, 0.0
    while j < marks[OUTCOMES] and most >= LAST:
        j, reached, one, deeper = _pass_value(state, j, deep, reached, one)
        stages[last], none[last], some[last] = j, reached, one
        if deeper and begin < 0:
            begin = last
        most = reached if begin < 0 else _at_most(state, deep, reached)
        last += 1
    if most >= LAST and state.reals[FLOOR] > -np.inf:
        return -1
    if begin >= 0:
        _look_deep(state, deep, stages, begin, last, none, some, work)
    return last


@lean
def _write_law(state, sign, last, stages, none, some, to_prob, to_value, at):
    """Write the law of `last` values from place `at` on, ascending; where it ends."""
    left, before, size = 1.0, 0.0, at
    for s in range(last):
        if left < LAST:
            break
        taken = some[s] - before if some[s] < 0.5 else left - none[s]
        if taken > ROUNDING * (some[s] if some[s] < 0.5 else left):
            to_prob[size] = taken
            to_value[size] = sign * state.outcomes[stages[s] - 1, VALUE]
            size += 1
        left, before = none[s], some[s]
    if sign > 0.0:
        for k in range((size - at) // 2):
            a, b = at + k, size - 1 - k
            to_prob[a], to_prob[b] = to_prob[b], to_prob[a]
            to_value[a], to_value[b] = to_value[b], to_value[a]
    return size


@compiled
def slide_extremes(
    state, offsets, prob, value, existence, first, begin, done, heads, w, limit, sign, places,
    to_prob, to_value,
):  # fmt: skip
    """Laws after each of the arrivals at positions begin + done, begin + done + 1, ...

    offsets, prob, value, first, begin, done, heads, w, limit : as in `slide_moments`
    existence : float64[n]; sign : 1.0 for the largest, -1.0 for the smallest value
    places : int64[n - begin + 1], written: where each arrival's entries begin in
    to_prob, to_value : float64[...], written: probabilities and ascending values of the inside
        tuples' extreme; the rest to 1 is the probability that there is no value
    Returns how many arrivals are done: n - begin, or less for want of room (sizes in `marks`, or
    in to_prob, which must have `marks[LIMIT]` places more).

    Cost an arrival: O(values passed * (deep candidates + those passed in part) * band) amortised
    and O(c * band) for c candidates, the band about sqrt(w). A share of about band / w of the
    candidates is deep, so that with one alternative a tuple this is O(c^2 + c sqrt(w)), c some
    dozens at ordinary existences whatever w.
    Error: relative 1e-13 of the probabilities, absolute 1e-17.
    Source: T_j of A, equation (24), for the candidates; the rest this project.
    """
    marks, work = state.marks, np.empty((2, 2, w + 2))
    room = state.owner.size
    stages, none, some = np.empty(room, np.int64), np.empty(room), np.empty(room)
    for t in range(done, heads.size):
        i, head = begin + t, heads[t]
        if marks[BUILT] == 1:
            evict(state, first + head, w)
        last, size = np.int64(-1), places[t]
        while last < 0:
            arriving = offsets[i + 1] - offsets[i]
            stale = marks[BUILT] == 0 or first + i - marks[MID] >= limit
            stale = stale or marks[OUTCOMES] + arriving > marks[LIMIT]
            if stale and not build(
                state, offsets, prob, value, existence, first, head, i, w, sign, True
            ):  # fmt: skip
                return t
            if places[t] + marks[LIMIT] > to_prob.size:
                return t
            enter(state, offsets, prob, value, existence, i, first + i, sign)
            last = _pass_values(state, w, stages, none, some, work)
            size = _write_law(
                state, sign, last, stages, none, some, to_prob, to_value, places[t]
            )  # fmt: skip
            if last < 0:
                marks[WANT], marks[BUILT] = 2 * max(marks[OUTCOMES], 64), 0
        marks[WANT] = 0
        places[t + 1] = size
    return heads.size


@compiled
def resume_extremes(state, offsets, prob, value, existence, first, mid, w, sign):
    """The state of a restored window: older part up to position `mid`, the rest newer.

    reals[FLOOR] and marks[LIMIT] are those saved. False for want of room.
    """
    if not build(
        state, offsets, prob, value, existence, first, np.int64(0), mid, w, sign, False
    ):  # fmt: skip
        return False
    for i in range(mid, offsets.size - 1):
        enter(state, offsets, prob, value, existence, i, first + i, sign)
    return True
