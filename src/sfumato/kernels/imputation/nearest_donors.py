"""The donors of a choice: all rows in its box, or the nearest of them, the nearer the more."""

import numpy as np

from sfumato.kernels.arrays import kth_smallest
from sfumato.kernels.compile import lean, lean_inline
from sfumato.kernels.imputation.dependency_choice import donor_nodes, rows_of_nodes

CLOSE = 0.05  # of the farthest donor's distance: all nearer ones count alike


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
        near = max(distance[i] / farthest, CLOSE) if farthest > 0.0 else 1.0
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
