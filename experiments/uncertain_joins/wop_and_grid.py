"""Algorithms of Lian and Chen (2009), in plain code: WoP (no pruning), Grid (both prunings).

The two streams x and y have objects with l equally probable samples, in columns: float64[n, d, l].
At timestamp t, x[t] arrives first, then y[t]. Each is matched with the newest held objects of the
other side, at most `rows`, and then enters its own window. Arrival 2t is x[t], 2t + 1 is y[t].
"""

# mypy: allow-untyped-defs, allow-untyped-decorators

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.tolerances import SIFT_SLACK


@compiled_ieee
def sample_level_prunes(distance, x_radius, x_mass, y_radius, y_mass, within, least):
    """Apply Lemma 5.2 in full: return whether some pair of balls shows Pr(match) < least.

    distance : float64, of the centroids
    x_radius, y_radius : float64[l], samples' distances to their centroid, ascending
    x_mass, y_mass : float64[l], existence up to and including each of these samples
    As the ball of X grows, the largest possible ball of Y shrinks.  Cost: O(l_x + l_y).
    Source: Lian and Chen (2009), Lemmas 5.2-5.4, generalised to existence below 1.
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


class Counts(NamedTuple):
    """Numbers of pairs: all, pruned by object and by sample (Lemmas 5.1, 5.2), answers."""

    pairs: int
    by_object: int
    by_sample: int
    answers: int


class Matching(NamedTuple):
    """The parameters of a join: windows of `rows`, first timestamp, distance, share of pairs."""

    rows: int
    begin: int
    within: float
    share: float


@compiled_ieee
def _near_pairs(one, other, limit, squared):
    """Return the number of pairs of samples within the distance: int64.

    one, other : float64[d, l]    limit : float64, the distance squared    squared : float64[l]
    """
    d, samples = one.shape
    near = 0
    for k in range(samples):
        squared[:] = 0.0
        for a in range(d):
            value = one[a, k]
            for j in range(samples):
                squared[j] += (value - other[a, j]) * (value - other[a, j])
        for j in range(samples):
            near += squared[j] <= limit
    return near


@compiled_ieee
def _keep(found, n, arrival, other):
    if n == len(found):
        more = np.empty((2 * n, 2), np.int64)
        for i in range(n):
            more[i, 0], more[i, 1] = found[i, 0], found[i, 1]
        found = more
    found[n, 0], found[n, 1] = arrival, other
    return found


@compiled_ieee
def scan_join(x, y, matching):
    """WoP: compare each arrival with every held object of the other side, by all their samples.

    x, y : float64[n, d, l]    matching : Matching
    Returns int64[m, 2]: the arrival, and the timestamp of the object it matches.
    Cost: O(rows d l**2) per arrival.  Source: Lian and Chen (2009), sections 3 and 7 (WoP).
    """
    n, _, samples = x.shape
    squared, limit = np.empty(samples), matching.within**2
    least = matching.share * samples * samples
    found, count = np.empty((64, 2), np.int64), 0
    for t in range(matching.begin, n):
        for side in range(2):
            one, others = (x[t], y) if side == 0 else (y[t], x)
            # When y[t] arrives, x[t] has entered, and the oldest x may have left.
            for i in range(max(0, t + side - matching.rows), t + side):
                if _near_pairs(one, others[i], limit, squared) >= least:
                    found = _keep(found, count, 2 * t + side, i)
                    count += 1
    return found[:count]


@compiled_ieee
def _ball(points, centre, radii):
    """Write the centroid of an object, and its samples' distances to it, ascending."""
    d, samples = points.shape
    for a in range(d):
        centre[a] = 0.0
        for k in range(samples):
            centre[a] += points[a, k]
        centre[a] /= samples
    for k in range(samples):
        radii[k] = 0.0
        for a in range(d):
            radii[k] += (points[a, k] - centre[a]) * (points[a, k] - centre[a])
        radii[k] = math.sqrt(radii[k])
    radii.sort()


@compiled_ieee
def _cell(value, cells):
    return min(max(np.int64(math.floor(value * cells)), 0), cells - 1)


