"""Probability of an object's samples that are near places: by comparing all, or by searching.

A sample x of one row is near a place iff (x - place)² <= budget. Budgets carry roundings of up to
`band`: what is within budget - band is surely near, what is beyond budget + band surely not.
"""

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.joins.tuple_store import LANES

ROUND = 1e-12  # roots are taken a little wider, or narrower, than they are
MANY = 128  # samples: from here on ranges of them are searched for instead


@compiled_ieee
def cumulated(blocks, x, count):
    """Probability of a block's samples before each, and of all, compensated; [0] if few."""
    if count < MANY:
        return np.empty(0)
    result, total, lost = np.empty(count + 1), 0.0, 0.0
    for k in range(count):
        term = blocks[x + k]
        result[k] = total + lost
        larger = total + term
        lost += (max(total, term) - larger) + min(total, term)
        total = larger
    result[count] = total + lost
    return result


@lean
def _number_below(blocks, row, count, place, bound, equal):
    """How many of a row's samples, ascending, are below place + bound, or at it if `equal`."""
    begin, rest = row, count
    while rest > 0:
        half = rest // 2
        difference = blocks[begin + half] - place
        below = (difference < bound) | (equal & (difference == bound))
        begin += (half + 1) * below
        rest = half * (1 - below) + (rest - half - 1) * below
    return begin - row


@lean
def _mass_between(blocks, row, count, cumulative, place, reach):
    """Probability of a row's samples, ascending, within `reach` of a place. O(log count)."""
    first = _number_below(blocks, row, count, place, -reach, False)
    return cumulative[_number_below(blocks, row, count, place, reach, True)] - cumulative[first]


@lean
def compare_all(blocks, x, row, count, band, entries, n):
    """sure and possible of n entries, from all of u's samples. O(count * n), in SIMD."""
    place, budget, sure, possible = entries.place, entries.budget, entries.sure, entries.possible
    # Unsigned places: no test for negative ones, which would keep the lanes from becoming SIMD.
    last = np.uint64(n)
    for e in range(last):
        sure[e], possible[e] = 0.0, 0.0
    for k in range(0, count, LANES):
        p, q, r, s = blocks[x + k], blocks[x + k + 1], blocks[x + k + 2], blocks[x + k + 3]
        a, b = blocks[row + k], blocks[row + k + 1]
        c, d = blocks[row + k + 2], blocks[row + k + 3]
        for e in range(last):
            at, low, high = place[e], budget[e] - band, budget[e] + band
            one, two, three, four = a - at, b - at, c - at, d - at
            one, two, three, four = one * one, two * two, three * three, four * four
            sure[e] += ((p if one <= low else 0.0) + (q if two <= low else 0.0)) + (
                (r if three <= low else 0.0) + (s if four <= low else 0.0)
            )
            possible[e] += ((p if one <= high else 0.0) + (q if two <= high else 0.0)) + (
                (r if three <= high else 0.0) + (s if four <= high else 0.0)
            )


@lean
def search_all(blocks, row, count, cumulative, band, entries, n):
    """The same by searching. O(n log count)."""
    for e in range(n):
        place, low, high = entries.place[e], entries.budget[e] - band, entries.budget[e] + band
        wide = np.sqrt(high) * (1.0 + ROUND)
        entries.possible[e] = _mass_between(blocks, row, count, cumulative, place, wide)
        entries.sure[e] = 0.0
        if low >= 0.0:
            narrow = np.sqrt(low) * (1.0 - ROUND)
            entries.sure[e] = _mass_between(blocks, row, count, cumulative, place, narrow)
