"""Mean and variance of the average of the w newest existing tuples, O(sqrt(w)) an arrival.

With values taken relative to a reference c, n = min(N, w) the number inside and U their sum,

    w (average - c) = w U / n = U + U r,        r = (w - n) / n, 0 where the window is full.

The moments of U are those of `count_window_moments`. Where r is not 0 all held tuples are inside,
and U = m + M, m the sum of their means, M that of the deviations; with e = m - E[U],

    w (mean - c) = E[U] + m E[r] + E[M r]
    w^2 variance = Var(U) + 2 (m E[M r] + E[M^2 r] + e (m E[r] + E[M r]))
                 + m^2 (E[r^2] - E[r]^2) + 2 m (E[M r^2] - E[r] E[M r]) + E[M^2 r^2] - E[M r]^2

where the largest terms, m^2 E[r], have cancelled on paper. Each expectation is a dot product over
the older part's count of its laws with the newer part's functions, see `average_state`. A window
that may be empty has its moments given that it is not.

An answer is taken only if the roundings of its terms are small against it; else, and where a held
value is missing, the window is computed anew (`window_average`).
"""

import numpy as np

from sfumato.kernels.compile import compiled, lean, lean_dot
from sfumato.kernels.signals import after_signals
from sfumato.kernels.windows.count.average_state import (
    LEAD,
    build,
    enter,
    functions_at,
    load,
    take_cells,
)
from sfumato.kernels.windows.count.window_average import average_of

ROUNDING = 2.0**-52  # of a term, for each tuple held
LARGEST_SHARE = 1e-10  # of the variance, that roundings may have


# Any order of summation keeps the error bound, so SIMD may choose it.
@lean_dot
def _products(row, front, begin, base, count, first):
    """E[r], E[M r], E[M^2 r] (with `first` 3: of r^2) over `count` counts of the older part."""
    at = begin - base + LEAD
    law, rest, square = row[0, at:], row[1, at:], row[2, at:]
    h0, h1, h2 = front[first, begin:], front[first + 1, begin:], front[first + 2, begin:]
    zero, one, two = 0.0, 0.0, 0.0
    for x in range(count):
        zero += law[x] * h0[x]
        one += law[x] * h1[x] + rest[x] * h0[x]
        two += law[x] * h2[x] + 2.0 * rest[x] * h1[x] + square[x] * h0[x]
    return zero, one, two


# Any order of summation keeps the error bound, so SIMD may choose it.
@lean_dot
def _spread_alone(state, mean):
    """Var(r) and Cov(r, M r) of the newer part alone; mean : E[r]."""
    begin, count = state.marks[0].low, state.marks[0].high - state.marks[0].low
    law, rest, ratio = state.law[0, begin:], state.law[1, begin:], state.table[0, begin:]
    away, cross = 0.0, 0.0
    for c in range(count):
        apart = ratio[c] - mean
        away += law[c] * apart * apart
        cross += rest[c] * ratio[c] * apart
    return away, cross


@lean
def _short(state, depth, row, w, means):
    """Of worlds short of w tuples, written: E[r], E[M r], E[M^2 r], Var(r), Cov(r, M r), E[M^2 r^2]
    and the size of what cancelled in Var(r).  Returns Pr(no tuple exists)."""
    marks, means[:] = state.marks[0], 0.0
    empty = state.law[0, w] if marks.high == w + 1 else 0.0
    if depth == 0:
        functions_at(state, 0, means)
        means[3], means[4] = _spread_alone(state, means[0])
        means[6] = means[3]
        return empty
    low, high = state.bands[row, 0], state.bands[row, 1]
    base = state.bands[0, 0]
    end = min(high, marks.high - 1)  # the functions are 0 from there on
    if low < end:
        if low < marks.from_:
            take_cells(state, max(0, low - np.int64(2.0 * np.sqrt(w)) - 16))
        planes, front = state.rows[row], state.front
        r, mr, mmr = _products(planes, front, low, base, end - low, 0)
        rr, mrr, mmrr = _products(planes, front, low, base, end - low, 3)
        means[0], means[1], means[2] = r, mr, mmr
        means[3], means[4], means[5], means[6] = rr - r * r, mrr - r * mr, mmrr, rr
    return empty * state.rows[row, 0, LEAD - base] if low == 0 else 0.0


