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

from typing import NamedTuple

import numpy as np
from numba import njit

NEGLIGIBLE = 1e-20  # probabilities at a law's ends below this are dropped
REACH = 10.0  # standard deviations within which a law is above NEGLIGIBLE
LEAD = 1  # cells before the first count, so that count l - 1 always exists
PAD = 8

# Planes of the older part, and of the newer.
S, T, G, K = range(4)
C, CM, D1, D2, DM = range(5)
# Numbers kept with the planes of every depth: sums over held[head:mid], and the planes' cell w,
# which stands for all counts from w on.
MU, SUM_M, SUM_V, SUM_PQ, SUM_MQ, S_W, T_W, G_W, K_W, FACTS = range(10)
# Places in `marks` and `reals`.
MID, BUILT, BLOCK, SHIFT, LOW, HIGH, SAVED_NEEDED, WIDTH_NEEDED, BLOCKS_NEEDED, MARKS = range(10)
REFERENCE, RATIO, N_MU, N_SUM_M, N_SUM_V, N_PQ, N_MQ, REALS = range(8)
# What is kept of a saved depth: where in `saved`, first cell, low, high, least count of G and K.
PLACE, BASE, BAND_LOW, BAND_HIGH, FLOOR = range(5)


class WindowMoments(NamedTuple):
    """State of one window and attribute; the operator makes arrays larger when a kernel asks.

    front : float64[5, w + PAD], planes of the newer part: C and its like are 0 (D1 and its like
        polynomials in l) below LOW, 1 (0) from HIGH on
    work : float64[2, 4, w + PAD], two depths of the older part while it is built
    saved : float64[...], planes of every 2**SHIFT-th depth, packed; extent : int64[blocks, 5] and
        facts : float64[blocks, FACTS] of the same
    rows : float64[2**SHIFT, 4, width], the depths of the block in use, with
        bands : int64[2**SHIFT, 2] and row_facts : float64[2**SHIFT, FACTS]
    marks : int64[MARKS], MID a stream index; reals : float64[REALS], sums of the newer part
    """

    front: np.ndarray
    work: np.ndarray
    saved: np.ndarray
    extent: np.ndarray
    facts: np.ndarray
    rows: np.ndarray
    bands: np.ndarray
    row_facts: np.ndarray
    marks: np.ndarray
    reals: np.ndarray


@njit(cache=True, nogil=True)
def centred(offsets, prob, value, i, reference):
    """Existence, mean and variance of tuple i's (value - reference) * (it exists).

    A NaN alternative exists and adds 0 to the sum: its value is 0.
    """
    existence, mean = 0.0, 0.0
    for a in range(offsets[i], offsets[i + 1]):
        x = value[a]
        existence += prob[a]
        mean += prob[a] * ((0.0 if np.isnan(x) else x) - reference)
    scale = 1.0 / existence if existence > 1.0 else 1.0
    existence, mean = min(existence, 1.0), mean * scale
    variance = (1.0 - existence) * mean * mean
    for a in range(offsets[i], offsets[i + 1]):
        x = value[a]
        away = (0.0 if np.isnan(x) else x) - reference - mean
        variance += prob[a] * scale * away * away
    return existence, mean, variance


@njit(cache=True, nogil=True, fastmath={"contract"})
def _add_older(old, new, begin, count, p, m, v):
    """Planes of cells begin ... begin + count - 1 after one more tuple at the old end."""
    # Loops of few arrays each: the compiler checks pairs for overlap at run time, and gives SIMD
    # up beyond eight pairs.
    q, twice, square, mq = 1.0 - p, 2.0 * m, m * m - v, m * (1.0 - p)
    end = begin + count
    law, before = old[S, begin:end], old[S, begin - 1 : end - 1]
    rest, rest_before = old[T, begin:end], old[T, begin - 1 : end - 1]
    g, k = old[G, begin:end], old[K, begin:end]
    new_k, new_g = new[K, begin:end], new[G, begin:end]
    for x in range(count):
        new_k[x] = k[x] + twice * (g[x] - rest[x]) + square * law[x]
    for x in range(count):
        new_g[x] = g[x] + m * law[x]
    new_law, new_rest = new[S, begin:end], new[T, begin:end]
    for x in range(count):
        new_law[x] = q * law[x] + p * before[x]
        new_rest[x] = q * rest[x] + p * rest_before[x] + mq * (before[x] - law[x])


