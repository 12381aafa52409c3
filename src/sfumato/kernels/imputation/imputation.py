"""Missing values as distributions: the donors' values with their shares, joint or independent.

Rules are chosen on scaled attributes (`rule_choice`); the values that come out are not scaled.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.arrays import sort_slots
from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.imputation.dependency_choice import (
    IMPUTED,
    MARGINAL,
    PRESENT,
    add_rule,
    new_scratch,
    nodes_of_box,
    rows_of_nodes,
    scale,
)
from sfumato.kernels.imputation.joint_values import room_for, write_joint
from sfumato.kernels.imputation.merge_nearest import merge_nearest

MOST_PRODUCTS = 65_536  # alternatives of an object with several independent missing attributes


@lean
def _distinct(codes, places, n, values, tally, ranks, law, weight):
    """Distinct values of n places, ascending, and how often each stands; their number."""
    least, most = tally.size, -1
    for i in range(n):
        ranks[i] = codes[places[i]]
        least, most = min(least, ranks[i]), max(most, ranks[i])
    k = 0
    if most - least <= 8 * n:
        for i in range(n):
            tally[ranks[i]] += 1
        for rank in range(least, most + 1):
            if tally[rank] > 0:
                law[k], weight[k] = values[rank], tally[rank]
                tally[rank] = 0
                k += 1
        return k
    sort_slots(ranks, n)
    for i in range(n):
        if i == 0 or ranks[i] != ranks[i - 1]:
            law[k], weight[k] = values[ranks[i]], 0.0
            k += 1
        weight[k - 1] += 1.0
    return k


@lean
def attribute_law(repository, t, rule, scaled, scratch):
    """Values of attribute t under a rule (or MARGINAL) and how many donors have each.

    Written to row t of scratch.law and scratch.weight, ascending, and to sizes[t] and totals[t].
    Cost: a box query, and O(donors), or O(donors log donors) where they are few and far apart.
    """
    first, last = repository.first_value[t], repository.first_value[t + 1]
    law, weight = scratch.law[t], scratch.weight[t]
    if rule == MARGINAL:
        n = 0
        for i in range(last - first):
            law[i], weight[i] = repository.values[first + i], repository.counts[first + i]
            n += repository.counts[first + i]
        scratch.sizes[t] = last - first
    else:
        asked = add_rule(repository, rule, 0, scratch.attributes, scratch.reach)
        count = nodes_of_box(repository, t, asked, scaled, scratch)
        places = scratch.places
        n = rows_of_nodes(repository, t, count, scaled, scratch, places.size, places)
        scratch.sizes[t] = _distinct(
            repository.codes[t], places, n, repository.values[first:last],
            scratch.tally, scratch.ranks, law, weight,
        )  # fmt: skip
    scratch.totals[t] = n
    return n


@lean
def share_limits(sizes, chosen, most, limits):
    """How many values each of several attributes may keep, so that their product is <= most.

    sizes : int64[T]    chosen : bool[T], which attributes    limits : int64[T], written
    Small ones keep all; the others get equal shares of what that leaves.
    """
    left, open_attributes = most, 0
    for t in range(sizes.size):
        limits[t] = 0
        open_attributes += chosen[t]
    while open_attributes > 0:
        smallest = -1
        for t in range(sizes.size):
            if chosen[t] and limits[t] == 0 and (smallest < 0 or sizes[t] < sizes[smallest]):
                smallest = t
        root = 1
        while True:
            power = 1.0
            for _ in range(open_attributes):
                power *= root + 1
            if power > left or root >= sizes[smallest]:
                break
            root += 1
        limits[smallest] = min(root, sizes[smallest])
        left //= limits[smallest]
        open_attributes -= 1


@compiled_ieee
def _write_product(repository, raw, missing, scratch, prob, points, at):
    """Alternatives of independent attributes: every combination, the last attribute fastest."""
    trees, end = missing.size, at + 1
    for t in range(trees):
        if missing[t]:
            end = at + (end - at) * scratch.sizes[t]
    prob, points = room_for(prob, points, end)
    for i in range(at, end):
        rest, p = i - at, 1.0
        for t in range(trees - 1, -1, -1):
            if missing[t]:
                j = rest % scratch.sizes[t]
                rest //= scratch.sizes[t]
                points[i, t] = scratch.law[t, j]
                p *= scratch.weight[t, j] / scratch.totals[t]
            else:
                points[i, t] = raw[repository.column_of[t]]
        prob[i] = p
    return prob, points, end


@compiled_ieee
def impute_object(
    repository, scratch, raw, scaled, rule, joint, most, donors, spread, error, prob, points, at
):
    """Write the alternatives of one object behind place `at`; the arrays, larger if need be.

    raw, scaled : float64[D]    rule : int64[T], PRESENT, MARGINAL or a rule with donors, for each
        attribute    joint : bool    most : int64 >= 1, alternatives an object may have
    donors, spread : int64[T], float64[T], written: rows that lent values, and how far those lie
        apart    error : float64[T], written: the farthest a value was moved to have few enough
    Returns (prob, points, the place after the last, whether values were taken jointly).

    Cost: a box query for each missing attribute, then its donors, then the alternatives.
    Source: E, section 2.2; spec: several attributes independent (product) or joint.
    """
    missing = rule != PRESENT
    g = 0
    for t in range(rule.size):
        donors[t], spread[t], error[t] = 0, 0.0, 0.0
        g += missing[t]
    if joint and g > 1:
        begin = at
        prob, points, at = write_joint(
            repository, rule, raw, scaled, missing, most, scratch,
            donors, spread, error, prob, points, at,
        )  # fmt: skip
        if at > begin:
            return prob, points, at, True
    product = 1.0
    for t in range(rule.size):
        if missing[t]:
            donors[t] = attribute_law(repository, t, rule[t], scaled, scratch)
            k = scratch.sizes[t]
            spread[t] = scratch.law[t, k - 1] - scratch.law[t, 0]
            product *= k
    if g > 1:
        most = min(most, MOST_PRODUCTS)
    if product > most:
        share_limits(scratch.sizes, missing, most, scratch.limits)
        for t in range(rule.size):
            if missing[t]:
                scratch.sizes[t] = merge_nearest(
                    scratch.law[t : t + 1], scratch.weight[t], scratch.sizes[t], scratch.limits[t],
                    repository.span[repository.column_of[t] : repository.column_of[t] + 1],
                    error[t : t + 1],
                )  # fmt: skip
    prob, points, at = _write_product(repository, raw, missing, scratch, prob, points, at)
    return prob, points, at, False


@compiled_ieee
def impute_batch(repository, objects, rule, reason, joint, most):
    """Alternatives of many objects.

    objects : float64[n, D], NaN = missing    rule, reason : of `judge_batch`
    Returns (offsets int64[n + 1], prob float64[m], points float64[m, T], donors int64[n, T],
    spread, error float64[n, T], joined bool[n]).
    """
    n, trees = rule.shape
    scratch = new_scratch(repository)
    offsets, joined = np.zeros(n + 1, np.int64), np.zeros(n, np.bool_)
    donors, spread = np.zeros((n, trees), np.int64), np.zeros((n, trees))
    error = np.zeros((n, trees))
    prob, points, at = np.empty(2 * n + 16), np.empty((2 * n + 16, trees)), 0
    scaled = np.empty(repository.shift.size)
    for i in range(n):
        if reason[i] <= IMPUTED:
            scale(repository, objects[i], scaled)
            prob, points, at, joined[i] = impute_object(
                repository, scratch, objects[i], scaled, rule[i], joint, most,
                donors[i], spread[i], error[i], prob, points, at,
            )  # fmt: skip
        offsets[i + 1] = at
    return offsets, prob[:at], points[:at], donors, spread, error, joined
