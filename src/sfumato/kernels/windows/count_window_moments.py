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

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled, lean_dot, lean_fused
from sfumato.kernels.windows.count_law import write_count_law
from sfumato.kernels.windows.moments_state import (
    BAND_HIGH,
    BASE,
    BLOCK,
    BUILT,
    CM,
    D1,
    D2,
    DM,
    FLOOR,
    G_W,
    HIGH,
    K_W,
    LEAD,
    LOW,
    MID,
    MU,
    N_MQ,
    N_MU,
    N_PQ,
    N_SUM_M,
    N_SUM_V,
    NEGLIGIBLE,
    REFERENCE,
    S_W,
    SHIFT,
    SUM_M,
    SUM_MQ,
    SUM_PQ,
    SUM_V,
    C,
    G,
    K,
    S,
    T,
    build,
    centred,
    load,
)  # fmt: skip

# Columns of the answers: mean and variance of the sum and of the count; then, for the average,
# with M, m_i and e as above: sum of the m_i, e, variance of the sum of the rest, the reference c,
# and the stream index of mid.
SUM_MEAN, SUM_VARIANCE, COUNT, COUNT_VARIANCE, MEANS, OUTSIDE, REST_VARIANCE = range(7)
REFERENCE_USED, MIDDLE, MOVED = range(7, 10)
NOTHING = 2.0**-50


@lean_fused
def _mix(front, low, high, p, mq):
    """Planes of the newer part after one more tuple, counts low ... high - 1, in place."""
    q, count = 1.0 - p, high - low
    c, cm = front[C, low : high + 1], front[CM, low : high + 1]
    for x in range(count):
        cm[x] = q * cm[x] + p * cm[x + 1] + mq * (c[x + 1] - c[x])
        c[x] = q * c[x] + p * c[x + 1]
    d1, d2, dm = front[D1, low : high + 1], front[D2, low : high + 1], front[DM, low : high + 1]
    for x in range(count):
        dm[x] = q * dm[x] + p * dm[x + 1] + mq * (d1[x + 1] - d1[x])
        d1[x] = q * d1[x] + p * d1[x + 1]
        d2[x] = q * d2[x] + p * d2[x + 1]


@compiled
def enter(state, offsets, prob, value, i, w):
    """Tuple i enters the newer part.  Cost: O(band)."""
    front, marks, reals = state.front, state.marks, state.reals
    p, m, v = centred(offsets, prob, value, i, reals[REFERENCE])
    low, high = marks[LOW], marks[HIGH]
    if low > 0 and p * front[C, low] >= NEGLIGIBLE:
        low -= 1
        away = w - low - reals[N_MU]  # no w can be reached from here yet: D = w - l - B
        front[D1, low] = away
        front[D2, low] = away * away + reals[N_PQ]
        front[DM, low] = -reals[N_MQ]
    _mix(front, low, high, p, m * (1.0 - p))
    while high > low and front[C, high - 1] >= 1.0:
        high -= 1
        front[C, high] = 1.0
        for plane in range(CM, DM + 1):
            front[plane, high] = 0.0
    marks[LOW], marks[HIGH] = low, high
    reals[N_MU] += p
    reals[N_SUM_M] += m
    reals[N_SUM_V] += v
    reals[N_PQ] += p * (1.0 - p)
    reals[N_MQ] += m * (1.0 - p)


# Any order of summation keeps the error bound, so SIMD may choose it.
@lean_dot
def _outside(row, front, base, begin, end):
    """<G, C>, <K, C>, <G, CM> over counts begin ... end - 1."""
    g, k = row[G, begin - base + LEAD :], row[K, begin - base + LEAD :]
    c, cm = front[C, begin:], front[CM, begin:]
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
        law, rest = row[S, begin - base + LEAD :], row[T, begin - base + LEAD :]
        away, spread, mq = w - begin - reals[N_MU], reals[N_PQ], reals[N_MQ]
        for x in range(min(zone, end) - begin):
            d = away - x
            mean += law[x] * d
            square += law[x] * (d * d + spread)
            cross += rest[x] * d - law[x] * mq
        begin = min(zone, end)
    law, rest = row[S, begin - base + LEAD :], row[T, begin - base + LEAD :]
    d1, d2, dm = front[D1, begin:], front[D2, begin:], front[DM, begin:]
    for x in range(end - begin):
        mean += law[x] * d1[x]
        square += law[x] * d2[x]
        cross += rest[x] * d1[x] + law[x] * dm[x]
    return mean, square, cross


