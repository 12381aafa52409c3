"""The distribution of a missing attribute over its donors' values.

The nearest donors lie around the object, not at it. A linear function of the box's attributes,
fitted to the donors by least squares, predicts how their values change towards the object. The
residuals are enlarged, because a new value scatters more about a fitted line than the fitted values
do.

Source: local linear regression (Stone, 1977; Fan, 1992), with its residuals as the distribution.
"""

import math

import numpy as np

from sfumato.kernels.arrays import kth_smallest, sort_pairs, write_at
from sfumato.kernels.compile import compiled_ieee, inlined, lean
from sfumato.kernels.imputation.calibration import (
    calibrate,
    deviation_of,
    group_of,
    merge_equal,
    widen_few,
)
from sfumato.kernels.imputation.dependency_choice import MARGINAL, donors_in_box

EQUAL_DISTANCE_SHARE = 0.05  # of the farthest donor's distance; nearer donors have equal shares
RIDGE = 1e-3  # of the determinants' mean square, so nearly constant determinants have no effect
DONORS_PER_SLOPE = 4  # minimum donors per coefficient; with fewer, residuals are too small


@compiled_ieee
def keep_nearest(repository, t, constrained, n, scratch):
    """Keep the nearest of the n donors at scratch.places, including ties; return their number.

    The distance is the maximum over attributes, in units of the box's reach or, if `equal_scales`,
    of the scaled attributes. Writes shares (distance / farthest) ** -power, not normalised, to
    scratch.share.  O(n constrained).
    """
    places, distance, search = scratch.places, scratch.distance, scratch.search
    weighting, most = repository.weighting[t], repository.choice.most_donors
    for i in range(n):
        distance[i] = 0.0
        for j in range(constrained):
            a = search.attributes[j]
            off = abs(repository.trees.columns[t, a, places[i]] - scratch.scaled[a])
            if off > 0.0:
                off = off if weighting.equal_scales else off / search.reach[a]
                distance[i] = max(distance[i], off)
    if n > most:
        write_at(scratch.local_values, 0, distance[:n])
        limit = kth_smallest(scratch.local_values, n, most - 1)
        kept = 0
        for i in range(n):
            if distance[i] <= limit:
                places[kept], distance[kept] = places[i], distance[i]
                kept += 1
        n = kept
    farthest = 0.0
    for i in range(n):
        farthest = max(farthest, distance[i])
    for i in range(n):
        near = max(distance[i] / farthest, EQUAL_DISTANCE_SHARE) if farthest > 0.0 else 1.0
        scratch.share[i] = near**-weighting.power
    return n


@inlined
def _count_distinct(codes, values, n, scratch, distribution, weight):
    """Write the donors' distinct values, ascending, and their counts; return their number."""
    rows, tally = scratch.places, scratch.tally
    least, most = tally.size, -1
    for i in range(n):
        least, most = min(least, codes[rows[i]]), max(most, codes[rows[i]])
    k = 0
    if most - least <= 8 * n:
        for i in range(n):
            tally[codes[rows[i]]] += 1
        for rank in range(least, most + 1):
            if tally[rank] > 0:
                distribution[k], weight[k] = values[rank], tally[rank]
                tally[rank] = 0
                k += 1
        return k
    for i in range(n):
        distribution[i], weight[i] = values[codes[rows[i]]], 1.0
    distribution[:n].sort()
    return merge_equal(distribution, weight, n)


@compiled_ieee
def _write_distinct(scratch, n, distribution, weight):
    """Write the distinct scratch.local_values[:n], ascending, with shares; return their number."""
    write_at(distribution, 0, scratch.local_values[:n])
    write_at(weight, 0, scratch.share[:n])
    sort_pairs(distribution, weight, n)  # a few dozen values, unless there are many ties
    return merge_equal(distribution, weight, n)


@lean
def solve(matrix, p, sides):
    """Solve p equations in place for columns p ... p + sides - 1; `matrix` is positive definite."""
    for i in range(p):
        for r in range(i + 1, p):
            factor = matrix[r, i] / matrix[i, i]
            for c in range(i, p + sides):
                matrix[r, c] -= factor * matrix[i, c]
    for i in range(p - 1, -1, -1):
        for c in range(p, p + sides):
            for r in range(i + 1, p):
                matrix[i, c] -= matrix[i, r] * matrix[r, c]
            matrix[i, c] /= matrix[i, i]


@lean
def _offset(repository, t, scratch, i, j):
    """Return donor i's offset from the object in the box's attribute j, in units of reach."""
    a = scratch.search.attributes[j]
    off = repository.trees.columns[t, a, scratch.places[i]] - scratch.scaled[a]
    return off / scratch.search.reach[a]


