"""Mean and variance of the sum and count of the w newest existing tuples, O(sqrt(w)) per arrival.

The held tuples are split into a front stack and a back stack (`front_stack`) of at most w tuples.
Tuple i has the value Y_i (0 if it does not exist), mean m_i and variance v_i, and is inside (I_i)
if at most w - 1 newer tuples exist. M is the sum of the Y_i - m_i, a martingale from newest to
oldest. The sum of the inside tuples is  sum (Y_i - m_i) I_i  +  sum m_i I_i,  so that

    mean = sum m_i - e,                        e = sum m_i Pr(not I_i)
    variance = sum v_i Pr(I_i) - 2 sum m_i E[M newer than i; not I_i] + E[W^2] - e^2,

where W is the sum of the m_i outside. No term is large if the answer is small: certain tuples have
variance exactly 0. A term of the front stack is a dot product over l, the number of existing tuples
between i and mid, of a distribution of the front stack with one of the back stack. The sums over i
are computed once, in the curves G and K below, cumulated from mid to every head:

    S[l] = Pr(N = l),  T[l] = E[M; N = l]                       of held[head:mid]
    G[l] = sum m_i S_i[l]                 S_i, T_i, N_i:        of held[i+1:mid]
    K[l] = sum (m_i (2 Q_i - m_i) - v_i) S_i[l] - 2 m_i T_i[l]  Q_i = m_head + ... + m_i

    e = <G, C>,   variance = sum v_i + <K, C> - 2 <G, CM> - e^2
    C[l] = Pr(l + B >= w),  CM[l] = E[M; l + B >= w]            B, M of held[mid:tail]

Values are taken relative to a reference c near their mean. The sum is c N + (sum of the rest),
where N = w - D is the number inside and D = max(w - count, 0). So the variance of N, the covariance
and the variance of the rest are three small numbers to add, not large numbers to subtract.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers_and_reals, reals, with_room
from sfumato.kernels.compile import inlined, lean, lean_dot, lean_fused
from sfumato.kernels.distributions.discrete_distribution import Distributions
from sfumato.kernels.distributions.tuples import centred_moments
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import LEAST_OUTCOME, NEGLIGIBLE, REMAINDER
from sfumato.kernels.windows.count.count_average import (
    AverageStack,
    activate_cells,
    answer_average,
    clear_average,
    empty_average,
    enter_average,
    recompute_average,
)
from sfumato.kernels.windows.count.front_stack import (
    LEAD,
    PAD,
    Depth,
    FrontStack,
    G,
    K,
    S,
    T,
    build,
    empty_front,
    magnitude,
    row_of,
)

# An answer: mean and variance of the sum, of the count, and of the average given that it exists,
# and the probability that it exists.
MOMENTS = reals(
    "sum_mean sum_variance count count_variance average average_variance average_existence"
)
MAX_REFERENCE_RATIO = 2.0**10  # largest ratio of the reference to the values

# low, high : see `BackStack`; sums over the back stack, see DEPTH_STATS
BACK_HEADER = integers_and_reals("low high", "mu sum_m sum_v pq mq scale")

# The curves of the back stack: C, CM, and E[D], E[D^2], E[M D].
C, CM, D1, D2, DM = range(5)


class BackStack(NamedTuple):
    """The back stack of the sum and the count over one window and attribute.

    curves : float64[5, w + LEAD + PAD]: below `low`, C and CM are 0, and D1, D2 and DM are
        polynomials in l; from `high` onwards, C is 1 and the others are 0
    header : BACK_HEADER[1]
    """

    curves: np.ndarray
    header: np.ndarray


class Stacks(NamedTuple):
    """The state of one window and attribute."""

    front: FrontStack
    back: BackStack
    average: AverageStack


def empty_stacks(w: int, averaged: bool) -> Stacks:
    """Return empty stacks.  averaged : bool, whether the average is needed."""
    return Stacks(
        front=empty_front(w, 5 if averaged else 4),
        back=BackStack(np.zeros((5, w + LEAD + PAD)), np.zeros(1, BACK_HEADER)),
        average=empty_average(w, averaged),
    )


@lean_fused
def _add_to_curves(curves, low, high, p, mq):
    """Add one tuple to the back stack's curves at counts low ... high - 1, in place."""
    q, count = 1.0 - p, high - low
    c, cm = curves[C, low : high + 1], curves[CM, low : high + 1]
    for x in range(count):
        cm[x] = q * cm[x] + p * cm[x + 1] + mq * (c[x + 1] - c[x])
        c[x] = q * c[x] + p * c[x + 1]
    d1, d2 = curves[D1, low : high + 1], curves[D2, low : high + 1]
    dm = curves[DM, low : high + 1]
    for x in range(count):
        dm[x] = q * dm[x] + p * dm[x + 1] + mq * (d1[x + 1] - d1[x])
        d1[x] = q * d1[x] + p * d1[x + 1]
        d2[x] = q * d2[x] + p * d2[x + 1]


