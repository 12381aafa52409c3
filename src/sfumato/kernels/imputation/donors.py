"""The donors of a missing attribute, and the distribution that they give."""

import numpy as np

from sfumato.kernels.arrays import kth_smallest, sort_pairs, sort_slots
from sfumato.kernels.compile import lean, lean_inline
from sfumato.kernels.imputation.calibration import calibrate, deviation_of, group_of, widen_few
from sfumato.kernels.imputation.dependency_choice import (
    MARGINAL,
    donor_nodes,
    interval_of_nodes,
    rows_of_nodes,
)
from sfumato.kernels.imputation.local_line import DONORS_A_SLOPE, move_along_line

EQUAL_DISTANCE_SHARE = 0.05  # of the farthest donor's distance: all nearer ones count alike


@lean
def measure(repository, t, asked, n, scratch):
    """How far n donors are on the attribute where that is most: to scratch.distance, in units of
    the box's reach or, if `even`, of the attributes' scale."""
    search, even = scratch.search, repository.lending[t].even
    for i in range(n):
        farthest = 0.0
        for j in range(asked):
            a = search.attributes[j]
            off = abs(repository.columns[t, a, scratch.places[i]] - scratch.scaled[a])
            if off > 0.0:
                farthest = max(farthest, off if even else off / search.reach[a])
        scratch.distance[i] = farthest


@lean
def keep_nearest(repository, t, asked, n, scratch):
    """Of the n donors at scratch.places the nearest, and those that tie with the last of them.

    Their shares go to scratch.share: (distance / farthest) ** -sharpness, not normalised.  O(n
    asked).
    """
    places, distance = scratch.places, scratch.distance
    measure(repository, t, asked, n, scratch)
    if n > repository.choice.most_donors:
        for i in range(n):
            scratch.moved[i] = distance[i]
        limit = kth_smallest(scratch.moved, n, repository.choice.most_donors - 1)
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
        scratch.share[i] = near ** -repository.lending[t].sharpness
    return n


@lean_inline
def find_donors(repository, t, chosen, scratch, left_out):
    """Donors of attribute t, to scratch.places: (how many, attributes asked about, nodes).

    chosen : int64, of `choose_...`    left_out : int64, a row that does not lend, or -1
    """
    asked, count = donor_nodes(repository, t, chosen, scratch)
    places = scratch.places
    n = rows_of_nodes(repository, t, count, scratch, places.size, places)
    if left_out >= 0:
        kept = 0
        for i in range(n):
            if repository.rows[t, places[i]] != left_out:
                places[kept] = places[i]
                kept += 1
        n = kept
    if repository.choice.most_donors > 0:
        n = keep_nearest(repository, t, asked, n, scratch)
    return np.int64(n), asked, count


@lean_inline
def _distinct(codes, values, n, scratch, law, weight):
    """Distinct values at places[:n] of `scratch`, ascending, and how often; how many."""
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
def _sorted_values(values, share, n, law, weight):
    """Distinct ones of values[:n], ascending, and their shares together; how many."""
    for i in range(n):
        law[i], weight[i] = values[i], share[i]
    sort_pairs(law, weight, n)  # of a few dozen, or of all that tie with the nearest
    k = 0
    for i in range(n):
        if i > 0 and law[i] == law[k - 1]:
            weight[k - 1] += weight[i]
        else:
            law[k], weight[k] = law[i], weight[i]
            k += 1
    return k


@lean
def _nearest_law(repository, t, n, asked, nodes, scratch, left_out):
    """Values that the n nearest donors lend, ascending, and their shares; how many.

    Where all other rows lend, a row left out is moved along a line as an object is, to which one
    row more lends.
    """
    moved, first, about = scratch.moved, repository.first_value[t], scratch.about[t]
    law, weight = scratch.law[t], scratch.weight[t]
    for i in range(n):
        moved[i] = repository.values[first + repository.codes[t, scratch.places[i]]]
    k = _sorted_values(moved, scratch.share, n, law, weight)
    about.spread = law[k - 1] - law[0]
    about.low, about.high = interval_of_nodes(repository, t, scratch.search, nodes)
    about.repeated = 2 * k < n
    short = left_out >= 0 and n == repository.row_codes.shape[1] - 1
    about.moved = not about.repeated and n + short >= DONORS_A_SLOPE * (asked + 1)
    if about.moved:
        move_along_line(repository, t, asked, n, scratch, about.low, about.high)
        k = _sorted_values(moved, scratch.share, n, law, weight)
    return k


@lean_inline
def attribute_law(repository, t, chosen, scratch, left_out):
    """Values of attribute t by a choice (or MARGINAL), to row t of scratch.law, .weight, .sizes,
    .about.

    left_out : int64, a row that does not lend, or -1
    Where the nearest donors lend, their values, unless many are equal, are moved along a line.
    Returns the number of donors.  O(donors log donors) where they are few and far apart, else
    linear.
    """
    first, last = repository.first_value[t], repository.first_value[t + 1]
    law, weight, about = scratch.law[t], scratch.weight[t], scratch.about[t]
    n = np.int64(0)
    if chosen == MARGINAL:
        for i in range(last - first):
            law[i], weight[i] = repository.values[first + i], repository.counts[first + i]
            n += repository.counts[first + i]
        k = last - first
        about.spread = law[k - 1] - law[0]
    else:
        n, asked, nodes = find_donors(repository, t, chosen, scratch, left_out)
        if repository.choice.most_donors > 0:
            k = _nearest_law(repository, t, n, asked, nodes, scratch, left_out)
        else:
            values = repository.values[first:last]
            k = _distinct(repository.codes[t], values, n, scratch, law, weight)
            about.spread = law[k - 1] - law[0]
    total = 0.0
    for i in range(k):
        total += weight[i]
    scratch.sizes[t], about.total = k, total
    return n


@lean_inline
def calibrated_law(repository, t, chosen, scratch):
    """`attribute_law`, as probabilities where the nearest donors lend; how many donors."""
    n = attribute_law(repository, t, chosen, scratch, -1)
    if repository.choice.most_donors > 0 and chosen == MARGINAL:
        scratch.sizes[t] = widen_few(repository, t, scratch.sizes[t], scratch)
    elif repository.choice.most_donors > 0:
        law, weight, about = scratch.law[t], scratch.weight[t], scratch.about[t]
        k, group = scratch.sizes[t], group_of(repository, t, scratch.scaled)
        about.deviation = deviation_of(law, weight, k, about.total)
        scratch.sizes[t], about.total = calibrate(repository, t, group, k, scratch), 1.0
    return n
