"""Optimal and greedy timetables of query groups that are answered together.

Groups 0 ... g - 1 have bounds f and costs k, both strictly ascending. A run of group e answers
groups 0 ... e and costs k[e]. Consecutive answers of group i are at most f[i] units apart. The last
group runs once per cycle, at its end, where the schedule restarts.
"""

import numpy as np

from sfumato.kernels.arrays import stable_order
from sfumato.kernels.compile import compiled, inlined

DENSE = 8  # with more than one step per DENSE cells, whole rows are faster than steps alone


@inlined
def extend_costs(lower, bound, cost, row):
    """Compute DP(i, t), the minimum cost of groups 0 ... i in [0, t] without runs at 0 and after t.

    lower : int64[bound], DP(i - 1, t);  bound, cost : f[i], k[i];  row : int64[>= bound], written
    O((row.size - bound) * steps), steps <= bound. DP(i, t) never decreases, so where `lower` is
    constant, the longest time after the last run of group i is optimal.
    Source: Chen et al. (2013), (7), which is needed only for t < f[i + 1].
    """
    row[:bound] = lower
    if row.size == bound:
        return
    steps, count = np.empty(bound, dtype=np.int64), 0
    for s in range(bound - 1, -1, -1):
        if s == bound - 1 or lower[s + 1] > lower[s]:
            steps[count] = s
            count += 1
    if count * DENSE < bound:
        for t in range(bound, row.size):
            least = lower[steps[0]] + row[t - 1 - steps[0]]
            for j in range(1, count):
                least = min(least, lower[steps[j]] + row[t - 1 - steps[j]])
            row[t] = cost + least
        return
    backwards = np.empty(row.size, dtype=np.int64)  # so that SIMD reads both arrays forwards
    for t in range(bound):
        backwards[row.size - 1 - t] = row[t]
    for t in range(bound, row.size):
        rest = backwards[row.size - t : row.size - t + bound]
        least = lower[0] + rest[0]
        for s in range(1, bound):
            least = min(least, lower[s] + rest[s])
        row[t] = cost + least
        backwards[row.size - 1 - t] = row[t]


@inlined
def last_run(lower, row, t, bound, cost):
    """Return the earliest possible time of group i's last run in [0, t], with DP(i, t) = row[t]."""
    for s in range(bound - 1, -1, -1):
        if row[t - 1 - s] + cost + lower[s] == row[t]:
            return t - s
    return -1


@compiled
def optimal_timetable(f, k):
    """Return the timetable with the lowest cost per unit of time.

    f, k : int64[g], g >= 1, strictly ascending, at least 1; sums below 2**63
    Returns times int64[r], ascending, and groups int64[r] of the runs in (0, cycle]; the last one
    is a run of group g - 1 at the cycle's end. Among equally good cycles, the shortest is returned.
    Cost: O(f[g - 1]**2 / 2) at worst, usually far less (see `extend_costs`); memory O(sum of f).
    Source: Chen et al. (2013), section 7 and Algorithm 1, whose rows run to f[g - 1]; row i is
    needed only up to f[i + 1].
    """
    g = f.size
    begin = np.zeros(g + 1, dtype=np.int64)
    for i in range(g - 1):
        begin[i + 1] = begin[i] + f[i + 1]
    costs = np.empty(max(begin[g - 1], 1), dtype=np.int64)
    for i in range(g - 1):
        row = costs[begin[i] : begin[i + 1]]
        if i == 0:
            for t in range(row.size):
                row[t] = t // f[0] * k[0]
        else:
            extend_costs(costs[begin[i - 1] : begin[i - 1] + f[i]], f[i], k[i], row)
    cycle, total = f[0], k[0]
    if g > 1:
        row = costs[begin[g - 2] : begin[g - 1]]
        cycle, total = 1, k[g - 1]
        for end in range(2, f[g - 1] + 1):
            if (row[end - 1] + k[g - 1]) * cycle < total * end:
                cycle, total = end, row[end - 1] + k[g - 1]
    times, groups = np.empty(cycle, dtype=np.int64), np.empty(cycle, dtype=np.int64)
    times[0], groups[0] = cycle, g - 1
    runs = 1
    # Parts (i, t, offset) still to be rebuilt: groups 0 ... i within [0, t] after an offset.
    parts = np.empty((cycle + g + 1, 3), dtype=np.int64)
    parts[0, 0], parts[0, 1], parts[0, 2] = g - 2, cycle - 1, 0
    waiting = 1
    while waiting > 0:
        waiting -= 1
        i, t, offset = parts[waiting, 0], parts[waiting, 1], parts[waiting, 2]
        while i >= 0 and t < f[i]:
            i -= 1
        if i == 0:
            for j in range(1, t // f[0] + 1):
                times[runs], groups[runs] = offset + j * f[0], 0
                runs += 1
        elif i > 0:
            lower = costs[begin[i - 1] : begin[i]]
            at = last_run(lower, costs[begin[i] : begin[i + 1]], t, f[i], k[i])
            times[runs], groups[runs] = offset + at, i
            runs += 1
            parts[waiting, 0], parts[waiting, 1], parts[waiting, 2] = i, at - 1, offset
            waiting += 1
            parts[waiting, 0], parts[waiting, 1], parts[waiting, 2] = i - 1, t - at, offset + at
            waiting += 1
    order = stable_order(times[:runs])
    return times[:runs][order], groups[:runs][order]


@compiled
def greedy_timetable(f):
    """Return the timetable that runs each group at the previous group's last run within its bound.

    f : int64[g], g >= 1, strictly ascending, at least 1 (costs, also ascending, do not matter)
    Returns times and groups as in `optimal_timetable`. The cost is at most twice the optimum.
    Cost: O(f[g - 1]).  Source: Chen et al. (2013), section 8 and Algorithm 2.
    """
    cycle = f[0]
    for i in range(1, f.size):
        cycle = f[i] // cycle * cycle
    run = np.full(cycle + 1, -1)
    first = f[0]
    run[first] = 0
    for i in range(1, f.size):
        before, first = first, f[i] // first * first
        for t in range(before + 1, first):
            run[t] = run[t - before]
        run[first] = i
    times = np.flatnonzero(run >= 0)
    return times, run[times]
