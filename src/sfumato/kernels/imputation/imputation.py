"""Missing values as distributions: the donors' values with their shares, joint or independent.

Combinations are chosen on scaled attributes (`dependency_choice`); the values that come out are not
scaled.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import sort_slots
from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.imputation.alternative_rows import AlternativeRows, room_for
from sfumato.kernels.imputation.dependency_choice import (
    IMPUTED,
    MARGINAL,
    PRESENT,
    narrow_box,
    new_scratch,
    nodes_of_box,
    rows_of_nodes,
    scale,
)
from sfumato.kernels.imputation.joint_values import write_joint
from sfumato.kernels.imputation.merge_nearest import merge_nearest

MOST_PRODUCTS = 65_536  # alternatives of an object with several independent missing attributes


@lean
def _distinct(codes, values, n, scratch, law, weight):
    """Distinct values at places[:n] of `scratch`, ascending, and how often each stands; how many.

    codes : int64[P], by place    values : float64[], by code    law, weight : written
    """
    places, tally, ranks = scratch.places, scratch.tally, scratch.ranks
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
def attribute_law(repository, t, chosen, scratch):
    """Values of attribute t by a combination (or MARGINAL) and how many donors have each.

    Written to row t of scratch.law and scratch.weight, ascending, and to sizes[t] and totals[t].
    Cost: a box query, and O(donors), or O(donors log donors) where they are few and far apart.
    """
    first, last = repository.first_value[t], repository.first_value[t + 1]
    law, weight = scratch.law[t], scratch.weight[t]
    if chosen == MARGINAL:
        n = 0
        for i in range(last - first):
            law[i], weight[i] = repository.values[first + i], repository.counts[first + i]
            n += repository.counts[first + i]
        scratch.sizes[t] = last - first
    else:
        asked = narrow_box(repository, chosen, 0, scratch.search)
        count = nodes_of_box(repository, t, asked, scratch)
        n = rows_of_nodes(repository, t, count, scratch, scratch.places.size, scratch.places)
        values = repository.values[first:last]
        scratch.sizes[t] = _distinct(repository.codes[t], values, n, scratch, law, weight)
    scratch.totals[t] = n
    return n


@lean
def share_limits(sizes, missing, most, limits):
    """How many values each of several attributes may keep, so that their product is <= most.

    sizes : int64[T]    missing : bool[T], which attributes    limits : int64[T], written
    Small ones keep all; the others get equal shares of what that leaves.
    """
    left, open_attributes = most, 0
    for t in range(sizes.size):
        limits[t] = 0
        open_attributes += missing[t]
    while open_attributes > 0:
        smallest = -1
        for t in range(sizes.size):
            if missing[t] and limits[t] == 0 and (smallest < 0 or sizes[t] < sizes[smallest]):
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
def _write_product(repository, raw, missing, scratch, out, at):
    """Alternatives of independent attributes: every combination, the last attribute fastest."""
    trees, end = missing.size, at + 1
    for t in range(trees):
        if missing[t]:
            end = at + (end - at) * scratch.sizes[t]
    out = room_for(out, end)
    prob, points = out.prob, out.points
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
    return out, end


class Completion(NamedTuple):
    """joint : bool, take several missing attributes from the same rows, where there are any
    most : int >= 1, alternatives an object may have
    """

    joint: bool
    most: int


class Account(NamedTuple):
    """What is told of imputations, for each attribute.

    donors : int64[..., T], rows that lent values    spread : float64[..., T], how far those lie
    apart    error : float64[..., T], the farthest a value was moved to have few enough
    """

    donors: np.ndarray
    spread: np.ndarray
    error: np.ndarray


@compiled_ieee
def impute_object(repository, completion, scratch, raw, chosen, account, out, at):
    """Write the alternatives of one object, of `scratch.scaled`, behind place `at` of `out`.

    raw : float64[D]    chosen : int64[T], PRESENT, MARGINAL or a combination with donors, for each
        attribute    account : `Account` of the object, written    out : `AlternativeRows`
    Returns (out, larger if need be; the place after the last; whether values were taken jointly).

    Cost: a box query for each missing attribute, then its donors, then the alternatives.
    Source: E, section 2.2; spec: several attributes independent (product) or joint.
    """
    missing = chosen != PRESENT
    g, most = 0, completion.most
    for t in range(chosen.size):
        account.donors[t], account.spread[t], account.error[t] = 0, 0.0, 0.0
        g += missing[t]
    if completion.joint and g > 1:
        begin = at
        out, at = write_joint(repository, most, scratch, raw, chosen, account, out, at)
        if at > begin:
            return out, at, True
    product = 1.0
    for t in range(chosen.size):
        if missing[t]:
            account.donors[t] = attribute_law(repository, t, chosen[t], scratch)
            k = scratch.sizes[t]
            account.spread[t] = scratch.law[t, k - 1] - scratch.law[t, 0]
            product *= k
    if g > 1:
        most = min(most, MOST_PRODUCTS)
    if product > most:
        share_limits(scratch.sizes, missing, most, scratch.limits)
        for t in range(chosen.size):
            if missing[t]:
                span = repository.span[repository.column_of[t] : repository.column_of[t] + 1]
                scratch.sizes[t] = merge_nearest(
                    scratch.law[t : t + 1], scratch.weight[t], scratch.sizes[t], scratch.limits[t],
                    span, account.error[t : t + 1],
                )  # fmt: skip
    out, at = _write_product(repository, raw, missing, scratch, out, at)
    return out, at, False


@compiled_ieee
def impute_batch(repository, completion, objects, chosen, reason):
    """Alternatives of many objects.

    completion : `Completion`    objects : float64[n, D], NaN = missing
    chosen, reason : of `judge_batch`
    Returns (offsets int64[n + 1], `AlternativeRows` of m, `Account` of n, joined bool[n]).
    """
    n, trees = chosen.shape
    scratch = new_scratch(repository)
    offsets, joined = np.zeros(n + 1, np.int64), np.zeros(n, np.bool_)
    account = Account(np.zeros((n, trees), np.int64), np.zeros((n, trees)), np.zeros((n, trees)))
    out, at = AlternativeRows(np.empty(2 * n + 16), np.empty((2 * n + 16, trees))), 0
    for i in range(n):
        if reason[i] <= IMPUTED:
            scale(repository, objects[i], scratch.scaled)
            own = Account(account.donors[i], account.spread[i], account.error[i])
            out, at, joined[i] = impute_object(
                repository, completion, scratch, objects[i], chosen[i], own, out, at
            )
        offsets[i + 1] = at
    return offsets, AlternativeRows(out.prob[:at], out.points[:at]), account, joined
