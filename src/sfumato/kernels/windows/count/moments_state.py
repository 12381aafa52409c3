"""The older part of a count window's moments: planes of every depth, built from mid to head.

`count_window_moments` says what the planes S, T, G and K are. Like the laws in
`count_window` they are kept only at a stride (`saved`), and built again, a stride at a time, when
the head comes to them: those in use fit a fast cache.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, reals
from sfumato.kernels.compile import compiled, lean, lean_fused
from sfumato.kernels.laws.existence import existence_of
from sfumato.kernels.windows.count.law_checkpoints import bring_back, keep, stride_of
from sfumato.kernels.windows.held_tuples import centred

NEGLIGIBLE = 1e-20  # probabilities at a law's ends below this are dropped
REACH = 10.0  # standard deviations within which a law is above NEGLIGIBLE
LEAD = 1  # cells before the first count, so that count l - 1 always exists
PAD = 8

MARKS = integers("mid built block shift low high saved_needed width_needed blocks_needed")
# The reference c, sum of p q over sum of p, and sums over the newer part; scale : of the p |value|.
REALS = reals("reference ratio mu sum_m sum_v pq mq scale")
# Numbers kept with the planes of every depth: sums over held[head:mid], and the planes' cell w,
# which stands for all counts from w on.
FACTS = reals("mu sum_m sum_v sum_pq sum_mq s_w t_w g_w k_w scale")
# Of a saved depth: where in `saved`, first cell, low, high, least count of G and K.
EXTENT = integers("place base low high floor")


class Older(NamedTuple):
    """Which plane is which of the older part: law, martingale, and the cumulated G and K."""

    s: int = 0
    t: int = 1
    g: int = 2
    k: int = 3


class Newer(NamedTuple):
    """Which plane is which of the newer part: C, CM, and E[D], E[D^2], E[M D]."""

    c: int = 0
    cm: int = 1
    d1: int = 2
    d2: int = 3
    dm: int = 4


OLDER, NEWER = Older(), Newer()


class Depth(NamedTuple):
    """The older part from one tuple on: planes float64[4, width] and its FACTS."""

    planes: np.ndarray
    facts: np.ndarray


class MomentsState(NamedTuple):
    """State of one window and attribute; the operator makes arrays larger when a kernel asks.

    The planes and sums are those of `count_window_moments`.
    front : float64[5, w + PAD], planes of the newer part: C and its like are 0 (D1 and its like
        polynomials in l) below `low`, 1 (0) from `high` on
    work : float64[2, 4, w + PAD], two depths of the older part while it is built
    saved : float64[...], planes of every 2**shift-th depth, packed; extent : EXTENT[blocks] and
        facts : FACTS[blocks] of the same
    rows : float64[2**shift, 4, width], the depths of the block in use, with
        bands : int64[2**shift, 2] and row_facts : FACTS[2**shift]
    marks : MARKS[1], `mid` a stream index; reals : REALS[1]
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


@lean_fused
def _add_tuple(old, new, begin, count, p, m, v):
    """Planes of cells begin ... begin + count - 1 after one more tuple at the old end."""
    # Loops of few arrays each: the compiler checks pairs for overlap at run time, and gives SIMD
    # up beyond eight pairs.
    q, twice, square, mq = 1.0 - p, 2.0 * m, m * m - v, m * (1.0 - p)
    end = begin + count
    law, before = old[OLDER.s, begin:end], old[OLDER.s, begin - 1 : end - 1]
    rest, rest_before = old[OLDER.t, begin:end], old[OLDER.t, begin - 1 : end - 1]
    g, k = old[OLDER.g, begin:end], old[OLDER.k, begin:end]
    new_k, new_g = new[OLDER.k, begin:end], new[OLDER.g, begin:end]
    for x in range(count):
        new_k[x] = k[x] + twice * (g[x] - rest[x]) + square * law[x]
    for x in range(count):
        new_g[x] = g[x] + m * law[x]
    new_law, new_rest = new[OLDER.s, begin:end], new[OLDER.t, begin:end]
    for x in range(count):
        new_law[x] = q * law[x] + p * before[x]
        new_rest[x] = q * rest[x] + p * rest_before[x] + mq * (before[x] - law[x])


@lean
def _add_facts(old, new, term, last_s, last_t):
    """Sums and cell w after one more tuple; last_s, last_t : planes S and T at w - 1."""
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
def _step(old, new, base, begin, band, w, term):
    """One depth more: planes over counts begin ... high, cell (count - base + LEAD); (low, high).

    old, new : Depth; begin : int64, the least count still wanted, at most low; band : (low, high)
    of the old; term : (p, m, v) of the tuple, see `centred`
    """
    low, high = band
    before, after, at = old.planes, new.planes, begin - base + LEAD
    before[OLDER.s, at - 1] = 0.0
    before[OLDER.t, at - 1] = 0.0
    last_s, last_t = 0.0, 0.0
    if high < w:
        for plane in range(4):
            before[plane, high - base + LEAD] = 0.0
        high += 1
    else:
        last_s, last_t = before[OLDER.s, w - 1 - base + LEAD], before[OLDER.t, w - 1 - base + LEAD]
    _add_tuple(before, after, at, high - begin, *term)
    _add_facts(old.facts, new.facts, term, last_s, last_t)
    law = after[OLDER.s]
    while high - low > 1 and law[low - base + LEAD] < NEGLIGIBLE:
        law[low - base + LEAD] = 0.0
        after[OLDER.t, low - base + LEAD] = 0.0
        low += 1
    while high - low > 1 and law[high - 1 - base + LEAD] < NEGLIGIBLE:
        high -= 1
    return low, high


