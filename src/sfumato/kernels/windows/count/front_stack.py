"""The front stack of a count window's moments, with checkpoints at a stride.

Arrivals enter the back stack, evictions step down the front stack, and when it is used up, all held
tuples become the front stack:

    held:    head ................. mid ................. tail
             front stack            back stack, at most w tuples: all of them inside

`count_moments` defines the planes S, T, G and K, `count_average` the plane V. They are stored only
for every stride-th depth (`saved`), and rebuilt, a stride at a time, when the head reaches them.
The planes in use then fit a fast cache.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, reals, with_room
from sfumato.kernels.compile import compiled, lean, lean_fused
from sfumato.kernels.laws.tuples import centred, existence_of
from sfumato.kernels.tolerances import NEGLIGIBLE

DEVIATIONS = 10.0  # standard deviations within which a distribution is above NEGLIGIBLE
LEAD = 1  # cells before the first count, so that count l - 1 always exists
PAD = 8

# mid : stream index of the first tuple after the front stack; block : the one in `rows`, -1: none
FRONT_MARKS = integers("mid built block shift")
# The reference c of the values, the sum of p q over the sum of p, and the sum of p (mean count).
FRONT_REALS = reals("reference ratio count")
# Stored with the planes of every depth: sums over held[head:mid] (`scale` : of the p |value|), and
# the planes' cell w, which represents all counts from w on.
DEPTH_FACTS = reals("mu sum_m sum_v sum_pq sum_mq s_w t_w g_w k_w scale")
# Of a checkpoint: place in `saved`, first cell, low, high, least count of G and K.
CHECKPOINT = integers("place base low high floor")


# The planes: the cumulated G and K, distribution, martingale, and M^2 if averages are needed.
G, K, S, T, V = range(5)


class Depth(NamedTuple):
    """The front stack from one tuple on: planes float64[4 or 5, width] and its DEPTH_FACTS."""

    planes: np.ndarray
    facts: np.ndarray


class FrontStack(NamedTuple):
    """The front stack of one window and attribute.

    work : float64[2, planes, w + LEAD + PAD], two depths during the build
    saved : float64[...], planes of every 2**shift-th depth, packed; extent : CHECKPOINT[blocks] and
        facts : DEPTH_FACTS[blocks] of the same
    rows : float64[2**shift, planes, width], the depths of the block in use, with
        bands : int64[2**shift, 2] and row_facts : DEPTH_FACTS[2**shift]
    marks : FRONT_MARKS[1]; reals : FRONT_REALS[1]
    """

    work: np.ndarray
    saved: np.ndarray
    extent: np.ndarray
    facts: np.ndarray
    rows: np.ndarray
    bands: np.ndarray
    row_facts: np.ndarray
    marks: np.ndarray
    reals: np.ndarray


def empty_front(w: int, planes: int) -> FrontStack:
    """Return a front stack that was never built.  NumPy."""
    return FrontStack(
        work=np.zeros((2, planes, w + LEAD + PAD)),
        saved=np.zeros(0),
        extent=np.zeros(0, CHECKPOINT),
        facts=np.zeros(0, DEPTH_FACTS),
        rows=np.zeros((0, planes, 0)),
        bands=np.zeros((0, 2), np.int64),
        row_facts=np.zeros(0, DEPTH_FACTS),
        marks=np.zeros(1, FRONT_MARKS),
        reals=np.zeros(1, FRONT_REALS),
    )


@lean
def _shift_of(tuples):
    """Return b, with 2**b between 8 and about sqrt(tuples)."""
    shift = np.int64(3)
    while tuples >> (2 * shift + 2) > 0:
        shift += 1
    return shift


@lean_fused
def _add_tuple(old, new, begin, count, p, m, v):
    """Update the planes, cells begin ... begin + count - 1, with one more tuple at the old end."""
    # Loops of few arrays each: the compiler checks pairs for overlap at run time, and does not use
    # SIMD beyond eight pairs.
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
    if old.shape[0] > V:
        own, stay = max(v - q * m * m, 0.0), q * m * m
        squares, squares_before = old[V, begin:end], old[V, begin - 1 : end - 1]
        new_squares = new[V, begin:end]
        for x in range(count):
            new_squares[x] = q * squares[x] + p * squares_before[x] + stay * law[x]
            new_squares[x] += own * before[x] + 2.0 * mq * (rest_before[x] - rest[x])


@lean
def _add_facts(old, new, term, last_s, last_t):
    """Update sums and cell w with one more tuple; last_s, last_t : planes S and T at w - 1."""
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
    """Return the mean absolute value of tuple i, 0 without a value."""
    size = 0.0
    for a in range(tuples.offsets[i], tuples.offsets[i + 1]):
        x = tuples.value[a]
        size += 0.0 if np.isnan(x) else tuples.prob[a] * abs(x)
    return size


@lean
def _step(old, new, base, begin, band, w, tuples, i, reference):
    """Add tuple i as a depth: planes over counts begin ... high, cell count - base + LEAD.

    begin : the least count needed, at most low; band : old (low, high).  Returns the new band.
    """
    low, high = band
    p, m, v = centred(tuples, i, reference)
    before, after, at = old.planes, new.planes, begin - base + LEAD
    planes = before.shape[0]
    for plane in range(S, planes):
        before[plane, at - 1] = 0.0
    last_s, last_t = 0.0, 0.0
    if high < w:
        for plane in range(planes):
            before[plane, high - base + LEAD] = 0.0
        high += 1
    else:
        last_s, last_t = before[S, w - 1 - base + LEAD], before[T, w - 1 - base + LEAD]
    _add_tuple(before, after, at, high - begin, p, m, v)
    _add_facts(old.facts, new.facts, (p, m, v), last_s, last_t)
    new.facts.scale = old.facts.scale + magnitude(tuples, i)
    law = after[S]
    while high - low > 1 and law[low - base + LEAD] < NEGLIGIBLE:
        for plane in range(S, planes):
            after[plane, low - base + LEAD] = 0.0
        low += 1
    while high - low > 1 and law[high - 1 - base + LEAD] < NEGLIGIBLE:
        high -= 1
    return low, high


@lean
def _floor(mu, ratio, w):
    """Return the least relevant count of the front stack if `mu` of its tuples are expected.

    A generous guess: if the back stack's distribution goes beyond, the front stack is rebuilt.
    """
    newer = max(w - mu, 0.0) + 4.0 * np.sqrt(ratio * w)
    most = newer + DEVIATIONS * np.sqrt(ratio * newer) + 2.0 * np.sqrt(w) + 16.0
    return np.int64(max(0.0, np.floor(w - 1.0 - most)))


@compiled
def _choose_reference(tuples, head, end, reals):
    """Set a reference near the mean of values, short enough for exact differences; 0 if empty."""
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
    reals.reference = centre if np.isfinite(centre) else 0.0
    reals.ratio, reals.count = spread / mu if mu > 0.0 else 0.0, mu


@compiled
def build(front, tuples, head, mid, w, choose):
    """Make tuples head ... mid - 1 (positions) the front stack: O(tuples * band).

    choose : bool, choose a new reference (else use `reals`, for a restored window)
    """
    marks, reals, work = front.marks[0], front.reals[0], front.work
    if choose:
        _choose_reference(tuples, head, mid + 1, reals)  # over all tuples of the next answer
    depths, planes = mid - head, work.shape[1]
    shift = _shift_of(depths)
    extents, saved_facts, saved = front.extent, front.facts, front.saved
    if extents.size <= depths >> shift:
        extents = with_room(extents, (depths >> shift) + 1)
        saved_facts = with_room(saved_facts, extents.size)
    work[:] = 0.0
    work[0, S, LEAD] = 1.0
    facts = np.zeros(2, DEPTH_FACTS)
    low, high, begin = np.int64(0), np.int64(1), np.int64(0)
    place, width = np.int64(0), np.int64(1)
    for depth in range(depths + 1):
        side = depth & 1
        if depth & ((1 << shift) - 1) == 0:
            floor = _floor(facts[side].mu, reals.ratio, w)
            begin = max(begin, min(low, floor))
            block, size = depth >> shift, high - begin
            extent = extents[block]
            extent.place, extent.base, extent.low = place, begin, low
            extent.high, extent.floor = high, floor
            saved_facts[block] = facts[side]
            if saved.size < place + planes * size:
                saved = with_room(saved, place + planes * size)
            flat = saved[place : place + planes * size]
            flat.reshape(planes, size)[:] = work[side, :, begin + LEAD : begin + LEAD + size]
            place, width = place + planes * size, max(width, size)
        if depth < depths:
            old, new = Depth(work[side], facts[side]), Depth(work[1 - side], facts[1 - side])
            low, high = _step(
                old, new, np.int64(0), begin, (low, high), w, tuples, mid - 1 - depth,
                reals.reference,
            )  # fmt: skip
    rows, bands, row_facts = front.rows, front.bands, front.row_facts
    stride, width = 1 << shift, width + (1 << shift) + LEAD + PAD
    if rows.shape[0] < stride or rows.shape[2] < width:
        rows = np.zeros((stride, planes, max(width * 5 // 4, rows.shape[2])))
        bands, row_facts = np.zeros((stride, 2), np.int64), np.zeros(stride, DEPTH_FACTS)
    marks.mid, marks.built, marks.shift, marks.block = tuples.first + mid, 1, shift, -1
    return FrontStack(
        work, saved, extents, saved_facts, rows, bands, row_facts, front.marks, front.reals
    )


@lean
def _load(front, tuples, mid, block, last, w):
    marks, rows, bands, facts = front.marks[0], front.rows, front.bands, front.row_facts
    extent = front.extent[block]
    base, low, high = extent.base, extent.low, extent.high
    size, planes = high - base, rows.shape[1]
    for plane in range(planes):
        saved = front.saved[extent.place + plane * size :]
        for x in range(size):
            rows[0, plane, LEAD + x] = saved[x]
    bands[0, 0], bands[0, 1] = low, high
    facts[0] = front.facts[block]
    newest, reference = mid - 1 - (block << marks.shift), front.reals[0].reference
    for r in range(last):
        old, new = Depth(rows[r], facts[r]), Depth(rows[r + 1], facts[r + 1])
        low, high = _step(old, new, base, base, (low, high), w, tuples, newest - r, reference)
        bands[r + 1, 0], bands[r + 1, 1] = low, high
    marks.block = block


@lean
def row_of(front, tuples, mid, head, w):
    """Return the row of the depth of `head`, loaded if needed."""
    marks, depth = front.marks[0], mid - head
    block = depth >> marks.shift
    row = depth - (block << marks.shift)
    if block != marks.block:
        _load(front, tuples, mid, block, row, w)
    return row


@lean
def is_outside(extent, marks, reach):
    """Return True if the planes of a checkpoint were not built for counts as low as `reach`."""
    return reach < extent.floor and reach < extent.high + (1 << marks.shift)
