"""Release of rows from several sources.

A source's punctuation increases in steps and never decreases. All rows up to a time have arrived
once the punctuation of every source has reached that time.
"""

import numpy as np

from sfumato.kernels.arrays import first_at_least
from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import END_OF_TIME, NO_TIME


@compiled
def least_punctuations(source, punctuation, starts, offsets, current):
    """Return the lowest punctuation over all sources of a group, after each arrival: int64[n].

    source : int64[n], places in `current`; rows are ordered by group and arrival
    punctuation : int64[n], the source's punctuation after the row
    starts, offsets : int64[groups + 1], first row of each group; its sources' places in `current`
    current : int64[sources], updated in place
    O(1) per row; O(sources of the group) if the row's source had the lowest punctuation.
    """
    out = np.empty(source.size, np.int64)
    for group in range(starts.size - 1):
        own = current[offsets[group] : offsets[group + 1]]
        least = own.min() if own.size > 0 else END_OF_TIME
        for i in range(starts[group], starts[group + 1]):
            before = current[source[i]]
            current[source[i]] = punctuation[i]
            if before <= least:
                least = own.min()
            out[i] = least
    return out


@compiled
def least_steps(time, group, offsets, steps, places):
    """Return the punctuation at which each row is emitted if the slowest source is read first.

    A row is emitted when the last source has reached the row's time. The lowest step that reaches
    this time does not depend on how fast sources are read: the rate only changes how far other
    sources are ahead.
    time, group : int64[m]     offsets : int64[groups + 1], places of each group's sources
    steps : int64[], ascending punctuations of each source s: steps[places[s]:places[s + 1]]
    Returns int64[m], NO_TIME if no source has such a step.  O(sources * log steps) per row.
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
    """Return the position at which each row is released, int64[m], or -1 while it is buffered.

    The release position is the first position in the row's group, at or after the row's arrival,
    whose punctuation is at or above the row's event time.
    time, group : int64[m]    arrived : int64[m], position of arrival, or -1 if earlier
    late : bool[m], emitted on arrival    starts : int64[groups + 1], each group's positions
    punctuation : int64[n], after each position; not decreasing within a group
    O(log n) per row.  Source: Kim et al. (2006), section 3.
    """
    out = np.empty(time.size, np.int64)
    for i in range(time.size):
        begin = starts[group[i]] if arrived[i] < 0 else arrived[i]
        end = starts[group[i] + 1]
        place = arrived[i] if late[i] else first_at_least(punctuation, begin, end, time[i])
        out[i] = place if place < end else -1
    return out