@compiled_ieee
def _visit(centre, reach, cells, heads, after, slots):
    """Write the objects in cells that intersect the ball to `slots`; return their number."""
    d = centre.size
    first, last, at = np.empty(d, np.int64), np.empty(d, np.int64), np.empty(d, np.int64)
    for a in range(d):
        first[a] = _cell(centre[a] - reach, cells)
        last[a] = _cell(centre[a] + reach, cells)
        at[a] = first[a]
    n = 0
    while at[0] <= last[0]:
        number = 0
        for a in range(d):
            number = number * cells + at[a]
        slot = heads[number]
        while slot >= 0:
            slots[n] = slot
            n += 1
            slot = after[slot]
        a = d - 1
        at[a] += 1
        while a > 0 and at[a] > last[a]:
            at[a] = first[a]
            a -= 1
            at[a] += 1
    return n


@compiled_ieee
def grid_join(x, y, matching, cells):
    """Grid: objects by centre in a grid; pruned by object, then by sample, then refined.

    x, y, matching : as in `scan_join`, coordinates about [0, 1]    cells : int, per dimension
    Returns (found, Counts): found as in `scan_join`, each arrival's matches in no order. Cost: O(l
    log l) per arrival, O(1) to index, then the visited objects: O(l) per candidate of object
    pruning and O(d l**2) per candidate of sample pruning.  Source: Lian and Chen (2009), sections 5
    and 6.
    """
    n, d, samples = x.shape
    rows, begin, within, share = matching
    points, limit = (x, y), within**2
    centre, radii = np.empty((2, n, d)), np.empty((2, n, samples))
    mass = np.arange(1, samples + 1) / samples
    heads = np.full((2, cells**d), -1)
    after, before = np.empty((2, n), np.int64), np.empty((2, n), np.int64)
    number = np.empty((2, n), np.int64)
    queue = np.empty((2, n), np.int64)  # r_max: objects in order of arrival, with descending radii
    front, back = np.zeros(2, np.int64), np.zeros(2, np.int64)
    slots, squared = np.empty(n, np.int64), np.empty(samples)
    pairs, by_object, by_sample, least = 0, 0, 0, share * samples * samples
    found, count = np.empty((64, 2), np.int64), 0
    for t in range(n):
        for s in range(2):
            o = 1 - s
            _ball(points[s][t], centre[s, t], radii[s, t])
            reach = radii[s, t, samples - 1]
            if t >= begin and front[o] < back[o]:
                held = min(rows, t + s)
                pairs += held
                by_object += held
                bound = within + reach + radii[o, queue[o, front[o]], samples - 1]
                near = _visit(centre[s, t], bound, cells, heads[o], after[o], slots)
                for j in range(near):
                    i = slots[j]
                    distance = 0.0
                    for a in range(d):
                        distance += (centre[s, t, a] - centre[o, i, a]) ** 2
                    distance = math.sqrt(distance)
                    if distance > (within + reach + radii[o, i, samples - 1]) * (1.0 + 1e-9):
                        continue
                    by_object -= 1
                    if sample_level_prunes(
                        distance, radii[s, t], mass, radii[o, i], mass, within, share
                    ):
                        by_sample += 1
                    elif _near_pairs(points[s][t], points[o][i], limit, squared) >= least:
                        found = _keep(found, count, 2 * t + s, i)
                        count += 1
            place = 0
            for a in range(d):
                place = place * cells + _cell(centre[s, t, a], cells)
            first = heads[s, place]
            number[s, t], after[s, t], before[s, t] = place, first, -1
            if first >= 0:
                before[s, first] = t
            heads[s, place] = t
            while back[s] > front[s] and radii[s, queue[s, back[s] - 1], samples - 1] <= reach:
                back[s] -= 1
            queue[s, back[s]] = t
            back[s] += 1
            old = t - rows
            if old >= 0:
                later, earlier = after[s, old], before[s, old]
                if earlier < 0:
                    heads[s, number[s, old]] = later
                else:
                    after[s, earlier] = later
                if later >= 0:
                    before[s, later] = earlier
                if queue[s, front[s]] == old:
                    front[s] += 1
    return found[:count], Counts(pairs, by_object, by_sample, count)
