"""Pr(match) of an object and those whose boxes leave it in doubt: by regions, then by samples.

Most objects lack a single attribute, so that few pairs have all their samples paired.
"""

from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.joins.incomplete.gap_sums import sums_over_gap
from sfumato.kernels.joins.incomplete.objects import NONE
from sfumato.kernels.joins.incomplete.single_gap import sum_over_gap
from sfumato.kernels.joins.match_probability import OPEN, decided
from sfumato.kernels.joins.pair_probability import pair_probability
from sfumato.kernels.joins.regions import prunes


@lean
def prune(tuples, nearness, u, begin, reached, nearest, farthest):
    """Decide slot u and those reached that are OPEN by boxes and regions: (how many certain, still
    OPEN).

    begin : of the window    nearest, farthest : see `squares_in_window`
    Source: E, Lemmas 4.1 and 4.2 (by regions of most of the probability).
    """
    certain, still, near, totals = 0, 0, reached.near, reached.totals
    d, within = nearness.criterion.d, nearness.criterion.within
    for i in range(reached.number):
        if totals[i] != OPEN:
            continue
        v = near[i]
        if nearest[v - begin] > nearness.bound:
            totals[i] = NONE
        elif farthest[v - begin] <= nearness.sure:
            totals[i] = 1.0
            certain += 1
        elif prunes(tuples.summary, u, v, d, within):
            totals[i] = NONE
        else:
            still += 1
    return certain, still


@lean
def _sums_over_their_gaps(tuples, gap, u, reached, criterion):
    """Pr of slot u, which lacks several attributes, and those OPEN that lack one: to totals."""
    for i in range(reached.number):
        v = reached.near[i]
        if reached.totals[i] == OPEN and gap[v] >= 0:
            total = sum_over_gap(tuples, u, v, gap[v], criterion)
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
