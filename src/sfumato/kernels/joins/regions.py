"""Regions that hold all, or nearly all, of a tuple's mass, for pruning without samples.

Object-level pruning: two tuples cannot match if their regions are farther apart than the distance.
Sample-level pruning excludes mass from the regions: if smaller regions with masses m_X, m_Y are
farther apart than the distance, Pr(match) is at most Pr(X) Pr(Y) - m_X m_Y. There are three ways to
exclude mass. Each way makes this bound less than the threshold `least`. The ways depend on `least`
alone, so the regions are computed once per tuple:

    full, trimmed    all of X, and Y without mass < least
    trimmed, full    the same with X and Y exchanged
    half, half       both without mass < 1 - sqrt(1 - least)

In one dimension the regions are intervals, and mass is excluded at one end at a time, because only
the end that faces the other tuple matters. In more dimensions the regions are balls about the
centroid, the weighted mean of the samples.

A line of `summary` contains, for d dimensions, KEY[0..d-1], the point under which a tuple is
indexed, then REACH, the distance from KEY within which the trimmed region lies, then
    d = 1:  lowest, highest, trimmed lowest, trimmed highest, half lowest, half highest sample
    d > 1:  full radius, half radius                       (REACH is the trimmed radius)
"""

import math

import numpy as np

from sfumato.kernels.arrays import sort_pairs
from sfumato.kernels.compile import compiled_ieee, lean, lean_inline
from sfumato.kernels.joins.tuple_store import padded
from sfumato.kernels.tolerances import SIFT_SLACK


def summary_columns(d: int) -> int:
    return 8 if d == 1 else d + 3


@lean
def _last_below(mass, n, step, share):
    """Return the place of the last sample, inwards from one end, with a preceding mass < share."""
    place = 0 if step > 0 else n - 1
    before = 0.0
    for _ in range(n - 1):
        before += mass[place]
        if before >= share:
            break
        place += step
    return place


@lean
def _summarise_one(tuples, s, d, least, half, value, mass):
    """Write the line of `summary` of slot s; value and mass are working memory."""
    blocks, at, n, line = tuples.blocks, tuples.at[s], tuples.samples[s], tuples.summary[s]
    length = padded(n)
    for a in range(d if d > 1 else 0):
        line[a] = 0.0
        for k in range(at, at + n):
            line[a] += blocks[k] / tuples.existence[s] * blocks[k + (a + 1) * length]
    for k in range(n):
        mass[k], value[k] = blocks[at + k], 0.0
        for a in range(d if d > 1 else 0):
            difference = blocks[at + (a + 1) * length + k] - line[a]
            value[k] += difference * difference
        value[k] = math.sqrt(value[k]) if d > 1 else blocks[at + length + k]
    sort_pairs(value, mass, n)
    trimmed, halved = _last_below(mass, n, -1, least), _last_below(mass, n, -1, half)
    if d > 1:
        line[d], line[d + 1], line[d + 2] = value[trimmed], value[n - 1], value[halved]
    else:
        line[2], line[3] = value[0], value[n - 1]
        line[4], line[5] = value[_last_below(mass, n, 1, least)], value[trimmed]
        line[6], line[7] = value[_last_below(mass, n, 1, half)], value[halved]
    if d == 1:
        # For least > 1/2 the trimmed ends cross and the reach is negative. This is correct: each
        # end alone is a necessary condition, so the key may be between them.
        line[0] = 0.5 * line[4] + 0.5 * line[5]
        line[1] = max(line[5] - line[0], line[0] - line[4])


@compiled_ieee
def summarise(tuples, slots, d, least):
    """Write the lines of `summary` of some tuples.

    slots : int64[n]    least : float64 in (0, 1), threshold reduced by SIFT_SLACK
    O(samples log samples) per tuple.
    Error: relative, about d * 2**-53 for distances and samples * 2**-53 for masses; `cannot_match`
    and `least` allow for more.
    Source: Lian and Chen (2009), Lemmas 5.1 and 5.2; trimming by the threshold alone: this project.
    """
    largest = 0
    for s in slots:
        largest = max(largest, tuples.samples[s])
    value, mass = np.empty(largest), np.empty(largest)
    half = (1.0 - math.sqrt(1.0 - least)) * (1.0 - 1e-12)
    for s in slots:
        _summarise_one(tuples, s, d, least, half, value, mass)


@lean_inline
def ball_of(summary, s, d, centre):
    """Write the centre of a tuple's full region; return its radius."""
    if d == 1:
        centre[0] = 0.5 * summary[s, 2] + 0.5 * summary[s, 3]
        return max(summary[s, 3] - centre[0], centre[0] - summary[s, 2])
    for a in range(d):
        centre[a] = summary[s, a]
    return summary[s, d + 1]


@lean
def cannot_match(summary, x, y, d, within):
    """Return whether two lines of `summary` imply Pr(match) < least; symmetric in x and y.

    summary : float64[slots, summary_columns(d)]    x, y : slots    within : float64, the distance
    O(d).  Error: none. In one dimension, differences of samples are compared; in more dimensions,
    the bound is widened by SIFT_SLACK.  Source: see `summarise`.
    """
    if d == 1:
        return (
            summary[x, 2] - summary[y, 5] > within
            or summary[y, 4] - summary[x, 3] > within
            or summary[y, 2] - summary[x, 5] > within
            or summary[x, 4] - summary[y, 3] > within
            or summary[x, 6] - summary[y, 7] > within
            or summary[y, 6] - summary[x, 7] > within
        )
    squared = 0.0
    for a in range(d):
        difference = summary[x, a] - summary[y, a]
        squared += difference * difference
    reach = min(
        summary[x, d + 1] + summary[y, d],
        summary[x, d] + summary[y, d + 1],
        summary[x, d + 2] + summary[y, d + 2],
    )
    bound = (within + reach) * (1.0 + SIFT_SLACK)
    return squared > bound * bound
