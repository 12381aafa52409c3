"""Imputed distributions reduced to few values.

A calibrated attribute keeps its values at evenly spaced probability levels from 5% to 95%, because
averaging near values would move the ends of the calibrated ranges. Each value gets the probability
between the midpoints to its neighbouring levels. The 90% range is unchanged, and values outside it
are moved to its ends. If 24 or more values are kept, two values at each end have levels outside
the 90% range (0.5% and 2.5%, 97.5% and 99.5%), so the 99% range is also unchanged. If three to nine
values are kept, the first and the last represent a tenth each, and the others equal shares of the
rest.
"""

import heapq

import numpy as np

from sfumato.kernels.arrays import sort_slots
from sfumato.kernels.compile import compiled_ieee, inlined, lean, lean_inline
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import SHARE_TIE


@compiled_ieee
def _widest(points, order, begin, end, span):
    """Return (extent in units of `span`, axis, low, high) of a group's widest axis."""
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


@inlined
def _split(points, order, begin, end, axis, low, high, aside):
    """Split a group at the middle of an axis, keeping order; return the second part's start."""
    middle = low + (high - low) * 0.5
    first, second = begin, 0
    for i in range(begin, end):
        x = points[axis, order[i]]
        if x <= middle and x < high:  # the middle of neighbouring floats equals one of them
            order[first] = order[i]
            first += 1
        else:
            aside[second] = order[i]
            second += 1
    for i in range(second):
        order[first + i] = aside[i]
    return first


@compiled_ieee
def merge_nearest(points, weight, n, most, span, moved):
    """Reduce n values to at most `most` by merging near values into their weighted means.

    points : float64[g, >= n], n distinct values of g attributes; weight : float64[>= n] > 0; the
    first places of both are overwritten with the result, still ascending in one dimension
    span : float64[g] > 0, the unit of each attribute
    moved : float64[g], written: the largest distance by which a value was moved
    Returns min(n, most). The values are one group at first. The group with the largest extent is
    cut at the middle of its widest attribute until there are `most` groups.
    Cost: O(n log most) for evenly spread values, O(n * most) at worst.
    """
    moved[:] = 0.0
    if n <= most:
        return n
    g = points.shape[0]
    order, aside = np.arange(n), np.empty(n, np.int64)
    begin, end = np.zeros(most, np.int64), np.zeros(most, np.int64)
    width, axis, low, high = _widest(points, order, 0, n, span)
    end[0], heap, steps = n, [(-width, np.int64(0), 0, axis, low, high)], np.int64(0)
    for group in range(1, most):
        _, first, widest, axis, low, high = heapq.heappop(heap)  # the first of equal extents
        steps = after_signals(steps + 8 * (end[widest] - first))
        begin[group] = _split(points, order, first, end[widest], axis, low, high, aside)
        end[group], end[widest] = end[widest], begin[group]
        for part in (widest, group):
            width, axis, low, high = _widest(points, order, begin[part], end[part], span)
            heapq.heappush(heap, (-width, begin[part], part, axis, low, high))
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


LOWEST_LEVEL = 0.05  # lowest level of three or more kept values
FEW_LEVELS = 10  # minimum number of kept values with evenly spaced levels
TWO_ENDED_LEVELS = 24  # minimum number of kept values with two outer levels at each end
OUTER_LEVEL, INNER_LEVEL = 0.005, 0.025


@lean_inline
def level_of(i, most):
    """Return the probability level of value i of `most`, in (0, 1) and ascending with i."""
    if most >= TWO_ENDED_LEVELS and i < 2:
        return OUTER_LEVEL if i == 0 else INNER_LEVEL
    if most >= TWO_ENDED_LEVELS and i >= most - 2:
        return 1.0 - (OUTER_LEVEL if i == most - 1 else INNER_LEVEL)
    if most < 3:
        return (i + 0.5) / most
    if most < FEW_LEVELS and 0 < i < most - 1:
        return 2.0 * LOWEST_LEVEL + (i - 0.5) * (1.0 - 4.0 * LOWEST_LEVEL) / (most - 2)
    ends = 2 if most >= TWO_ENDED_LEVELS else 0
    return LOWEST_LEVEL + (i - ends) * (1.0 - 2.0 * LOWEST_LEVEL) / (most - 1 - 2 * ends)


@inlined
def end_of(i, most):
    """Return the probability level up to which value i of `most` represents values."""
    if i == most - 1:
        return 1.0
    if 3 <= most < FEW_LEVELS:
        return 2.0 * LOWEST_LEVEL + i * (1.0 - 4.0 * LOWEST_LEVEL) / (most - 2)
    return 0.5 * (level_of(i, most) + level_of(i + 1, most))


@lean
def thin_to_quantiles(distribution, weight, k, total, most):
    """Keep at most `most` of k ascending values, in place; return (number, largest move).

    weight : with sum `total`; kept weights have sum 1 if k > most.  O(k + most)
    """
    if k <= most:
        return k, 0.0
    kept, farthest, j, cumulated, start, least = 0, 0.0, 0, weight[0] / total, 0.0, distribution[0]
    for i in range(most):
        level, end = level_of(i, most), end_of(i, most)
        while cumulated < level - SHARE_TIE and j < k - 1:
            j += 1
            cumulated += weight[j] / total
        value = distribution[j]
        farthest = max(farthest, value - least)
        while cumulated < end - SHARE_TIE and j < k - 1:
            j += 1
            cumulated += weight[j] / total
        least = distribution[j]
        farthest = max(farthest, least - value)
        if kept > 0 and distribution[kept - 1] == value:
            weight[kept - 1] += end - start
        else:  # the write position never passes the read position
            distribution[kept], weight[kept] = value, end - start
            kept += 1
        start = end
    return kept, farthest
