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

from sfumato.kernels.arrays import integers, reals, with_room
from sfumato.kernels.compile import compiled, lean, lean_dot, lean_fused
from sfumato.kernels.distributions.discrete_distribution import Distributions
from sfumato.kernels.distributions.tuples import centred_moments
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import LEAST_OUTCOME, NEGLIGIBLE, REMAINDER
from sfumato.kernels.windows.count.count_average import (
    AverageStack,
    activate_cells,
    answer_average,
    average_of,
    clear_average,
    empty_average,
    enter_average,
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
    is_outside,
    magnitude,
    row_of,
)

# An answer: mean and variance of the sum, of the count, and of the average given that it exists,
# and the probability that it exists.
MOMENTS = reals(
    "sum_mean sum_variance count count_variance average average_variance average_existence"
)
MAX_REFERENCE_RATIO = 2.0**10  # largest ratio of the reference to the values

BACK_HEADER = integers("low high")
BACK_SUMS = reals("mu sum_m sum_v pq mq scale")  # sums over the back stack, see DEPTH_STATS


# The curves of the back stack: C, CM, and E[D], E[D^2], E[M D].
C, CM, D1, D2, DM = range(5)


class BackStack(NamedTuple):
    """The back stack of the sum and the count over one window and attribute.

    curves : float64[5, w + LEAD + PAD]: below `low`, C and CM are 0, and D1, D2 and DM are
        polynomials in l; from `high` onwards, C is 1 and the others are 0
    header : BACK_HEADER[1]; sums : BACK_SUMS[1]
    """

    curves: np.ndarray
    header: np.ndarray
    sums: np.ndarray


class Stacks(NamedTuple):
    """The state of one window and attribute."""

    front: FrontStack
    back: BackStack
    average: AverageStack


