"""The candidates for a window's extreme, as tuples come and go and the parts are built anew.

`extremes_state` says what candidates are.
"""

import numpy as np

from sfumato.kernels.compile import compiled, lean_fused
from sfumato.kernels.windows.count.extremes_state import LAST, NEGLIGIBLE, SPARE, mix, unlikely

FEW = 32  # alternatives: up to here they are inserted one by one


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
    while c < size and reached >= LAST and not np.isnan(value[first + order[c]]):
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
    if tuples.offsets[i + 1] - tuples.offsets[i] > FEW:
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
    """Tuple i enters the newer part.  Cost: O(band + outcomes)."""
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


@lean_fused
def _count(law, low, high, p):
    """A law of counts, count l at w - l, with one more tuple: cells low ... high - 1, in place."""
    q, cells = 1.0 - p, law[low : high + 1]
    for x in range(high - low):
        cells[x] = q * cells[x] + p * cells[x + 1]


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
    """Make tuples head ... mid - 1 (positions) the older part, and the newer part empty.

    tuples : HeldTuples; existence : float64[n]; choose : bool, take a new floor and limit (else
    those in the state, for a restored window)
    False, with the sizes needed in `marks`, when there is no room.
    Cost: O(tuples * band + outcomes log outcomes).
    """
    marks, reals, offsets = state.marks[0], state.reals[0], tuples.offsets
    marks.built, head = 0, _inside(existence, head, mid, w)
    if choose:
        reals.floor = _choose_floor(tuples, existence, head, mid, state.sign, marks.want)
    found = 0
    for a in range(offsets[head], offsets[mid]):
        found += state.sign * tuples.value[a] >= reals.floor
    if choose:
        marks.limit = 2 * found + SPARE + offsets[mid + 1] - offsets[mid]
    if state.owner.size < marks.limit:
        return False
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
            if place + size <= state.saved.size:
                for x in range(size):
                    state.saved[place + x] = law[high - 1 - x]
            place += size
        elif high > low:
            over += p * law[1]
            low = max(low - 1, 1)
            _count(law, low, high, p)
            while high > low and law[high - 1] < NEGLIGIBLE:
                high -= 1
                law[high] = 0.0
            while low < high and law[low] < NEGLIGIBLE:
                law[low] = 0.0
                low += 1
        mu += p
        pq += p * (1.0 - p)
    marks.saved_needed = place
    if place > state.saved.size:
        return False
    marks.first, marks.end, marks.outcomes = 0, candidates, 0
    slot = np.int64(0)
    for i in range(head, mid):
        if largest(tuples, i, state.sign) >= reals.floor:
            _insert(state, tuples, i, slot)
            slot += 1
    marks.mid, marks.built, marks.low, marks.high = tuples.first + mid, 1, w, w
    state.front[0, w:], state.front[1, w:] = 1.0, 0.0
    reals.mu, reals.pq = 0.0, 0.0
    return True
