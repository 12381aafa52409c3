"""The distribution of a missing attribute over its donors' values."""

import numpy as np

from sfumato.kernels.arrays import kth_smallest, sort_pairs
from sfumato.kernels.compile import compiled_ieee, lean, lean_inline
from sfumato.kernels.imputation.calibration import (
    calibrate,
    deviation_of,
    group_of,
    merge_equal,
    widen_few,
)
from sfumato.kernels.imputation.dependency_choice import MARGINAL, donors_in_box
from sfumato.kernels.imputation.local_line import DONORS_PER_SLOPE, move_along_line

EQUAL_DISTANCE_SHARE = 0.05  # of the farthest donor's distance; nearer donors have equal shares


@compiled_ieee
def keep_nearest(repository, t, constrained, n, scratch):
    """Keep the nearest of the n donors at scratch.places, with ties; return their number.

    The distance is the maximum over attributes, in units of the box's reach or, if `even`, of the
    scaled attributes. Writes shares (distance / farthest) ** -sharpness, not normalised, to
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
                distance[i] = max(distance[i], off if weighting.even else off / search.reach[a])
    if n > most:
        scratch.local_values[:n] = distance[:n]
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
        scratch.share[i] = near**-weighting.sharpness
    return n


@compiled_ieee
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
    distribution[:n], weight[:n] = scratch.local_values[:n], scratch.share[:n]
    sort_pairs(distribution, weight, n)  # a few dozen, unless many tie
    return merge_equal(distribution, weight, n)


@lean
def interval_of_nodes(repository, t, search, count):
    """Return bounds for values of attribute t: the range of the first `count` found nodes, or of
    all rows if it is 0, with a margin."""
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

    Unless most values repeat, enough donors' values are moved along a line. If a row was left out,
    one donor fewer is enough.
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


@lean_inline
def calibrated_distribution(repository, t, chosen, scratch):
    """Compute `attribute_distribution`, calibrated for nearest donors; return their number."""
    n = attribute_distribution(repository, t, chosen, scratch, np.int64(-1))
    info = scratch.info[t]
    if repository.choice.most_donors > 0 and chosen == MARGINAL:
        widen_few(scratch.distribution[t], scratch.weight[t], info)
    elif repository.choice.most_donors > 0:
        distribution, weight = scratch.distribution[t], scratch.weight[t]
        info.deviation = deviation_of(distribution, weight, info.size, info.total)
        calibrate(repository, t, group_of(repository, t, scratch.scaled), scratch)
    return n
