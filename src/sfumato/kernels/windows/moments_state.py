"""The older part of a count window's moments: planes of every depth, built from mid to head.

What the planes S, T, G and K are is told in `count_window_moments`. Like the laws in
`count_window` they are kept only at a stride (`saved`), and built again, a stride at a time, when
the head comes to them: those in use fit a fast cache.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled, lean_fused
from sfumato.kernels.laws.existence import existence_of
from sfumato.kernels.windows.law_checkpoints import bring_back, keep, stride_of

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

    The planes and sums are those of `count_window_moments`.

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


@compiled
def centred(offsets, prob, value, i, reference):
    """Existence, mean and variance of tuple i's (value - reference) * (it exists).

    A NaN alternative exists and adds 0 to the sum: its value is 0.
    """
    existence, mean, total = existence_of(offsets, prob, i), 0.0, 0.0
    for a in range(offsets[i], offsets[i + 1]):
        x = value[a]
        total += prob[a]
        mean += prob[a] * ((0.0 if np.isnan(x) else x) - reference)
    scale = existence / total  # 1 but for roundings
    mean *= scale
    variance = (1.0 - existence) * mean * mean
    for a in range(offsets[i], offsets[i + 1]):
        x = value[a]
        away = (0.0 if np.isnan(x) else x) - reference - mean
        variance += prob[a] * scale * away * away
    return existence, mean, variance


@lean_fused
def _add_tuple(old, new, begin, count, p, m, v):
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


@compiled
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


@compiled
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
    _add_tuple(old, new, at, high - begin, p, m, v)
    _add_facts(facts, new_facts, p, m, v, last_s, last_t)
    law = new[S]
    while high - low > 1 and law[low - base + LEAD] < NEGLIGIBLE:
        law[low - base + LEAD] = 0.0
        new[T, low - base + LEAD] = 0.0
        low += 1
    while high - low > 1 and law[high - 1 - base + LEAD] < NEGLIGIBLE:
        high -= 1
    return low, high


@compiled
def _floor(mu, ratio, w):
    """Least count of the older part that can matter when `mu` of its tuples are expected.

    The newer part then has about w - mu. A guess with room to spare: when the newer part's law
    goes beyond it, the planes are built anew.
    """
    newer = max(w - mu, 0.0) + 4.0 * np.sqrt(ratio * w)
    most = newer + REACH * np.sqrt(ratio * newer) + 2.0 * np.sqrt(w) + 16.0
    return np.int64(max(0.0, np.floor(w - 1.0 - most)))


@compiled
def _choose_reference(offsets, prob, value, head, end, reals):
    """A reference near the mean of the values, short enough for exact differences."""
    total, weight, mu, spread = 0.0, 0.0, 0.0, 0.0
    for i in range(head, end):
        existence = existence_of(offsets, prob, i)
        for a in range(offsets[i], offsets[i + 1]):
            if not np.isnan(value[a]):
                total += prob[a] * value[a]
                weight += prob[a]
        mu += existence
        spread += existence * (1.0 - existence)
    centre = total / weight if weight > 0.0 else 0.0
    if centre != 0.0 and np.isfinite(centre):
        unit = 2.0 ** (np.floor(np.log2(abs(centre))) - 20.0)
        centre = np.round(centre / unit) * unit if unit > 0.0 else 0.0
    reals[REFERENCE] = centre if np.isfinite(centre) else 0.0
    reals[RATIO] = spread / mu if mu > 0.0 else 0.0


@compiled
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
    shift = stride_of(tuples)
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
            place = keep(work[side], begin + LEAD, size, state.saved, place)
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


@compiled
def load(state, offsets, prob, value, mid, block, last, w):
    """Depths of `block` from its saved one, as far as row `last`."""
    marks, rows, bands = state.marks, state.rows, state.bands
    extent = state.extent[block]
    base, low, high = extent[BASE], extent[BAND_LOW], extent[BAND_HIGH]
    bring_back(state.saved, extent[PLACE], high - base, rows[0], LEAD)
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
