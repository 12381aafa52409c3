"""What is kept for the extremes of a count window: candidates, and counts without them.

The largest value of a window is one of few: those reached before the probability that nothing
larger is inside falls below 1e-17. The candidates are the held tuples with a value of at least
`FLOOR`, chosen so that there are half as many again as needed; they are kept sorted. All other
tuples only count, and that is kept in two parts, as in `count_window`:

    held:    head ................. mid ................. tail
             older part             newer part, at most w tuples: all of them inside

For each candidate a of the older part, the law S_a of the number of others between it and mid; of
the newer part the functions  F[x] = Pr(x + B >= w)  and  G[x] = Pr(x + B < w), B its count of
others. Candidates are added to these where they are needed, and never divided out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled, lean, lean_fused

NEGLIGIBLE = 1e-20  # probabilities at a law's ends below this are dropped
LAST = 1e-17  # a distribution function is 0 from here on
SURE = 2.0**-50  # a smaller share of a tuple is nothing left of it
CERTAIN = 1.0 - 2.0**-53
SPARE = 64
UNLIKELY = 42.0  # exp(-42) = 6e-19 is no probability
# Places in `marks` and `reals`; candidates FIRST ... END - 1, their OUTCOMES sorted.
MID, BUILT, LOW, HIGH, FIRST, END, OUTCOMES, LIMIT, WANT, SAVED_NEEDED, MARKS = range(11)
FLOOR, N_MU, N_PQ, REALS = range(4)
# Columns of a candidate, and of an outcome (a value of at least FLOOR).
INDEX, PLACE, BAND_LOW, BAND_HIGH = range(4)
EXISTENCE, OVER, MU, PQ, LEFT, KILLED, OUTSIDE, FACTS = range(8)
VALUE, PROB, LEFT_BEFORE, KILLED_BEFORE, COLUMNS = range(5)


class ExtremePlanes(NamedTuple):
    """State of one window, attribute and sign; the operator makes arrays larger when asked.

    front : float64[2, w + 2], F and G: 0 and 1 below LOW, 1 and 0 from HIGH on
    saved : float64[...], the laws S_a, packed
    places : int64[room, 4], of candidates in order of arrival: stream index; where S_a is, its
        least count and the one after its last
    facts : float64[room, FACTS], of candidates: existence; Pr(S_a's count >= w), mean and variance
        of the count of all tuples between it and mid; then, at each arrival, LEFT and KILLED, what
        of its existence has not been passed, or has, while values are gone through, and
        Pr(it is not among the w newest existing ones)
    outcomes : float64[room, COLUMNS], descending values, sign * value; owner : int64[room], row of
        the candidate
    marks : int64[MARKS]; reals : float64[REALS], N_MU and N_PQ those of the newer part's count
    """

    front: np.ndarray
    saved: np.ndarray
    places: np.ndarray
    facts: np.ndarray
    outcomes: np.ndarray
    owner: np.ndarray
    marks: np.ndarray
    reals: np.ndarray


@lean
def unlikely(away, variance):
    """Whether a count is that far from its mean, to one side, with no probability (Bernstein)."""
    third = UNLIKELY / 3.0
    return away > third + np.sqrt(third * third + 2.0 * UNLIKELY * variance)


@lean_fused
def mix(front, low, high, p, negligible):
    """F and G with one more tuple of existence p counted; the new (low, high).  O(band)."""
    q = 1.0 - p
    if low > 0:
        low -= 1
        front[0, low], front[1, low] = 0.0, 1.0
    reach, stay = front[0, low : high + 1], front[1, low : high + 1]
    for x in range(high - low):
        reach[x] = q * reach[x] + p * reach[x + 1]
        stay[x] = q * stay[x] + p * stay[x + 1]
    while low < high and front[0, low] < negligible:
        low += 1
    while high > low and front[1, high - 1] < negligible:
        high -= 1
        front[0, high], front[1, high] = 1.0, 0.0
    return low, high


@lean_fused
def mix_reach(front, low, high, p, negligible):
    """`mix` for F alone."""
    q = 1.0 - p
    if low > 0:
        low -= 1
        front[0, low] = 0.0
    reach = front[0, low : high + 1]
    for x in range(high - low):
        reach[x] = q * reach[x] + p * reach[x + 1]
    while low < high and front[0, low] < negligible:
        low += 1
    while high > low and front[0, high - 1] >= CERTAIN:
        high -= 1
        front[0, high] = 1.0
    return low, high


@compiled
def largest(offsets, value, i, sign):
    """The largest sign * value of tuple i, -inf if it has none."""
    most = -np.inf
    for a in range(offsets[i], offsets[i + 1]):
        if sign * value[a] > most:
            most = sign * value[a]
    return most


@compiled
def _choose_floor(offsets, prob, value, head, end, existence, sign, want):
    """A value that at least `want` outcomes, or half as many again as needed, reach; else -inf."""
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
def _insert(state, offsets, prob, value, i, slot, sign):
    """Sort tuple i's outcomes in, equal values after those there.  O(outcomes)."""
    outcomes, owner, marks, floor = state.outcomes, state.owner, state.marks, state.reals[FLOOR]
    for a in range(offsets[i], offsets[i + 1]):
        x = sign * value[a]
        if not x >= floor:  # nor NaN
            continue
        at = marks[OUTCOMES]
        while at > 0 and outcomes[at - 1, VALUE] < x:
            outcomes[at, VALUE], outcomes[at, PROB] = (
                outcomes[at - 1, VALUE],
                outcomes[at - 1, PROB],
            )
            owner[at] = owner[at - 1]
            at -= 1
        outcomes[at, VALUE], outcomes[at, PROB], owner[at] = x, prob[a], slot
        marks[OUTCOMES] += 1


@compiled
def evict(state, oldest, w):
    """Candidates of a stream index below `oldest`, or outside for certain, go.

    O(outcomes) for an arrival at which any goes.
    """
    marks, reals, owner, outcomes = state.marks, state.reals, state.owner, state.outcomes
    first = marks[FIRST]
    while first < marks[END] and state.places[first, INDEX] < marks[MID]:
        newer = state.facts[first, MU] + reals[N_MU]
        outside = unlikely(newer - w + 1.0, state.facts[first, PQ] + reals[N_PQ])
        if state.places[first, INDEX] >= oldest and not outside:
            break
        first += 1
    if marks[FIRST] == first:
        return
    marks[FIRST] = first
    kept = 0
    for j in range(marks[OUTCOMES]):
        if owner[j] >= first:
            owner[kept] = owner[j]
            outcomes[kept, VALUE], outcomes[kept, PROB] = outcomes[j, VALUE], outcomes[j, PROB]
            kept += 1
    marks[OUTCOMES] = kept


@compiled
def _to_front(state):
    """Move the candidates to the beginning of their arrays."""
    marks, shift = state.marks, state.marks[FIRST]
    for c in range(shift, marks[END]):
        state.places[c - shift, :] = state.places[c]
        state.facts[c - shift, :] = state.facts[c]
    for j in range(marks[OUTCOMES]):
        state.owner[j] -= shift
    marks[FIRST], marks[END] = 0, marks[END] - shift


@compiled
def enter(state, offsets, prob, value, existence, i, index, sign):
    """Tuple i, of stream index `index`, enters the newer part.  Cost: O(band + outcomes)."""
    marks, reals, p = state.marks, state.reals, existence[i]
    reals[N_MU] += p
    reals[N_PQ] += p * (1.0 - p)
    if largest(offsets, value, i, sign) >= reals[FLOOR]:
        if marks[END] == state.places.shape[0]:
            _to_front(state)
        slot = marks[END]
        state.places[slot, INDEX], state.facts[slot, EXISTENCE] = index, p
        marks[END] += 1
        _insert(state, offsets, prob, value, i, slot, sign)
    else:
        marks[LOW], marks[HIGH] = mix(state.front, marks[LOW], marks[HIGH], p, NEGLIGIBLE)


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
def build(state, offsets, prob, value, existence, first, head, mid, w, sign, choose):
    """Make tuples head ... mid - 1 (positions) the older part, and the newer part empty.

    existence : float64[n]; first : int64, stream index of position 0; choose : bool, take a new
    floor and limit (else those in the state, for a restored window)
    False, with the sizes needed in `marks`, when there is no room.
    Cost: O(tuples * band + outcomes log outcomes).
    """
    marks, reals = state.marks, state.reals
    marks[BUILT], head = 0, _inside(existence, head, mid, w)
    if choose:
        reals[FLOOR] = _choose_floor(
            offsets, prob, value, head, mid, existence, sign, marks[WANT]
        )  # fmt: skip
    found = 0
    for a in range(offsets[head], offsets[mid]):
        found += sign * value[a] >= reals[FLOOR]
    if choose:
        marks[LIMIT] = 2 * found + SPARE + offsets[mid + 1] - offsets[mid]
    if state.owner.size < marks[LIMIT]:
        return False
    law = np.zeros(w + 2)
    law[w] = 1.0
    low, high = w, w + 1  # cells in use
    over, mu, pq = 0.0, 0.0, 0.0
    place, candidates = np.int64(0), np.int64(0)
    for i in range(head, mid):
        candidates += largest(offsets, value, i, sign) >= reals[FLOOR]
    slot = candidates
    for i in range(mid - 1, head - 1, -1):
        p = existence[i]
        if largest(offsets, value, i, sign) >= reals[FLOOR]:
            slot -= 1
            facts, places = state.facts[slot], state.places[slot]
            size = high - low
            facts[EXISTENCE], facts[OVER], facts[MU], facts[PQ] = p, over, mu, pq
            places[INDEX], places[PLACE] = first + i, place
            places[BAND_LOW], places[BAND_HIGH] = w + 1 - high, w + 1 - low
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
    marks[SAVED_NEEDED] = place
    if place > state.saved.size:
        return False
    marks[FIRST], marks[END], marks[OUTCOMES] = 0, candidates, 0
    slot = np.int64(0)
    for i in range(head, mid):
        if largest(offsets, value, i, sign) >= reals[FLOOR]:
            _insert(state, offsets, prob, value, i, slot, sign)
            slot += 1
    marks[MID], marks[BUILT], marks[LOW], marks[HIGH] = first + mid, 1, w, w
    state.front[0, w:], state.front[1, w:] = 1.0, 0.0
    reals[N_MU], reals[N_PQ] = 0.0, 0.0
    return True
