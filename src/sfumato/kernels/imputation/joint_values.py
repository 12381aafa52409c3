"""Several missing attributes of an object together: the values that rows near it have at once."""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.imputation.dependency_choice import add_rule, nodes_of_box, rows_of_nodes
from sfumato.kernels.imputation.merge_nearest import merge_nearest


@compiled_ieee
def room_for(prob, points, needed):
    if needed <= prob.size:
        return prob, points
    size = max(needed, 2 * prob.size)
    more, more_points = np.empty(size), np.empty((size, points.shape[1]))
    for i in range(prob.size):
        more[i] = prob[i]
        for a in range(points.shape[1]):
            more_points[i, a] = points[i, a]
    return more, more_points


@compiled_ieee
def _joint_rows(repository, rule, missing, scaled, scratch):
    """Rows that are donors of every missing attribute, as row numbers in scratch.places."""
    asked, tree, widest = 0, -1, -1
    for t in range(missing.size):
        if missing[t]:
            size = 0
            if rule[t] >= 0:
                asked = add_rule(repository, rule[t], asked, scratch.attributes, scratch.reach)
                size = repository.rule_begin[rule[t] + 1] - repository.rule_begin[rule[t]]
            if size > widest:
                tree, widest = t, size
    count = nodes_of_box(repository, tree, asked, scaled, scratch)
    places = scratch.places
    n = rows_of_nodes(repository, tree, count, scaled, scratch, places.size, places)
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
def write_joint(
    repository, rule, raw, scaled, missing, most, scratch, donors, spread, error, prob, points, at
):
    """Alternatives that rows near on all determinants have together; none: end == at."""
    trees = missing.size
    n = _joint_rows(repository, rule, missing, scaled, scratch)
    order = scratch.places
    which, g = np.empty(trees, np.int64), 0
    for t in range(trees):
        if missing[t]:
            which[g] = t
            g += 1
    _sort_rows(order, n, repository.row_codes, which, g)
    law, weight = np.empty((g, n)), np.empty(n)
    k = 0
    for i in range(n):
        fresh = i == 0
        for a in range(g):
            if i > 0:
                codes = repository.row_codes
                fresh |= codes[which[a], order[i]] != codes[which[a], order[i - 1]]
        if fresh:
            for a in range(g):
                t = which[a]
                law[a, k] = repository.values[
                    repository.first_value[t] + repository.row_codes[t, order[i]]
                ]
            weight[k] = 0.0
            k += 1
        weight[k - 1] += 1.0
    span, moved = np.empty(g), np.zeros(g)
    for a in range(g):
        span[a] = repository.span[repository.column_of[which[a]]]
        least, most_value = np.inf, -np.inf
        for i in range(k):
            least, most_value = min(least, law[a, i]), max(most_value, law[a, i])
        if k > 0:
            donors[which[a]], spread[which[a]] = n, most_value - least
    k = merge_nearest(law, weight, k, most, span, moved)
    prob, points = room_for(prob, points, at + k)
    for i in range(k):
        prob[at + i] = weight[i] / n
        for t in range(trees):
            points[at + i, t] = raw[repository.column_of[t]]
        for a in range(g):
            points[at + i, which[a]] = law[a, i]
    for a in range(g):
        error[which[a]] = moved[a]
    return prob, points, at + k
