"""When held rows come out: the arrival at which the punctuation reached each."""

import numpy as np

from sfumato.kernels.arrays import first_at_least
from sfumato.kernels.compile import compiled


@compiled
def release_positions(time, group, arrived, late, starts, punctuation):
    """The position at which each row comes out, int64[m], or -1 while it stays held.

    That is the first position of its group, not before its own, with a punctuation at or above its
    event time.
    time, group : int64[m], event times and groups of arrivals
    arrived : int64[m], the position of the row's own arrival, -1 for rows held from before
    late : bool[m], comes out on arrival         starts : int64[groups + 1], positions of a group
    punctuation : int64[n], after each position; not decreasing within a group
    O(log n) a row.  Source: C section 3.
    """
    out = np.empty(time.size, np.int64)
    for i in range(time.size):
        begin = starts[group[i]] if arrived[i] < 0 else arrived[i]
        end = starts[group[i] + 1]
        place = arrived[i] if late[i] else first_at_least(punctuation, begin, end, time[i])
        out[i] = place if place < end else -1
    return out


@compiled
def in_order_of_release(position, sequence, positions):
    """The rows that come out, sorted by position; within a position they keep their sequence.

    position : int64[m] in [-1, positions), -1 stays     sequence : int64[m], a permutation of rows
    O(m + positions), a counting sort.
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
