"""The front stack of a count window's moments, with checkpoints at a stride.

Arrivals enter the back stack, and evictions step down the front stack. When the front stack is used
up, all held tuples become the front stack:

    held:    head ................. mid ................. tail
             front stack            back stack, at most w tuples: all of them inside

`count_moments` defines the curves S, T, G and K, and `count_average` the curve V. The curves are
stored only for every stride-th depth (`checkpoints`), and rebuilt, one stride at a time, when the
head reaches them. The curves in use then fit into a fast cache.
"""

from typing import Any, NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers_and_reals, with_room
from sfumato.kernels.compile import compiled, inlined, lean, lean_fused
from sfumato.kernels.distributions.tuples import centred_moments, existence_of
from sfumato.kernels.tolerances import NEGLIGIBLE

DEVIATIONS = 10.0  # standard deviations within which a distribution is above NEGLIGIBLE
LEAD = 1  # cells before the first count, so that count l - 1 always exists
PAD = 8

# mid : stream index of the first tuple after the front stack
# block : number of the block in `block_rows`, or -1
# reference : c of the values; ratio : ratio of the sums of p q and p; count : sum of p (mean count)
FRONT_HEADER = integers_and_reals("mid built block shift", "reference ratio count")
# Stored with the curves of every depth: the band of S; count of the first cell, smallest count of G
# and K, and place in `checkpoints`; sums over held[head:mid] (`scale` is the sum of p |value|), and
# the curves' cell w, which represents all counts >= w.
DEPTH_STATS = integers_and_reals(
    "low high base floor place", "mu sum_m sum_v sum_pq sum_mq s_w t_w g_w k_w scale"
)


# The curves: G and K, the distribution S, the martingale T, and V (M^2) if averages are needed.
G, K, S, T, V = range(5)


class Depth(NamedTuple):
    """The front stack starting at one tuple: curves float64[4 or 5, width] and its DEPTH_STATS."""

    curves: np.ndarray
    stats: Any


class FrontStack(NamedTuple):
    """The front stack of one window and attribute.

    work : float64[2, curves, w + LEAD + PAD], two depths during the build
    checkpoints : float64[...], curves of every 2**shift-th depth, packed, with stats :
        DEPTH_STATS[blocks]
    block_rows : float64[2**shift, curves, width], the depths of the block in use, with
        block_stats : DEPTH_STATS[2**shift]
    header : FRONT_HEADER[1]
    """

    work: np.ndarray
    checkpoints: np.ndarray
    stats: np.ndarray
    block_rows: np.ndarray
    block_stats: np.ndarray
    header: np.ndarray


def empty_front(w: int, curves: int) -> FrontStack:
    """Return a front stack that was never built."""
    return FrontStack(
        work=np.zeros((2, curves, w + LEAD + PAD)),
        checkpoints=np.zeros(0),
        stats=np.zeros(0, DEPTH_STATS),
        block_rows=np.zeros((0, curves, 0)),
        block_stats=np.zeros(0, DEPTH_STATS),
        header=np.zeros(1, FRONT_HEADER),
    )


@lean
def _shift_of(tuples):
    """Return b, with 2**b at least 8 and about sqrt(tuples)."""
    shift = np.int64(3)
    while tuples >> (2 * shift + 2) > 0:
        shift += 1
    return shift