@compiled
def _answer(state, row, w, out):
    """One row of answers, with `row` the depth of the head."""
    front, reals, marks = state.front, state.reals, state.marks
    base, floor = state.extent[marks[BLOCK], BASE], state.extent[marks[BLOCK], FLOOR]
    planes, facts = state.rows[row], state.row_facts[row]
    low, high = state.bands[row, 0], state.bands[row, 1]
    total, spread = facts[SUM_M] + reals[N_SUM_M], facts[SUM_V] + reals[N_SUM_V]
    if marks[LOW] >= high and facts[S_W] == 0.0:  # no world has more than w tuples
        reference, pq = reals[REFERENCE], facts[SUM_PQ] + reals[N_PQ]
        count = facts[MU] + reals[N_MU]
        cross = facts[SUM_MQ] + reals[N_MQ]
        e, deficit = 0.0, 0.0
    else:
        begin = max(marks[LOW], base, floor)
        e, kc, gm = 0.0, 0.0, 0.0
        if begin < high:
            e, kc, gm = _outside(planes, front, base, begin, high)
        e += facts[G_W]
        spread += (kc + facts[K_W]) - 2.0 * gm - e * e
        deficit, square, cross = _short(
            planes, front, reals, base, low, marks[LOW], max(low, min(high, marks[HIGH])), w
        )
        reference, pq = reals[REFERENCE], square - deficit * deficit
        cross = -(cross + e * deficit)
        count = w - deficit
    variance = spread + reference * (2.0 * cross + reference * pq)
    if variance < NOTHING * (abs(spread) + reference * reference * pq):
        variance = 0.0  # what roundings left of terms that cancel
    out[SUM_MEAN] = total - e + reference * count
    out[SUM_VARIANCE] = max(variance, 0.0)
    out[COUNT] = count
    out[COUNT_VARIANCE] = max(pq, 0.0)
    out[MEANS], out[OUTSIDE], out[REST_VARIANCE] = total, e, max(spread, 0.0)
    out[REFERENCE_USED], out[MIDDLE] = reference, marks[MID]


@compiled
def slide_moments(
    state, offsets, prob, value, first, begin, done, heads, w, limit, out, places, to_prob, to_count
):  # fmt: skip
    """Answers after each of the arrivals at positions begin + done, begin + done + 1, ...

    offsets : int64[n + 1], prob, value : float64[...], the alternatives of the tuples, those held
        before first, then the arrivals from position `begin` on; first : int64, stream index of
        position 0
    heads : int64[n - begin], position of the oldest tuple held after each arrival
    w : int64; limit : int64, most tuples of the newer part, at most w and what the window holds
    out : float64[n - begin, MOVED], written: of the w newest existing tuples held, see above
    places : int64[n - begin + 1], where the laws of the count begin in to_prob, to_count :
        float64[...], written; or int64[0], no laws of the count are wanted
    Returns how many arrivals are done: n - begin, or less for want of room (sizes in `marks`; of a
    law, w + 1 entries).

    When the older part is built anew depends on the stream alone, not on the calls.
    Cost: O(band) amortised an arrival, the band about 20 standard deviations of the count; with
    laws O(band of the older part * band of the newer).
    Error: about 1e-13 of the terms above.  Source: (count; moments) recursion over A, section 4.
    """
    marks = state.marks
    laws, newer = places.size > 0, np.empty(w + 1 if places.size > 0 else 0)
    for t in range(done, heads.size):
        if laws and places[t] + w + 1 > to_prob.size:
            return t
        i, head, mid = begin + t, heads[t], marks[MID] - first
        stale = marks[BUILT] == 0 or i - mid >= limit
        if not stale:
            block = (mid - head) >> marks[SHIFT]
            reach = marks[LOW] - 1
            stale = reach < state.extent[block, FLOOR] and reach < state.extent[
                block, BAND_HIGH
            ] + (1 << marks[SHIFT])
        if stale:
            if not build(state, offsets, prob, value, first, head, i, w, True):
                return t
            mid = i
        enter(state, offsets, prob, value, i, w)
        depth = mid - head
        block = depth >> marks[SHIFT]
        row = depth - (block << marks[SHIFT])
        if block != marks[BLOCK]:
            load(state, offsets, prob, value, mid, block, row, w)
        _answer(state, row, w, out[t])
        if laws:
            places[t + 1] = write_count_law(state, row, w, newer, to_prob, to_count, places[t])
    return heads.size


@compiled
def resume_moments(state, offsets, prob, value, first, mid, w):
    """The state of a restored window: older part up to position `mid`, the rest newer.

    reals[REFERENCE] and reals[RATIO] are those saved. False for want of room.
    """
    if not build(state, offsets, prob, value, first, np.int64(0), mid, w, False):
        return False
    for i in range(mid, offsets.size - 1):
        enter(state, offsets, prob, value, i, w)
    return True
