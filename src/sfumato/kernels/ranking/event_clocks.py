"""How far event time has come, scope by scope, with each row that comes."""

import numpy as np

from sfumato.kernels.compile import compiled

NEVER = -(2**62)  # no instant is past
UNKNOWN = np.iinfo(np.int64).min  # no punctuation, or time


@compiled
def judge(scope, time, late, punctuation, clock, newest):
    """Rows that come too late, those marked so and those behind; moves the clocks.

    scope, time, punctuation : int64[n]    late : bool[n], those marked
    clock, newest : int64[scopes], written: no instant up to `clock` is open, and the greatest
        punctuation
    Returns bool[n], and the clock of its scope after each row, int64[n].
    """
    n = scope.size
    behind, steps = late.copy(), np.empty(n, dtype=np.int64)
    for i in range(n):
        s, settled = scope[i], np.int64(NEVER)
        if not late[i] and punctuation[i] > newest[s]:  # a late row's is its own source's
            settled = min(newest[s] + 1, time[i])  # a row of that very time may follow it
            newest[s] = punctuation[i]
        behind[i] |= time[i] < max(clock[s], settled)
        clock[s] = max(clock[s], settled)
        if not late[i]:
            clock[s] = max(clock[s], time[i])
        steps[i] = clock[s]
    return behind, steps


@compiled
def known_at(begin, steps, scope, time, otherwise):
    """When some times were known: the first step of its scope that reaches each, int64[n].

    begin : int64[scopes + 1], scope s has the steps begin[s] ... begin[s + 1], ascending
    otherwise : int64[n], where a scope has no steps; UNKNOWN where none reaches
    """
    found = otherwise.copy()
    for i in range(scope.size):
        some = steps[begin[scope[i]] : begin[scope[i] + 1]]
        if some.size:
            place = np.searchsorted(some, time[i])
            found[i] = some[place] if place < some.size else UNKNOWN
    return found