@lean
def _clear_back(back, average, w):
    sums, curves = back.header[0], back.curves
    sums.low, sums.high = w, w
    curves[:, :] = 0.0
    curves[C, w:] = 1.0
    sums.mu, sums.sum_m, sums.sum_v, sums.pq, sums.mq, sums.scale = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    if average.table.size > 0:
        clear_average(average, w)


@inlined
def _enter_back(curves, sums, tuples, i, reference, w):
    p, m, v = centred_moments(tuples, i, reference)
    low, high = sums.low, sums.high
    if low > 0 and p * curves[C, low] >= NEGLIGIBLE:
        low -= 1
        away = w - low - sums.mu  # so far no world reaches w from here: D = w - l - B
        curves[D1, low] = away
        curves[D2, low] = away * away + sums.pq
        curves[DM, low] = -sums.mq
    _add_to_curves(curves, low, high, p, m * (1.0 - p))
    while high > low and curves[C, high - 1] >= 1.0:
        high -= 1
        curves[C, high] = 1.0
        for curve in range(CM, DM + 1):
            curves[curve, high] = 0.0
    sums.low, sums.high = low, high
    sums.mu += p
    sums.sum_m += m
    sums.sum_v += v
    sums.pq += p * (1.0 - p)
    sums.mq += m * (1.0 - p)
    sums.scale += magnitude(tuples, i)


# The error bound holds for any order of summation, so SIMD may choose it.
@lean_dot
def _outside_sums(row, back, base, begin, end):
    """Return <G, C>, <K, C>, <G, CM> over counts [begin, end)."""
    g, k = row[G, begin - base + LEAD :], row[K, begin - base + LEAD :]
    c, cm = back[C, begin:], back[CM, begin:]
    gc, kc, gm = 0.0, 0.0, 0.0
    for x in range(end - begin):
        gc += g[x] * c[x]
        kc += k[x] * c[x]
        gm += g[x] * cm[x]
    return gc, kc, gm


@lean_dot
def _deficit_sums(row, back, sums, base, begin, end, w):
    """Return E[D], E[D^2], E[M D] over counts [begin, end); no world is full below sums.low."""
    for x in range(begin, min(sums.low, end)):
        away = w - x - sums.mu
        back[D1, x], back[D2, x], back[DM, x] = away, away * away + sums.pq, -sums.mq
    mean, square, cross = 0.0, 0.0, 0.0
    distribution, rest = row[S, begin - base + LEAD :], row[T, begin - base + LEAD :]
    d1, d2, dm = back[D1, begin:], back[D2, begin:], back[DM, begin:]
    for x in range(end - begin):
        mean += distribution[x] * d1[x]
        square += distribution[x] * d2[x]
        cross += rest[x] * d1[x] + distribution[x] * dm[x]
    return mean, square, cross


