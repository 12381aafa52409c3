"""Distributions of the largest value of the w newest existing tuples, from a few candidates.

Values are passed in descending order. When all values down to x are passed, tuple i exists with a
passed value (takes its passed part) with probability k_i. The largest inside value is below x if no
inside tuple takes its passed part. Let a be the newest tuple that takes its passed part:

    Pr(none inside) = prod (1 - k_i) + sum over a of k_a D_a Pr(at least w others newer than a)
    Pr(one inside)  =                  sum over a of k_a D_a Pr(fewer than w others newer than a)

where D_a is the product of 1 - k_i over newer tuples, and the others are counted given that none
takes its passed part. All terms are positive. The smaller of the two sums keeps its precision, and
its differences are the probabilities of the distribution. Pr(at least w others newer than a) is
nonzero only for the few "deep" tuples near the window's old end.

The candidates are the held tuples with a value of at least `floor`. The floor is chosen to include
at least 1.5 times the number of values reached before Pr(nothing larger is inside) falls below
1e-17. All other tuples are only counted, in a front stack and a back stack (see `front_stack`). For
each candidate a of the front stack, S_a is the distribution of the number of others between it and
mid. The back stack has F[x] = Pr(x + B >= w) and G[x] = Pr(x + B < w), where B is its count of
others. Candidates are added to these distributions where needed, and are never divided out.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers_and_reals, reals, stable_order, with_room
from sfumato.kernels.compile import compiled, inlined, lean, lean_dot
from sfumato.kernels.distributions.discrete_distribution import Distributions
from sfumato.kernels.distributions.poisson_binomial import mix_next
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import (
    BELOW_ONE,
    LEAST_OUTCOME,
    NEGLIGIBLE,
    NEGLIGIBLE_DEEP,
    OUTCOME_ROUNDING,
    REMAINDER,
    UNLIKELY_EXPONENT,
)

EXTRA_CANDIDATES = 64

# size : number of candidates, in order of arrival; outcomes : number of their sorted outcomes
# limit, want : largest number of outcomes, smallest number to choose; low, high : where 0 < F < 1
# mu, pq : mean and variance of the back stack's count
EXTREME_HEADER = integers_and_reals("mid built low high size outcomes limit want", "floor mu pq")
# index : stream index; place, low, high : place of S_a, and its range of counts
# over : Pr(S_a's count >= w); mu, pq : mean and variance of the number of tuples between a and mid
# mass_left, mass_passed : existence with values not yet passed, and passed
# outside : Pr(a is outside)
CANDIDATE = integers_and_reals(
    "index place low high", "existence over mu pq mass_left mass_passed outside"
)
OUTCOME = reals("value prob mass_left_before mass_passed_before")
# For each passed value: the end of its outcomes, Pr(none inside) and Pr(one inside).
STAGE = integers_and_reals("end", "none some")


class ExtremesState(NamedTuple):
    """State of one window, attribute and sign.

    sign : 1.0 for the largest, -1.0 for the smallest value
    front : float64[2, w + 2], F and G    checkpoints : float64[...], the S_a, packed
    candidates : CANDIDATE[room]    header : EXTREME_HEADER[1]
    outcomes : OUTCOME[room], descending sign * value; owner : int64[room], their candidates
    """

    sign: float
    front: np.ndarray
    checkpoints: np.ndarray
    candidates: np.ndarray
    outcomes: np.ndarray
    owner: np.ndarray
    header: np.ndarray


def empty_extremes(w: int, sign: float) -> ExtremesState:
    return ExtremesState(
        sign=sign,
        front=np.zeros((2, w + 2)),
        checkpoints=np.zeros(0),
        candidates=np.zeros(0, CANDIDATE),
        outcomes=np.zeros(0, OUTCOME),
        owner=np.zeros(0, np.int64),
        header=np.zeros(1, EXTREME_HEADER),
    )


@lean
def _is_unlikely(away, variance):
    """Return whether a count is unlikely to be `away` from its mean, on one side (Bernstein)."""
    third = UNLIKELY_EXPONENT / 3.0
    return away > third + np.sqrt(third * third + 2.0 * UNLIKELY_EXPONENT * variance)


@lean
def _add_to_curves(front, low, high, p, negligible, both):
    """Add a tuple with existence p to F, and to G if `both`; return the new (low, high)."""
    if low > 0:
        low -= 1
        front[0, low], front[1, low] = 0.0, 1.0
    mix_next(front[0, low:], high - low, 1.0 - p, p)
    if both:
        mix_next(front[1, low:], high - low, 1.0 - p, p)
    while low < high and front[0, low] < negligible:
        low += 1
    while high > low:
        if front[1, high - 1] >= negligible if both else front[0, high - 1] < BELOW_ONE:
            break
        high -= 1
        front[0, high], front[1, high] = 1.0, 0.0
    return low, high


@compiled
def _is_candidate(tuples, i, sign, floor):
    for a in range(tuples.offsets[i], tuples.offsets[i + 1]):
        if sign * tuples.value[a] >= floor:  # false for NaN
            return True
    return False


@inlined
def _choose_floor(tuples, existence, head, end, sign, want):
    """Return the value of outcome max(want, 1.5 c + 8), where c outcomes are needed, or -inf."""
    offsets, prob, value = tuples.offsets, tuples.prob, tuples.value
    first, size = offsets[head], offsets[end] - offsets[head]
    owner = np.empty(size, np.int64)
    for i in range(head, end):
        owner[offsets[i] - first : offsets[i + 1] - first] = i - head
    order = stable_order(-sign * value[first : first + size])  # NaN at the end
    left = existence[head:end].copy()
    reached, c = 1.0, 0
    while c < size and reached >= LEAST_OUTCOME and not np.isnan(value[first + order[c]]):
        i = owner[order[c]]
        absent = 1.0 - existence[head + i]
        rest = absent + left[i]
        left[i] = max(left[i] - prob[first + order[c]], 0.0)
        reached *= (absent + left[i]) / rest if rest > 0.0 else 0.0
        c += 1
    place = max(want, c + c // 2 + 8)
    if place >= size or np.isnan(value[first + order[place]]):
        return -np.inf
    return sign * value[first + order[place]]


@compiled
def _insert(state, tuples, i, slot):
    """Merge tuple i's k outcomes into the sorted outcomes, after equal values.

    O(outcomes + k log k).
    """
    outcomes, owner, header = state.outcomes, state.owner, state.header[0]
    begin, end = tuples.offsets[i], tuples.offsets[i + 1]
    value = state.sign * tuples.value[begin:end]
    order, many = stable_order(-value), 0  # NaN at the end
    while many < order.size and value[order[many]] >= header.floor:
        many += 1
    at = header.outcomes + many
    header.outcomes, old = at, header.outcomes
    while many > 0:
        at -= 1
        a = order[many - 1]
        if old > 0 and outcomes[old - 1].value < value[a]:
            old -= 1
            outcomes[at].value, outcomes[at].prob = outcomes[old].value, outcomes[old].prob
            owner[at] = owner[old]
        else:
            many -= 1
            outcomes[at].value, outcomes[at].prob = value[a], tuples.prob[begin + a]
            owner[at] = slot


@compiled
def _evict(state, oldest, w):
    """Drop candidates before `oldest` or certainly outside.  O(candidates + outcomes) if any."""
    header, candidates, gone, kept = state.header[0], state.candidates, 0, 0
    outcomes, owner = state.outcomes, state.owner
    while gone < header.size and candidates[gone].index < header.mid:
        own = candidates[gone]
        outside = _is_unlikely(own.mu + header.mu - w + 1.0, own.pq + header.pq)
        if own.index >= oldest and not outside:
            break
        gone += 1
    if gone == 0:
        return
    for slot in range(gone, header.size):
        candidates[slot - gone] = candidates[slot]
    for j in range(header.outcomes):
        if owner[j] >= gone:
            owner[kept] = owner[j] - gone
            outcomes[kept].value, outcomes[kept].prob = outcomes[j].value, outcomes[j].prob
            kept += 1
    header.size, header.outcomes = header.size - gone, kept


@compiled
def _push_back(state, tuples, existence, i):
    """Add tuple i to the back stack.  O(band + outcomes)."""
    header, p = state.header[0], existence[i]
    header.mu += p
    header.pq += p * (1.0 - p)
    if _is_candidate(tuples, i, state.sign, header.floor):
        own = state.candidates[header.size]
        own.index, own.existence = tuples.first + i, p
        _insert(state, tuples, i, header.size)
        header.size += 1
    else:
        header.low, header.high = _add_to_curves(
            state.front, header.low, header.high, p, NEGLIGIBLE, np.bool_(True)
        )


@inlined
def _oldest_possibly_inside(existence, head, mid, w):
    """Return the oldest of tuples head ... mid - 1 that is not certainly outside."""
    mu, pq = 0.0, 0.0
    for i in range(mid - 1, head - 1, -1):
        if _is_unlikely(mu - w + 1.0, pq):
            return i + 1
        mu += existence[i]
        pq += existence[i] * (1.0 - existence[i])
    return head


@compiled
def _build(state, tuples, existence, head, mid, end, w, choose):
    """Make tuples head ... mid - 1 (positions) the front stack, and empty the back stack.

    end : number of held tuples;  choose : bool, choose a new floor and limit; otherwise use the
        floor and limit of the state, for a restored window. Such a window may exceed the limit
        until outcomes that are certainly outside are evicted
    Returns the ExtremesState.  Cost: O(tuples * band + outcomes log outcomes).
    """
    header, offsets, sign = state.header[0], tuples.offsets, state.sign
    begin, head = head, _oldest_possibly_inside(existence, head, mid, w)
    if choose:
        header.floor = _choose_floor(tuples, existence, head, mid, sign, header.want)
    found = 0
    for a in range(offsets[head if choose else begin], offsets[mid if choose else end]):
        found += sign * tuples.value[a] >= header.floor
    if choose:
        header.limit = 2 * found + EXTRA_CANDIDATES + offsets[mid + 1] - offsets[mid]
    room, checkpoints = max(header.limit, found), state.checkpoints
    candidates = with_room(state.candidates, room)
    distribution = np.zeros(w + 2)
    distribution[w] = 1.0
    low, high = w, w + 1  # cells in use
    over, mu, pq = 0.0, 0.0, 0.0
    place, slot = np.int64(0), np.int64(0)
    for i in range(head, mid):
        slot += _is_candidate(tuples, i, sign, header.floor)
    header.size, header.outcomes = slot, 0
    for i in range(mid - 1, head - 1, -1):
        p = existence[i]
        if _is_candidate(tuples, i, sign, header.floor):
            slot -= 1
            own, size = candidates[slot], high - low
            own.existence, own.over, own.mu, own.pq = p, over, mu, pq
            own.index, own.place = tuples.first + i, place
            own.low, own.high = w + 1 - high, w + 1 - low
            checkpoints = with_room(checkpoints, place + size)
            for x in range(size):
                checkpoints[place + x] = distribution[high - 1 - x]
            place += size
        elif high > low:
            over += p * distribution[1]
            low = max(low - 1, 1)
            mix_next(distribution[low:], high - low, 1.0 - p, p)
            while high > low and distribution[high - 1] < NEGLIGIBLE:
                high -= 1
                distribution[high] = 0.0
            while low < high and distribution[low] < NEGLIGIBLE:
                distribution[low] = 0.0
                low += 1
        mu += p
        pq += p * (1.0 - p)
    state.front[0, w:], state.front[1, w:] = 1.0, 0.0
    outcomes, owner = with_room(state.outcomes, room), with_room(state.owner, room)
    state = ExtremesState(sign, state.front, checkpoints, candidates, outcomes, owner, state.header)
    for own_slot in range(header.size):
        _insert(state, tuples, candidates[own_slot].index - tuples.first, own_slot)
    header.mid, header.built, header.low, header.high = tuples.first + mid, 1, w, w
    header.mu, header.pq = 0.0, 0.0
    return state


# The error bound holds for any order of summation, so SIMD may choose it.
@lean_dot
def _split(distribution, begin, end, front, low, high, both):
    """Return Pr(count >= w) and, if `both`, Pr(count < w); distribution : of [begin, end)."""
    reach, stay, middle = 0.0, 0.0, max(begin, low)
    count = min(end, high) - middle
    if count > 0:
        own, f = distribution[middle - begin :], front[0, middle:]
        for x in range(count):
            reach += own[x] * f[x]
    for x in range(max(begin, high), end):
        reach += distribution[x - begin]
    if both:
        for x in range(begin, min(low, end)):
            stay += distribution[x - begin]
        if count > 0:
            own, g = distribution[middle - begin :], front[1, middle:]
            for x in range(count):
                stay += own[x] * g[x]
    return reach, stay


@lean
def _copy(source, low, high, target):
    for curve in range(2):
        for x in range(low, high + 1):
            target[curve, x] = source[curve, x]


@inlined
def _deep_candidates(state, w, base):
    """Write `outside` of the oldest candidates; return how many of them may lie outside."""
    header, candidates, deep = state.header[0], state.candidates, 0
    while deep < header.size and candidates[deep].index < header.mid:
        own = candidates[deep]
        if _is_unlikely(w - own.mu - header.mu, own.pq + header.pq):
            break
        deep += 1
    if deep == 0:
        return deep
    low, high = header.low, header.high
    _copy(state.front, low, high, base)
    for slot in range(deep, header.size):
        p = candidates[slot].existence
        low, high = _add_to_curves(base, low, high, p, NEGLIGIBLE, False)
    end = 0
    for slot in range(deep - 1, -1, -1):
        own = candidates[slot]
        reach, _ = _split(
            state.checkpoints[own.place :], own.low, own.high, base, low, high, np.bool_(False)
        )
        own.outside = reach + own.over
        if end == 0 and own.outside > NEGLIGIBLE_DEEP:
            end = slot + 1
        if slot > 0:
            low, high = _add_to_curves(base, low, high, own.existence, NEGLIGIBLE, False)
    return end


@inlined
def _bound_of_none(state, deep, clear):
    """Return a cheap bound of Pr(none inside).

    clear : Pr(none inside) of the shallow tuples alone
    """
    total = 0.0
    for slot in range(deep - 1, -1, -1):
        own = state.candidates[slot]
        total += clear * own.mass_passed * own.outside
        clear *= 1.0 - own.existence + own.mass_left
    return total + clear


@inlined
def _combine_deep(state, deep, front, low, high, none, some, negligible):
    """Return Pr(none inside), and Pr(one inside) if below 1/2.

    none, some : Pr(none inside) and Pr(one inside) of the shallow tuples alone
    front : F and G including the shallow tuples, overwritten
    """
    candidates, oldest, both = state.candidates, np.int64(0), some < 0.5
    while oldest < deep and candidates[oldest].mass_passed == 0.0:
        oldest += 1
    total, clear = 0.0, none
    for slot in range(deep - 1, oldest - 1, -1):
        if clear < NEGLIGIBLE_DEEP:
            break
        own = candidates[slot]
        passed, left = clear * own.mass_passed, own.mass_left
        if passed > 0.0:
            distribution = state.checkpoints[own.place :]
            reach, stay = _split(distribution, own.low, own.high, front, low, high, both)
            total += passed * (reach + own.over)
            some += passed * stay
        rest = 1.0 - own.existence + left
        clear *= rest
        if slot > oldest and left > 0.0:
            low, high = _add_to_curves(front, low, high, left / rest, negligible, both)
    return total + clear, some


@inlined
def _add_deep_terms(state, deep, stages, begin, last, work):
    """Add the deep tuples to `none` and `some` of stages begin ... last - 1, last stage first."""
    header, candidates, outcomes = state.header[0], state.candidates, state.outcomes
    low, high = header.low, header.high
    base, front = work[0], work[1]
    _copy(state.front, low, high, base)
    # More can be dropped at the ends if the probability to compute is smaller.
    own = stages[begin]
    least, alone = min(NEGLIGIBLE_DEEP / max(own.none, NEGLIGIBLE_DEEP), 1e-3), own.some >= 0.5
    for slot in range(deep, header.size):
        exists = candidates[slot].existence
        if candidates[slot].mass_left == exists:
            low, high = _add_to_curves(base, low, high, exists, least, not alone)
    for s in range(last - 1, begin - 1, -1):
        own = stages[s]
        negligible = min(NEGLIGIBLE_DEEP / max(own.none, NEGLIGIBLE_DEEP), 1e-3)
        both = own.some < 0.5
        near, far = low, high
        while near < far and base[0, near] < negligible:
            near += 1
        while far > near and not both and base[0, far - 1] >= BELOW_ONE:
            far -= 1
        _copy(base, near, far, front)
        front[0, far], front[1, far] = 1.0, 0.0
        for slot in range(deep, header.size):
            left, exists = candidates[slot].mass_left, candidates[slot].existence
            if 0.0 < left < exists:
                p = left / (1.0 - exists + left)
                near, far = _add_to_curves(front, near, far, p, negligible, both)
        own.none, own.some = _combine_deep(
            state, deep, front, near, far, own.none, own.some, negligible
        )
        for j in range(own.end - 1, (stages[s - 1].end if s > 0 else 0) - 1, -1):
            of = candidates[state.owner[j]]
            exists, counted = of.existence, of.mass_left == of.existence
            of.mass_left = outcomes[j].mass_left_before
            of.mass_passed = outcomes[j].mass_passed_before
            # If an outcome is too unlikely to change `left`, the whole tuple is already counted.
            if state.owner[j] >= deep and not counted and of.mass_left == exists:
                low, high = _add_to_curves(base, low, high, exists, least, not alone)


@inlined
def _pass_value(state, j, deep, reached, some):
    """Pass the outcomes of one value, starting at j.

    Returns (next j, Pr(no shallow tuple takes its passed part), Pr(one does), whether one is deep).
    """
    outcomes, x, deeper = state.outcomes, state.outcomes[j].value, False
    while j < state.header[0].outcomes and outcomes[j].value == x:
        own, p = state.candidates[state.owner[j]], outcomes[j].prob
        before, passed, exists = own.mass_left, own.mass_passed, own.existence
        outcomes[j].mass_left_before, outcomes[j].mass_passed_before = before, passed
        left = before - p if before - p > REMAINDER * exists else 0.0
        own.mass_left, own.mass_passed = left, min(passed + p, exists)
        rest = 1.0 - exists + before
        if state.owner[j] < deep:
            deeper = True
        elif rest > 0.0:
            some += reached * min(p / rest, 1.0)
            reached *= (1.0 - exists + left) / rest
        j += 1
    return j, reached, some, deeper


@lean
def _pass_values(state, w, stages, work):
    """Write the stages; return their number, or -1 if the candidates do not suffice."""
    header, deep = state.header[0], _deep_candidates(state, w, work[0])
    for slot in range(header.size):
        own = state.candidates[slot]
        own.mass_left, own.mass_passed = own.existence, 0.0
    j, last, begin, most, reached, one = np.int64(0), 0, -1, 1.0, 1.0, 0.0
    while j < header.outcomes and most >= LEAST_OUTCOME:
        j, reached, one, deeper = _pass_value(state, j, deep, reached, one)
        stages[last].end, stages[last].none, stages[last].some = j, reached, one
        if deeper and begin < 0:
            begin = last
        most = reached if begin < 0 else _bound_of_none(state, deep, reached)
        last += 1
    if most >= LEAST_OUTCOME and header.floor > -np.inf:
        return -1
    if begin >= 0:
        _add_deep_terms(state, deep, stages, begin, last, work)
    return last


@lean
def _write_distribution(state, last, stages, distributions, at):
    """Write the distribution of `last` values, ascending, from place `at`; return its end."""
    to_prob, to_value = distributions.prob, distributions.value
    left, before, size = 1.0, 0.0, at
    for s in range(last):
        if left < LEAST_OUTCOME:
            break
        none, some = stages[s].none, stages[s].some
        taken = some - before if some < 0.5 else left - none
        if taken > OUTCOME_ROUNDING * (some if some < 0.5 else left):
            to_prob[size] = taken
            to_value[size] = state.sign * state.outcomes[stages[s].end - 1].value
            size += 1
        left, before = none, some
    if state.sign > 0.0:
        for k in range((size - at) // 2):
            a, b = at + k, size - 1 - k
            to_prob[a], to_prob[b] = to_prob[b], to_prob[a]
            to_value[a], to_value[b] = to_value[b], to_value[a]
    return size


@compiled
def slide_extremes(state, tuples, existence, heads, w, limit, distributions):
    """Compute the distributions after each arrival; return the ExtremesState and Distributions.

    tuples, heads, w, limit : as in `slide_moments`; existence : float64[n]
    Cost per arrival: O(passed values * (deep candidates + partly passed candidates) * band)
    amortised, and O(c * band) for c candidates, the band about sqrt(w). About band / w of the
    candidates are deep. With one alternative per tuple this is O(c^2 + c sqrt(w)), with c a few
    dozen at ordinary existences for any w.
    Error: relative 1e-13 of the probabilities, absolute 1e-17.
    Source: T_j of Dallachiesa et al. (2015), equation (24), for the candidates; otherwise original.
    """
    work, stages = np.empty((2, 2, w + 2)), np.empty(state.owner.size, STAGE)
    header = state.header[0]
    offsets, first, (places, prob, value) = tuples.offsets, tuples.first, distributions
    begin, steps = offsets.size - 1 - heads.size, np.int64(0)
    for t in range(heads.size):
        i, head = begin + t, heads[t]
        steps = after_signals(steps + 64 * header.outcomes + 8 * w)
        if header.built == 1:
            _evict(state, first + head, w)
        last = np.int64(-1)
        while last < 0:
            arriving = offsets[i + 1] - offsets[i]
            stale = header.built == 0 or first + i - header.mid >= limit
            if stale or header.outcomes + arriving > header.limit:
                state = _build(state, tuples, existence, head, i, i, w, True)
                if stages.size < state.owner.size:
                    stages = np.empty(state.owner.size, STAGE)
            _push_back(state, tuples, existence, i)
            last = _pass_values(state, w, stages, work)
            if last < 0:
                header.want, header.built = 2 * max(header.outcomes, 64), 0
        header.want = 0
        room = places[t] + header.limit
        prob, value = with_room(prob, room), with_room(value, room)
        places[t + 1] = _write_distribution(
            state, last, stages, Distributions(places, prob, value), places[t]
        )
    return state, Distributions(places, prob, value)


@inlined
def resume_extremes(state, tuples, existence, mid, end, w):
    """Return the state of tuples[:end] with the front stack up to `mid`, its floor and limit."""
    state = _build(state, tuples, existence, 0, mid, end, w, False)
    for i in range(mid, end):
        _evict(state, tuples.first, w)  # those certainly outside when tuple i arrived
        _push_back(state, tuples, existence, i)
    return state