def empty_stacks(w: int, averaged: bool) -> Stacks:
    """Return empty stacks.  averaged : bool, whether the average is needed."""
    return Stacks(
        front=empty_front(w, 5 if averaged else 4),
        back=BackStack(
            np.zeros((5, w + LEAD + PAD)), np.zeros(1, BACK_HEADER), np.zeros(1, BACK_SUMS)
        ),
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
    header, curves, sums = back.header[0], back.curves, back.sums[0]
    header.low, header.high = w, w
    curves[:, :] = 0.0
    curves[C, w:] = 1.0
    sums.mu, sums.sum_m, sums.sum_v, sums.pq, sums.mq, sums.scale = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    if average.table.size > 0:
        clear_average(average, w)


@lean
def _enter_back(curves, header, sums, tuples, i, reference, w):
    p, m, v = centred_moments(tuples, i, reference)
    low, high = header.low, header.high
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
    header.low, header.high = low, high
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
def _deficit_sums(row, back, sums, base, begin, zone, end, w):
    """Return E[D], E[D^2], E[M D] over counts [begin, end); no world is full below `zone`."""
    for x in range(begin, min(zone, end)):
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
@compiled
def _write_answer(depth, band, about, back, header, sums, w, out):
    """Write one row of answers; return the sum of the m_i, e, and the variance of the rest's sum.

    depth : Depth of the head; band : int64[2], its range of counts; about : base and floor of its
        curves, and the reference
    """
    (curves, stats), (base, floor, reference) = depth, about
    low, high = band[0], band[1]
    total, spread = stats.sum_m + sums.sum_m, stats.sum_v + sums.sum_v
    if header.low >= high and stats.s_w == 0.0:  # no world has more than w tuples
        pq = stats.sum_pq + sums.pq
        count = stats.mu + sums.mu
        cross = stats.sum_mq + sums.mq
        e = 0.0
    else:
        begin = max(header.low, base, floor)
        e, kc, gm = 0.0, 0.0, 0.0
        if begin < high:
            e, kc, gm = _outside_sums(curves, back, base, begin, high)
        e += stats.g_w
        spread += (kc + stats.k_w) - 2.0 * gm - e * e
        deficit, square, cross = _deficit_sums(
            curves, back, sums, base, low, header.low, max(low, min(high, header.high)), w
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


@lean
def _is_outgrown(stats, sums, reference):
    """Return whether the reference far exceeds the held values, so that differences lose digits."""
    return abs(reference) * (stats.mu + sums.mu) > MAX_REFERENCE_RATIO * (stats.scale + sums.scale)


@compiled
def _write_count_distribution(front, back, row, w, newer, to_prob, to_count, at):
    """Write the distribution of min(N, w), N the existing held tuples, to `at`; return its end.

    row : depth of the head; newer : float64[w + 1], working memory
    The differences of C[l] are the back stack's distribution; curve S is the front stack's.
    Cost: O(band of the front stack * band of the back stack).  Error: about 1e-16 per entry.
    """
    header, reach = back.header[0], back.curves[C]
    least, most = w - header.high, w - header.low  # counts of the back stack
    for b in range(least, most + 1):
        before = reach[w - b - 1] if b < most else 0.0
        newer[b] = max(reach[w - b] - before, 0.0)
    low, high = front.support[row, 0], front.support[row, 1]
    older = front.block_rows[row, S, low - front.span[front.header[0].block].base + LEAD :]
    begin = min(low + least, w)
    distribution = to_prob[at : at + w + 1 - begin]  # of counts begin ... w
    distribution[:] = 0.0
    full = front.block_stats[row].s_w
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


@compiled
def _count_missing(offsets, value):
    """Return the number of tuples with a missing value before each position: int64[n + 1]."""
    missing = np.zeros(offsets.size, np.int64)
    for i in range(offsets.size - 1):
        missing[i + 1] = missing[i] + np.isnan(value[offsets[i] : offsets[i + 1]]).any()
    return missing


@lean
def _enter_all(back, average, tuples, i, scalars, w, cell):
    """Add tuple i to the back stacks; cell : float64[6 or more], working memory."""
    _enter_back(back.curves, back.header[0], back.sums[0], tuples, i, scalars.reference, w)
    if average.table.size > 0:
        enter_average(average, tuples, i, scalars.reference)
        activate_cells(average, back.sums[0].mu, scalars, w, cell)


@compiled
def slide_moments(stacks, tuples, heads, w, limit, out, distributions):
    """Compute the answers after each arrival; return the new Stacks and Distributions.

    tuples : WindowTuples, the last of which are the arrivals;  out : MOMENTS[arrivals], written
    heads : int64[arrivals], position of the oldest held tuple after each arrival
    limit : int64, maximum size of the back stack: w, or the window's largest size if smaller
    Rebuilds of the front stack depend only on the stream, not on its division into calls.
    Cost: O(band) amortised per arrival, the band about 20 standard deviations of the count; with
    distributions O(band of the front stack * band of the back stack). Averages with a missing
    value, or with too few digits, cost as much as `average_of`.
    Error: about 1e-13 of the terms in the module docstring; for averages, 1e-10 of the variance,
    and in the mean 1e-13 of the values' distance from their mean.
    Source: count and moments, Dallachiesa et al. (2015), section 4; averages original.
    """
    (front, back, average), first, (places, prob, counts) = stacks, tuples.first, distributions
    curves, header, sums = back.curves, back.header[0], back.sums[0]
    begin, averaged = tuples.offsets.size - 1 - heads.size, average.table.size > 0
    newer, short = np.empty(w + 1 if places.size > 0 else 0), np.empty(7)
    missing, steps = np.empty(0, np.int64), np.int64(0)
    if averaged:
        missing = _count_missing(tuples.offsets, tuples.value)
    # Records of the front stay in place when its arrays grow.
    known, scalars = front.header[0], front.scalars[0]
    for t in range(heads.size):
        i, head = begin + t, heads[t]
        steps = after_signals(steps + 8 * w + tuples.offsets[i + 1] - tuples.offsets[i])
        mid, row = known.mid - first, np.int64(0)
        stale = known.built == 0 or i - mid >= limit
        if not stale:
            stale = is_outside(front.span[(mid - head) >> known.shift], known, header.low - 1)
        while True:
            if stale:
                _clear_back(back, average, w)
                front, mid = build(front, tuples, head, i, w, np.bool_(True)), i
            _enter_all(back, average, tuples, i, scalars, w, short)
            row = row_of(front, tuples, mid, head, w)
            if stale or not _is_outgrown(front.block_stats[row], sums, scalars.reference):
                break
            stale = True
        span, depth = front.span[known.block], Depth(front.block_rows[row], front.block_stats[row])
        about = span.base, span.floor, scalars.reference
        m, e, rest = _write_answer(
            depth, front.support[row], about, curves, header, sums, w, out[t]
        )
        if places.size > 0:
            prob = with_room(prob, places[t] + w + 1)
            counts = with_room(counts, places[t] + w + 1)
            places[t + 1] = _write_count_distribution(
                front, back, row, w, newer, prob, counts, places[t]
            )
        if averaged:
            certain = missing[i + 1] == missing[head]
            if certain:
                terms, held = (m, e, rest, scalars.reference), i + 1 - head
                certain = answer_average(
                    average, front, mid - head, row, terms, held, w, short, out[t]
                )
            if not certain:
                average.header[0].recomputed += 1
                of = tuples.offsets, tuples.prob, tuples.value
                out[t].average, out[t].average_variance, out[t].average_existence = average_of(
                    of[0], of[1], of[2], head, i + 1, w
                )
    return Stacks(front, back, average), Distributions(places, prob, counts)


@compiled
def resume_moments(stacks, tuples, mid, w):
    """Return the Stacks of a window whose front stack ends at `mid`, with the saved scalars."""
    front, back, average = stacks
    _clear_back(back, average, w)
    front, cell = build(front, tuples, np.int64(0), mid, w, np.bool_(False)), np.empty(6)
    for i in range(mid, tuples.offsets.size - 1):
        _enter_all(back, average, tuples, i, front.scalars[0], w, cell)
    return Stacks(front, back, average)
