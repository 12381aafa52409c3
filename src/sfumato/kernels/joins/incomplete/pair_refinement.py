"""Pr(match) of an object and those whose boxes leave it in doubt: by regions, then by samples.

Most objects lack a single attribute, so that few pairs have all their samples paired: for a sample
of the other object all attributes but that one add the same to every squared distance, and one
comparison a pair is left. Where rounding might decide, the definition does.
"""

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean, lean_sum
from sfumato.kernels.joins.incomplete.gap_sums import sums_over_gap
from sfumato.kernels.joins.incomplete.objects import NONE
from sfumato.kernels.joins.match_probability import OPEN, decided, limit_of, reach_of
from sfumato.kernels.joins.pair_probability import pair_probability
from sfumato.kernels.joins.regions import prunes
from sfumato.kernels.joins.tuple_store import ULP, padded


@lean
def prune(tuples, nearness, visit, nearest, farthest):
    """Decide the arrival of a visit and those reached that are OPEN by boxes and regions: (how many
    certain, still OPEN).

    nearest, farthest : see `squares_in_window`
    Source: E, Lemmas 4.1 and 4.2 (by regions of most of the probability).
    """
    certain, still, reached, u = 0, 0, visit.reached, visit.u
    near, totals, begin, d = reached.near, reached.totals, visit.begin, nearness.criterion.d
    for i in range(reached.number):
        if totals[i] != OPEN:
            continue
        v = near[i]
        reach = reach_of(tuples, u, v, nearness.criterion)
        if nearest[v - begin] > visit.bound:
            totals[i] = NONE
        elif farthest[v - begin] <= nearness.sure:
            totals[i] = 1.0
            certain += 1
        elif prunes(tuples.summary, u, v, d, reach):
            totals[i] = NONE
        else:
            still += 1
    return certain, still


@compiled_ieee
def _at_most(x, y, bound):
    return (x - y) * (x - y) <= bound


@lean_sum
def _masses(blocks, place, row, length, value, low, high):
    """Probability of a block's samples whose squared difference is <= low, and of those <= high."""
    sure, possible = 0.0, 0.0
    for j in range(length):
        p, y = blocks[place + j], blocks[row + j]
        sure += p if _at_most(value, y, low) else 0.0
        possible += p if _at_most(value, y, high) else 0.0
    return sure, possible


@lean
def _exact_mass(blocks, x, x_length, y, y_count, d, limit):
    """Probability of a block's samples near one sample, as `defining_sum` decides (d > 1)."""
    y_length, mass = padded(y_count), 0.0
    for j in range(y, y + y_count):
        squared = 0.0
        for a in range(1, d + 1):
            difference = blocks[x + a * x_length] - blocks[j + a * y_length]
            squared += difference * difference
        if squared <= limit:
            mass += blocks[j]
    return mass


@lean
def _sum_over_gap(tuples, u, v, gap, criterion):
    """Sum of Pr(u_k) Pr(v_l) over near pairs, where v's samples differ in attribute `gap` alone.

    There are several attributes.

    -1 once it cannot reach the criterion's `least`. O(samples of u * (d + samples of v)), in SIMD.
    """
    blocks, d, least = tuples.blocks, criterion.d, criterion.least
    limit = limit_of(tuples, u, v, criterion)
    x, x_count, y, y_count = tuples.at[u], tuples.samples[u], tuples.at[v], tuples.samples[v]
    x_length, y_length = padded(x_count), padded(y_count)
    total, left, band = 0.0, 1.0, (2.0 * d + 4.0) * ULP * limit
    for k in range(x, x + x_count):
        if total + left < least:
            return -1.0
        left -= blocks[k]
        rest = 0.0
        for a in range(d):
            if a != gap:
                difference = blocks[k + (a + 1) * x_length] - blocks[y + (a + 1) * y_length]
                rest += difference * difference
        low, high = limit - rest - band, limit - rest + band
        if high < 0.0:
            continue
        value = blocks[k + (gap + 1) * x_length]
        # Unsigned places: no test for negative ones, which would keep the lanes from being SIMD.
        row = y + (gap + 1) * y_length
        sure, possible = _masses(
            blocks, np.uint64(y), np.uint64(row), np.uint64(y_length), value, low, high
        )
        if possible != sure:
            sure = _exact_mass(blocks, k, x_length, y, y_count, d, limit)
        total += blocks[k] * sure
    return total


@lean
def _sums_over_their_gaps(tuples, gap, u, reached, criterion):
    """Pr of slot u, which lacks several attributes, and those OPEN that lack one: to totals."""
    for i in range(reached.number):
        v = reached.near[i]
        if reached.totals[i] == OPEN and gap[v] >= 0:
            total = _sum_over_gap(tuples, u, v, gap[v], criterion)
            reached.totals[i] = decided(tuples, u, v, criterion, total)


@compiled_ieee
def refine(tuples, objects, criterion, u, reached, cumulative, work):
    """Pr of slot u and those reached that are OPEN, to their totals; NONE: no answer."""
    gap = objects.gap
    if criterion.d > 1 and (gap[u] >= 0 or tuples.samples[u] == 1):
        sums_over_gap(tuples, objects, criterion, u, reached, cumulative, work)
        return
    if criterion.d > 1:
        _sums_over_their_gaps(tuples, gap, u, reached, criterion)
    for i in range(reached.number):
        if reached.totals[i] == OPEN:
            reached.totals[i] = pair_probability(tuples, u, reached.near[i], criterion)
