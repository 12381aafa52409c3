"""Mean and variance of the sum and count of the w newest existing tuples, O(sqrt(w)) per arrival.

The tuples held are cut into a front stack and a back stack (`front_stack`), the back stack with at
most w tuples. Tuple i has the value Y_i (0 where it does not exist), mean m_i, variance v_i, and is
inside (I_i) when at most w - 1 newer ones exist. With M the sum of the Y_i - m_i, a martingale from
newest to oldest, the sum of the inside tuples is  sum (Y_i - m_i) I_i  +  sum m_i I_i,  so that

    mean = sum m_i - e,                        e = sum m_i Pr(not I_i)
    variance = sum v_i Pr(I_i) - 2 sum m_i E[M newer than i; not I_i] + E[W^2] - e^2,

W the sum of the m_i outside. No term is large where the answer is small: certain tuples have
variance exactly 0. A term of the front stack is a dot product over l, the number of existing
tuples between i and mid, of a distribution of the front stack with one of the back stack, and the
sums over i are taken once, into the planes G and K below, cumulated from mid to every head:

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

from sfumato.kernels.arrays import integers, reals, with_room
from sfumato.kernels.compile import compiled, lean, lean_dot, lean_fused
from sfumato.kernels.laws.tuples import centred
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import LEAST_OUTCOME, NEGLIGIBLE, REMAINDER
from sfumato.kernels.windows.count.count_average import (
    AverageStack,
    answer_average,
    average_of,
    clear_average,
    empty_average,
    enter_average,
    missing_before,
    take_cells,
)
from sfumato.kernels.windows.count.front_stack import (
    LEAD,
    PAD,
    PLANES,
    Depth,
    FrontStack,
    build,
    empty_front,
    is_outside,
    magnitude,
    row_of,
)

# An answer: mean and variance of the sum and of the count, and of the average, given that there is
# one, with the probability of that.
MOMENTS = reals(
    "sum_mean sum_variance count count_variance average average_variance average_existence"
)
OUTGROWN = 2.0**10  # how far a reference may exceed the values

BACK_MARKS = integers("low high")
BACK_SUMS = reals("mu sum_m sum_v pq mq scale")  # sums over the back stack, see DEPTH_FACTS


class Back(NamedTuple):
    """Which plane is which of the back stack: C, CM, and E[D], E[D^2], E[M D]."""

    c: int = 0
    cm: int = 1
    d1: int = 2
    d2: int = 3
    dm: int = 4


BACK = Back()


class BackStack(NamedTuple):
    """The back stack of the sum and the count over one window and attribute.

    planes : float64[5, w + LEAD + PAD]: C and its like are 0 (D1 and its like polynomials in l)
        below `low`, 1 (0) from `high` on
    marks : BACK_MARKS[1]; sums : BACK_SUMS[1]
    """

    planes: np.ndarray
    marks: np.ndarray
    sums: np.ndarray


class Stacks(NamedTuple):
    """The state of one window and attribute; the kernels return a larger front where it must be.

    average : without columns if no average is asked for
    """

    front: FrontStack
    back: BackStack
    average: AverageStack


def empty_stacks(w: int, averaged: bool) -> Stacks:
    """Stacks that have seen nothing.  averaged : whether the average is asked for, too.  NumPy."""
    return Stacks(
        front=empty_front(w, 5 if averaged else 4),
        back=BackStack(
            np.zeros((5, w + LEAD + PAD)), np.zeros(1, BACK_MARKS), np.zeros(1, BACK_SUMS)
        ),
        average=empty_average(w, averaged),
    )


class CountLaws(NamedTuple):
    """Distributions of the count, one after the other.

    places : int64[arrivals + 1], where each begins, or int64[0]: none are wanted
    prob, counts : float64[...], made longer where they are too short
    """

    places: np.ndarray
    prob: np.ndarray
    counts: np.ndarray


@lean_fused
def _mix(planes, low, high, p, mq):
    """Planes of the back stack after one more tuple, counts low ... high - 1, in place."""
    q, count = 1.0 - p, high - low
    c, cm = planes[BACK.c, low : high + 1], planes[BACK.cm, low : high + 1]
    for x in range(count):
        cm[x] = q * cm[x] + p * cm[x + 1] + mq * (c[x + 1] - c[x])
        c[x] = q * c[x] + p * c[x + 1]
    d1, d2 = planes[BACK.d1, low : high + 1], planes[BACK.d2, low : high + 1]
    dm = planes[BACK.dm, low : high + 1]
    for x in range(count):
        dm[x] = q * dm[x] + p * dm[x + 1] + mq * (d1[x + 1] - d1[x])
        d1[x] = q * d1[x] + p * d1[x + 1]
        d2[x] = q * d2[x] + p * d2[x + 1]


@lean
def _clear(back, average, w):
    """Empty the back stacks."""
    marks, planes, sums = back.marks[0], back.planes, back.sums[0]
    marks.low, marks.high = w, w
    planes[:, :] = 0.0
    planes[BACK.c, w:] = 1.0
    sums.mu, sums.sum_m, sums.sum_v, sums.pq, sums.mq, sums.scale = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    if average.table.size > 0:
        clear_average(average, w)


@lean
def _enter(planes, marks, sums, tuples, i, reference, w):
    """Tuple i enters the back stack.  Cost: O(band)."""
    p, m, v = centred(tuples, i, reference)
    low, high = marks.low, marks.high
    if low > 0 and p * planes[BACK.c, low] >= NEGLIGIBLE:
        low -= 1
        away = w - low - sums.mu  # no w can be reached from here yet: D = w - l - B
        planes[BACK.d1, low] = away
        planes[BACK.d2, low] = away * away + sums.pq
        planes[BACK.dm, low] = -sums.mq
    _mix(planes, low, high, p, m * (1.0 - p))
    while high > low and planes[BACK.c, high - 1] >= 1.0:
        high -= 1
        planes[BACK.c, high] = 1.0
        for plane in range(BACK.cm, BACK.dm + 1):
            planes[plane, high] = 0.0
    marks.low, marks.high = low, high
    sums.mu += p
    sums.sum_m += m
    sums.sum_v += v
    sums.pq += p * (1.0 - p)
    sums.mq += m * (1.0 - p)
    sums.scale += magnitude(tuples, i)


# Any order of summation keeps the error bound, so SIMD may choose it.
@lean_dot
def _outside(row, back, base, begin, end):
    """<G, C>, <K, C>, <G, CM> over counts begin ... end - 1."""
    g, k = row[PLANES.g, begin - base + LEAD :], row[PLANES.k, begin - base + LEAD :]
    c, cm = back[BACK.c, begin:], back[BACK.cm, begin:]
    gc, kc, gm = 0.0, 0.0, 0.0
    for x in range(end - begin):
        gc += g[x] * c[x]
        kc += k[x] * c[x]
        gm += g[x] * cm[x]
    return gc, kc, gm


@lean_dot
def _short(row, back, sums, base, begin, zone, end, w):
    """E[D], E[D^2], E[M D] over counts begin ... end - 1; below `zone` no world is full."""
    mean, square, cross = 0.0, 0.0, 0.0
    if begin < zone:
        law, rest = row[PLANES.s, begin - base + LEAD :], row[PLANES.t, begin - base + LEAD :]
        away, spread, mq = w - begin - sums.mu, sums.pq, sums.mq
        for x in range(min(zone, end) - begin):
            d = away - x
            mean += law[x] * d
            square += law[x] * (d * d + spread)
            cross += rest[x] * d - law[x] * mq
        begin = min(zone, end)
    law, rest = row[PLANES.s, begin - base + LEAD :], row[PLANES.t, begin - base + LEAD :]
    d1, d2, dm = back[BACK.d1, begin:], back[BACK.d2, begin:], back[BACK.dm, begin:]
    for x in range(end - begin):
        mean += law[x] * d1[x]
        square += law[x] * d2[x]
        cross += rest[x] * d1[x] + law[x] * dm[x]
    return mean, square, cross


# Not `lean`: the compiler then takes the sums of `_outside` and `_short` in another order.
# Few arrays are handed over: each costs a reference count.
@compiled
def _answer(depth, band, about, back, marks, sums, w, out):
    """One row of answers; sum of the m_i, e, the variance of the sum of the rest.

    depth : Depth of the head; band : its int64[2]; about : base and floor of its planes, reference
    """
    (planes, facts), (base, floor, reference) = depth, about
    low, high = band[0], band[1]
    total, spread = facts.sum_m + sums.sum_m, facts.sum_v + sums.sum_v
    if marks.low >= high and facts.s_w == 0.0:  # no world has more than w tuples
        pq = facts.sum_pq + sums.pq
        count = facts.mu + sums.mu
        cross = facts.sum_mq + sums.mq
        e = 0.0
    else:
        begin = max(marks.low, base, floor)
        e, kc, gm = 0.0, 0.0, 0.0
        if begin < high:
            e, kc, gm = _outside(planes, back, base, begin, high)
        e += facts.g_w
        spread += (kc + facts.k_w) - 2.0 * gm - e * e
        deficit, square, cross = _short(
            planes, back, sums, base, low, marks.low, max(low, min(high, marks.high)), w
        )
        pq = square - deficit * deficit
        cross = -(cross + e * deficit)
        count = w - deficit
    variance = spread + reference * (2.0 * cross + reference * pq)
    if variance < REMAINDER * (abs(spread) + reference * reference * pq):
        variance = 0.0  # what roundings left of terms that cancel
    out.sum_mean = total - e + reference * count
    out.sum_variance = max(variance, 0.0)
    out.count = count
    out.count_variance = max(pq, 0.0)
    return total, e, max(spread, 0.0)


@lean
def _outgrown(facts, sums, reference):
    """Whether the values held are small next to the reference, as after a value far above all
    others has left: differences from it have lost their digits."""
    return abs(reference) * (facts.mu + sums.mu) > OUTGROWN * (facts.scale + sums.scale)


@compiled
def write_count_law(front, back, row, w, newer, to_prob, to_count, at):
    """Distribution of min(N, w), N the number of existing tuples held; `row` the depth of the head.

    front : FrontStack; back : BackStack; newer : float64[w + 1], scratch; to_prob, to_count :
        float64[...], written from place `at` on, counts ascending, with room for w + 1 entries
    Returns where the entries end.
    That of the back stack is the differences of C[l] = Pr(l + B >= w); of the front stack plane S.
    Cost: O(band of the front stack * band of the back stack).  Error: about 1e-16 per entry.
    """
    marks, reach = back.marks[0], back.planes[BACK.c]
    least, most = w - marks.high, w - marks.low  # counts of the back stack
    for b in range(least, most + 1):
        before = reach[w - b - 1] if b < most else 0.0
        newer[b] = max(reach[w - b] - before, 0.0)
    low, high = front.bands[row, 0], front.bands[row, 1]
    older = front.rows[row, PLANES.s, low - front.extent[front.marks[0].block].base + LEAD :]
    begin = min(low + least, w)
    law = to_prob[at : at + w + 1 - begin]  # of counts begin ... w
    law[:] = 0.0
    full = front.row_facts[row].s_w
    for x in range(high - low):
        p, shift = older[x], low + x + least - begin
        count = min(most + 1, w - low - x) - least
        some = newer[least : least + max(count, 0)]
        target = law[shift : shift + max(count, 0)]
        for b in range(some.size):
            target[b] += p * some[b]
        full += p * reach[low + x]
    law[w - begin] += full
    kept = at
    for n in range(law.size):
        if law[n] >= LEAST_OUTCOME:
            to_prob[kept], to_count[kept] = law[n], begin + n
            kept += 1
    return kept


@compiled
def slide_moments(front, back, average, tuples, heads, w, limit, out, laws):
    """Answers after each of the arrivals, the last of the tuples.

    stacks : Stacks    tuples : HeldTuples
    heads : int64[arrivals], position of the oldest tuple held after each
    w : int64; limit : int64, most tuples of the back stack, at most w and what the window holds
    out : MOMENTS[arrivals], written: of the w newest existing tuples held
    laws : CountLaws, of the count
    Returns the FrontStack and the CountLaws to go on with.
    When the front stack is built again depends on the stream alone, not on the calls.
    Cost: O(band) amortised per arrival, the band about 20 standard deviations of the count; with
    laws O(band of the front stack * band of the back stack); averages of windows with a missing
    value, or with too few digits, as `average_of`.
    Error: about 1e-13 of the terms above; of averages 1e-10 of the variance, and of the mean 1e-13
    of the values' distance from their mean.
    Source: (count; moments) recursion over A, section 4; the averages this project.
    """
    first, (places, prob, counts) = tuples.first, laws
    planes, marks, sums = back.planes, back.marks[0], back.sums[0]
    begin, averaged = tuples.offsets.size - 1 - heads.size, average.table.size > 0
    newer, short = np.empty(w + 1 if places.size > 0 else 0), np.empty(7)
    missing, steps = np.empty(0, np.int64), np.int64(0)
    if averaged:
        missing = missing_before(tuples.offsets, tuples.value)
    # Records of the front stay where they are when its arrays are made larger.
    known, reals = front.marks[0], front.reals[0]
    for t in range(heads.size):
        steps = after_signals(
            steps + 8 * w + tuples.offsets[begin + t + 1] - tuples.offsets[begin + t]
        )
        i, head, mid = begin + t, heads[t], known.mid - first
        stale = known.built == 0 or i - mid >= limit
        if not stale:
            stale = is_outside(front.extent[(mid - head) >> known.shift], known, marks.low - 1)
        if stale:
            _clear(back, average, w)
            front, mid = build(front, tuples, head, i, w, True), i
        _enter(planes, marks, sums, tuples, i, reals.reference, w)
        row = row_of(front, tuples, mid, head, w)
        if _outgrown(front.row_facts[row], sums, reals.reference):
            _clear(back, average, w)
            front, mid = build(front, tuples, head, i, w, True), i
            _enter(planes, marks, sums, tuples, i, reals.reference, w)
            row = row_of(front, tuples, mid, head, w)
        extent, depth = front.extent[known.block], Depth(front.rows[row], front.row_facts[row])
        about = extent.base, extent.floor, reals.reference
        m, e, rest = _answer(depth, front.bands[row], about, planes, marks, sums, w, out[t])
        if places.size > 0:
            prob = with_room(prob, places[t] + w + 1)
            counts = with_room(counts, places[t] + w + 1)
            places[t + 1] = write_count_law(front, back, row, w, newer, prob, counts, places[t])
        if averaged:
            enter_average(average, tuples, i, reals.reference)
            certain = missing[i + 1] == missing[head]
            if certain:
                terms, held = (m, e, rest, reals.reference), i + 1 - head
                certain = answer_average(
                    average, front, mid - head, row, terms, held, w, short, out[t]
                )
            if not certain:
                average.marks[0].recomputed += 1
                answer = average_of(tuples.offsets, tuples.prob, tuples.value, head, i + 1, w)
                out[t].average, out[t].average_variance = answer[0], answer[1]
                out[t].average_existence = answer[2]
    return front, CountLaws(places, prob, counts)


@compiled
def resume_moments(front, back, average, tuples, mid, w, grown):
    """The FrontStack of a restored window: front stack up to position `mid`, the rest the back
    stack.

    front, back, average : of `Stacks`; `reference` and `ratio` of the front are those saved
    grown : int64[k, 2], of the average
    """
    _clear(back, average, w)
    front, at = build(front, tuples, np.int64(0), mid, w, False), 0
    reference = front.reals[0].reference
    for i in range(mid, tuples.offsets.size - 1):
        _enter(back.planes, back.marks[0], back.sums[0], tuples, i, reference, w)
        if average.table.size > 0:
            enter_average(average, tuples, i, reference)
            while at < grown.shape[0] and grown[at, 0] == i + 1 - mid:
                take_cells(average, grown[at, 1])
                at += 1
    return front
