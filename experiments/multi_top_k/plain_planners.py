"""Planners of Chen et al. (2013), in plain code: dynamic programming (DP) and greedy (GA)."""

# mypy: allow-untyped-defs, allow-untyped-decorators

import numpy as np

from sfumato.kernels.compile import compiled_ieee


@compiled_ieee
def dynamic_program(f, k):
    """Algorithm 1 (DP): compute the least cost per time unit, storing the times of the last runs.

    f, k : int64[g], ascending, bounds and costs of the groups after combination
    Returns float64.  Cost: O(g f[-1]**2).  Source: Chen et al. (2013), section 7, Algorithm 1.
    """
    g, size = f.size, f[-1]
    cost, last = np.zeros((g, size), np.int64), np.full((g, size), -1)
    for t in range(size):
        cost[0, t] = t // f[0] * k[0]
        last[0, t] = -1 if t < f[0] else t // f[0] * f[0]
    backwards = np.empty(size, np.int64)
    for i in range(1, g):
        row = cost[i]
        for t in range(min(f[i], size)):
            row[t] = cost[i - 1, t]
        # A reversed copy of the costs, so that both terms are read forwards (SIMD).
        for t in range(size):
            backwards[size - 1 - t] = row[t]
        for t in range(f[i], size):
            begin = t - f[i] + 1
            before, after = row[begin - 1 : t], backwards[size - f[i] : size]
            best = np.iinfo(np.int64).max
            for s in range(f[i]):
                best = min(best, before[s] + after[s])
            for s in range(f[i]):
                if before[s] + after[s] == best:
                    last[i, t] = begin + s
                    break
            row[t] = best + k[i]
            backwards[size - 1 - t] = row[t]
    least = np.inf
    for t in range(1, size + 1):
        least = min(least, (cost[g - 1, t - 1] + k[g - 1]) / t)
    return least


@compiled_ieee
def greedy_program(f, k):
    """Algorithm 2 (GA): compute the cost per unit of time of its plan, with the group of each run.

    f, k : as in `dynamic_program`.  Cost: O(f[-1]).
    Source: Chen et al. (2013), section 8, Algorithm 2; the first run costs k[0], not f[0] as
    printed there.
    """
    cost, group = np.zeros(f[-1] + 1, np.int64), np.zeros(f[-1] + 1, np.int64)
    run = f[0]
    cost[run], group[run] = k[0], 1
    for i in range(1, f.size):
        cycle = run
        run = f[i] // cycle * cycle
        for t in range(cycle + 1, run):
            cost[t], group[t] = cost[cycle] + cost[t - cycle], group[t - cycle]
        if run > cycle:
            cost[run] = cost[run - 1] + k[i]
        else:  # a run of the previous group becomes a run of this group
            cost[run] += k[i] - k[i - 1]
        group[run] = i + 1
    return cost[run] / run
