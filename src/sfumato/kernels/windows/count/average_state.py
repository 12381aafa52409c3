"""Both parts of a count window's average: what is kept of each, and how a tuple is added.

`count_window_average` says what the planes are for. Each part has three laws over its count
of existing tuples, with M the sum of the deviations from the tuples' means:

    S[l] = Pr(N = l),  T[l] = E[M; N = l],  V[l] = E[M^2; N = l]

of the older part for every depth, kept at a stride like the planes of `moments_state`, and of the
newer part once. The newer part has besides six functions of the older part's count l,

    E[M^k r^j],  k = 0, 1, 2,  j = 1, 2,  r = (w - n) / n for 0 < n = l + B < w, else 0,

B and M those of the newer part. A tuple is added to all of these by one recursion, in which the
cells move by one where it exists. The functions are kept for the counts l in use only: a cell
that comes into use is the sum over the newer part's laws, O(band), and goes along from then on.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled, lean, lean_dot, lean_fused
from sfumato.kernels.windows.count.law_checkpoints import bring_back, keep, stride_of
from sfumato.kernels.windows.count.moments_state import NEGLIGIBLE
from sfumato.kernels.windows.held_tuples import centred

LEAD = 1  # cells before the first count, so that count l - 1 always exists
PAD = 8
# low, high : of the newer part's laws; from_ : first cell of the functions; newer : tuples of the
# newer part; grown : entries of `grown`; recomputed : windows computed anew, see `window_average`
MARKS = integers(
    "mid built block shift low high from_ newer grown saved_needed width_needed blocks_needed "
    "recomputed"
)
EXTENT = integers("place low high")  # of a saved depth


class AverageState(NamedTuple):
    """State of one window and attribute; the operator makes arrays larger when a kernel asks.

    table : float64[2, w + PAD], r and r^2 at w - n
    front : float64[6, w + PAD], the functions of l: r, M r, M^2 r, r^2, M r^2, M^2 r^2
    law : float64[3, w + PAD], S, T, V of the newer part, count b at w - b
    work : float64[2, 3, w + PAD], two depths of the older part while it is built
    saved : float64[...], S, T, V of every 2**shift-th depth, packed; extent : EXTENT[blocks]
    rows : float64[2**shift, 3, width], the depths of the block in use, and bands : int64[.., 2]
    grown : int64[room, 2], (size of the newer part, first cell) when cells came into use
    marks : MARKS[1]
    """

    table: np.ndarray
    front: np.ndarray
    law: np.ndarray
    work: np.ndarray
    saved: np.ndarray
    extent: np.ndarray
    rows: np.ndarray
    bands: np.ndarray
    grown: np.ndarray
    marks: np.ndarray


@lean
def deviations(tuples, i, reference):
    """Of tuple i: existence p, mean m of its value less the reference (0 where it does not
    exist), and E[(value - m)^2; it exists]."""
    p, m, v = centred(tuples, i, reference)
    return p, m, max(v - (1.0 - p) * m * m, 0.0)


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
def enter(state, tuples, i, reference):
    """Tuple i enters the newer part.  Cost: O(band)."""
    front, law, marks = state.front, state.law, state.marks[0]
    p, m, s = deviations(tuples, i, reference)
    low, high = max(marks.low - 1, 0), marks.high
    if marks.from_ < high - 1:
        _mix(front, 0, marks.from_, high - 1, p, m, s)
        _mix(front, 3, marks.from_, high - 1, p, m, s)
    _mix(law, 0, low, high, p, m, s)
    while high - low > 1 and law[0, high - 1] < NEGLIGIBLE:
        high -= 1
        for plane in range(3):
            law[plane, high] = 0.0
            front[plane, high - 1] = 0.0  # no count below w is left from here on
            front[plane + 3, high - 1] = 0.0
    while high - low > 1 and law[0, low] < NEGLIGIBLE:
        for plane in range(3):
            law[plane, low] = 0.0
        low += 1
    marks.low, marks.high = low, high
    marks.from_ = min(marks.from_, high - 1)
    marks.newer += 1


# Any order of summation keeps the error bound, so SIMD may choose it.
@lean_dot
def functions_at(state, x, out):
    """The six functions at the older part's count x, by the newer part's laws."""
    begin, end = max(state.marks[0].low, x + 1), state.marks[0].high
    count = max(end - begin, 0)
    for j in range(2):
        ratio = state.table[j, begin - x :]
        for k in range(3):
            law = state.law[k, begin:]
            total = 0.0
            for c in range(count):
                total += law[c] * ratio[c]
            out[3 * j + k] = total


@compiled
def take_cells(state, low):
    """Functions from count `low` on come into use, and are noted in `grown`."""
    cell, marks = np.empty(6), state.marks[0]
    for x in range(low, marks.from_):
        functions_at(state, x, cell)
        state.front[:, x] = cell
    state.grown[marks.grown, 0], state.grown[marks.grown, 1] = marks.newer, low
    marks.grown += 1
    marks.from_ = low


@lean_fused
def _step(old, new, base, band, w, term):
    """Laws of one depth more, cell (count - base + LEAD); its (low, high).

    band : (low, high) of the old; term : (p, m, s) of the tuple, see `deviations`
    """
    (low, high), (p, m, s) = band, term
    q = 1.0 - p
    mq, stay = m * q, q * m * m
    at = low - base + LEAD
    for plane in range(3):
        old[plane, at - 1] = 0.0
        if high < w:
            old[plane, high - base + LEAD] = 0.0
    high = min(high + 1, w)
    end = high - base + LEAD
    o0, b0 = old[0, at:end], old[0, at - 1 : end - 1]
    o1, b1 = old[1, at:end], old[1, at - 1 : end - 1]
    o2, b2 = old[2, at:end], old[2, at - 1 : end - 1]
    n0, n1, n2 = new[0, at:end], new[1, at:end], new[2, at:end]
    for x in range(high - low):
        n2[x] = q * o2[x] + p * b2[x] + stay * o0[x] + s * b0[x] + 2.0 * mq * (b1[x] - o1[x])
    for x in range(high - low):
        n0[x] = q * o0[x] + p * b0[x]
        n1[x] = q * o1[x] + p * b1[x] + mq * (b0[x] - o0[x])
    while high - low > 1 and new[0, low - base + LEAD] < NEGLIGIBLE:
        low += 1
    while high - low > 1 and new[0, high - 1 - base + LEAD] < NEGLIGIBLE:
        high -= 1
    return low, high


@compiled
def build(state, tuples, head, mid, reference, w):
    """Make tuples head ... mid - 1 (positions) the older part, and the newer part empty.

    False, with the sizes needed in `marks`, when there is no room.  Cost: O(tuples * band).
    """
    marks, work = state.marks[0], state.work
    depths = mid - head
    shift = stride_of(depths)
    marks.shift, marks.block, marks.built = shift, -1, 0
    marks.blocks_needed = (depths >> shift) + 1
    if state.extent.shape[0] < marks.blocks_needed:
        return False
    work[:] = 0.0
    work[0, 0, LEAD] = 1.0
    low, high = np.int64(0), np.int64(1)
    place, width = np.int64(0), np.int64(1)
    for depth in range(depths + 1):
        side = depth & 1
        if depth & ((1 << shift) - 1) == 0:
            block, size = depth >> shift, high - low
            extent = state.extent[block]
            extent.place, extent.low, extent.high = place, low, high
            place = keep(work[side], low + LEAD, size, state.saved, place)
            width = max(width, size)
        if depth < depths:
            term = deviations(tuples, mid - 1 - depth, reference)
            low, high = _step(work[side], work[1 - side], np.int64(0), (low, high), w, term)
    marks.saved_needed = place
    marks.width_needed = width + (1 << shift) + LEAD + PAD
    small = state.rows.shape[0] < 1 << shift or state.rows.shape[2] < marks.width_needed
    if small or state.saved.size < place:
        return False
    marks.mid, marks.built, marks.newer, marks.grown = tuples.first + mid, 1, 0, 0
    marks.low, marks.high, marks.from_ = w, w + 1, w
    state.front[:, :] = 0.0
    state.law[:, :] = 0.0
    state.law[0, w] = 1.0
    return True


@lean
def load(state, tuples, mid, block, last, reference, w):
    """Depths of `block` from its saved one, as far as row `last`."""
    marks, rows, bands = state.marks[0], state.rows, state.bands
    extent = state.extent[block]
    low, high = extent.low, extent.high
    base = low
    bring_back(state.saved, extent.place, high - low, rows[0], LEAD)
    bands[0, 0], bands[0, 1] = low, high
    newest = mid - 1 - (block << marks.shift)
    for r in range(last):
        term = deviations(tuples, newest - r, reference)
        low, high = _step(rows[r], rows[r + 1], base, (low, high), w, term)
        bands[r + 1, 0], bands[r + 1, 1] = low, high
    marks.block = block
