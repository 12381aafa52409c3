"""Regions that hold all, or nearly all, of a tuple's mass: what is pruned without samples.

Object-level pruning: two tuples cannot match when their regions are farther apart than the
distance. Sample-level pruning: leave mass out of both regions; Pr(match) is at most
Pr(X) Pr(Y) - m_X m_Y for the masses m_X, m_Y inside. Three ways to leave out mass serve here,
each chosen for the threshold `least` alone, so that they are computed once a tuple:

    full, trimmed    all of X, Y without mass < least:          the rest is < least
    trimmed, full    the other way round
    half, half       both without mass < 1 - sqrt(1 - least):   the rest is < least

In one dimension the regions are intervals, and mass is left out on one side at a time: only the
side that faces the other tuple matters. In more dimensions they are balls about the centroid (the
mean of the samples, weighted by their probabilities).

A line of `summary` holds, for d dimensions, KEY[0..d-1], the point under which a tuple is
indexed, then REACH, the distance from it within which the trimmed region ends, then
    d = 1:  lowest, highest, trimmed lowest, trimmed highest, half lowest, half highest sample
    d > 1:  full radius, half radius                       (REACH is the trimmed radius)
"""

import math

import numpy as np

from sfumato.kernels.arrays import sort_pairs
from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.joins.tuple_store import SAMPLE_LANES, padded
from sfumato.kernels.tolerances import SIFT_SLACK

FEW_SAMPLES = 24  # samples


@lean
def summary_columns(d):
    """Columns of `summary`."""
    return 8 if d == 1 else d + 3


@lean
def half_mass(least):
    """The mass that may be left out of both tuples: 1 - sqrt(1 - least), a little less."""
    return (1.0 - math.sqrt(1.0 - least)) * (1.0 - 1e-12)


@lean
def _last_below(mass, n, step, share):
    """Place of the last sample, from one end inwards, with mass before it < share."""
    place = 0 if step > 0 else n - 1
    before = 0.0
    for _ in range(n - 1):
        before += mass[place]
        if before >= share:
            break
        place += step
    return place


@lean
def _masses_beside(blocks, at, count, below, above):
    """Mass at smaller and at larger values than each sample's, four samples side by side."""
    # Unsigned places: no test for negative ones, which would keep the lanes from becoming SIMD.
    place = np.uint64(at)
    end, values = place + np.uint64(count), np.uint64(padded(count))
    one, two, three = np.uint64(1), np.uint64(2), np.uint64(3)
    for k in range(0, count, SAMPLE_LANES):
        x = place + values + np.uint64(k)
        a, b, c, d = blocks[x], blocks[x + one], blocks[x + two], blocks[x + three]
        below_a, below_b, below_c, below_d = 0.0, 0.0, 0.0, 0.0
        above_a, above_b, above_c, above_d = 0.0, 0.0, 0.0, 0.0
        for j in range(place, end):
            p, y = blocks[j], blocks[j + values]
            below_a += p if y < a else 0.0
            below_b += p if y < b else 0.0
            below_c += p if y < c else 0.0
            below_d += p if y < d else 0.0
            above_a += p if y > a else 0.0
            above_b += p if y > b else 0.0
            above_c += p if y > c else 0.0
            above_d += p if y > d else 0.0
        below[k], below[k + 1], below[k + 2], below[k + 3] = below_a, below_b, below_c, below_d
        above[k], above[k + 1], above[k + 2], above[k + 3] = above_a, above_b, above_c, above_d


@lean
def _few_quantiles(tuples, s, least, half, below, above):
    """Extremes and trimmed ends by comparing all samples with all: for few, faster than sorting."""
    blocks, at, count, summary = tuples.blocks, tuples.at[s], tuples.samples[s], tuples.summary
    _masses_beside(blocks, at, count, below, above)
    row = at + padded(count)
    low, high_trimmed, high_half = np.inf, np.inf, np.inf
    high, low_trimmed, low_half = -np.inf, -np.inf, -np.inf
    for k in range(count):
        x, under, over = blocks[row + k], below[k], above[k]
        low, high = min(low, x), max(high, x)
        low_trimmed = max(low_trimmed, x if under < least else -np.inf)
        high_trimmed = min(high_trimmed, x if over < least else np.inf)
        low_half = max(low_half, x if under < half else -np.inf)
        high_half = min(high_half, x if over < half else np.inf)
    summary[s, 2], summary[s, 3] = low, high
    summary[s, 4], summary[s, 5] = low_trimmed, high_trimmed
    summary[s, 6], summary[s, 7] = low_half, high_half


