"""Calibration of distributions by leaving out each row of the repository.

The rank of a left-out value is its position, from 0 to 1, in the distribution inferred from the
other rows. Ranks are uniform if the distributions are correct, and concentrate in the middle if the
distributions are too wide. A curve fitted to the ranks turns cumulated shares into probabilities
with uniform ranks. Values beyond all donors have no rank: the curve starts at the share of values
below and ends at one minus the share above. The distances of these values, in units that grow with
the donors' deviation, form the tails of `TAIL` values at each end.

A new value is below the smallest of m left-out values with probability 1 / (m + 1), at an unknown
distance. So each tail gets a further value at its far end, with probability 1 / (m + 2), at the
distance of the farthest left-out row times `reach_of`. Central ranges of probability above
1 - 2 / (m + 2) end at these values.

An object with more missing attributes has different donors. Therefore each number of missing
determinants has a separate curve with tails. The last curve also covers all larger numbers.

Source: recalibration of Kuleshov, Fenner and Ermon (2018), by leaving one row out; a split
conformal predictive system (Vovk et al. 2019) by groups, with ranks among the donors.
"""

import math

import numpy as np

from sfumato.kernels.arrays import first_at_least
from sfumato.kernels.compile import compiled_ieee, inlined, lean
from sfumato.kernels.imputation.repository import TAIL

ENOUGH_ROWS = 199  # rows that suffice for a central 99% range


@lean
def group_of(repository, t, scaled):
    """Return the index of an object's curve: its number of missing determinants, capped."""
    missing, groups = 0, repository.curve.shape[1]
    for a in range(scaled.size):
        missing += repository.sets.determinants[t, a] and np.isnan(scaled[a])
    return min(missing, groups - 1)


@lean
def deviation_of(distribution, weight, k, total):
    mean, squares = 0.0, 0.0
    for i in range(k):
        mean += weight[i] / total * distribution[i]
    for i in range(k):
        squares += weight[i] / total * (distribution[i] - mean) * (distribution[i] - mean)
    return math.sqrt(squares)


@lean
def rank_of(value, distribution, weight, k, total, chance):
    """Return the rank of a value among k ascending values: the share below it, in [0, 1].

    chance : in [0, 1), selects the point within the share of an equal value, or between the middles
    of the two neighbours' shares
    """
    below, j = 0.0, 0
    while j < k and distribution[j] < value:
        below += weight[j]
        j += 1
    if j < k and distribution[j] == value:
        return (below + chance * weight[j]) / total
    left = weight[j - 1] / 2.0 if j > 0 else 0.0
    right = weight[j] / 2.0 if j < k else 0.0
    return (below - left + chance * (left + right)) / total


@lean
def height(curve, share):
    """Interpolate the curve of q + 1 equally spaced points at a share in [0, 1]."""
    q = curve.size - 1
    at = share * q
    i = min(int(at), q - 1)
    return curve[i] + (curve[i + 1] - curve[i]) * (at - i)


@lean
def _tail_value(repository, t, x, info):
    """Return x within bounds; if values repeat, the repository's nearest value within bounds."""
    x, values = min(max(x, info.low), info.high), repository.values
    if info.repeated:
        first, last = repository.first_value[t], repository.first_value[t + 1]
        i = first_at_least(values, first, last - 1, x)
        if i > first and x - values[i - 1] <= values[i] - x:
            i -= 1
        x = values[i] if info.low <= values[i] <= info.high else x
    return x


@lean
def merge_equal(distribution, weight, n):
    """Merge equal values among n ascending ones; drop values without weight; return the count."""
    k = 0
    for i in range(n):
        if weight[i] <= 0.0:
            continue
        if k > 0 and distribution[i] == distribution[k - 1]:
            weight[k - 1] += weight[i]
        else:
            distribution[k], weight[k] = distribution[i], weight[i]
            k += 1
    return k


