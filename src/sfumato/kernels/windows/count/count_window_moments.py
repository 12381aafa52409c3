"""Mean and variance of the sum and count of the w newest existing tuples, O(sqrt(w)) an arrival.

The held tuples are cut in two, as in `count_window`:

    held:    head ................. mid ................. tail
             older part             newer part, at most w tuples: all of them inside

Tuple i has the value Y_i (0 when it does not exist), mean m_i, variance v_i, and is inside (I_i)
when at most w - 1 newer ones exist. With M the sum of the Y_i - m_i, a martingale from newest to
oldest, the sum of the inside tuples is  sum (Y_i - m_i) I_i  +  sum m_i I_i,  so that

    mean = sum m_i - e,                        e = sum m_i Pr(not I_i)
    variance = sum v_i Pr(I_i) - 2 sum m_i E[M newer than i; not I_i] + E[W^2] - e^2,

W the sum of the m_i outside. No term is large where the answer is small: certain tuples have
variance exactly 0. A term of the older part is a dot product over l, the number of existing
tuples between i and mid, of a law of the older part with a law of the newer part, and the sums
over i are taken once, into the planes G and K below, cumulated from mid to every head:

    S[l] = Pr(N = l),  T[l] = E[M; N = l]                       of held[head:mid]
    G[l] = sum m_i S_i[l]                 S_i, T_i, N_i:        of held[i+1:mid]
    K[l] = sum (m_i (2 Q_i - m_i) - v_i) S_i[l] - 2 m_i T_i[l]  Q_i = m_head + ... + m_i

    e = <G, C>,   variance = sum v_i + <K, C> - 2 <G, CM> - e^2
    C[l] = Pr(l + B >= w),  CM[l] = E[M; l + B >= w]            B, M of held[mid:tail]

Values are taken relative to a reference c, near their mean: the sum is c N + (sum of the rest),
N = w - D the number inside, D = max(w - count, 0), so that the variance of N, the covariance and
that of the rest are three small numbers added, not large ones subtracted.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled, lean, lean_dot, lean_fused
from sfumato.kernels.signals import after_signals
from sfumato.kernels.windows.count.count_law import write_count_law
from sfumato.kernels.windows.count.moments_state import (
    LEAD,
    NEGLIGIBLE,
    NEWER,
    OLDER,
    build,
    load,
    magnitude,
)
from sfumato.kernels.windows.held_tuples import centred

# An answer: mean and variance of the sum and of the count; then, for the average, with M, m_i and e
# as above: sum of the m_i, e, variance of the sum of the rest, the reference c, and the stream
# index of mid.
MOMENTS = np.dtype(
    [
        (name, float)
        for name in (
            "sum_mean", "sum_variance", "count", "count_variance", "means", "outside",
            "rest_variance", "reference",
        )
    ]
    + [("middle", np.int64)]
)  # fmt: skip
CANCELLED = 2.0**-50
OUTGROWN = 2.0**10


class CountLaws(NamedTuple):
    """Where laws of the count are written, one after the other.

    places : int64[arrivals + 1], where each begins, or int64[0]: none are wanted
    prob, counts : float64[...], written
    """

    places: np.ndarray
    prob: np.ndarray
    counts: np.ndarray


@lean_fused
def _mix(front, low, high, p, mq):
    """Planes of the newer part after one more tuple, counts low ... high - 1, in place."""
    q, count = 1.0 - p, high - low
    c, cm = front[NEWER.c, low : high + 1], front[NEWER.cm, low : high + 1]
    for x in range(count):
        cm[x] = q * cm[x] + p * cm[x + 1] + mq * (c[x + 1] - c[x])
        c[x] = q * c[x] + p * c[x + 1]
    d1, d2, dm = (
        front[NEWER.d1, low : high + 1],
        front[NEWER.d2, low : high + 1],
        front[NEWER.dm, low : high + 1],
    )
    for x in range(count):
        dm[x] = q * dm[x] + p * dm[x + 1] + mq * (d1[x + 1] - d1[x])
        d1[x] = q * d1[x] + p * d1[x + 1]
        d2[x] = q * d2[x] + p * d2[x + 1]


@lean
def enter(state, tuples, i, w):
    """Tuple i enters the newer part.  Cost: O(band)."""
    front, marks, reals = state.front, state.marks[0], state.reals[0]
    p, m, v = centred(tuples, i, reals.reference)
    low, high = marks.low, marks.high
    if low > 0 and p * front[NEWER.c, low] >= NEGLIGIBLE:
        low -= 1
        away = w - low - reals.mu  # no w can be reached from here yet: D = w - l - B
        front[NEWER.d1, low] = away
        front[NEWER.d2, low] = away * away + reals.pq
        front[NEWER.dm, low] = -reals.mq
    _mix(front, low, high, p, m * (1.0 - p))
    while high > low and front[NEWER.c, high - 1] >= 1.0:
        high -= 1
        front[NEWER.c, high] = 1.0
        for plane in range(NEWER.cm, NEWER.dm + 1):
            front[plane, high] = 0.0
    marks.low, marks.high = low, high
    reals.mu += p
    reals.sum_m += m
    reals.sum_v += v
    reals.pq += p * (1.0 - p)
    reals.mq += m * (1.0 - p)
    reals.scale += magnitude(tuples, i)


# Any order of summation keeps the error bound, so SIMD may choose it.
@lean_dot
def _outside(row, front, base, begin, end):
    """<G, C>, <K, C>, <G, CM> over counts begin ... end - 1."""
    g, k = row[OLDER.g, begin - base + LEAD :], row[OLDER.k, begin - base + LEAD :]
    c, cm = front[NEWER.c, begin:], front[NEWER.cm, begin:]
    gc, kc, gm = 0.0, 0.0, 0.0
    for x in range(end - begin):
        gc += g[x] * c[x]
        kc += k[x] * c[x]
        gm += g[x] * cm[x]
    return gc, kc, gm


@lean_dot
def _short(row, front, reals, base, begin, zone, end, w):
    """E[D], E[D^2], E[M D] over counts begin ... end - 1; below `zone` no world is full."""
    mean, square, cross = 0.0, 0.0, 0.0
    if begin < zone:
        law, rest = row[OLDER.s, begin - base + LEAD :], row[OLDER.t, begin - base + LEAD :]
        away, spread, mq = w - begin - reals.mu, reals.pq, reals.mq
        for x in range(min(zone, end) - begin):
            d = away - x
            mean += law[x] * d
            square += law[x] * (d * d + spread)
            cross += rest[x] * d - law[x] * mq
        begin = min(zone, end)
    law, rest = row[OLDER.s, begin - base + LEAD :], row[OLDER.t, begin - base + LEAD :]
    d1, d2, dm = front[NEWER.d1, begin:], front[NEWER.d2, begin:], front[NEWER.dm, begin:]
    for x in range(end - begin):
        mean += law[x] * d1[x]
        square += law[x] * d2[x]
        cross += rest[x] * d1[x] + law[x] * dm[x]
    return mean, square, cross


# Not `lean`: the compiler then takes the sums of `_outside` and `_short` in another order.
@compiled
def _answer(state, row, w, out):
    """One row of answers, with `row` the depth of the head."""
    front, reals, marks = state.front, state.reals[0], state.marks[0]
    base, floor = state.extent[marks.block].base, state.extent[marks.block].floor
    planes, facts = state.rows[row], state.row_facts[row]
    low, high = state.bands[row, 0], state.bands[row, 1]
    total, spread = facts.sum_m + reals.sum_m, facts.sum_v + reals.sum_v
    if marks.low >= high and facts.s_w == 0.0:  # no world has more than w tuples
        reference, pq = reals.reference, facts.sum_pq + reals.pq
        count = facts.mu + reals.mu
        cross = facts.sum_mq + reals.mq
        e, deficit = 0.0, 0.0
    else:
        begin = max(marks.low, base, floor)
        e, kc, gm = 0.0, 0.0, 0.0
        if begin < high:
            e, kc, gm = _outside(planes, front, base, begin, high)
        e += facts.g_w
        spread += (kc + facts.k_w) - 2.0 * gm - e * e
        deficit, square, cross = _short(
            planes, front, reals, base, low, marks.low, max(low, min(high, marks.high)), w
        )
        reference, pq = reals.reference, square - deficit * deficit
        cross = -(cross + e * deficit)
        count = w - deficit
    variance = spread + reference * (2.0 * cross + reference * pq)
    if variance < CANCELLED * (abs(spread) + reference * reference * pq):
        variance = 0.0  # what roundings left of terms that cancel
    out.sum_mean = total - e + reference * count
    out.sum_variance = max(variance, 0.0)
    out.count = count
    out.count_variance = max(pq, 0.0)
    out.means, out.outside, out.rest_variance = total, e, max(spread, 0.0)
    out.reference, out.middle = reference, marks.mid


@lean
def _row_of(state, tuples, mid, head, w):
    """The row of the depth of `head`, loaded where it was not."""
    marks, depth = state.marks[0], mid - head
    block = depth >> marks.shift
    row = depth - (block << marks.shift)
    if block != marks.block:
        load(state, tuples, mid, block, row, w)
    return row


@lean
def _outgrown(state, row):
    """Whether the values held are small beside the reference, as after a value far above all
    others has left: differences from it have lost their digits."""
    facts, reals = state.row_facts[row], state.reals[0]
    tuples, scale = facts.mu + reals.mu, facts.scale + reals.scale
    return abs(reals.reference) * tuples > OUTGROWN * scale


@compiled
def slide_moments(state, tuples, heads, done, w, limit, out, laws):
    """Answers after each of the arrivals from number `done` on.

    tuples : HeldTuples, the last of them the arrivals
    heads : int64[arrivals], position of the oldest tuple held after each
    w : int64; limit : int64, most tuples of the newer part, at most w and what the window holds
    out : MOMENTS[arrivals], written: of the w newest existing tuples held
    laws : CountLaws, of the count
    Returns how many arrivals are done: all, or less for want of room (sizes in `marks`; of a law,
    w + 1 entries).
    When the older part is built anew depends on the stream alone, not on the calls.
    Cost: O(band) amortised an arrival, the band about 20 standard deviations of the count; with
    laws O(band of the older part * band of the newer).
    Error: about 1e-13 of the terms above.  Source: (count; moments) recursion over A, section 4.
    """
    marks, places, first = state.marks[0], laws.places, tuples.first
    begin = tuples.offsets.size - 1 - heads.size
    newer, steps = np.empty(w + 1 if places.size > 0 else 0), np.int64(0)
    for t in range(done, heads.size):
        steps = after_signals(
            steps + 8 * w + tuples.offsets[begin + t + 1] - tuples.offsets[begin + t]
        )
        if places.size > 0 and places[t] + w + 1 > laws.prob.size:
            return t
        i, head, mid = begin + t, heads[t], marks.mid - first
        stale = marks.built == 0 or i - mid >= limit
        if not stale:
            extent = state.extent[(mid - head) >> marks.shift]
            reach = marks.low - 1
            stale = reach < extent.floor and reach < extent.high + (1 << marks.shift)
        if stale:
            if not build(state, tuples, head, i, w, True):
                return t
            mid = i
        enter(state, tuples, i, w)
        row = _row_of(state, tuples, mid, head, w)
        if _outgrown(state, row):
            if not build(state, tuples, head, i, w, True):
                return t
            enter(state, tuples, i, w)
            row = _row_of(state, tuples, i, head, w)
        _answer(state, row, w, out[t])
        if places.size > 0:
            places[t + 1] = write_count_law(
                state, row, w, newer, laws.prob, laws.counts, places[t]
            )  # fmt: skip
    return heads.size


@compiled
def resume_moments(state, tuples, mid, w):
    """The state of a restored window: older part up to position `mid`, the rest newer.

    `reference` and `ratio` of the state are those saved. False for want of room.
    """
    if not build(state, tuples, np.int64(0), mid, w, False):
        return False
    for i in range(mid, tuples.offsets.size - 1):
        enter(state, tuples, i, w)
    return True