@lean
def _quantiles(tuples, s, least, half, value, mass):
    """The same by sorting."""
    blocks, at, count, line = tuples.blocks, tuples.at[s], tuples.samples[s], tuples.summary[s]
    length = padded(count)
    for k in range(count):
        value[k] = blocks[at + length + k]
        mass[k] = blocks[at + k]
    sort_pairs(value, mass, count)
    line[2], line[3] = value[0], value[count - 1]
    line[4] = value[_last_below(mass, count, 1, least)]
    line[5] = value[_last_below(mass, count, -1, least)]
    line[6] = value[_last_below(mass, count, 1, half)]
    line[7] = value[_last_below(mass, count, -1, half)]


@lean
def _summarise_ball(tuples, s, d, least, half, value, mass):
    at, n = tuples.at[s], tuples.samples[s]
    length = padded(n)
    line = tuples.summary[s]
    for a in range(d):
        row = at + (a + 1) * length
        mean = 0.0
        for k in range(n):
            mean += tuples.blocks[at + k] / tuples.existence[s] * tuples.blocks[row + k]
        line[a] = mean
    for k in range(n):
        squared = 0.0
        for a in range(d):
            difference = tuples.blocks[at + (a + 1) * length + k] - line[a]
            squared += difference * difference
        value[k] = math.sqrt(squared)
        mass[k] = tuples.blocks[at + k]
    sort_pairs(value, mass, n)
    line[d] = value[_last_below(mass, n, -1, least)]
    line[d + 1] = value[n - 1]
    line[d + 2] = value[_last_below(mass, n, -1, half)]


@lean
def summarise_one(tuples, s, d, least, value, mass):
    """Write the line of `summary` of slot s; value, mass : float64[>= padded samples], to work in.

    The rest as of `summarise`.
    """
    half, summary = half_mass(least), tuples.summary
    if d > 1:
        _summarise_ball(tuples, s, d, least, half, value, mass)
        return
    if tuples.samples[s] <= FEW_SAMPLES:
        _few_quantiles(tuples, s, least, half, value, mass)
    else:
        _quantiles(tuples, s, least, half, value, mass)
    # For least > 1/2 the trimmed ends cross: each alone is a necessary condition, and between
    # them lies a point that the index may use; its reach is then negative.
    key = 0.5 * summary[s, 4] + 0.5 * summary[s, 5]
    summary[s, 0] = key
    summary[s, 1] = max(summary[s, 5] - key, key - summary[s, 4])


@compiled_ieee
def summarise(tuples, slots, d, least):
    """Write the lines of `summary` of some tuples.

    slots : int64[n]    d : int >= 1    least : float64 in (0, 1), threshold reduced by SIFT_SLACK
    O(samples log samples) a tuple.
    Error: distances carry a relative error of about d * 2**-53, masses of l * 2**-53; `prunes`
    and `least` leave more room than that.
    Source: B, Lemmas 5.1 and 5.2; trimming by the threshold alone: this project.
    """
    largest = 0
    for i in range(slots.size):
        largest = max(largest, tuples.samples[slots[i]])
    value, mass = np.empty(padded(largest)), np.empty(padded(largest))
    for i in range(slots.size):
        summarise_one(tuples, slots[i], d, least, value, mass)


@lean
def prunes(summary, x, y, d, within):
    """Whether two lines of summary show Pr(match) < least; symmetric.

    summary : float64[slots, summary_columns(d)]    x, y : slots    within : float64, the distance
    O(d).  Error: none: in one dimension the differences compared are those of samples, in more
    the bound is widened by SIFT_SLACK.  Source: as `summarise`.
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


@compiled_ieee
def sample_level_prunes(distance, x_radius, x_mass, y_radius, y_mass, within, least):
    """Lemma 5.2 in full: whether some pair of balls shows Pr(match) < least.  O(l_x + l_y).

    distance : float64, of the centroids
    x_radius, y_radius : float64[l], samples' distances to their centroid, ascending
    x_mass, y_mass : float64[l], existence up to and including each of these samples
    As the ball of X grows, the largest possible one of Y shrinks.  Source: B, Lemmas 5.2-5.4,
    generalised to existence below 1.
    """
    y = y_radius.size - 1
    whole = x_mass[-1] * y_mass[-1]
    for x in range(x_radius.size):
        while y >= 0 and distance - x_radius[x] - y_radius[y] <= within * (1.0 + SIFT_SLACK):
            y -= 1
        if y < 0:
            return False
        if whole - x_mass[x] * y_mass[y] < least:
            return True
    return False
