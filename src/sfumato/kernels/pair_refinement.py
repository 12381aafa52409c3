"""Pr(match) of an object and those whose boxes leave it in doubt: by regions, then by samples.

Most objects lack a single attribute, so that most pairs are decided without pairing all samples.
"""

from __future__ import annotations

from numba import njit

from sfumato.kernels.match_probability import (
    FEW_PAIRS,
    SLACK,
    defining_sum,
    match_probability,
    match_probability_in_balls,
)
from sfumato.kernels.single_gap import sum_over_gap
from sfumato.kernels.trimmed_radius import prunes
from sfumato.kernels.two_gaps import sum_over_one_gap, sum_over_two_gaps
from sfumato.kernels.uncertain_tuples import LEAN

UNKNOWN = -2.0  # no probability: to be found in another way
MANY = 24  # samples: from here on it pays to sift them before they are paired


@njit(**LEAN)
def gap_probability(blocks, x, x_count, x_gap, y, y_count, y_gap, d, limit, least, probability):
    """Pr(match) of two objects of which one lacks at most one attribute, or both do: if it is at
    least `probability`, else -1; UNKNOWN if both lack several or d is 1.

    x, y : places of the blocks of the arriving and of the held object    x_gap, y_gap : see
    `Objects`
    """
    few = x_count * y_count <= FEW_PAIRS
    if few:
        total = defining_sum(blocks, x, x_count, y, y_count, d, limit)
    elif d == 1 or max(x_gap, y_gap) < 0:
        return UNKNOWN
    elif x_gap >= 0 and x_gap == y_gap:
        total = sum_over_one_gap(blocks, x, x_count, y, y_count, x_gap, d, limit)
    elif x_gap >= 0 and y_gap >= 0:
        total = sum_over_two_gaps(blocks, x, x_count, x_gap, y, y_count, y_gap, d, limit, least)
    elif x_gap >= 0:
        total = sum_over_gap(blocks, y, y_count, x, x_count, x_gap, d, limit, least)
    else:
        total = sum_over_gap(blocks, x, x_count, y, y_count, y_gap, d, limit, least)
    if not few and abs(total - probability) <= 2.0 * SLACK * probability:
        total = defining_sum(blocks, x, x_count, y, y_count, d, limit)
    return total if total >= probability else -1.0


@njit(**LEAN)
def refine(
    blocks, at, samples, summary, gap, nearest, farthest, u, begin, open_pairs, near, numbers, d,
    totals,
):  # fmt: skip
    """Pr of slot u with near[:open_pairs], to totals: -1 for no answer, UNKNOWN for another way.

    Returns how many were certain by their boxes, and how many had their samples paired.
    Boxes first, then regions of most of the probability (E, Lemma 4.2), then samples.
    """
    within, limit, least, probability = numbers[0], numbers[1], numbers[2], numbers[3]
    bound, sure = numbers[4], numbers[5]
    certain, refined = 0, 0
    for i in range(open_pairs):
        v = near[i]
        totals[i] = -1.0
        if nearest[v - begin] > bound:
            continue
        if farthest[v - begin] <= sure:
            totals[i] = 1.0
            certain += 1
        elif not prunes(summary, u, v, d, within):
            refined += 1
            totals[i] = gap_probability(
                blocks, at[u], samples[u], gap[u], at[v], samples[v], gap[v],
                d, limit, least, probability,
            )  # fmt: skip
    return certain, refined


@njit(cache=True, nogil=True, error_model="numpy")
def pair_probability(tuples, u, v, d, within, limit, least, probability):
    """Pr(match) of two imputed objects if it is at least `probability`, else -1."""
    if d == 1 or min(tuples.samples[u], tuples.samples[v]) < MANY:
        return match_probability(tuples, u, v, d, limit, least, probability)
    return match_probability_in_balls(
        tuples, u, v, tuples.summary[u, d + 1], tuples.summary[v, d + 1],
        d, within, limit, least, probability,
    )  # fmt: skip
