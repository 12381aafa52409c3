"""Mean and variance of the average of the w newest existing tuples, O(sqrt(w)) per arrival.

With values taken relative to a reference c, n = min(N, w) the number inside and U their sum,

    w (average - c) = w U / n = U + U r,        r = (w - n) / n, 0 where the window is full.

The moments of U are those of `count_moments`. Where r is not 0 all held tuples are inside,
and U = m + M, m the sum of their means, M that of the deviations; with e = m - E[U],

    w (mean - c) = E[U] + m E[r] + E[M r]
    w^2 variance = Var(U) + 2 (m E[M r] + E[M^2 r] + e (m E[r] + E[M r]))
                 + m^2 (E[r^2] - E[r]^2) + 2 m (E[M r^2] - E[r] E[M r]) + E[M^2 r^2] - E[M r]^2

where the largest terms, m^2 E[r], have cancelled on paper. Each expectation is a dot product over
the front stack's count of three planes with functions of the back stack. The planes are

    S[l] = Pr(N = l),  T[l] = E[M; N = l],  V[l] = E[M^2; N = l]

and the back stack has these too, and of the front stack's count l six functions

    E[M^k r^j],  k = 0, 1, 2,  j = 1, 2,  r = (w - n) / n for 0 < n = l + B < w, else 0,

B and M those of the back stack. A tuple is added to all of these by one recursion, in which the
cells move by one where it exists. The functions are kept for the counts l in use only: a cell
that comes into use is the sum over the back stack's planes, O(band), and goes along from then on.
A window that may be empty has its moments given that it is not.

An answer is taken only if the roundings of its terms are small against it; else, and where a held
value is missing, the window is computed by `average_of` in one pass from the newest tuple to the
oldest. That keeps, for every count of existing tuples so far, its probability and the mean and
variance of their sum given that count. Two cases that meet in one count are mixed,

    mean = a mean_1 + b mean_2,  variance = a variance_1 + b variance_2 + a b (mean_1 - mean_2)^2,

so that nothing is ever subtracted that is larger than the answer: certain tuples have variance 0.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled, compiled_ieee, lean, lean_dot, lean_fused
from sfumato.kernels.laws.tuples import centred, existence_of, value_moments
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import EPSILON, NEGLIGIBLE
from sfumato.kernels.windows.count.front_stack import LEAD, PAD, PLANES

LARGEST_SHARE = 1e-10  # of the variance, that roundings may have
LEAST_POSITIVE = 5e-324  # the smallest number above 0


@compiled_ieee
def average_of(offsets, prob, value, head, end, w):
    """Mean, variance and existence of the average of the inside tuples' values.

    offsets : int64[n + 1], prob, value : float64[...], NaN for no value; head, end : int64, the
    tuples held are head ... end - 1; w : int64
    Returns float64[3]: mean and variance given that there is a value, and its probability.
    Cost: O(held * band); windows where g tuples have a NaN O(held * w * min(g, w)): the number of
    values is then a state of its own.
    Error: relative to the spread of the values, about held * 2**-53.
    """
    missing = False
    for a in range(offsets[head], offsets[end]):
        missing = missing or np.isnan(value[a])
    if missing:
        return _with_missing(offsets, prob, value, head, end, w)
    return _without_missing(offsets, prob, value, head, end, w)


@compiled_ieee
def _mix_cases(old, mean, variance, weight, new_mean, new_variance):
    """A case of probability `weight` joins those of probability `old`."""
    total = old + weight
    if total == 0.0 or weight == 0.0:
        return total, mean, variance
    b = weight / total
    away = new_mean - mean
    variance = (1.0 - b) * variance + b * new_variance + b * (1.0 - b) * away * away
    return total, mean + b * away, variance


@compiled_ieee
def _add_to_all(law, mean, variance, low, high, p, m, v):
    """One more tuple, cells low ... high - 1; `_mix_cases` of every cell with the next one."""
    # Without a test for 0, which SIMD could not have: the least number there is changes no cell.
    q, count = 1.0 - p, high - low
    pr, mu, var = law[low : high + 1], mean[low : high + 1], variance[low : high + 1]
    for x in range(count):
        come = p * pr[x + 1]
        total = q * pr[x] + come
        b = come / (total + LEAST_POSITIVE)
        away = mu[x + 1] + m - mu[x]
        var[x] += b * (var[x + 1] + v - var[x] + (1.0 - b) * away * away)
        mu[x] += b * away
        pr[x] = total


@compiled_ieee
def _without_missing(offsets, prob, value, head, end, w):
    """Count n lies at w - n, so that the update in place runs forward and becomes SIMD."""
    law, mean, variance = np.zeros(w + 2), np.zeros(w + 2), np.zeros(w + 2)
    law[w] = 1.0
    low, high = w, w + 1
    for i in range(end - 1, head - 1, -1):
        existence = existence_of(offsets, prob, i)
        p, m, v = value_moments(offsets, prob, value, existence, i)
        law[0], mean[0], variance[0] = _mix_cases(
            law[0], mean[0], variance[0], p * law[1], mean[1] + m, variance[1] + v
        )
        low = max(1, low - 1)
        _add_to_all(law, mean, variance, low, high, p, m, v)
        while high > low and law[high - 1] < NEGLIGIBLE:
            high -= 1
            law[high], mean[high], variance[high] = 0.0, 0.0, 0.0
        if high == low:
            break
    total, centre, spread = 0.0, 0.0, 0.0
    for x in range(w):
        n = float(w - x)
        total, centre, spread = _mix_cases(
            total, centre, spread, law[x], mean[x] / n, variance[x] / (n * n)
        )
    return _conditional(total, centre, spread)


@compiled_ieee
def _conditional(total, mean, variance):
    if total == 0.0:
        return np.array([np.nan, np.nan, 0.0])
    return np.array([mean, variance, min(total, 1.0)])


@compiled_ieee
def _with_missing(offsets, prob, value, head, end, w):
    """The same by (count, number of values)."""
    law, mean, variance = (
        np.zeros((w + 1, w + 1)),
        np.zeros((w + 1, w + 1)),
        np.zeros((w + 1, w + 1)),
    )
    law[0, 0] = 1.0
    least, gaps, steps = 0, 0, np.int64(0)  # gaps : tuples so far that may have no value
    for i in range(end - 1, head - 1, -1):
        steps = after_signals(steps + 16 * min(end - i, w) * (gaps + 1))
        existence = existence_of(offsets, prob, i)
        p, m, v = value_moments(offsets, prob, value, existence, i)
        empty = max(existence - p, 0.0)
        for a in range(offsets[i], offsets[i + 1]):
            if np.isnan(value[a]):
                gaps += 1
                break
        for n in range(min(end - i, w), least - 1, -1):
            stay = 1.0 if n == w else 1.0 - existence
            for k in range(n, max(n - gaps, 0) - 1, -1):
                total, centre, spread = stay * law[n, k], mean[n, k], variance[n, k]
                if n > 0:
                    total, centre, spread = _mix_cases(
                        total, centre, spread,
                        empty * law[n - 1, k], mean[n - 1, k], variance[n - 1, k],
                    )  # fmt: skip
                    if k > 0:
                        total, centre, spread = _mix_cases(
                            total, centre, spread, p * law[n - 1, k - 1],
                            mean[n - 1, k - 1] + m, variance[n - 1, k - 1] + v,
                        )  # fmt: skip
                law[n, k], mean[n, k], variance[n, k] = total, centre, spread
        while least < w and law[least].sum() < NEGLIGIBLE:
            law[least] = 0.0
            least += 1
        if least == w:
            break
    total, centre, spread = 0.0, 0.0, 0.0
    for n in range(1, w + 1):
        for k in range(1, n + 1):
            total, centre, spread = _mix_cases(
                total, centre, spread, law[n, k], mean[n, k] / k, variance[n, k] / (k * k)
            )
    return _conditional(total, centre, spread)


# low, high : of the planes; from_ : first cell of the functions; newer : tuples in the back stack;
# grown : entries of `grown`; recomputed : windows computed by `average_of`
AVERAGE_MARKS = integers("low high from_ newer grown recomputed")


class AverageStack(NamedTuple):
    """The back stack of the average over one window and attribute.

    table : float64[2, w + LEAD + PAD], r and r^2 at w - n; without columns, no average is asked for
    functions : float64[6, w + LEAD + PAD], of l: r, M r, M^2 r, r^2, M r^2, M^2 r^2
    planes : float64[3, w + LEAD + PAD], S, T, V of the back stack, count b at w - b
    grown : int64[room, 2], (size of the back stack, first cell) when cells came into use
    marks : AVERAGE_MARKS[1]
    """

    table: np.ndarray
    functions: np.ndarray
    planes: np.ndarray
    grown: np.ndarray
    marks: np.ndarray


def empty_average(w: int, averaged: bool) -> AverageStack:
    """One that has seen nothing.  NumPy."""
    width = w + LEAD + PAD if averaged else 0
    short = np.arange(1, w if averaged else 1)
    table = np.zeros((2, width))
    table[0, 1 : short.size + 1] = short / (w - short)
    table[1] = table[0] ** 2
    return AverageStack(
        table=table,
        functions=np.zeros((6, width)),
        planes=np.zeros((3, width)),
        grown=np.zeros((int(w**0.5) + 4 if averaged else 0, 2), np.int64),
        marks=np.zeros(1, AVERAGE_MARKS),
    )


@lean
def clear_average(stack, w):
    """Empty the back stack."""
    marks = stack.marks[0]
    marks.newer, marks.grown = 0, 0
    marks.low, marks.high, marks.from_ = w, w + 1, w
    stack.functions[:, :] = 0.0
    stack.planes[:, :] = 0.0
    stack.planes[0, w] = 1.0


@lean_fused
def _mix(planes, first, low, high, p, m, s):
    """Three planes, from number `first`, after one more tuple: cell x takes from x and x + 1."""
    q, count = 1.0 - p, high - low
    mq, stay = m * q, q * m * m
    h0, h1 = planes[first, low : high + 1], planes[first + 1, low : high + 1]
    h2 = planes[first + 2, low : high + 1]
    for x in range(count):
        h2[x] = q * h2[x] + p * h2[x + 1] + stay * h0[x] + s * h0[x + 1]
        h2[x] += 2.0 * mq * (h1[x + 1] - h1[x])
    for x in range(count):
        h1[x] = q * h1[x] + p * h1[x + 1] + mq * (h0[x + 1] - h0[x])
    for x in range(count):
        h0[x] = q * h0[x] + p * h0[x + 1]


@lean
def enter_average(stack, tuples, i, reference):
    """Tuple i enters the back stack.  Cost: O(band)."""
    functions, planes, marks = stack.functions, stack.planes, stack.marks[0]
    p, m, v = centred(tuples, i, reference)
    s = max(v - (1.0 - p) * m * m, 0.0)  # E[(value - m)^2; it exists]
    low, high = max(marks.low - 1, 0), marks.high
    if marks.from_ < high - 1:
        _mix(functions, 0, marks.from_, high - 1, p, m, s)
        _mix(functions, 3, marks.from_, high - 1, p, m, s)
    _mix(planes, 0, low, high, p, m, s)
    while high - low > 1 and planes[0, high - 1] < NEGLIGIBLE:
        high -= 1
        for plane in range(3):
            planes[plane, high] = 0.0
            functions[plane, high - 1] = 0.0  # no count below w is left from here on
            functions[plane + 3, high - 1] = 0.0
    while high - low > 1 and planes[0, low] < NEGLIGIBLE:
        for plane in range(3):
            planes[plane, low] = 0.0
        low += 1
    marks.low, marks.high = low, high
    marks.from_ = min(marks.from_, high - 1)
    marks.newer += 1


# Any order of summation keeps the error bound, so SIMD may choose it.
@lean_dot
def _functions_at(stack, x, out):
    """The six functions at the front stack's count x, by the back stack's planes."""
    begin, end = max(stack.marks[0].low, x + 1), stack.marks[0].high
    count = max(end - begin, 0)
    for j in range(2):
        ratio = stack.table[j, begin - x :]
        for k in range(3):
            plane = stack.planes[k, begin:]
            total = 0.0
            for c in range(count):
                total += plane[c] * ratio[c]
            out[3 * j + k] = total


@compiled
def take_cells(stack, low):
    """Functions from count `low` on come into use, and are noted in `grown`."""
    cell, marks = np.empty(6), stack.marks[0]
    for x in range(low, marks.from_):
        _functions_at(stack, x, cell)
        stack.functions[:, x] = cell
    stack.grown[marks.grown, 0], stack.grown[marks.grown, 1] = marks.newer, low
    marks.grown += 1
    marks.from_ = low


# Any order of summation keeps the error bound, so SIMD may choose it.
@lean_dot
def _products(planes, functions, begin, base, count, first):
    """E[r], E[M r], E[M^2 r] (with `first` 3: of r^2) over `count` counts of the front stack."""
    at = begin - base + LEAD
    law, rest, square = planes[PLANES.s, at:], planes[PLANES.t, at:], planes[PLANES.v, at:]
    h0, h1 = functions[first, begin:], functions[first + 1, begin:]
    h2 = functions[first + 2, begin:]
    zero, one, two = 0.0, 0.0, 0.0
    for x in range(count):
        zero += law[x] * h0[x]
        one += law[x] * h1[x] + rest[x] * h0[x]
        two += law[x] * h2[x] + 2.0 * rest[x] * h1[x] + square[x] * h0[x]
    return zero, one, two


# Any order of summation keeps the error bound, so SIMD may choose it.
@lean_dot
def _spread_alone(stack, mean):
    """Var(r) and Cov(r, M r) of the back stack alone; mean : E[r]."""
    begin, count = stack.marks[0].low, stack.marks[0].high - stack.marks[0].low
    law, rest, ratio = stack.planes[0, begin:], stack.planes[1, begin:], stack.table[0, begin:]
    away, cross = 0.0, 0.0
    for c in range(count):
        apart = ratio[c] - mean
        away += law[c] * apart * apart
        cross += rest[c] * ratio[c] * apart
    return away, cross


@lean
def _short_worlds(stack, front, depth, row, w, means):
    """Of worlds short of w tuples, written: E[r], E[M r], E[M^2 r], Var(r), Cov(r, M r), E[M^2 r^2]
    and the size of what cancelled in Var(r).  Returns Pr(no tuple exists)."""
    marks, means[:] = stack.marks[0], 0.0
    empty = stack.planes[0, w] if marks.high == w + 1 else 0.0
    if depth == 0:
        _functions_at(stack, 0, means)
        means[3], means[4] = _spread_alone(stack, means[0])
        means[6] = means[3]
        return empty
    low, high = front.bands[row, 0], front.bands[row, 1]
    base = front.extent[front.marks[0].block].base
    end = min(high, marks.high - 1)  # the functions are 0 from there on
    planes, functions = front.rows[row], stack.functions
    if low < end:
        if low < marks.from_:
            take_cells(stack, max(0, low - np.int64(2.0 * np.sqrt(w)) - 16))
        r, mr, mmr = _products(planes, functions, low, base, end - low, 0)
        rr, mrr, mmrr = _products(planes, functions, low, base, end - low, 3)
        means[0], means[1], means[2] = r, mr, mmr
        means[3], means[4], means[5], means[6] = rr - r * r, mrr - r * mr, mmrr, rr
    return empty * planes[PLANES.s, LEAD - base] if low == 0 else 0.0


@lean
def _combine(terms, short, empty, held, w, out):
    """Mean, variance and existence, written; whether their digits are certain."""
    if out.count_variance == 0.0:
        n = out.count
        out.average, out.average_variance = out.sum_mean / n, out.sum_variance / (n * n)
        out.average_existence = 1.0
        return True
    m, e, own, reference = terms
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
    out.average, out.average_variance = reference + mean, variance
    out.average_existence = exists
    return variance >= 0.0 and held * EPSILON * size <= LARGEST_SHARE * variance


@lean
def answer_average(stack, front, depth, row, terms, held, w, short, out):
    """The fields of an average, written; whether their digits are certain.

    terms : sum of the m_i, e, variance of the sum of the rest, and the reference, see
    `count_moments`; short : float64[7], scratch; out : one row of MOMENTS, the others written
    """
    empty = _short_worlds(stack, front, depth, row, w, short)
    return _combine(terms, short, empty, held, w, out)


@compiled
def missing_before(offsets, value):
    """Count the tuples before each position with an alternative without value: int64[n + 1]."""
    missing = np.zeros(offsets.size, np.int64)
    for i in range(offsets.size - 1):
        gap = False
        for a in range(offsets[i], offsets[i + 1]):
            gap = gap or np.isnan(value[a])
        missing[i + 1] = missing[i] + gap
    return missing
