"""A stream of several sources: the least of their punctuations, and which step first reached a row.

The punctuation of a source only grows, in steps. All rows up to a time are there once every source
has stepped to it or beyond.
"""

import numpy as np

from sfumato.kernels.arrays import first_at_least
from sfumato.kernels.compile import compiled
from sfumato.kernels.disorder.state import ALWAYS, NEVER


@compiled
def least_of(members, current):
    """The least current punctuation of some sources. O(members)."""
    least = ALWAYS
    for source in members:
        least = min(least, current[source])
    return least


@compiled
def least_punctuations(source, punctuation, starts, members, offsets, current):
    """The least punctuation over all sources of a group, after each arrival: int64[n].

    source : int64[n] codes, the rows of a group one after the other, in order of arrival
    punctuation : int64[n], that of the row's source after it     starts : int64[groups + 1]
    members : int64[], the codes of each group's sources     offsets : int64[groups + 1], into it
    current : int64[sources], their punctuations before, ALWAYS where one does not count; updated
    O(1) a row, O(members) where the least source goes on.  Source: spec 3.6.
    """
    out = np.empty(source.size, np.int64)
    for group in range(starts.size - 1):
        own = members[offsets[group] : offsets[group + 1]]
        least = least_of(own, current)
        for i in range(starts[group], starts[group + 1]):
            before = current[source[i]]
            current[source[i]] = punctuation[i]
            if before <= least:
                least = least_of(own, current)
            out[i] = least
    return out


@compiled
def least_steps(time, group, members, offsets, steps, places):
    """With which punctuation a row comes out, if the source that is behind is always read first.

    A row comes out when the last source has reached it. If sources are read at other paces, those
    ahead are farther ahead by then; the smallest of the steps by which they reached the row is the
    same at any pace.
    time, group : int64[m]     members, offsets : as in `least_punctuations`, of sources that count
    steps : int64[], each source's punctuations, ascending, source s has steps[places[s]:places[s +
    1]]
    Returns int64[m], NEVER where no source has a step.  O(members log steps) a row.
    """
    out = np.empty(time.size, np.int64)
    for i in range(time.size):
        least = ALWAYS
        for source in members[offsets[group[i]] : offsets[group[i] + 1]]:
            end = places[source + 1]
            step = first_at_least(steps, places[source], end, time[i])
            if step < end:
                least = min(least, steps[step])
        out[i] = NEVER if least == ALWAYS else least
    return out
