"""Distributions corrected by what the repository's own rows show when they are left out.

Where a value of the repository, hidden, falls within the distribution that the others give for it
is its rank, from 0 to 1. If distributions are right, ranks are uniform; if they are too wide, they
crowd in the middle. A curve that rises as ranks do turns cumulated shares into probabilities whose
ranks are uniform. Values beyond all donors' have no rank: the curve begins at the share of those
below and ends before the share of those above. How far beyond they were, in units that grow with
the donors' deviation, makes the tails, `TAIL` values at each end.

A new value is below the least of m values left out with probability 1 / (m + 1), and nothing shows
how far. So one more value stands at the far end of each tail, with the probability 1 / (m + 2). Its
distance is that of the farthest row left out, times `reach_of`: of few rows, several times as far.
Central ranges of probability above 1 - 2 / (m + 2) end there.

An object that lacks more has other donors: there is a curve, and tails, for each number of lacking
attributes that dependencies ask about, the last for so many and more.

Source: recalibration of Kuleshov, Fenner and Ermon (2018), by leaving one row out; a split
conformal predictive system (Vovk et al. 2019) by groups, whose ranks are those of the donors.
"""

import math

import numpy as np

from sfumato.kernels.arrays import first_at_least
from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.imputation.repository import TAIL

ENOUGH_ROWS = 199  # show a central range of probability 99%


@lean
def group_of(repository, t, scaled):
    """Which curve an object has: how many of the attributes that are asked about it lacks."""
    lacking, groups = 0, repository.curve.shape[1]
    for a in range(scaled.size):
        lacking += repository.asks[t, a] and np.isnan(scaled[a])
    return min(lacking, groups - 1)


@lean
def deviation_of(law, weight, k, total):
    """The standard deviation of k values of these weights."""
    mean, squares = 0.0, 0.0
    for i in range(k):
        mean += weight[i] / total * law[i]
    for i in range(k):
        squares += weight[i] / total * (law[i] - mean) * (law[i] - mean)
    return math.sqrt(squares)


@lean
def rank_of(value, law, weight, k, total, chance):
    """Where a value falls among k ascending ones: the share below it, in [0, 1].

    chance : in [0, 1), decides where it is equal to one, and between two: from the middle of the
    share of one to the middle of the next one's
    """
    below, j = 0.0, 0
    while j < k and law[j] < value:
        below += weight[j]
        j += 1
    if j < k and law[j] == value:
        return (below + chance * weight[j]) / total
    left = weight[j - 1] / 2.0 if j > 0 else 0.0
    right = weight[j] / 2.0 if j < k else 0.0
    return (below - left + chance * (left + right)) / total


@lean
def height(curve, share):
    """The curve at a share in [0, 1]: linear between its q + 1 points, at equal steps."""
    q = curve.size - 1
    at = share * q
    i = min(int(at), q - 1)
    return curve[i] + (curve[i + 1] - curve[i]) * (at - i)


@lean
def _known_value(values, first, last, x):
    """The one of ascending values[first:last] that is nearest to x, the lower of two."""
    begin = first_at_least(values, first, last - 1, x)
    if begin > first and x - values[begin - 1] <= values[begin] - x:
        begin -= 1
    return values[begin]


@lean
def _tail_value(repository, t, x, about):
    """A value of a tail: within bounds, and where most donors' values are equal to another's one of
    the repository's."""
    x = min(max(x, about.low), about.high)
    if about.repeated:
        first, last = repository.first_value[t], repository.first_value[t + 1]
        known = _known_value(repository.values, first, last, x)
        x = known if about.low <= known <= about.high else x
    return x


@lean
def _merged(law, weight, n):
    """Of n values, not falling, the distinct ones that have weight; how many."""
    k = 0
    for i in range(n):
        if weight[i] <= 0.0:
            continue
        if k > 0 and law[i] == law[k - 1]:
            weight[k - 1] += weight[i]
        else:
            law[k], weight[k] = law[i], weight[i]
            k += 1
    return k


@lean
def calibrate(repository, t, group, k, scratch):
    """Turn attribute t's law of k values into probabilities, with tails; how many values now."""
    law, weight, about = scratch.law[t], scratch.weight[t], scratch.about[t]
    curve, tails = repository.curve[t, group], repository.tails[t, group]
    far = repository.far[t, group]
    # What distances beyond the donors are measured in; the squares of small numbers are 0.
    unit = math.hypot(repository.lending[t].unit, about.deviation)
    least, largest, top = law[0], law[k - 1], curve[curve.size - 1]
    length = TAIL + 1
    for i in range(k - 1, -1, -1):
        law[i + length], weight[i + length] = law[i], weight[i]
    before, cumulated = curve[0], 0.0
    for i in range(length, length + k):
        cumulated += weight[i]
        now = top if i == length + k - 1 else height(curve, min(cumulated / about.total, 1.0))
        weight[i] = now - before
        before = now
    for j in range(length):
        below, above = TAIL - j, length + k + j
        x, y = least - tails[0, j] * unit, largest + tails[1, j] * unit
        law[below] = min(_tail_value(repository, t, x, about), least)
        law[above] = max(_tail_value(repository, t, y, about), largest)
        weight[below] = far if j == TAIL else (curve[0] - far) / TAIL
        weight[above] = far if j == TAIL else (1.0 - top - far) / TAIL
    return _merged(law, weight, k + 2 * length)


@lean
def reach_of(rows):
    """How many times as far as the farthest of so many rows the far end of a tail is.

    1 where they show a range of probability 99%. For fewer the tail is taken to fall like that of
    Student's t with one or two degrees of freedom.
    """
    if rows >= ENOUGH_ROWS:
        return 1.0
    ratio = ENOUGH_ROWS / (rows + 1.0)
    return ratio if rows < 3 else math.sqrt(ratio)


@lean
def widen_few(repository, t, k, scratch):
    """Add the far ends to attribute t's distribution in a repository of few rows, of k values.

    Returns how many values there are now. Nothing changes where most rows have the value of
    another one, or there are `ENOUGH_ROWS`.
    """
    law, weight, about = scratch.law[t], scratch.weight[t], scratch.about[t]
    rows = about.total
    if rows >= ENOUGH_ROWS or 2 * k < rows or k < 2:
        return k
    far = reach_of(rows) * deviation_of(law, weight, k, rows)
    for i in range(k - 1, -1, -1):
        law[i + 1], weight[i + 1] = law[i], weight[i]
    law[0], law[k + 1] = law[1] - far, law[k] + far
    weight[0], weight[k + 1] = 1.0, 1.0
    about.total = rows + 2.0
    return k + 2


@compiled_ieee
def curve_of(ranks, beyond, q, prior):
    """The curve of ranks, float64[q + 1], tails, float64[2, TAIL + 1], and the probability of each
    far end.

    ranks : float64[n], of those within    beyond : float64[m], how far others were below (< 0) or
    above (> 0), ascending    prior : so many uniform ranks smooth the curve between its ends
    Distances in tails ascend; the last is that of the far end.
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