@lean
def calibrate(repository, t, group, scratch):
    """Convert the distribution of attribute t into calibrated probabilities, with tails."""
    k = scratch.info[t].size
    distribution, weight, info = scratch.distribution[t], scratch.weight[t], scratch.info[t]
    curve, tails = repository.curve[t, group], repository.tails[t, group]
    far = repository.far[t, group]
    # Unit of distances beyond the donors. Squares of small numbers would underflow to 0.
    unit = math.hypot(repository.weighting[t].unit, info.deviation)
    least, largest, top = distribution[0], distribution[k - 1], curve[curve.size - 1]
    length = TAIL + 1
    for i in range(k - 1, -1, -1):
        distribution[i + length], weight[i + length] = distribution[i], weight[i]
    before, cumulated = curve[0], 0.0
    for i in range(length, length + k):
        cumulated += weight[i]
        now = top if i == length + k - 1 else height(curve, min(cumulated / info.total, 1.0))
        weight[i] = now - before
        before = now
    for j in range(length):
        below, above = TAIL - j, length + k + j
        x, y = least - tails[0, j] * unit, largest + tails[1, j] * unit
        distribution[below] = min(_tail_value(repository, t, x, info), least)
        distribution[above] = max(_tail_value(repository, t, y, info), largest)
        weight[below] = far if j == TAIL else (curve[0] - far) / TAIL
        weight[above] = far if j == TAIL else (1.0 - top - far) / TAIL
    info.size, info.total = merge_equal(distribution, weight, k + 2 * length), 1.0


@lean
def reach_of(rows):
    """Return the far end of a tail as a multiple of the farthest row's distance.

    The multiple is 1 with `ENOUGH_ROWS` or more rows. With fewer rows, the tail is assumed to fall
    like that of Student's t distribution with one or two degrees of freedom.
    """
    if rows >= ENOUGH_ROWS:
        return 1.0
    ratio = ENOUGH_ROWS / (rows + 1.0)
    return ratio if rows < 3 else math.sqrt(ratio)


@inlined
def widen_few(distribution, weight, info):
    """Add far ends to an attribute's distribution if the repository has few rows.

    Nothing changes with `ENOUGH_ROWS` or more rows, or if most rows repeat another row's value.
    """
    rows, k = info.total, info.size
    if rows >= ENOUGH_ROWS or 2 * k < rows or k < 2:
        return
    far = reach_of(rows) * deviation_of(distribution, weight, k, rows)
    for i in range(k - 1, -1, -1):
        distribution[i + 1], weight[i + 1] = distribution[i], weight[i]
    distribution[0], distribution[k + 1] = distribution[1] - far, distribution[k] + far
    weight[0], weight[k + 1] = 1.0, 1.0
    info.size, info.total = k + 2, rows + 2.0


@compiled_ieee
def curve_of(ranks, beyond, q, prior):
    """Return the curve of ranks, float64[q + 1], the tails, float64[2, TAIL + 1], and the
    probability of each far end.

    ranks : float64[n], of values within the donors' range
    beyond : float64[m], ascending distances of other values, below (< 0) or above (> 0)
    prior : number of uniform ranks that smooth the curve
    The distances in a tail ascend; the last distance is the far end.
    """
    counts, tails = np.full(q, prior / q), np.zeros((2, TAIL + 1))
    for rank in ranks:
        counts[min(int(rank * q), q - 1)] += 1.0
    below = 0
    while below < beyond.size and beyond[below] < 0.0:
        below += 1
    rows, above = ranks.size + beyond.size, beyond.size - below
    if rows == 0:
        return np.linspace(0.0, 1.0, q + 1), tails, 0.0
    curve, total = np.empty(q + 1), rows + 2.0
    curve[0] = (below + 1.0) / total
    for i in range(q):
        curve[i + 1] = curve[i] + counts[i] / (prior + ranks.size) * (ranks.size / total)
    curve[q] = 1.0 - (above + 1.0) / total
    farthest = 0.0
    for j in range(TAIL):
        if below > 0:
            tails[0, j] = -beyond[below - 1 - int((j + 0.5) / TAIL * below)]
        if above > 0:
            tails[1, j] = beyond[below + int((j + 0.5) / TAIL * above)]
    if beyond.size > 0:
        farthest = max(abs(beyond[0]), abs(beyond[beyond.size - 1]))
    tails[:, TAIL] = reach_of(rows) * farthest
    return curve, tails, 1.0 / total