@njit(cache=True, nogil=True)
def _add_facts(old, new, p, m, v, last_s, last_t):
    """Sums and cell w after one more tuple; last_s, last_t : planes S and T at w - 1."""
    q = 1.0 - p
    new[MU] = old[MU] + p
    new[SUM_M] = old[SUM_M] + m
    new[SUM_V] = old[SUM_V] + v
    new[SUM_PQ] = old[SUM_PQ] + p * q
    new[SUM_MQ] = old[SUM_MQ] + m * q
    new[K_W] = old[K_W] + 2.0 * m * (old[G_W] - old[T_W]) + (m * m - v) * old[S_W]
    new[G_W] = old[G_W] + m * old[S_W]
    new[T_W] = old[T_W] + p * last_t + m * q * last_s
    new[S_W] = old[S_W] + p * last_s


@njit(cache=True, nogil=True)
def _step(old, new, base, begin, low, high, w, facts, new_facts, p, m, v):
    """One depth more: planes over counts begin ... high, cell (count - base + LEAD); (low, high).

    begin : int64, the least count still wanted, at most low
    """
    at = begin - base + LEAD
    old[S, at - 1] = 0.0
    old[T, at - 1] = 0.0
    last_s, last_t = 0.0, 0.0
    if high < w:
        for plane in range(4):
            old[plane, high - base + LEAD] = 0.0
        high += 1
    else:
        last_s, last_t = old[S, w - 1 - base + LEAD], old[T, w - 1 - base + LEAD]
    _add_older(old, new, at, high - begin, p, m, v)
    _add_facts(facts, new_facts, p, m, v, last_s, last_t)
    law = new[S]
    while high - low > 1 and law[low - base + LEAD] < NEGLIGIBLE:
        law[low - base + LEAD] = 0.0
        new[T, low - base + LEAD] = 0.0
        low += 1
    while high - low > 1 and law[high - 1 - base + LEAD] < NEGLIGIBLE:
        high -= 1
    return low, high


@njit(cache=True, nogil=True)
def _floor(mu, ratio, w):
    """Least count of the older part that can matter when `mu` of its tuples are expected.

    The newer part then has about w - mu. A guess with room to spare: when the newer part's law
    goes beyond it, the planes are built anew.
    """
    newer = max(w - mu, 0.0) + 4.0 * np.sqrt(ratio * w)
    most = newer + REACH * np.sqrt(ratio * newer) + 2.0 * np.sqrt(w) + 16.0
    return np.int64(max(0.0, np.floor(w - 1.0 - most)))


@njit(cache=True, nogil=True)
def _choose_reference(offsets, prob, value, head, end, reals):
    """A reference near the mean of the values, short enough for exact differences."""
    total, weight, mu, spread = 0.0, 0.0, 0.0, 0.0
    for i in range(head, end):
        existence = 0.0
        for a in range(offsets[i], offsets[i + 1]):
            existence += prob[a]
            if not np.isnan(value[a]):
                total += prob[a] * value[a]
                weight += prob[a]
        mu += existence
        spread += max(existence * (1.0 - existence), 0.0)
    centre = total / weight if weight > 0.0 else 0.0
    if centre != 0.0 and np.isfinite(centre):
        unit = 2.0 ** (np.floor(np.log2(abs(centre))) - 20.0)
        centre = np.round(centre / unit) * unit if unit > 0.0 else 0.0
    reals[REFERENCE] = centre if np.isfinite(centre) else 0.0
    reals[RATIO] = spread / mu if mu > 0.0 else 0.0