@lean_fused
def _add_tuple(old, new, begin, count, p, m, v):
    """Add one tuple at the old end to cells begin ... begin + count - 1 of the curves."""
    # Each loop uses few arrays: the compiler checks pairs for overlap at run time, and does not use
    # SIMD beyond eight pairs.
    q, twice, square, mq = 1.0 - p, 2.0 * m, m * m - v, m * (1.0 - p)
    end = begin + count
    distribution, before = old[S, begin:end], old[S, begin - 1 : end - 1]
    rest, rest_before = old[T, begin:end], old[T, begin - 1 : end - 1]
    g, k = old[G, begin:end], old[K, begin:end]
    new_k, new_g = new[K, begin:end], new[G, begin:end]
    for x in range(count):
        new_k[x] = k[x] + twice * (g[x] - rest[x]) + square * distribution[x]
    for x in range(count):
        new_g[x] = g[x] + m * distribution[x]
    new_distribution, new_rest = new[S, begin:end], new[T, begin:end]
    for x in range(count):
        new_distribution[x] = q * distribution[x] + p * before[x]
        new_rest[x] = q * rest[x] + p * rest_before[x] + mq * (before[x] - distribution[x])
    if old.shape[0] > V:
        own, stay = max(v - q * m * m, 0.0), q * m * m
        squares, squares_before = old[V, begin:end], old[V, begin - 1 : end - 1]
        new_squares = new[V, begin:end]
        for x in range(count):
            new_squares[x] = q * squares[x] + p * squares_before[x] + stay * distribution[x]
            new_squares[x] += own * before[x] + 2.0 * mq * (rest_before[x] - rest[x])


@inlined
def _add_stats(old, new, term, last_s, last_t):
    """Add one tuple to the sums and to cell w; last_s, last_t : curves S and T at w - 1."""
    p, m, v = term
    q = 1.0 - p
    new.mu = old.mu + p
    new.sum_m = old.sum_m + m
    new.sum_v = old.sum_v + v
    new.sum_pq = old.sum_pq + p * q
    new.sum_mq = old.sum_mq + m * q
    new.k_w = old.k_w + 2.0 * m * (old.g_w - old.t_w) + (m * m - v) * old.s_w
    new.g_w = old.g_w + m * old.s_w
    new.t_w = old.t_w + p * last_t + m * q * last_s
    new.s_w = old.s_w + p * last_s


@lean
def magnitude(tuples, i):
    """Return the mean absolute value of tuple i; 0 without a value."""
    size = 0.0
    for a in range(tuples.offsets[i], tuples.offsets[i + 1]):
        x = tuples.value[a]
        size += 0.0 if np.isnan(x) else tuples.prob[a] * abs(x)
    return size


@lean
def _step(old, new, begin, w, tuples, i, reference):
    """Add tuple i as a depth: curves over counts begin ... high, count l in cell l - base + LEAD.

    begin : the smallest required count, at most low
    """
    low, high, base = old.stats.low, old.stats.high, old.stats.base
    p, m, v = centred_moments(tuples, i, reference)
    before, after, at = old.curves, new.curves, begin - base + LEAD
    curves = before.shape[0]
    for curve in range(S, curves):
        before[curve, at - 1] = 0.0
    last_s, last_t = 0.0, 0.0
    if high < w:
        for curve in range(curves):
            before[curve, high - base + LEAD] = 0.0
        high += 1
    else:
        last_s, last_t = before[S, w - 1 - base + LEAD], before[T, w - 1 - base + LEAD]
    _add_tuple(before, after, at, high - begin, p, m, v)
    _add_stats(old.stats, new.stats, (p, m, v), last_s, last_t)
    new.stats.scale = old.stats.scale + magnitude(tuples, i)
    new.stats.base, new.stats.floor = base, old.stats.floor
    distribution = after[S]
    while high - low > 1 and distribution[low - base + LEAD] < NEGLIGIBLE:
        for curve in range(S, curves):
            after[curve, low - base + LEAD] = 0.0
        low += 1
    while high - low > 1 and distribution[high - 1 - base + LEAD] < NEGLIGIBLE:
        high -= 1
    new.stats.low, new.stats.high = low, high


@lean
def _floor(mu, ratio, w):
    """Return the smallest relevant count of the front stack if `mu` tuples exist on average.

    The estimate is generous. If the back stack requires smaller counts, the front stack is rebuilt.
    """
    newer = max(w - mu, 0.0) + 4.0 * np.sqrt(ratio * w)
    most = newer + DEVIATIONS * np.sqrt(ratio * newer) + 2.0 * np.sqrt(w) + 16.0
    return np.int64(max(0.0, np.floor(w - 1.0 - most)))


