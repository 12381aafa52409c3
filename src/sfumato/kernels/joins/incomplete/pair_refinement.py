"""Pr(match) of an object and those whose boxes leave it in doubt: by regions, then by samples.

Most objects lack a single attribute, so that few pairs have all their samples paired.
"""

from __future__ import annotations

from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.joins.incomplete.box_distance import NONE, OPEN
from sfumato.kernels.joins.incomplete.gap_sums import sums_over_gap
from sfumato.kernels.joins.incomplete.single_gap import sum_over_gap
from sfumato.kernels.joins.match_probability import (
    SLACK,
    defining_sum,
    match_probability,
    match_probability_in_balls,
)
from sfumato.kernels.joins.regions import prunes

MANY = 24  # samples: from here on it pays to sift them before they are paired


@lean
def prune(summary, nearest, farthest, u, begin, near, reached, numbers, d, totals):
    """Decide slot u and those of near[:reached] that are OPEN by their boxes and regions.

    totals : float64, written where OPEN: 1 if certainly near, NONE if pruned
    Returns how many were certain, and how many are still OPEN.
    Source: E, Lemmas 4.1 and 4.2 (by regions of most of the probability).
    """
    certain, still = 0, 0
    for i in range(reached):
        if totals[i] != OPEN:
            continue
        v = near[i]
        if nearest[v - begin] > numbers[4]:
            totals[i] = NONE
        elif farthest[v - begin] <= numbers[5]:
            totals[i] = 1.0
            certain += 1
        elif prunes(summary, u, v, d, numbers[0]):
            totals[i] = NONE
        else:
            still += 1
    return certain, still


@lean
def sums_over_their_gaps(
    blocks, at, samples, gap, u, near, reached, d, limit, least, probability, totals
):
    """Pr of slot u, which lacks several attributes, and those OPEN ones that lack one: to totals.

    totals : float64, where OPEN and one is lacked: Pr(match) if >= `probability`, else NONE
    """
    for i in range(reached):
        v = near[i]
        if totals[i] == OPEN and gap[v] >= 0:
            total = sum_over_gap(
                blocks, at[u], samples[u], at[v], samples[v], gap[v], d, limit, least
            )
            if abs(total - probability) <= 2.0 * SLACK * probability:
                total = defining_sum(blocks, at[u], samples[u], at[v], samples[v], d, limit)
            totals[i] = total if total >= probability else NONE


@compiled_ieee
def pair_probability(tuples, u, v, d, within, limit, least, probability):
    """Pr(match) of two imputed objects if it is at least `probability`, else NONE."""
    if d == 1 or min(tuples.samples[u], tuples.samples[v]) < MANY:
        return match_probability(tuples, u, v, d, limit, least, probability)
    return match_probability_in_balls(
        tuples, u, v, tuples.summary[u, d + 1], tuples.summary[v, d + 1],
        d, within, limit, least, probability,
    )  # fmt: skip


@compiled_ieee
def refine(tuples, objects, numbers, u, near, reached, cumulative, entries, lines, totals):
    """Pr of slot u and those of near[:reached] that are OPEN, to totals; NONE: no answer.

    cumulative : of u, see `cumulated`    entries, lines : to work in; float64[>= 3, >= reached]
    """
    d, gap = objects.low.shape[0], objects.gap
    if d > 1 and (gap[u] >= 0 or tuples.samples[u] == 1):
        # An object with one sample may be thought to lack any attribute.
        sums_over_gap(
            tuples.blocks, tuples.at, tuples.samples, gap, objects.low, u, max(gap[u], 0),
            near, reached, numbers[1], numbers[2], numbers[3], cumulative,
            entries, lines[0], lines[1], lines[2], totals,
        )  # fmt: skip
        return
    if d > 1:
        sums_over_their_gaps(
            tuples.blocks, tuples.at, tuples.samples, gap, u, near, reached,
            d, numbers[1], numbers[2], numbers[3], totals,
        )  # fmt: skip
    for i in range(reached):
        if totals[i] == OPEN:
            totals[i] = pair_probability(
                tuples, u, near[i], d, numbers[0], numbers[1], numbers[2], numbers[3]
            )
