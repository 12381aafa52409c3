"""What is kept for the extremes of a count window: candidates, and counts without them.

The largest value of a window is one of few: those reached before the probability that nothing
larger is inside falls below 1e-17. The candidates are the held tuples with a value of at least
`floor`, chosen so that there are half as many again as needed; they are kept sorted. All other
tuples only count, in a front stack and a back stack (`front_stack`). For each candidate a of the
front stack, S_a is the distribution of the number of others between it and mid; of the back stack
there are the functions  F[x] = Pr(x + B >= w)  and  G[x] = Pr(x + B < w), B its count of
others. Candidates are added to these where they are needed, and never divided out.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, reals, with_room
from sfumato.kernels.compile import compiled, lean
from sfumato.kernels.laws.poisson_binomial import mix_next
from sfumato.kernels.tolerances import (
    BELOW_ONE,
    LEAST_OUTCOME,
    NEGLIGIBLE,
    UNLIKELY_EXPONENT,
)

SPARE = 64

# Candidates first ... end - 1, their `outcomes` sorted, at most `limit`; `want` of them wanted.
EXTREME_MARKS = integers("mid built low high first end outcomes limit want")
EXTREME_REALS = reals("floor mu pq")
CANDIDATE_PLACES = integers("index place low high")
CANDIDATE_FACTS = reals("existence over mu pq left killed outside")
OUTCOME = reals("value prob left_before killed_before")


class ExtremesState(NamedTuple):
    """State of one window, attribute and sign.

    sign : 1.0 for the largest, -1.0 for the smallest value
    front : float64[2, w + 2], F and G: 0 and 1 below `low`, 1 and 0 from `high` on
    saved : float64[...], the laws S_a, packed
    places : CANDIDATE_PLACES[room], of candidates in order of arrival: stream index; where S_a is,
        its least count and the one after its last
    facts : CANDIDATE_FACTS[room], of candidates: existence; Pr(S_a's count >= w), mean and variance
        of the count of all tuples between it and mid; then, at each arrival, `left` and `killed`,
        what of its existence has not been passed, or has, while values are passed, and Pr(it is not
        among the w newest existing ones)
    outcomes : OUTCOME[room], descending values, sign * value; owner : int64[room], row of the
        candidate
    marks : EXTREME_MARKS[1]; reals : EXTREME_REALS[1], `mu` and `pq` those of the newer part's
    count
    """

    sign: float
    front: np.ndarray
    saved: np.ndarray
    places: np.ndarray
    facts: np.ndarray
    outcomes: np.ndarray
    owner: np.ndarray
    marks: np.ndarray
    reals: np.ndarray


def empty_extremes(w: int, sign: float) -> ExtremesState:
    """One that has seen nothing.  NumPy."""
    return ExtremesState(
        sign=sign,
        front=np.zeros((2, w + 2)),
        saved=np.zeros(0),
        places=np.zeros(0, CANDIDATE_PLACES),
        facts=np.zeros(0, CANDIDATE_FACTS),
        outcomes=np.zeros(0, OUTCOME),
        owner=np.zeros(0, np.int64),
        marks=np.zeros(1, EXTREME_MARKS),
        reals=np.zeros(1, EXTREME_REALS),
    )


@lean
def unlikely(away, variance):
    """Whether a count is that far from its mean, to one side, with no probability (Bernstein)."""
    third = UNLIKELY_EXPONENT / 3.0
    return away > third + np.sqrt(third * third + 2.0 * UNLIKELY_EXPONENT * variance)


@lean
def mix(front, low, high, p, negligible):
    """F and G with one more tuple of existence p counted; the new (low, high).  O(band)."""
    if low > 0:
        low -= 1
        front[0, low], front[1, low] = 0.0, 1.0
    mix_next(front[0, low:], high - low, 1.0 - p, p)
    mix_next(front[1, low:], high - low, 1.0 - p, p)
    while low < high and front[0, low] < negligible:
        low += 1
    while high > low and front[1, high - 1] < negligible:
        high -= 1
        front[0, high], front[1, high] = 1.0, 0.0
    return low, high


@lean
def mix_reach(front, low, high, p, negligible):
    """`mix` for F alone."""
    if low > 0:
        low -= 1
        front[0, low] = 0.0
    mix_next(front[0, low:], high - low, 1.0 - p, p)
    while low < high and front[0, low] < negligible:
        low += 1
    while high > low and front[0, high - 1] >= BELOW_ONE:
        high -= 1
        front[0, high] = 1.0
    return low, high


FEW_ALTERNATIVES = 32  # alternatives: up to here they are inserted one by one


@compiled
def largest(tuples, i, sign):
    """The largest sign * value of tuple i, NaN if it has none: not even a floor of -inf is reached
    then, and there is room for as many candidates as there are outcomes."""
    most = np.nan
    for a in range(tuples.offsets[i], tuples.offsets[i + 1]):
        x = sign * tuples.value[a]
        if x > most or np.isnan(most):
            most = x
    return most


@compiled
def _choose_floor(tuples, existence, head, end, sign, want):
    """A value that at least `want` outcomes, or half as many again as needed, reach; else -inf."""
    offsets, prob, value = tuples.offsets, tuples.prob, tuples.value
    first, size = offsets[head], offsets[end] - offsets[head]
    owner = np.empty(size, np.int64)
    for i in range(head, end):
        owner[offsets[i] - first : offsets[i + 1] - first] = i - head
    order = np.argsort(-sign * value[first : first + size], kind="mergesort")  # NaN at the end
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
def _merge(state, tuples, i, slot):
    """`_insert` for many alternatives: sorted first.  O(outcomes + k log k) for k of them."""
    outcomes, owner, marks = state.outcomes, state.owner, state.marks[0]
    begin, end = tuples.offsets[i], tuples.offsets[i + 1]
    value = state.sign * tuples.value[begin:end]
    order, many = np.argsort(-value, kind="mergesort"), 0  # NaN at the end
    while many < order.size and value[order[many]] >= state.reals[0].floor:
        many += 1
    at = marks.outcomes + many
    marks.outcomes, old = at, marks.outcomes
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
def _insert(state, tuples, i, slot):
    """Sort tuple i's outcomes in, equal values after those there.  O(outcomes)."""
    if tuples.offsets[i + 1] - tuples.offsets[i] > FEW_ALTERNATIVES:
        _merge(state, tuples, i, slot)
        return
    outcomes, owner, marks, prob = state.outcomes, state.owner, state.marks[0], tuples.prob
    for a in range(tuples.offsets[i], tuples.offsets[i + 1]):
        x = state.sign * tuples.value[a]
        if not x >= state.reals[0].floor:  # nor NaN
            continue
        at = marks.outcomes
        while at > 0 and outcomes[at - 1].value < x:
            outcomes[at].value = outcomes[at - 1].value
            outcomes[at].prob = outcomes[at - 1].prob
            owner[at] = owner[at - 1]
            at -= 1
        outcomes[at].value, outcomes[at].prob, owner[at] = x, prob[a], slot
        marks.outcomes += 1


@compiled
def evict(state, oldest, w):
    """Candidates of a stream index below `oldest`, or outside for certain, go.  O(outcomes)."""
    marks, reals, owner, outcomes = state.marks[0], state.reals[0], state.owner, state.outcomes
    first = marks.first
    while first < marks.end and state.places[first].index < marks.mid:
        newer = state.facts[first].mu + reals.mu
        outside = unlikely(newer - w + 1.0, state.facts[first].pq + reals.pq)
        if state.places[first].index >= oldest and not outside:
            break
        first += 1
    if marks.first == first:
        return
    marks.first = first
    kept = 0
    for j in range(marks.outcomes):
        if owner[j] >= first:
            owner[kept] = owner[j]
            outcomes[kept].value, outcomes[kept].prob = outcomes[j].value, outcomes[j].prob
            kept += 1
    marks.outcomes = kept


@compiled
def _to_front(state):
    """Move the candidates to the beginning of their arrays."""
    marks, shift = state.marks[0], state.marks[0].first
    for c in range(shift, marks.end):
        state.places[c - shift] = state.places[c]
        state.facts[c - shift] = state.facts[c]
    for j in range(marks.outcomes):
        state.owner[j] -= shift
    marks.first, marks.end = 0, marks.end - shift


@compiled
def enter(state, tuples, existence, i):
    """Tuple i enters the back stack.  Cost: O(band + outcomes)."""
    marks, reals, p = state.marks[0], state.reals[0], existence[i]
    reals.mu += p
    reals.pq += p * (1.0 - p)
    if largest(tuples, i, state.sign) >= reals.floor:
        if marks.end == state.places.shape[0]:
            _to_front(state)
        slot = marks.end
        state.places[slot].index, state.facts[slot].existence = tuples.first + i, p
        marks.end += 1
        _insert(state, tuples, i, slot)
    else:
        marks.low, marks.high = mix(state.front, marks.low, marks.high, p, NEGLIGIBLE)


@compiled
def _inside(existence, head, mid, w):
    """The oldest of tuples head ... mid - 1 that is not outside for certain."""
    mu, pq = 0.0, 0.0
    for i in range(mid - 1, head - 1, -1):
        if unlikely(mu - w + 1.0, pq):
            return i + 1
        mu += existence[i]
        pq += existence[i] * (1.0 - existence[i])
    return head


@compiled
def build(state, tuples, existence, head, mid, w, choose):
    """Make tuples head ... mid - 1 (positions) the front stack, and the back stack empty.

    tuples : HeldTuples; existence : float64[n]; choose : bool, take a new floor and limit (else
    those in the state, for a restored window, which may hold more outcomes than the limit until
    the next arrival evicts those that are outside for certain)
    Returns the ExtremesState, with larger arrays where they were too small.
    Cost: O(tuples * band + outcomes log outcomes).
    """
    marks, reals, offsets = state.marks[0], state.reals[0], tuples.offsets
    begin, head = head, _inside(existence, head, mid, w)
    if choose:
        reals.floor = _choose_floor(tuples, existence, head, mid, state.sign, marks.want)
    found, until = 0, mid if choose else offsets.size - 1
    for a in range(offsets[head if choose else begin], offsets[until]):
        found += state.sign * tuples.value[a] >= reals.floor
    if choose:
        marks.limit = 2 * found + SPARE + offsets[mid + 1] - offsets[mid]
    room = max(marks.limit, found)
    state = ExtremesState(
        state.sign, state.front, state.saved, with_room(state.places, room),
        with_room(state.facts, room), with_room(state.outcomes, room),
        with_room(state.owner, room), state.marks, state.reals,
    )  # fmt: skip
    saved = state.saved
    law = np.zeros(w + 2)
    law[w] = 1.0
    low, high = w, w + 1  # cells in use
    over, mu, pq = 0.0, 0.0, 0.0
    place, candidates = np.int64(0), np.int64(0)
    for i in range(head, mid):
        candidates += largest(tuples, i, state.sign) >= reals.floor
    slot = candidates
    for i in range(mid - 1, head - 1, -1):
        p = existence[i]
        if largest(tuples, i, state.sign) >= reals.floor:
            slot -= 1
            facts, places = state.facts[slot], state.places[slot]
            size = high - low
            facts.existence, facts.over, facts.mu, facts.pq = p, over, mu, pq
            places.index, places.place = tuples.first + i, place
            places.low, places.high = w + 1 - high, w + 1 - low
            saved = with_room(saved, place + size)
            for x in range(size):
                saved[place + x] = law[high - 1 - x]
            place += size
        elif high > low:
            over += p * law[1]
            low = max(low - 1, 1)
            mix_next(law[low:], high - low, 1.0 - p, p)
            while high > low and law[high - 1] < NEGLIGIBLE:
                high -= 1
                law[high] = 0.0
            while low < high and law[low] < NEGLIGIBLE:
                law[low] = 0.0
                low += 1
        mu += p
        pq += p * (1.0 - p)
    marks.first, marks.end, marks.outcomes = 0, candidates, 0
    slot = np.int64(0)
    for i in range(head, mid):
        if largest(tuples, i, state.sign) >= reals.floor:
            _insert(state, tuples, i, slot)
            slot += 1
    marks.mid, marks.built, marks.low, marks.high = tuples.first + mid, 1, w, w
    state.front[0, w:], state.front[1, w:] = 1.0, 0.0
    reals.mu, reals.pq = 0.0, 0.0
    return ExtremesState(
        state.sign, state.front, saved, state.places, state.facts, state.outcomes, state.owner,
        state.marks, state.reals,
    )  # fmt: skip