@inlined
def _choose_reference(tuples, head, end, header):
    """Set a reference near the mean value, rounded to 21 significant bits so that differences from
    it are exact. Without values, set 0."""
    offsets, prob, value = tuples.offsets, tuples.prob, tuples.value
    total, weight, mu, spread = 0.0, 0.0, 0.0, 0.0
    for i in range(head, end):
        existence = existence_of(offsets, prob, i)
        for a in range(offsets[i], offsets[i + 1]):
            total += 0.0 if np.isnan(value[a]) else prob[a] * value[a]
            weight += prob[a]
        mu += existence
        spread += existence * (1.0 - existence)
    centre = total / weight if weight > 0.0 else 0.0
    if centre != 0.0 and np.isfinite(centre):
        unit = 2.0 ** (np.floor(np.log2(abs(centre))) - 20.0)
        centre = np.round(centre / unit) * unit if unit > 0.0 else 0.0
    header.reference = centre if np.isfinite(centre) else 0.0
    header.ratio, header.count = spread / mu if mu > 0.0 else 0.0, mu


@compiled
def build(front, tuples, head, mid, w, choose):
    """Make tuples head ... mid - 1 (positions) the front stack.  O(tuples * band).

    choose : bool, choose a new reference; otherwise use the header's, for a restored window
    """
    header, work = front.header[0], front.work
    if choose:
        _choose_reference(tuples, head, mid + 1, header)  # over all tuples of the next answer
    depths, curves = mid - head, work.shape[1]
    shift = _shift_of(depths)
    checkpoint_stats, checkpoints = with_room(front.stats, (depths >> shift) + 1), front.checkpoints
    work[:] = 0.0
    work[0, S, LEAD] = 1.0
    stats = np.zeros(2, DEPTH_STATS)
    stats[0].high = 1
    begin, place, width = np.int64(0), np.int64(0), np.int64(1)
    for depth in range(depths + 1):
        side = depth & 1
        if depth & ((1 << shift) - 1) == 0:
            checkpoint_stats[depth >> shift] = stats[side]
            own = checkpoint_stats[depth >> shift]
            own.floor = _floor(own.mu, header.ratio, w)
            begin = max(begin, min(own.low, own.floor))
            own.place, own.base, size = place, begin, own.high - begin
            checkpoints = with_room(checkpoints, place + curves * size)
            for curve in range(curves):
                for x in range(size):
                    checkpoints[place + curve * size + x] = work[side, curve, begin + LEAD + x]
            place, width = place + curves * size, max(width, size)
        if depth < depths:
            old, new = Depth(work[side], stats[side]), Depth(work[1 - side], stats[1 - side])
            _step(old, new, begin, w, tuples, mid - 1 - depth, header.reference)
    rows, block_stats = front.block_rows, front.block_stats
    stride, width = 1 << shift, width + (1 << shift) + LEAD + PAD
    if rows.shape[0] < stride or rows.shape[2] < width:
        rows = np.zeros((stride, curves, max(width * 5 // 4, rows.shape[2])))
        block_stats = np.zeros(stride, DEPTH_STATS)
    header.mid, header.built, header.shift, header.block = tuples.first + mid, 1, shift, -1
    return FrontStack(work, checkpoints, checkpoint_stats, rows, block_stats, front.header)


@inlined
def _load(front, tuples, mid, block, last, w):
    header, rows, stats = front.header[0], front.block_rows, front.block_stats
    own = front.stats[block]
    size, curves = own.high - own.base, rows.shape[1]
    for curve in range(curves):
        checkpoints = front.checkpoints[own.place + curve * size :]
        for x in range(size):
            rows[0, curve, LEAD + x] = checkpoints[x]
    stats[0] = own
    newest, reference = mid - 1 - (block << header.shift), header.reference
    for r in range(last):
        old, new = Depth(rows[r], stats[r]), Depth(rows[r + 1], stats[r + 1])
        _step(old, new, own.base, w, tuples, newest - r, reference)
    header.block = block


@lean
def row_of(front, tuples, mid, head, w):
    """Return the row of the depth of `head`, after loading its block if needed."""
    header, depth = front.header[0], mid - head
    block = depth >> header.shift
    row = depth - (block << header.shift)
    if block != header.block:
        _load(front, tuples, mid, block, row, w)
    return row
