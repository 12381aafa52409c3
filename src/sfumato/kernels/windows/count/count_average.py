"""Mean and variance of the average of the w newest existing tuples, O(sqrt(w)) per arrival.

With values relative to a reference c, n = min(N, w) the number inside, and U their sum,

    w (average - c) = w U / n = U + U r,        r = (w - n) / n, 0 if the window is full.

The moments of U are computed as in `count_moments`. If r is not 0, all held tuples are inside, and
U = m + M, where m is the sum of their means and M the sum of their deviations. With e = m - E[U],

    w (mean - c) = E[U] + m E[r] + E[M r]
    w^2 variance = Var(U) + 2 (m E[M r] + E[M^2 r] + e (m E[r] + E[M r]))
                 + m^2 (E[r^2] - E[r]^2) + 2 m (E[M r^2] - E[r] E[M r]) + E[M^2 r^2] - E[M r]^2

where the largest terms, m^2 E[r], have been cancelled algebraically. Each expectation is a dot
product, over the front stack's count, of functions of the back stack with three curves:

    S[l] = Pr(N = l),  T[l] = E[M; N = l],  V[l] = E[M^2; N = l]

The back stack also has these curves, and six functions of the front stack's count l,

    E[M^k r^j],  k = 0, 1, 2,  j = 1, 2,  r = (w - n) / n for 0 < n = l + B < w, otherwise 0,

where B is the back stack's count and M its sum of deviations. One recursion adds a tuple to all of
these arrays, and shifts the cells by one where the tuple exists. Functions are kept only for the
counts l in use. A cell that comes into use is computed as a sum over the back stack's curves,
O(band), and is then updated. If a window may be empty, its moments are conditional on a value.

An answer is used only if the rounding errors of its terms are small relative to the answer.
Otherwise, and if a held value is missing, `recompute_average` passes over the window once, from the
newest tuple to the oldest. For every count of existing tuples so far, the pass keeps the
probability of the count, and the mean and variance of the sum given the count. Two cases with the
same count are mixed,

    mean = a mean_1 + b mean_2,  variance = a variance_1 + b variance_2 + a b (mean_1 - mean_2)^2,

so no term larger than the answer is ever subtracted: certain tuples have variance 0.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled_ieee, inlined, lean, lean_dot, lean_fused
from sfumato.kernels.distributions.tuples import centred_moments, existence_of, value_moments
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import EPSILON, NEGLIGIBLE
from sfumato.kernels.windows.count.front_stack import LEAD, PAD, S, T, V

MAX_ERROR_SHARE = 1e-10  # largest share of rounding errors in the variance


@compiled_ieee
def recompute_average(tuples, head, end, w, out):
    """Write the fields of an average over tuples[head:end], see `answer_average`.

    Cost: O(held * band * min(g, w)) for g tuples with a NaN, because the state includes the number
    of tuples without a value.  Error: relative to the spread of the values, about held * 2**-53.
    """
    offsets, prob, value = tuples.offsets, tuples.prob, tuples.value
    n, gaps, steps = min(w, end - head), 0, np.int64(0)
    for i in range(head, end):
        gaps += np.isnan(value[offsets[i] : offsets[i + 1]]).any()
    # Indexed by the numbers of existing tuples and of existing tuples without a value.
    shape = n + 1, min(gaps, n) + 1
    distribution, mean, variance = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    distribution[0, 0] = 1.0
    low, high, gaps = 0, 0, 0
    for i in range(end - 1, head - 1, -1):
        existence = existence_of(offsets, prob, i)
        p, m, v = value_moments(offsets, prob, value, existence, i)
        gaps, high = gaps + np.isnan(value[offsets[i] : offsets[i + 1]]).any(), min(high + 1, w)
        steps = after_signals(steps + 16 * (high - low) * (min(gaps, n) + 1))
        for x in range(high, low - 1, -1):
            stay = 1.0 if x == w else 1.0 - existence
            for z in range(min(gaps, x), -1, -1):
                total, centre, spread = stay * distribution[x, z], mean[x, z], variance[x, z]
                if x > low and z < x:
                    total, centre, spread = _mix_cases(
                        total, centre, spread, p * distribution[x - 1, z], mean[x - 1, z] + m,
                        variance[x - 1, z] + v,
                    )  # fmt: skip
                if x > low and z > 0:
                    total, centre, spread = _mix_cases(
                        total, centre, spread, max(existence - p, 0.0) * distribution[x - 1, z - 1],
                        mean[x - 1, z - 1], variance[x - 1, z - 1],
                    )  # fmt: skip
                distribution[x, z], mean[x, z], variance[x, z] = total, centre, spread
        while low < w and low < high and distribution[low].sum() < NEGLIGIBLE:
            distribution[low] = 0.0
            low += 1
        if low == w:
            break
    total, centre, spread = 0.0, 0.0, 0.0
    for x in range(1, n + 1):
        for z in range(min(gaps, x - 1) + 1):
            k = float(x - z)
            total, centre, spread = _mix_cases(
                total, centre, spread, distribution[x, z], mean[x, z] / k, variance[x, z] / (k * k)
            )
    out.average_existence = min(total, 1.0)
    out.average = centre if total > 0.0 else np.nan
    out.average_variance = spread if total > 0.0 else np.nan


@compiled_ieee
def _mix_cases(old, mean, variance, weight, new_mean, new_variance):
    """Merge a case of probability `weight` into the cases of probability `old`."""
    total = old + weight
    if total == 0.0 or weight == 0.0:
        return total, mean, variance
    b = weight / total
    away = new_mean - mean
    variance = (1.0 - b) * variance + b * new_variance + b * (1.0 - b) * away * away
    return total, mean + b * away, variance


# low, high : band of the curves; first_active : first cell of the functions in use
# recomputed : number of windows computed by `recompute_average`
AVERAGE_HEADER = integers("low high first_active recomputed")


class AverageStack(NamedTuple):
    """The back stack of the average over one window and attribute.

    table : float64[2, w + LEAD + PAD], r and r^2 at w - n; without columns if no average is needed
    functions : float64[6, w + LEAD + PAD], at l: E of r, M r, M^2 r, r^2, M r^2, M^2 r^2
    curves : float64[3, w + LEAD + PAD], S, T, V of the back stack, count b at w - b
    header : AVERAGE_HEADER[1]
    """

    table: np.ndarray
    functions: np.ndarray
    curves: np.ndarray
    header: np.ndarray


def empty_average(w: int, averaged: bool) -> AverageStack:
    width = w + LEAD + PAD if averaged else 0
    short = np.arange(1, w if averaged else 1)
    table = np.zeros((2, width))
    table[0, 1 : short.size + 1] = short / (w - short)
    table[1] = table[0] ** 2
    return AverageStack(
        table=table,
        functions=np.zeros((6, width)),
        curves=np.zeros((3, width)),
        header=np.zeros(1, AVERAGE_HEADER),
    )


@inlined
def clear_average(stack, w):
    header = stack.header[0]
    header.low, header.high, header.first_active = w, w + 1, w
    stack.functions[:, :] = 0.0
    stack.curves[:, :] = 0.0
    stack.curves[0, w] = 1.0


@lean_fused
def _add_to_curves(curves, first, low, high, p, m, s):
    """Add one tuple to three curves, starting at number `first`; cell x uses x and x + 1."""
    q, count = 1.0 - p, high - low
    mq, stay = m * q, q * m * m
    h0, h1 = curves[first, low : high + 1], curves[first + 1, low : high + 1]
    h2 = curves[first + 2, low : high + 1]
    for x in range(count):
        h2[x] = q * h2[x] + p * h2[x + 1] + stay * h0[x] + s * h0[x + 1]
        h2[x] += 2.0 * mq * (h1[x + 1] - h1[x])
    for x in range(count):
        h1[x] = q * h1[x] + p * h1[x + 1] + mq * (h0[x + 1] - h0[x])
    for x in range(count):
        h0[x] = q * h0[x] + p * h0[x + 1]


@inlined
def enter_average(stack, tuples, i, reference):
    functions, curves, header = stack.functions, stack.curves, stack.header[0]
    p, m, v = centred_moments(tuples, i, reference)
    s = max(v - (1.0 - p) * m * m, 0.0)  # E[(value - m)^2; it exists]
    low, high = max(header.low - 1, 0), header.high
    if header.first_active < high - 1:
        _add_to_curves(functions, 0, header.first_active, high - 1, p, m, s)
        _add_to_curves(functions, 3, header.first_active, high - 1, p, m, s)
    _add_to_curves(curves, 0, low, high, p, m, s)
    while high - low > 1 and curves[0, high - 1] < NEGLIGIBLE:
        high -= 1
        for curve in range(3):
            curves[curve, high] = 0.0
            functions[curve, high - 1] = 0.0  # no count below w remains from here on
            functions[curve + 3, high - 1] = 0.0
    while high - low > 1 and curves[0, low] < NEGLIGIBLE:
        for curve in range(3):
            curves[curve, low] = 0.0
        low += 1
    header.low, header.high = low, high
    header.first_active = min(header.first_active, high - 1)


# The error bound holds for any order of summation, so SIMD may choose it.
@lean_dot
def _compute_functions(stack, x, out):
    """Compute the six functions at the front stack's count x from the back stack's curves."""
    begin, end = max(stack.header[0].low, x + 1), stack.header[0].high
    count = max(end - begin, 0)
    for j in range(2):
        ratio = stack.table[j, begin - x :]
        for k in range(3):
            curve = stack.curves[k, begin:]
            total = 0.0
            for c in range(count):
                total += curve[c] * ratio[c]
            out[3 * j + k] = total


@lean
def fill_cells(stack, low, cell):
    """Write the functions for counts from `low` up to the first one in use; cell : float64[6]."""
    for x in range(low, stack.header[0].first_active):
        _compute_functions(stack, x, cell)
        for j in range(6):
            stack.functions[j, x] = cell[j]


@inlined
def activate_cells(stack, mu, front, w, cell):
    """Activate the functions at the counts that the front stack is likely to need.

    mu : mean count of the back stack    front : FRONT_HEADER of the last build of the front
    Lower cells are filled for each answer that needs them.
    """
    total = min(w, front.count)
    least = max(total - mu - 3.0 * np.sqrt(front.ratio * total), 0.0)
    low = np.int64(max(least - 10.0 * np.sqrt(front.ratio * least) - 8.0, 0.0))
    if low < stack.header[0].first_active:
        fill_cells(stack, low, cell)
        stack.header[0].first_active = low


# The error bound holds for any order of summation, so SIMD may choose it.
@lean_dot
def _products(curves, functions, begin, base, count, first):
    """Return E[r], E[M r], E[M^2 r] over `count` counts of the front stack; first=3: for r^2."""
    at = begin - base + LEAD
    distribution, rest, square = curves[S, at:], curves[T, at:], curves[V, at:]
    h0, h1 = functions[first, begin:], functions[first + 1, begin:]
    h2 = functions[first + 2, begin:]
    zero, one, two = 0.0, 0.0, 0.0
    for x in range(count):
        zero += distribution[x] * h0[x]
        one += distribution[x] * h1[x] + rest[x] * h0[x]
        two += distribution[x] * h2[x] + 2.0 * rest[x] * h1[x] + square[x] * h0[x]
    return zero, one, two


# The error bound holds for any order of summation, so SIMD may choose it.
@lean_dot
def _back_stack_spread(stack, mean):
    """Return Var(r) and Cov(r, M r) of the back stack alone; mean : E[r]."""
    begin, count = stack.header[0].low, stack.header[0].high - stack.header[0].low
    distribution, rest = stack.curves[0, begin:], stack.curves[1, begin:]
    ratio = stack.table[0, begin:]
    away, cross = 0.0, 0.0
    for c in range(count):
        apart = ratio[c] - mean
        away += distribution[c] * apart * apart
        cross += rest[c] * ratio[c] * apart
    return away, cross


@inlined
def _short_worlds(stack, depth, alone, w, means):
    """Write the expectations over worlds with fewer than w tuples; return Pr(no tuple exists).

    alone : bool, whether the front stack is empty
    means : float64[7], written: E[r], E[M r], E[M^2 r], Var(r), Cov(r, M r), E[M^2 r^2], and the
        size of the terms cancelled in Var(r)
    """
    header, means[:] = stack.header[0], 0.0
    empty = stack.curves[0, w] if header.high == w + 1 else 0.0
    if alone:
        _compute_functions(stack, 0, means)
        means[3], means[4] = _back_stack_spread(stack, means[0])
        means[6] = means[3]
        return empty
    low, base = depth.stats.low, depth.stats.base
    end = min(depth.stats.high, header.high - 1)  # the functions are 0 beyond this cell
    curves, functions = depth.curves, stack.functions
    if low < end:
        fill_cells(stack, low, means)
        r, mr, mmr = _products(curves, functions, low, base, end - low, 0)
        rr, mrr, mmrr = _products(curves, functions, low, base, end - low, 3)
        means[0], means[1], means[2] = r, mr, mmr
        means[3], means[4], means[5], means[6] = rr - r * r, mrr - r * mr, mmrr, rr
    return empty * curves[S, LEAD - base] if low == 0 else 0.0


@lean
def answer_average(stack, depth, alone, terms, held, w, short, out):
    """Write the fields of an average; return whether rounding errors are small enough.

    terms : sum of the m_i, e, variance of the sum of the rest, and reference, see `count_moments`
    short : float64[7], working memory;  out : one row of MOMENTS, with the other fields written
    """
    empty = _short_worlds(stack, depth, alone, w, short)
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
    return variance >= 0.0 and held * EPSILON * size <= MAX_ERROR_SHARE * variance