@lean
def _combine(moved, short, empty, held, w, out):
    """Mean, variance and existence, written; whether their digits are certain."""
    if moved.count_variance == 0.0:
        n = moved.count
        out[0], out[1], out[2] = moved.sum_mean / n, moved.sum_variance / (n * n), 1.0
        return True
    m, e, own = moved.means, moved.outside, moved.rest_variance
    r, mr, mmr, mmrr = short[0], short[1], short[2], short[5]
    lost = m * r + mr
    first = ((m - e) + lost) / w
    total = own + 2.0 * (m * mr + mmr + e * lost)
    total += m * m * short[3] + 2.0 * m * short[4] + (mmrr - mr * mr)
    size = own + 2.0 * (abs(m) * np.sqrt(r * mmr) + mmr + abs(e * lost))
    size += m * m * short[6] + 4.0 * abs(m) * np.sqrt(short[6] * mmrr) + 2.0 * mmrr
    exists = 1.0 - empty
    if exists <= 0.5:
        return False
    mean = first / exists
    variance = total / (w * w * exists) - empty * mean * mean
    size = size / (w * w * exists) + empty * mean * mean
    out[0], out[1], out[2] = moved.reference + mean, variance, exists
    return variance >= 0.0 and held * ROUNDING * size <= LARGEST_SHARE * variance


@compiled
def slide_average(state, tuples, heads, done, w, missing, moved, out):
    """Answers after each of the arrivals from number `done` on.

    tuples, heads, done, w : as in `slide_moments`
    missing : int64[n + 1], how many tuples before each position have an alternative without value
    moved : MOMENTS[arrivals], the answers of `slide_moments` to the same arrivals
    out : float64[arrivals, 3], written: mean and variance of the average of the inside tuples'
        values given that there is one, and the probability of that
    Returns how many arrivals are done: all, or less for want of room (sizes in `marks`).
    Cost: O(band) amortised an arrival, the band about 20 standard deviations of the count; windows
    computed anew cost as in `average_of`.
    Error: 1e-10 of the variance; of the mean, 1e-13 of the values' distance from their mean.
    Source: (count; moments) recursion over A, section 4; the rest this project.
    """
    marks, short, first = state.marks[0], np.empty(7), tuples.first
    begin, steps = tuples.offsets.size - 1 - heads.size, np.int64(0)
    for t in range(done, heads.size):
        steps = after_signals(steps + 16 * w)
        i, head, mid = begin + t, heads[t], moved[t].middle - first
        reference = moved[t].reference
        stale = marks.built == 0 or marks.mid != first + mid
        if stale and not build(state, tuples, head, i, reference, w):
            return t
        enter(state, tuples, i, reference)
        sure = missing[i + 1] == missing[head]
        if sure:
            depth = mid - head
            block = depth >> marks.shift
            row = depth - (block << marks.shift)
            if block != marks.block:
                load(state, tuples, mid, block, row, reference, w)
            empty = _short(state, depth, row, w, short)
            sure = _combine(moved[t], short, empty, i + 1 - head, w, out[t])
        if not sure:
            marks.recomputed += 1
            out[t] = average_of(tuples.offsets, tuples.prob, tuples.value, head, i + 1, w)
    return heads.size


@compiled
def resume_average(state, tuples, mid, reference, w, grown):
    """The state of a restored window: older part up to position `mid`, the rest newer.

    grown : int64[k, 2], saved
    False for want of room.
    """
    if not build(state, tuples, np.int64(0), mid, reference, w):
        return False
    at = 0
    for i in range(mid, tuples.offsets.size - 1):
        enter(state, tuples, i, reference)
        while at < grown.shape[0] and grown[at, 0] == i + 1 - mid:
            take_cells(state, grown[at, 1])
            at += 1
    return True
