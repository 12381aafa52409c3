"""When rows of several sources are released, and in which order.

The punctuation of a source only grows, in steps. All rows up to a time are there once every source
has stepped to it or beyond.
"""

import numpy as np

from sfumato.kernels.arrays import first_at_least
from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import END_OF_TIME, NO_TIME


@compiled
def least_punctuations(source, punctuation, starts, offsets, current):
    """The least punctuation over all sources of a group, after each arrival: int64[n].

    source : int64[n], places in `current`; the rows of a group one after the other, by arrival
    punctuation : int64[n], that of the row's source after it     starts : int64[groups + 1]
    offsets : int64[groups + 1], where the sources of each group are in `current`
    current : int64[sources], their punctuations before; updated
    O(1) a row, O(sources of the group) where the least one goes on.  Source: spec 3.6.
    """
    out = np.empty(source.size, np.int64)
    for group in range(starts.size - 1):
        own = current[offsets[group] : offsets[group + 1]]
        least = least_of(own)
        for i in range(starts[group], starts[group + 1]):
            before = current[source[i]]
            current[source[i]] = punctuation[i]
            if before <= least:
                least = least_of(own)
            out[i] = least
    return out


@compiled
def least_of(punctuations):
    """The least of some punctuations. O(n)."""
    least = END_OF_TIME
    for one in punctuations:
        least = min(least, one)
    return least


@compiled
def least_steps(time, group, offsets, steps, places):
    """With which punctuation a row comes out, if the source that is behind is always read first.

    A row comes out when the last source has reached it. If sources are read at other paces, those
    ahead are farther ahead by then; the smallest of the steps by which they reached the row is the
    same at any pace.
    time, group : int64[m]     offsets : int64[groups + 1], where each group's sources are, those
    that count     steps : int64[], each source's punctuations, ascending, source s has
    steps[places[s]:places[s + 1]]
    Returns int64[m], NO_TIME where no source has a step.  O(sources of the group, log steps) a row.
    """
    out = np.empty(time.size, np.int64)
    for i in range(time.size):
        least = END_OF_TIME
        for source in range(offsets[group[i]], offsets[group[i] + 1]):
            end = places[source + 1]
            step = first_at_least(steps, places[source], end, time[i])
            if step < end:
                least = min(least, steps[step])
        out[i] = NO_TIME if least == END_OF_TIME else least
    return out


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