@njit(cache=True, nogil=True)
def build(state, offsets, prob, value, first, head, mid, w, choose):
    """Make tuples head ... mid - 1 (positions) the older part, and the newer part empty.

    first : int64, stream index of position 0; choose : bool, take a new reference (else the one
    in `reals`, for a restored window)
    False, with the sizes needed in `marks`, when there is no room.
    Cost: O(tuples * band).
    """
    marks, reals, work = state.marks, state.reals, state.work
    if choose:
        _choose_reference(offsets, prob, value, head, max(mid, head + 1), reals)
    tuples = mid - head
    shift = np.int64(3)
    while tuples >> (2 * shift + 2) > 0:
        shift += 1
    marks[SHIFT], marks[BLOCK], marks[BUILT] = shift, -1, 0
    marks[BLOCKS_NEEDED] = (tuples >> shift) + 1
    if state.extent.shape[0] < marks[BLOCKS_NEEDED]:
        return False
    work[:] = 0.0
    work[0, S, LEAD] = 1.0
    facts = np.zeros((2, FACTS))
    low, high, begin = np.int64(0), np.int64(1), np.int64(0)
    place, width = np.int64(0), np.int64(1)
    for depth in range(tuples + 1):
        side = depth & 1
        if depth & ((1 << shift) - 1) == 0:
            floor = _floor(facts[side, MU], reals[RATIO], w)
            begin = max(begin, min(low, floor))
            block, size = depth >> shift, high - begin
            extent = state.extent[block]
            extent[PLACE], extent[BASE], extent[BAND_LOW] = place, begin, low
            extent[BAND_HIGH], extent[FLOOR] = high, floor
            state.facts[block, :] = facts[side]
            if place + 4 * size <= state.saved.size:
                for plane in range(4):
                    source = work[side, plane, begin + LEAD :]
                    target = state.saved[place + plane * size :]
                    for x in range(size):
                        target[x] = source[x]
            place += 4 * size
            width = max(width, size)
        if depth < tuples:
            p, m, v = centred(offsets, prob, value, mid - 1 - depth, reals[REFERENCE])
            low, high = _step(
                work[side], work[1 - side], np.int64(0), begin, low, high, w,
                facts[side], facts[1 - side], p, m, v,
            )  # fmt: skip
    marks[SAVED_NEEDED] = place
    marks[WIDTH_NEEDED] = width + (1 << shift) + LEAD + PAD
    small = state.rows.shape[0] < 1 << shift or state.rows.shape[2] < marks[WIDTH_NEEDED]
    if small or state.saved.size < place:
        return False
    marks[MID], marks[BUILT] = first + mid, 1
    marks[LOW], marks[HIGH] = w, w
    state.front[:, :] = 0.0
    state.front[C, w:] = 1.0
    reals[N_MU:] = 0.0
    return True


@njit(cache=True, nogil=True)
def _load(state, offsets, prob, value, mid, block, last, w):
    """Depths of `block` from its saved one, as far as row `last`."""
    marks, rows, bands = state.marks, state.rows, state.bands
    extent = state.extent[block]
    base, low, high = extent[BASE], extent[BAND_LOW], extent[BAND_HIGH]
    size = high - base
    for plane in range(4):
        target = rows[0, plane, LEAD:]
        source = state.saved[extent[PLACE] + plane * size :]
        for x in range(size):
            target[x] = source[x]
    bands[0, 0], bands[0, 1] = low, high
    state.row_facts[0, :] = state.facts[block]
    newest = mid - 1 - (block << marks[SHIFT])
    for r in range(last):
        p, m, v = centred(offsets, prob, value, newest - r, state.reals[REFERENCE])
        low, high = _step(
            rows[r], rows[r + 1], base, base, low, high, w,
            state.row_facts[r], state.row_facts[r + 1], p, m, v,
        )  # fmt: skip
        bands[r + 1, 0], bands[r + 1, 1] = low, high
    marks[BLOCK] = block


@njit(cache=True, nogil=True, fastmath={"contract"})
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


@njit(cache=True, nogil=True)
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
@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
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


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
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


@njit(cache=True, nogil=True)
def _answer(state, row, w, out):
    """Mean and variance of the sum, and of the count, with `row` the depth of the head."""
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
    out[0] = total - e + reference * count
    out[1] = max(variance, 0.0)
    out[2] = count
    out[3] = max(pq, 0.0)


@njit(cache=True, nogil=True)
def slide_moments(state, offsets, prob, value, first, begin, done, heads, w, limit, out):
    """Answers after each of the arrivals at positions begin + done, begin + done + 1, ...

    offsets : int64[n + 1], prob, value : float64[...], the alternatives of the tuples, those held
        before first, then the arrivals from position `begin` on; first : int64, stream index of
        position 0
    heads : int64[n - begin], position of the oldest tuple held after each arrival
    w : int64; limit : int64, most tuples of the newer part, at most w and what the window holds
    out : float64[n - begin, 4], written: mean and variance of the sum, mean and variance of the
        count, of the w newest existing tuples held
    Returns how many arrivals are done: n - begin, or less for want of room (sizes in `marks`).

    When the older part is built anew depends on the stream alone, not on the calls.
    Cost: O(band) amortised an arrival, the band about 20 standard deviations of the count.
    Error: about 1e-13 of the terms above.  Source: (count; moments) recursion over A, section 4.
    """
    marks = state.marks
    for t in range(done, heads.size):
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
            _load(state, offsets, prob, value, mid, block, row, w)
        _answer(state, row, w, out[t])
    return heads.size


@njit(cache=True, nogil=True)
def resume_moments(state, offsets, prob, value, first, mid, w):
    """The state of a restored window: older part up to position `mid`, the rest newer.

    reals[REFERENCE] and reals[RATIO] are those saved. False for want of room.
    """
    if not build(state, offsets, prob, value, first, np.int64(0), mid, w, False):
        return False
    for i in range(mid, offsets.size - 1):
        enter(state, offsets, prob, value, i, w)
    return True