@lean
def magnitude(tuples, i):
    """Of tuple i: the mean of its value's absolute, 0 where there is none."""
    size = 0.0
    for a in range(tuples.offsets[i], tuples.offsets[i + 1]):
        x = tuples.value[a]
        size += 0.0 if np.isnan(x) else tuples.prob[a] * abs(x)
    return size


@lean
def _add_scale(old, new, tuples, i):
    new.scale = old.scale + magnitude(tuples, i)


@lean
def _floor(mu, ratio, w):
    """Least count of the older part that can matter when `mu` of its tuples are expected.

    A guess with room to spare: where the newer part's law goes beyond it, the planes are built
    anew.
    """
    newer = max(w - mu, 0.0) + 4.0 * np.sqrt(ratio * w)
    most = newer + REACH * np.sqrt(ratio * newer) + 2.0 * np.sqrt(w) + 16.0
    return np.int64(max(0.0, np.floor(w - 1.0 - most)))


@compiled
def _choose_reference(tuples, head, end, reals):
    """A reference near the mean of the values, 0 where there is none, short enough for exact
    differences."""
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
    reals.ratio = spread / mu if mu > 0.0 else 0.0


@compiled
def build(state, tuples, head, mid, w, choose):
    """Make tuples head ... mid - 1 (positions) the older part, and the newer part empty.

    tuples : HeldTuples; choose : bool, take a new reference (else the one in `reals`, for a
    restored window)
    False, with the sizes needed in `marks`, when there is no room.
    Cost: O(tuples * band).
    """
    marks, reals, work = state.marks[0], state.reals[0], state.work
    if choose:
        _choose_reference(tuples, head, mid + 1, reals)  # of all that the next answer is of
    depths = mid - head
    shift = stride_of(depths)
    marks.shift, marks.block, marks.built = shift, -1, 0
    marks.blocks_needed = (depths >> shift) + 1
    if state.extent.shape[0] < marks.blocks_needed:
        return False
    work[:] = 0.0
    work[0, OLDER.s, LEAD] = 1.0
    facts = np.zeros(2, FACTS)
    low, high, begin = np.int64(0), np.int64(1), np.int64(0)
    place, width = np.int64(0), np.int64(1)
    for depth in range(depths + 1):
        side = depth & 1
        if depth & ((1 << shift) - 1) == 0:
            floor = _floor(facts[side].mu, reals.ratio, w)
            begin = max(begin, min(low, floor))
            block, size = depth >> shift, high - begin
            extent = state.extent[block]
            extent.place, extent.base, extent.low = place, begin, low
            extent.high, extent.floor = high, floor
            state.facts[block] = facts[side]
            place = keep(work[side], begin + LEAD, size, state.saved, place)
            width = max(width, size)
        if depth < depths:
            term = centred(tuples, mid - 1 - depth, reals.reference)
            old, new = Depth(work[side], facts[side]), Depth(work[1 - side], facts[1 - side])
            low, high = _step(old, new, np.int64(0), begin, (low, high), w, term)
            _add_scale(old.facts, new.facts, tuples, mid - 1 - depth)
    marks.saved_needed = place
    marks.width_needed = width + (1 << shift) + LEAD + PAD
    small = state.rows.shape[0] < 1 << shift or state.rows.shape[2] < marks.width_needed
    if small or state.saved.size < place:
        return False
    marks.mid, marks.built = tuples.first + mid, 1
    marks.low, marks.high = w, w
    state.front[:, :] = 0.0
    state.front[NEWER.c, w:] = 1.0
    reals.mu, reals.sum_m, reals.sum_v, reals.pq, reals.mq = 0.0, 0.0, 0.0, 0.0, 0.0
    reals.scale = 0.0
    return True


@lean
def load(state, tuples, mid, block, last, w):
    """Depths of `block` from its saved one, as far as row `last`."""
    marks, rows, bands, facts = state.marks[0], state.rows, state.bands, state.row_facts
    extent = state.extent[block]
    base, low, high = extent.base, extent.low, extent.high
    bring_back(state.saved, extent.place, high - base, rows[0], LEAD)
    bands[0, 0], bands[0, 1] = low, high
    facts[0] = state.facts[block]
    newest, reference = mid - 1 - (block << marks.shift), state.reals[0].reference
    for r in range(last):
        term = centred(tuples, newest - r, reference)
        old, new = Depth(rows[r], facts[r]), Depth(rows[r + 1], facts[r + 1])
        low, high = _step(old, new, base, base, (low, high), w, term)
        _add_scale(old.facts, new.facts, tuples, newest - r)
        bands[r + 1, 0], bands[r + 1, 1] = low, high
    marks.block = block