# Not `lean`: the compiler would then reorder the sums of `_outside_sums` and `_deficit_sums`.
# The function has few array arguments, because each costs a reference count.
@inlined
def _write_answer(depth, reference, back, sums, w, out):
    """Write one row of answers; return the sum of the m_i, e, and the variance of the rest's sum.

    depth : Depth of the head;  back, sums : curves and header of the back stack
    """
    curves, stats = depth
    low, high, base = stats.low, stats.high, stats.base
    total, spread = stats.sum_m + sums.sum_m, stats.sum_v + sums.sum_v
    if sums.low >= high and stats.s_w == 0.0:  # no world has more than w tuples
        pq = stats.sum_pq + sums.pq
        count = stats.mu + sums.mu
        cross = stats.sum_mq + sums.mq
        e = 0.0
    else:
        begin = max(sums.low, base, stats.floor)
        e, kc, gm = 0.0, 0.0, 0.0
        if begin < high:
            e, kc, gm = _outside_sums(curves, back, base, begin, high)
        e += stats.g_w
        spread += (kc + stats.k_w) - 2.0 * gm - e * e
        deficit, square, cross = _deficit_sums(
            curves, back, sums, base, low, max(low, min(high, sums.high)), w
        )
        pq = square - deficit * deficit
        cross = -(cross + e * deficit)
        count = w - deficit
    variance = spread + reference * (2.0 * cross + reference * pq)
    if variance < REMAINDER * (abs(spread) + reference * reference * pq):
        variance = 0.0  # rounding error of terms that cancel
    out.sum_mean = total - e + reference * count
    out.sum_variance = max(variance, 0.0)
    out.count = count
    out.count_variance = max(pq, 0.0)
    return total, e, max(spread, 0.0)


@inlined
def _write_count_distribution(depth, back, w, newer, to_prob, to_count, at):
    """Write the distribution of min(N, w), N the existing held tuples, to `at`; return its end.

    depth : Depth of the head; newer : float64[w + 1], working memory
    The differences of C[l] are the back stack's distribution; curve S is the front stack's.
    Cost: O(band of the front stack * band of the back stack).  Error: about 1e-16 per entry.
    """
    header, reach = back.header[0], back.curves[C]
    least, most = w - header.high, w - header.low  # counts of the back stack
    for b in range(least, most + 1):
        before = reach[w - b - 1] if b < most else 0.0
        newer[b] = max(reach[w - b] - before, 0.0)
    low, high = depth.stats.low, depth.stats.high
    older = depth.curves[S, low - depth.stats.base + LEAD :]
    begin = min(low + least, w)
    distribution = to_prob[at : at + w + 1 - begin]  # of counts begin ... w
    distribution[:] = 0.0
    full = depth.stats.s_w
    for x in range(high - low):
        p, shift = older[x], low + x + least - begin
        count = min(most + 1, w - low - x) - least
        some = newer[least : least + max(count, 0)]
        target = distribution[shift : shift + max(count, 0)]
        for b in range(some.size):
            target[b] += p * some[b]
        full += p * reach[low + x]
    distribution[w - begin] += full
    kept = at
    for n in range(distribution.size):
        if distribution[n] >= LEAST_OUTCOME:
            to_prob[kept], to_count[kept] = distribution[n], begin + n
            kept += 1
    return kept


@inlined
def _count_missing(offsets, value):
    """Return the number of tuples with a missing value before each position: int64[n + 1]."""
    missing = np.zeros(offsets.size, np.int64)
    for i in range(offsets.size - 1):
        missing[i + 1] = missing[i] + np.isnan(value[offsets[i] : offsets[i + 1]]).any()
    return missing


@lean
def _enter_all(back, average, tuples, i, known, w, cell):
    """Add tuple i to the back stacks. cell : float64[6 or more], working memory"""
    _enter_back(back.curves, back.header[0], tuples, i, known.reference, w)
    if average.table.size > 0:
        enter_average(average, tuples, i, known.reference)
        activate_cells(average, back.header[0].mu, known, w, cell)


