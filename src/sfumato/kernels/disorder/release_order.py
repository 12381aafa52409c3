"""When held rows come out: the arrival at which the punctuation reached each."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled


@compiled
def release_positions(time, group, arrived, late, starts, punctuation):
    """The position at which each row comes out, or -1 while it stays held.

    time : int64[m] event times                  group : int64[m], the row's group of arrivals
    arrived : int64[m], the position of the row's own arrival, -1 for rows held from before
    late : bool[m], comes out on arrival         starts : int64[groups + 1], positions of a group
    punctuation : int64[n], after each position; not decreasing within a group
    Returns int64[m]: the first position of the group, not before the row's own, at which the
    punctuation is at or above the row's event time.
    Cost: O(log n) a row.  Error: none.  Source: C section 3.
    """
    out = np.empty(time.size, np.int64)
    for i in range(time.size):
        low = starts[group[i]] if arrived[i] < 0 else arrived[i]
        high = starts[group[i] + 1]
        if late[i]:
            out[i] = arrived[i]
            continue
        end = high
        while low < high:
            middle = (low + high) >> 1
            if punctuation[middle] >= time[i]:
                high = middle
            else:
                low = middle + 1
        out[i] = low if low < end else -1
    return out


@compiled
def in_order_of_release(position, sequence, positions):
    """The rows that come out, sorted by position; within a position they keep their sequence.

    position : int64[m] in [-1, positions), -1 stays     sequence : int64[m], a permutation of rows
    Returns int64[]: rows, without those that stay.
    Cost: O(m + positions), a counting sort.  Error: none.  Source: textbook.
    """
    starts = np.zeros(positions + 1, np.int64)
    for i in range(position.size):
        if position[i] >= 0:
            starts[position[i] + 1] += 1
    for i in range(positions):
        starts[i + 1] += starts[i]
    out = np.empty(starts[positions], np.int64)
    for i in range(sequence.size):
        row = sequence[i]
        if position[row] >= 0:
            out[starts[position[row]]] = row
            starts[position[row]] += 1
    return out
