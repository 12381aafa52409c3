"""Imputed distributions reduced to few values.

Values of a calibrated attribute are kept at evenly spaced levels of probability. The ranges that
were calibrated shall stay as they are. Means of near values would move their ends,
so values are kept as they stand: those at even levels from 5% to 95%, each with the probability
from halfway to the level before to halfway to the next. The range of probability 90% is the same
then, and what lies beyond it is taken to its ends. Of 24 and more values two stand beyond at each
end, so that the range of probability 99% is the same, too. Fewer than ten stand for equal shares.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import sort_slots
from sfumato.kernels.compile import compiled_ieee, lean, lean_inline
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import SHARE_TIE


class AlternativeRows(NamedTuple):
    """prob : float64[m]    points : float64[m, T], the attributes imputed."""

    prob: np.ndarray
    points: np.ndarray


@compiled_ieee
def room_for(rows, needed):
    """`rows`, or larger ones that begin with them, with room for so many."""
    prob, points = rows.prob, rows.points
    if needed <= prob.size:
        return rows
    size = max(needed, 2 * prob.size)
    more, more_points = np.empty(size), np.empty((size, points.shape[1]))
    for i in range(prob.size):
        more[i] = prob[i]
        for a in range(points.shape[1]):
            more_points[i, a] = points[i, a]
    return AlternativeRows(more, more_points)


@compiled_ieee
def _widest(points, order, begin, end, span):
    """The axis on which a group extends farthest, in units of `span`: (extent, axis, low, high)."""
    extent, axis, lowest, highest = -1.0, 0, 0.0, 0.0
    for a in range(points.shape[0]):
        low, high = np.inf, -np.inf
        for i in range(begin, end):
            x = points[a, order[i]]
            low, high = min(low, x), max(high, x)
        width = (high - low) / span[a]
        if width > extent:
            extent, axis, lowest, highest = width, a, low, high
    return extent, axis, lowest, highest


@compiled_ieee
def _split(points, order, begin, end, axis, low, high, aside):
    """Divide a group at the middle of an axis, parts in their order; where the second begins."""
    middle = low + (high - low) * 0.5
    first, second = begin, 0
    for i in range(begin, end):
        x = points[axis, order[i]]
        if x <= middle and x < high:  # the second: the middle of neighbouring floats is one of them
            order[first] = order[i]
            first += 1
        else:
            aside[second] = order[i]
            second += 1
    for i in range(second):
        order[first + i] = aside[i]
    return first


@compiled_ieee
def _before(extent, begin, i, j):
    return extent[i] > extent[j] or (extent[i] == extent[j] and begin[i] < begin[j])


@compiled_ieee
def _push(heap, size, group, extent, begin):
    i = size
    heap[i] = group
    while i > 0 and _before(extent, begin, heap[i], heap[(i - 1) // 2]):
        heap[i], heap[(i - 1) // 2] = heap[(i - 1) // 2], heap[i]
        i = (i - 1) // 2


@compiled_ieee
def _pop(heap, size, extent, begin):
    """Take the first group off a heap of `size`; it has one less then."""
    group, i = heap[0], 0
    heap[0] = heap[size - 1]
    while 2 * i + 1 < size - 1:
        child = 2 * i + 1
        if child + 1 < size - 1 and _before(extent, begin, heap[child + 1], heap[child]):
            child += 1
        if not _before(extent, begin, heap[child], heap[i]):
            break
        heap[i], heap[child] = heap[child], heap[i]
        i = child
    return group


@compiled_ieee
def merge_nearest(points, weight, n, most, span, moved):
    """At most `most` values in place of n: near ones merged into their weighted mean.

    points : float64[g, >= n], n distinct values of g attributes; weight : float64[>= n] > 0; the
    first places of both are overwritten with the result, in one dimension still ascending
    span : float64[g] > 0, what counts as 1 on each attribute
    moved : float64[g], written: the farthest any value was moved.  Returns min(n, most).
    All values are one group first; the group that extends farthest, on its widest attribute, is cut
    at the middle of that extent until there are `most`: a larger extent never stays whole while a
    smaller one was cut.
    Cost: O(n log most) for values spread evenly, O(n * most) at worst.
    """
    moved[:] = 0.0
    if n <= most:
        return n
    g = points.shape[0]
    order, aside = np.arange(n), np.empty(n, np.int64)
    begin, end, heap = np.zeros(most, np.int64), np.zeros(most, np.int64), np.empty(most, np.int64)
    extent, axis = np.empty(most), np.empty(most, np.int64)
    low, high = np.empty(most), np.empty(most)
    end[0] = n
    extent[0], axis[0], low[0], high[0] = _widest(points, order, 0, n, span)
    heap[0], steps = 0, np.int64(0)
    for group in range(1, most):
        widest = _pop(heap, group, extent, begin)
        steps = after_signals(steps + 8 * (end[widest] - begin[widest]))
        begin[group] = _split(
            points, order, begin[widest], end[widest], axis[widest],
            low[widest], high[widest], aside,
        )  # fmt: skip
        end[group], end[widest] = end[widest], begin[group]
        for part in (widest, group):
            extent[part], axis[part], low[part], high[part] = _widest(
                points, order, begin[part], end[part], span
            )
        _push(heap, group - 1, widest, extent, begin)
        _push(heap, group, group, extent, begin)
    sort_slots(begin, most)
    merged, total = np.empty((g, most)), np.zeros(most)
    for i in range(most):
        last = begin[i + 1] if i + 1 < most else n
        for j in range(begin[i], last):
            total[i] += weight[order[j]]
        for a in range(g):
            mean, least, largest = 0.0, np.inf, -np.inf
            for j in range(begin[i], last):
                x = points[a, order[j]]
                mean += weight[order[j]] / total[i] * x
                least, largest = min(least, x), max(largest, x)
            mean = min(max(mean, least), largest)
            merged[a, i] = mean
            moved[a] = max(moved[a], mean - least, largest - mean)
    for i in range(most):
        weight[i] = total[i]
        for a in range(g):
            points[a, i] = merged[a, i]
    return most


LOWEST = 0.05  # level kept of ten or more
TWO_ENDED_LEVELS = 24  # values of which two at each end stand for the levels below
FIRST, SECOND = 0.005, 0.025


@lean_inline
def level_of(i, most):
    """The level of probability of value i of `most`, before rounding: in (0, 1), ascending."""
    if most >= TWO_ENDED_LEVELS and i < 2:
        return FIRST if i == 0 else SECOND
    if most >= TWO_ENDED_LEVELS and i >= most - 2:
        return 1.0 - (FIRST if i == most - 1 else SECOND)
    ends = 2 if most >= TWO_ENDED_LEVELS else 0
    lowest = max(LOWEST, 0.5 / most)
    return lowest + (i - ends) * (1.0 - 2.0 * lowest) / max(most - 1 - 2 * ends, 1)


@lean
def keep_levels(law, weight, k, total, most):
    """At most `most` of k values, ascending, in place: (how many, the farthest one was moved).

    weight : of sum `total`; of what is kept of sum 1, if there were more than `most`.  O(k + most)
    """
    if k <= most:
        return k, 0.0
    kept, farthest, j, cumulated, start, least = 0, 0.0, 0, weight[0] / total, 0.0, law[0]
    for i in range(most):
        level = level_of(i, most)
        end = 0.5 * (level + level_of(i + 1, most)) if i < most - 1 else 1.0
        while cumulated < level - SHARE_TIE and j < k - 1:
            j += 1
            cumulated += weight[j] / total
        value = law[j]
        farthest = max(farthest, value - least)
        while cumulated < end - SHARE_TIE and j < k - 1:
            j += 1
            cumulated += weight[j] / total
        least = law[j]
        farthest = max(farthest, least - value)
        if kept > 0 and law[kept - 1] == value:
            weight[kept - 1] += end - start
        else:  # never behind what is still read
            law[kept], weight[kept] = value, end - start
            kept += 1
        start = end
    return kept, farthest