@inlined
def slide_moments(stacks, tuples, heads, w, limit, out, distributions):
    """Compute the answers after each arrival; return the new Stacks and Distributions.

    tuples : WindowTuples, the last of which are the arrivals;  out : MOMENTS[arrivals], written
    heads : int64[arrivals], position of the oldest held tuple after each arrival
    limit : int64, maximum size of the back stack: w, or the window's largest size if smaller
    Rebuilds of the front stack depend only on the stream, not on its division into calls.
    Cost: O(band) amortised per arrival, the band about 20 standard deviations of the count; with
    distributions O(band of the front stack * band of the back stack). Averages with a missing
    value, or with too few digits, cost as much as `recompute_average`.
    Error: about 1e-13 of the terms in the module docstring; for averages, 1e-10 of the variance,
    and in the mean 1e-13 of the values' distance from their mean.
    Source: count and moments, Dallachiesa et al. (2015), section 4; averages original.
    """
    (front, back, average), first, (places, prob, counts) = stacks, tuples.first, distributions
    curves, sums = back.curves, back.header[0]
    begin, averaged = tuples.offsets.size - 1 - heads.size, average.table.size > 0
    newer, short = np.empty(w + 1 if places.size > 0 else 0), np.empty(7)
    missing, steps = np.empty(0, np.int64), np.int64(0)
    if averaged:
        missing = _count_missing(tuples.offsets, tuples.value)
    known = front.header[0]  # stays in place when the arrays of the front grow
    for t in range(heads.size):
        i, head = begin + t, heads[t]
        steps = after_signals(steps + 8 * w + tuples.offsets[i + 1] - tuples.offsets[i])
        mid = known.mid - first
        stale = known.built == 0 or i - mid >= limit
        if not stale:  # the curves must be built for counts as low as those of the back stack
            own = front.stats[(mid - head) >> known.shift]
            stale = sums.low <= own.floor and sums.low <= own.high + (1 << known.shift)
        while True:
            if stale:
                _clear_back(back, average, w)
                front, mid = build(front, tuples, head, i, w, True), i
            _enter_all(back, average, tuples, i, known, w, short)
            row = row_of(front, tuples, mid, head, w)
            depth = Depth(front.block_rows[row], front.block_stats[row])
            # Differences from a reference that far exceeds the held values would lose digits.
            size, scale = depth.stats.mu + sums.mu, depth.stats.scale + sums.scale
            if stale or abs(known.reference) * size <= MAX_REFERENCE_RATIO * scale:
                break
            stale = True
        m, e, rest = _write_answer(depth, known.reference, curves, sums, w, out[t])
        if places.size > 0:
            prob = with_room(prob, places[t] + w + 1)
            counts = with_room(counts, places[t] + w + 1)
            places[t + 1] = _write_count_distribution(
                depth, back, w, newer, prob, counts, places[t]
            )
        if averaged:
            terms, held = (m, e, rest, known.reference), i + 1 - head
            if missing[i + 1] > missing[head] or not answer_average(
                average, depth, mid == head, terms, held, w, short, out[t]
            ):
                average.header[0].recomputed += 1
                recompute_average(tuples, head, i + 1, w, out[t])
    return Stacks(front, back, average), Distributions(places, prob, counts)


@inlined
def resume_moments(stacks, tuples, mid, end, w):
    """Return the Stacks of tuples[:end], whose front stack ends at `mid`, with its reference."""
    front, back, average = stacks
    _clear_back(back, average, w)
    front, cell = build(front, tuples, 0, mid, w, False), np.empty(6)
    for i in range(mid, end):
        _enter_all(back, average, tuples, i, front.header[0], w, cell)
    return Stacks(front, back, average)
