"""Fewer alternatives: values near each other become one, with their probabilities together."""

import numpy as np

from sfumato.kernels.arrays import sort_slots
from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.signals import after_signals


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
