"""Time extents: which of them a row is in, and when they are complete.

With slide s and length n, extent j (counted by its end) holds the rows of [j s - n, j s), so a row
at time t is in extents t // s + 1 ... (t + n) // s. It is complete when the punctuation, up to
which all rows in order have come, is at least j s - 1.

A row may come late, its own punctuation (that of its source) at or above its time. It is still
part of the extents that contain it and end after its own punctuation: no pace of other sources
can have completed them. The others have missed it.

Source: the extents, C, equation (6.1).
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled

NEVER = -(2**61)  # a punctuation, or the number of an extent, before any; twice it fits in int64

# Verdicts on rows: in all extents that contain it; in those from `first` on; in none, because it
# came too late; because none contains it; because it has no alternatives.
TAKEN, JOINED, LATE, OUTSIDE, ABSENT = range(5)

# A scope's state: its punctuation and the one before that, the last extent completed, and the time
# of its newest row taken.
SCOPE = integers("punctuation before closed newest")

# Extents (after, up_to] of a scope are complete: at which row, and by which punctuation.
CLOSING = integers("row scope after up_to at")

# Of a row: the verdict, the first and last extent that take it, those that have missed it (none
# where the first is above the last), and the last extent that was complete when it came;
# 1 if it is in order and a punctuation had excluded it.
JUDGED = integers("verdict first last missed_from missed_to closed out_of_order")


class ReleasedRows(NamedTuple):
    """Rows in the order in which they were let out.

    scope, time : int64[n]    exists : bool[n], has alternatives
    punctuation : int64[n], late : bool[n]; or empty: each row brings one of its time - 1
    """

    scope: np.ndarray
    time: np.ndarray
    exists: np.ndarray
    punctuation: np.ndarray
    late: np.ndarray


@compiled
def last_complete(punctuation, slide):
    """Number of the last extent that a punctuation completes: j s - 1 <= punctuation."""
    return NEVER if punctuation <= NEVER else (punctuation + 1) // slide


@compiled
def _close(scopes, c, up_to, row, at, closings, found):
    """Note that the extents of a scope up to number `up_to` are complete by the punctuation `at`.

    Returns the number of notes.
    """
    scope = scopes[c]
    if up_to <= scope.closed:
        return found
    note = closings[found]
    note.row, note.scope, note.after, note.up_to, note.at = row, c, scope.closed, up_to, at
    scope.closed = up_to
    return found + 1


@compiled
def sweep(rows, length, slide, scopes, judged, closings):
    """Judge rows in order and note which extents they complete; how many notes.

    rows : ReleasedRows    scopes : SCOPE[], updated
    judged : JUDGED[n], written    closings : CLOSING[2 n], written.  O(n).
    """
    found, ordered = 0, rows.punctuation.size == 0
    for i in range(rows.time.size):
        c, time = rows.scope[i], rows.time[i]
        scope, j, last = scopes[c], time // slide, (time + length) // slide
        p = time - 1 if ordered else max(rows.punctuation[i], NEVER)
        excluded = False
        if not ordered and rows.late[i]:
            # Its punctuation is its own source's, and says nothing about the progress of all.
            first = max(last_complete(p, slide), scope.closed) + 1
        else:
            if p > scope.punctuation:
                # All rows that the punctuation before let out have come, but for those of its very
                # time, which a higher one releases before all others.
                done = last_complete(min(scope.punctuation, time - 1), slide)
                found = _close(scopes, c, done, i, scope.punctuation, closings, found)
                scope.before, scope.punctuation = scope.punctuation, p
            excluded = not ordered and (p < scope.punctuation or time < scope.before)
            # Rows let out together come in order of time: none before this one follows.
            done = min(j, last_complete(scope.punctuation, slide))
            found = _close(scopes, c, done, i, scope.punctuation, closings, found)
            first = scope.closed + 1
        of = judged[i]
        of.first, of.last, of.closed, of.out_of_order = first, last, scope.closed, excluded
        of.missed_from, of.missed_to = max(j, scope.closed) + 1, min(first - 1, last)
        if last <= j:
            of.verdict = OUTSIDE
        elif first > last:
            of.verdict = LATE
        elif not rows.exists[i]:
            of.verdict = ABSENT
        else:
            of.verdict = TAKEN if first <= j + 1 else JOINED
            scope.newest = max(scope.newest, time)
    return found


@compiled
def close_all(wanted, length, slide, scopes, closings):
    """Note all extents of some scopes that hold a row; how many notes.

    wanted : int64[], scopes. These extents miss later rows; the punctuation of the scope, by which
    later rows are judged, stays as it is.
    """
    found = 0
    for c in wanted:
        scope = scopes[c]
        at = scope.punctuation
        found = _close(scopes, c, last_complete(at, slide), 0, at, closings, found)
        if scope.newest == NEVER:
            continue
        up_to = (scope.newest + length) // slide
        found = _close(scopes, c, up_to, 0, max(at, up_to * slide - 1), closings, found)
    return found


@compiled
def number_tuples(group, judged, arrived, reach, index):
    """Index of each tuple in its group, from 0 again when all extents of those before are complete.

    So a group that holds nothing is as one that never had a tuple.
    group : int64[n]    judged : JUDGED[n], of rows taken    index : int64[n], written
    arrived : int64[groups], next index, and reach : int64[groups], last extent that holds a tuple
    of the group; updated
    """
    for i in range(group.size):
        g, of = group[i], judged[i]
        if of.closed >= reach[g]:
            arrived[g] = 0
        index[i] = arrived[g]
        arrived[g] += 1
        reach[g] = max(reach[g], of.last)
