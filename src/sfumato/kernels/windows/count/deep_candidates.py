"""The candidates that may lie outside a window, the oldest: what they add to the extreme's law.

`count_window_extremes` explains the sums over them.
"""

from sfumato.kernels.compile import lean, lean_dot
from sfumato.kernels.windows.count.extremes_state import (
    CERTAIN,
    NEGLIGIBLE,
    mix,
    mix_reach,
    unlikely,
)

RARE = 1e-19


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
        if end == marks.first and facts[slot].outside > RARE:
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
        if clear < RARE:
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
    least, alone = min(RARE / max(none[begin], RARE), 1e-3), some[begin] >= 0.5
    for slot in range(deep, marks.end):
        if facts[slot].left == facts[slot].existence:
            low, high = _mixed(base, low, high, facts[slot].existence, least, not alone)
    for s in range(last - 1, begin - 1, -1):
        negligible, both = min(RARE / max(none[s], RARE), 1e-3), some[s] < 0.5
        near, far = low, high
        while near < far and base[0, near] < negligible:
            near += 1
        while far > near and not both and base[0, far - 1] >= CERTAIN:
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