@inlined
def move_along_line(repository, t, p, n, scratch, low, high):
    """Move the n donors' values in scratch.local_values to the object, within [low, high].

    p : number of the box's attributes; n >= 4 p + 4
    Writes the slopes to scratch.line[:p, p], and the donors' mean offset from the object to
    scratch.line[p, :p].  O(n p**2).
    """
    moved, line, share = scratch.local_values, scratch.line, scratch.share
    total, squares, mean = 0.0, 0.0, 0.0
    for i in range(n):
        total += share[i]
        squares += share[i] * share[i]
    for i in range(n):
        mean += share[i] / total * moved[i]
    for j in range(p):
        line[p, j] = 0.0
        for i in range(n):
            line[p, j] += share[i] / total * _offset(repository, t, scratch, i, j)
        line[j, : p + 2] = 0.0
    for i in range(n):
        for j in range(p):
            x = _offset(repository, t, scratch, i, j) - line[p, j]
            x *= share[i] / total
            for k in range(j + 1):
                line[j, k] += x * (_offset(repository, t, scratch, i, k) - line[p, k])
            line[j, p] += x * (moved[i] - mean)
    ridge = 1e-12
    for j in range(p):
        ridge += RIDGE * line[j, j] / p
        line[j, p + 1] = line[p, j]
    for j in range(p):
        line[j, j] += ridge
        for k in range(j):
            line[k, j] = line[j, k]
    solve(line, p, 2)
    alike = total * total / squares  # effective number of donors with equal shares
    leverage, here = 1.0, mean
    for j in range(p):
        leverage += line[p, j] * line[j, p + 1]
        here -= line[p, j] * line[j, p]
    free = max(alike - p - 1, 0.25 * alike)
    wider = math.sqrt((1.0 + min(leverage / alike, 1.0)) * alike / free)
    for i in range(n):
        rest = moved[i] - mean
        for j in range(p):
            rest -= (_offset(repository, t, scratch, i, j) - line[p, j]) * line[j, p]
        moved[i] = min(max(here + wider * rest, low), high)


@lean
def interval_of_nodes(repository, t, search, count):
    """Return bounds for values of attribute t: the range of the first `count` found nodes, or of
    all rows if `count` is 0, with a margin."""
    trees, weighting, own = repository.trees, repository.weighting[t], repository.span.size
    least, most = trees.low[t, 1, own], trees.high[t, 1, own]
    low, high = (most, least) if count > 0 else (least, most)
    for i in range(count):
        low = min(low, trees.low[t, search.nodes[i], own])
        high = max(high, trees.high[t, search.nodes[i], own])
    low, high = low - weighting.margin, high + weighting.margin
    return max(low, least - weighting.outside), min(high, most + weighting.outside)


@lean
def _nearest_distribution(repository, t, n, constrained, nodes, scratch, left_out):
    """Write the nearest donors' values, ascending, and shares; return their number.

    If there are enough donors and most values do not repeat, the values are moved along a line. If
    a row was left out, one fewer donor suffices.
    """
    moved, info, own = scratch.local_values, scratch.info[t], repository.span.size
    distribution, weight = scratch.distribution[t], scratch.weight[t]
    for i in range(n):
        moved[i] = repository.trees.columns[t, own, scratch.places[i]]
    k = _write_distinct(scratch, n, distribution, weight)
    info.spread = distribution[k - 1] - distribution[0]
    info.low, info.high = interval_of_nodes(repository, t, scratch.search, nodes)
    info.repeated = 2 * k < n
    short = left_out >= 0 and n == repository.row_codes.shape[1] - 1
    if not info.repeated and n + short >= DONORS_PER_SLOPE * (constrained + 1):
        move_along_line(repository, t, constrained, n, scratch, info.low, info.high)
        k = _write_distinct(scratch, n, distribution, weight)
    return k


@compiled_ieee
def attribute_distribution(repository, t, chosen, scratch, left_out):
    """Write the distribution of attribute t for a choice (or MARGINAL) to row t of `scratch`.

    left_out : int64, a row that is not a donor, or -1
    Returns the number of donors.  O(donors log donors), or linear for donors with close ranks.
    """
    first, last = repository.first_value[t], repository.first_value[t + 1]
    distribution, weight, info = scratch.distribution[t], scratch.weight[t], scratch.info[t]
    n, k, places = np.int64(0), last - first, scratch.places
    if chosen == MARGINAL:
        for i in range(k):
            distribution[i], weight[i] = repository.values[first + i], repository.counts[first + i]
            n += repository.counts[first + i]
        info.spread = distribution[k - 1] - distribution[0]
    else:
        n, constrained, nodes = donors_in_box(repository, t, chosen, scratch)
        if left_out >= 0:
            kept = 0
            for i in range(n):
                if repository.trees.rows[t, places[i]] != left_out:
                    places[kept] = places[i]
                    kept += 1
            n = np.int64(kept)
        if repository.choice.most_donors > 0:
            n = keep_nearest(repository, t, constrained, n, scratch)
            k = _nearest_distribution(repository, t, n, constrained, nodes, scratch, left_out)
        else:
            for i in range(n):
                places[i] = repository.trees.rows[t, places[i]]
            values = repository.values[first:last]
            k = _count_distinct(repository.row_codes[t], values, n, scratch, distribution, weight)
            info.spread = distribution[k - 1] - distribution[0]
    info.size, info.total = k, 0.0
    for i in range(k):
        info.total += weight[i]
    return n


@inlined
def calibrated_distribution(repository, t, chosen, scratch):
    """Compute `attribute_distribution`, calibrated for nearest donors; return the donor count."""
    n = attribute_distribution(repository, t, chosen, scratch, -1)
    info = scratch.info[t]
    if repository.choice.most_donors > 0 and chosen == MARGINAL:
        widen_few(scratch.distribution[t], scratch.weight[t], info)
    elif repository.choice.most_donors > 0:
        distribution, weight = scratch.distribution[t], scratch.weight[t]
        info.deviation = deviation_of(distribution, weight, info.size, info.total)
        calibrate(repository, t, group_of(repository, t, scratch.scaled), scratch)
    return n
