"""Sum or average of a count window in sampled worlds, O(1) an arrival and world.

Nothing is ever subtracted, so that nothing drifts and a total is a function of the tuples held and
their stream indices alone: not of when its world was begun. The stream is cut into blocks of 2**b
tuples by their index; with the oldest inside tuple in block h and the newest in block t,

    total = (values from the oldest to the end of h) + (blocks h + 1 ... t - 1) + (t so far)

each of which is one number in every world. As the oldest moves through a block it takes its part
of the total from a row of sums from the right, written when it comes to the block; then, too, the
blocks between are added up again. With blocks of about sqrt(w) tuples both cost O(1) an arrival.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from sfumato.kernels.sampled_worlds import taken

# Columns of `whole` and `real`. HEAD: stream index from which on all that exists is inside;
# COUNT, VALUES: of inside tuples, and of those with a value; BLOCK: the one `rest` is of.
HEAD, COUNT, VALUES, BLOCK, WHOLE = range(5)
MIDDLE, NEWEST, REAL = range(3)


class WorldTotals(NamedTuple):
    """State of n worlds.

    whole : int64[n, WHOLE], real : float64[n, REAL], sums of the blocks between and of the newest
    blocks : float64[n, 2**r], sums of whole blocks, the block of number c at c % 2**r
    rest : float64[n, 2**b + 1], sums from the right of the oldest tuple's block
    """

    whole: np.ndarray
    real: np.ndarray
    blocks: np.ndarray
    rest: np.ndarray


@njit(cache=True, nogil=True)
def _value_of(offsets, prob, value, hashes, i, s):
    """What tuple i adds to the total of world s."""
    a = taken(offsets, prob, hashes, i, s)
    return value[a] if a >= 0 and not np.isnan(value[a]) else 0.0


@njit(cache=True, nogil=True)
def _come_to_block(blocks, rest, offsets, prob, value, hashes, head, first, newest, s):
    """Sums of the rest of the block of position `head`, written; that of the blocks between.

    newest : int64, the block of the newest tuple
    """
    size = rest.size - 1
    begin = ((first + head) & -size) - first
    rest[size] = 0.0
    for i in range(begin + size - 1, head - 1, -1):
        rest[i - begin] = _value_of(offsets, prob, value, hashes, i, s) + rest[i - begin + 1]
    middle = 0.0
    for block in range(1 + (first + head) // size, newest):
        middle += blocks[block & (blocks.size - 1)]
    return middle


@njit(cache=True, nogil=True)
def slide_totals(state, offsets, prob, value, hashes, first, begin, heads, w, average, out):
    """Let the tuples at positions begin, begin + 1, ... enter every world.

    offsets : int64[n + 1], prob, value : float64[...], NaN for no value; hashes : uint64[n]
    first : int64, stream index of position 0
    heads : int64[k], position of the oldest tuple held after each arrival
    w : int64, inside are the w newest existing ones of the held; average : bool, else the sum
    out : float64[k, worlds], written unless it has no rows: sum or average, NaN where there is none
    The blocks of all held tuples must fit state.blocks.

    Cost: O(1) amortised an arrival and world.  Error: sums of at most held values.
    """
    size, places = state.rest.shape[1] - 1, state.blocks.shape[1] - 1
    shift = np.int64(0)
    while 1 << shift < size:
        shift += 1
    for s in range(state.whole.shape[0]):
        whole, blocks, rest = state.whole[s], state.blocks[s], state.rest[s]
        head, count, values, block = whole[HEAD] - first, whole[COUNT], whole[VALUES], whole[BLOCK]
        middle, newest = state.real[s, MIDDLE], state.real[s, NEWEST]
        for t in range(heads.size):
            i = begin + t
            last = (first + i) >> shift
            if last << shift == first + i:  # a new block, the one before is whole
                blocks[(last - 1) & places] = newest
                middle += newest
                newest = 0.0
            a = taken(offsets, prob, hashes, i, s)
            if a >= 0:
                count += 1
                if not np.isnan(value[a]):
                    values += 1
                    newest += value[a]
            while count > w or head < heads[t]:
                a = taken(offsets, prob, hashes, head, s)
                if a >= 0:
                    count -= 1
                    if not np.isnan(value[a]):
                        values -= 1
                head += 1
            if out.shape[0] == 0:
                continue
            oldest = (first + head) >> shift
            if oldest < last:
                if oldest != block:
                    middle = _come_to_block(
                        blocks, rest, offsets, prob, value, hashes, head, first, last, s
                    )
                    block = oldest
                total = (rest[first + head - (oldest << shift)] + middle) + newest
            else:
                total = 0.0
                for j in range(head, i + 1):
                    total += _value_of(offsets, prob, value, hashes, j, s)
            if not average:
                out[t, s] = total
            else:
                out[t, s] = total / values if values > 0 else np.nan
        whole[HEAD], whole[COUNT], whole[VALUES], whole[BLOCK] = first + head, count, values, block
        state.real[s, MIDDLE], state.real[s, NEWEST] = middle, newest
