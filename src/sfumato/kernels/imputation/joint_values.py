"""Several missing attributes of an object together: the values that rows near it have at once."""

import numpy as np

from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.imputation.alternative_rows import room_for
from sfumato.kernels.imputation.dependency_choice import (
    PRESENT,
    narrow_box,
    nodes_of_box,
    rows_of_nodes,
)
from sfumato.kernels.imputation.merge_nearest import merge_nearest
from sfumato.kernels.imputation.nearest_donors import keep_nearest


@compiled_ieee
def _joint_rows(repository, chosen, scratch):
    """Rows that are donors of every missing attribute, in scratch.places; of the nearest enough or
    none."""
    asked, tree, widest = 0, -1, -1
    for t in range(chosen.size):
        if chosen[t] != PRESENT:
            before = asked
            if chosen[t] > 0:
                asked = narrow_box(repository, t, chosen[t], asked, scratch.search)
            if asked - before > widest:
                tree, widest = t, asked - before
    count = nodes_of_box(repository, tree, asked, scratch)
    places = scratch.places
    n = rows_of_nodes(repository, tree, count, scratch, places.size, places)
    most = repository.choice.most_donors
    if most > 0:
        if n < repository.choice.least_donors:
            return 0
        n = keep_nearest(repository, tree, asked, n, scratch)
    for i in range(n):
        places[i] = repository.rows[tree, places[i]]
    return n


@compiled_ieee
def _sort_rows(order, n, codes, which, g):
    """Sort rows by their ranks of attributes which[:g], the first first: Shell sort."""
    gap = 1
    while gap < n // 9:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            row, j = order[i], i
            while j >= gap:
                other, a = order[j - gap], 0
                while a < g - 1 and codes[which[a], other] == codes[which[a], row]:
                    a += 1
                if codes[which[a], other] <= codes[which[a], row]:
                    break
                order[j] = other
                j -= gap
            order[j] = row
        gap //= 3


@compiled_ieee
def _distinct_rows(repository, order, n, which):
    """Distinct values of attributes `which` in sorted rows: (law float64[g, n], weight, number)."""
    g, codes = which.size, repository.row_codes
    law, weight = np.empty((g, n)), np.empty(n)
    k = 0
    for i in range(n):
        fresh = i == 0
        for a in range(g):
            if i > 0:
                fresh |= codes[which[a], order[i]] != codes[which[a], order[i - 1]]
        if fresh:
            for a in range(g):
                t = which[a]
                law[a, k] = repository.values[repository.first_value[t] + codes[t, order[i]]]
            weight[k] = 0.0
            k += 1
        weight[k - 1] += 1.0
    return law, weight, k


@compiled_ieee
def write_joint(repository, most, scratch, raw, chosen, account, out, at):
    """Alternatives that rows near on all determinants have together; none: end == at."""
    n = _joint_rows(repository, chosen, scratch)
    which = np.flatnonzero(chosen != PRESENT)
    g = which.size
    _sort_rows(scratch.places, n, repository.row_codes, which, g)
    law, weight, k = _distinct_rows(repository, scratch.places, n, which)
    span, moved = np.empty(g), np.zeros(g)
    for a in range(g):
        span[a] = repository.span[repository.column_of[which[a]]]
        least, largest = np.inf, -np.inf
        for i in range(k):
            least, largest = min(least, law[a, i]), max(largest, law[a, i])
        if k > 0:
            account.donors[which[a]], account.spread[which[a]] = n, largest - least
    k = merge_nearest(law, weight, k, most, span, moved)
    out = room_for(out, at + k)
    for i in range(k):
        out.prob[at + i] = weight[i] / n
        for t in range(chosen.size):
            out.points[at + i, t] = raw[repository.column_of[t]]
        for a in range(g):
            out.points[at + i, which[a]] = law[a, i]
    for a in range(g):
        account.error[which[a]] = moved[a]
    return out, at + k
