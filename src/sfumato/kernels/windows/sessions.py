"""Sessions: assign rows to sequences of rows without a gap, and find when sessions complete.

A row at time t joins a session [start, end) if it is less than `gap` before the start or after the
last row, and the session's rows then span less than `most`. The end is last + gap, at most start +
most. A row that is near several sessions merges them. A session is complete when all rows before
its end have arrived: the scope is `closed`, as for extents of length 1, up to its end.

A late row is included if its punctuation has not completed a session of this row alone. The row can
only join sessions that its punctuation has not completed. So its assignment does not depend on the
order of late rows with the same punctuation.
"""

import numpy as np

from sfumato.kernels.arrays import first_at_least, integers
from sfumato.kernels.compile import compiled, lean
from sfumato.kernels.windows.extents import (
    ABSENT,
    NO_EXTENT,
    NO_INDEX,
    TAKEN,
    TOO_LATE,
    advance_scope,
)

# Group and scope; times of the first and last row; number of rows that were too late for it; the
# session it was merged into, the group's next session; twice the call's last row that changed it.
SESSION = integers("group scope start last late into following changed")


@lean
def _session_end(session, gap, most):
    return min(session.last + gap, session.start + most)


@lean
def _drop_complete(heads, g, sessions, closed, gap, most):
    """Remove a group's complete and merged sessions from its list."""
    above, s = NO_INDEX, heads[g]
    while s != NO_INDEX:
        following = sessions[s].following
        if sessions[s].into == NO_INDEX and _session_end(sessions[s], gap, most) > closed:
            above = s
        elif above == NO_INDEX:
            heads[g] = following
        else:
            sessions[above].following = following
        s = following


@lean
def _nearest_session(heads, g, sessions, time, bound, target, gap, most):
    """Return the latest open session near a row. target : the row's session, or NO_INDEX."""
    best, s = NO_INDEX, heads[g]
    while s != NO_INDEX:
        one = sessions[s]
        near = one.start - gap < time and time < one.last + gap
        is_open = one.into == NO_INDEX and _session_end(one, gap, most) - 1 > bound
        if near and s != target and is_open:
            start, last = min(one.start, time), max(one.last, time)
            if target != NO_INDEX:
                start, last = min(start, sessions[target].start), max(last, sessions[target].last)
            if last - start < most and (best == NO_INDEX or one.start > sessions[best].start):
                best = s
        s = one.following
    return best


@compiled
def assign_sessions(rows, gap, most, scopes, heads, sessions, count, places, verdicts, completions):
    """Assign rows, in order, to sessions.  O(n) while few sessions of a group are open.

    scopes : SCOPE[], updated; all rows before `closed` have arrived
    sessions : SESSION[count + n], updated; `count` are in use
    heads : int64[groups], all NO_INDEX    completions : COMPLETION[2 n], written
    places : int64[n], written: session of each row, or NO_INDEX
    verdicts : int8[n], written: TAKEN, TOO_LATE or ABSENT
    Returns the numbers of sessions, of completions, and of rows that a punctuation excluded.
    """
    ordered, found, excluded = rows.punctuation.size == 0, 0, 0
    for s in range(count):
        g = sessions[s].group
        sessions[s].following, heads[g] = heads[g], s
    for i in range(rows.time.size):
        g, c, time = rows.group[i], rows.scope[i], rows.time[i]
        scope, places[i] = scopes[c], NO_INDEX
        p = time - 1 if ordered else max(rows.punctuation[i], NO_EXTENT)
        bound = p
        if ordered or not rows.late[i]:
            found, early = advance_scope(scopes, c, time, p, 1, i, completions, found)
            excluded += early and not ordered
            bound = scope.closed - 1
        bound = max(bound, scope.closed - 1)
        _drop_complete(heads, g, sessions, scope.closed, gap, most)
        if rows.offsets[i] == rows.offsets[i + 1]:
            verdicts[i] = ABSENT
            continue
        verdicts[i] = TAKEN
        if time + min(gap, most) - 1 <= bound:
            verdicts[i] = TOO_LATE
            s = heads[g]
            while s != NO_INDEX:
                inside = sessions[s].start <= time and time < _session_end(sessions[s], gap, most)
                sessions[s].late += inside
                s = sessions[s].following
            continue
        target = _nearest_session(heads, g, sessions, time, bound, NO_INDEX, gap, most)
        if target == NO_INDEX:
            target = count
            one = sessions[target]
            one.group, one.scope, one.start, one.last, one.late = g, c, time, time, 0
            one.into, one.following = NO_INDEX, heads[g]
            heads[g], count = target, count + 1
        own = sessions[target]
        own.start, own.last, own.changed = min(own.start, time), max(own.last, time), 2 * i
        s = _nearest_session(heads, g, sessions, time, bound, target, gap, most)
        while s != NO_INDEX:
            one = sessions[s]
            own.start, own.last = min(own.start, one.start), max(own.last, one.last)
            own.late, one.into = own.late + one.late, target
            s = _nearest_session(heads, g, sessions, time, bound, target, gap, most)
        places[i] = target
    return count, found, excluded


@compiled
def find_complete(sessions, scopes, completions, gap, most):
    """Find the complete sessions after `assign_sessions`.

    completions : by scope, then in order
    Returns (int64[n], the session that each was merged into, or itself; int64[m], complete
    sessions; int64[m] each, the rows and the punctuations that completed the sessions).
    """
    n, found = sessions.size, 0
    root, done = np.empty(n, np.int64), np.empty(n, np.int64)
    turn, at = np.empty(n, np.int64), np.empty(n, np.int64)
    of, closed = completions.scope, completions.up_to
    for s in range(n):
        root[s] = s
        while sessions[root[s]].into != NO_INDEX:
            root[s] = sessions[root[s]].into
        one = sessions[s]
        scope, end = scopes[one.scope], _session_end(one, gap, most)
        if one.into != NO_INDEX or end > scope.closed:
            continue
        done[found], turn[found], at[found] = s, one.changed, scope.punctuation
        low = first_at_least(of, 0, of.size, one.scope)
        i = first_at_least(closed, low, first_at_least(of, low, of.size, one.scope + 1), end)
        if i < of.size and of[i] == one.scope:
            turn[found], at[found] = max(completions[i].turn, one.changed), completions[i].at
        found += 1
    return root, done[:found], turn[:found], at[:found]
