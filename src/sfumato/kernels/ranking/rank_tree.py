"""Distributions of the number of items above each item, from one descent of a tree of positions.

A node of the tree is a range of positions [a, b). Its distribution is the product of the factors
(see `Factors`) that hold on all of [a, b). A factor enters at the O(log m) nodes that its range
covers without covering their parent. Probabilities are only multiplied, so each entry keeps its
relative precision. (Dividing out the item's rule would be simpler, but would lose all digits after
about a hundred rules of two items.)
Source: Chen et al. (2013), (1), (2) and section 3, offline as a segment tree over rank positions.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import with_room
from sfumato.kernels.compile import compiled, inlined
from sfumato.kernels.distributions.poisson_binomial import LANES, MARGIN, convolve_four, copy, trim
from sfumato.kernels.ranking.ranked_items import front_items
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import NEGLIGIBLE

# For rank distributions: at most three factors hold on a part of such a leaf, so one pass suffices.
ITEMS_PER_LEAF = np.int64(4)
SUMMED_K = 8  # minimum number of values k for which rows are summed together and leaves are smaller


class RankTree(NamedTuple):
    """The path from the root to the current node; level 0 is above the root.

    distributions : float64[levels + 1, size], distributions[d, j + MARGIN] = Pr(j of the factors
        exist), j < most, in the band [low[d], high[d]); the last row is working memory
    items : int64[...], starting at at[d]: parts[d] items whose factors hold on a part of the node
    masses : float64[m], working memory
    waiting : int64[levels + 1, 3], nodes to visit: begin, end, level;  top : int64[1], their number
    """

    distributions: np.ndarray
    low: np.ndarray
    high: np.ndarray
    items: np.ndarray
    at: np.ndarray
    parts: np.ndarray
    masses: np.ndarray
    waiting: np.ndarray
    top: np.ndarray


@compiled
def new_tree(begin, end, most, block):
    """Return a tree over positions [begin, end), with leaves up to `block`, for counts < `most`."""
    levels, length = 2, end - begin
    while length > block:
        length = (length + 1) // 2
        levels += 1
    distributions = np.empty((levels + 1, most + 2 * MARGIN + 3 * (MARGIN + LANES)))
    distributions[0, MARGIN] = 1.0
    low, high = np.zeros(levels, np.int64), np.ones(levels, np.int64)
    at, parts = np.zeros(levels, np.int64), np.zeros(levels, np.int64)
    # Among n positions, at most n factors begin and at most n end.
    room, length = end, end - begin
    for d in range(1, levels):
        at[d] = room
        room += 2 * length + 2
        length = (length + 1) // 2
    items = np.empty(room, np.int64)
    for x in range(end):
        items[x] = x
    parts[0] = end
    waiting = np.empty((levels + 1, 3), np.int64)
    waiting[0, 0], waiting[0, 1], waiting[0, 2] = begin, end, 1
    top = np.ones(1, np.int64) if begin < end else np.zeros(1, np.int64)
    return RankTree(distributions, low, high, items, at, parts, np.empty(end), waiting, top)


@compiled
def next_leaf(tree, factors, most, block):
    """Return the next leaf by position as (begin, end, level); all 0 after the last leaf."""
    while tree.top[0] > 0:
        tree.top[0] -= 1
        top = tree.top[0]
        a, b, depth = tree.waiting[top, 0], tree.waiting[top, 1], tree.waiting[top, 2]
        _descend(tree, depth, a, b, factors, most)
        if b - a <= block:
            return a, b, depth
        middle = (a + b + 1) // 2
        for begin, end in ((middle, b), (a, middle)):
            top = tree.top[0]
            tree.waiting[top, 0], tree.waiting[top, 1], tree.waiting[top, 2] = begin, end, depth + 1
            tree.top[0] += 1
    return np.int64(0), np.int64(0), np.int64(0)


@inlined
def _descend(tree, depth, a, b, factors, most):
    """Write the distribution and the partial items of node [a, b) at `depth`, from its parent."""
    mass, after = factors.mass, factors.after
    parent, own = tree.at[depth - 1], tree.at[depth]
    full, kept = 0, 0
    for j in range(parent, parent + tree.parts[depth - 1]):
        i = tree.items[j]
        end = after[i]
        if i + 1 < b and end > a and end > i + 1:
            if i < a and end >= b:
                tree.masses[full] = mass[i]
                full += 1
            else:
                tree.items[own + kept] = i
                kept += 1
    tree.parts[depth] = kept
    source, low, high = tree.distributions[depth - 1], tree.low[depth - 1], tree.high[depth - 1]
    target, masses = tree.distributions[depth], tree.masses[:full]
    passes = (full + 3) // 4
    if passes == 0:
        copy(source, low + MARGIN, target, low + MARGIN, high - low)
    for step in range(passes):
        # The two rows alternate, so that the last pass ends in this level's distribution.
        result = target if (passes - step) % 2 == 1 else tree.distributions[tree.low.size]
        convolve_four(source, low, high, masses, 4 * step, result)
        low, high = trim(result, low, min(high + min(4, full - 4 * step), most), NEGLIGIBLE)
        source = result
    tree.low[depth], tree.high[depth] = low, high


@compiled
def _multiply_small(q, degree, mass):
    """Multiply q, a polynomial of the given degree, by 1 - mass + mass z, in place."""
    rest = 1.0 - mass
    q[degree + 1] = mass * q[degree]
    for d in range(degree, 0, -1):
        q[d] = rest * q[d] + mass * q[d - 1]
    q[0] = rest * q[0]


@compiled
def _partial_distribution(tree, depth, factors, x, q):
    """Write the distribution of x's factors that hold on a part of its leaf; return its degree."""
    q[0] = 1.0
    degree, own = 0, tree.at[depth]
    for j in range(own, own + tree.parts[depth]):
        i = tree.items[j]
        if i < x < factors.after[i]:
            _multiply_small(q, degree, factors.mass[i])
            degree += 1
    return degree


@inlined
def _fill_cumulative(tree, depth, ks, first, cumulative, windows):
    """Set windows[d, c] = Pr(fewer than ks[c] - d of the node's factors exist) for c >= first."""
    distribution, low, high = tree.distributions[depth], tree.low[depth], tree.high[depth]
    total = 0.0
    for j in range(low, high):
        total += distribution[j + MARGIN]
        cumulative[j] = total
    for d in range(windows.shape[0]):
        for c in range(first, ks.size):
            j = ks[c] - 1 - d
            if j >= high:
                windows[d, c] = total
            else:
                windows[d, c] = cumulative[j] if j >= low else 0.0


@inlined
def _add_tails(p, q, degree, windows, first, out):
    """Set out[c] = p Pr(fewer than ks[c] of q's and the leaf's factors exist) for c >= first."""
    if out.size < SUMMED_K:
        for c in range(first, out.size):
            total = 0.0
            for d in range(degree + 1):
                total += q[d] * windows[d, c]
            out[c] = p * min(total, 1.0)
        return
    row = out[first:]  # the same sums, for all k together
    row[:] = 0.0
    for d in range(degree + 1):
        some, weight = windows[d, first : out.size], q[d]
        for c in range(row.size):
            row[c] += weight * some[c]
    for c in range(row.size):
        row[c] = p * min(row[c], 1.0)


@inlined
def top_k_tails(items, ks):
    """Return the items in front in rank order, and their Pr_k = Pr(the item ranks in the top k).

    ks : int64[c], ascending, the values of k, all computed in one descent
    Returns int64[end] and float64[end, c]; Pr_k of the other items is < 4e-18.
    The factors that hold on a part of a leaf are multiplied into a small polynomial q, which is
    rebuilt only where one of these factors ends, at its rule's next member.
    Cost: O(m + end log(end) band), band about 10 standard deviations.
    Error: absolute, below (m + k) (1e-20 + 4 u) with u = 2**-53; measured 5e-15 at m = 10,000.
    """
    most = ks[ks.size - 1]
    order, factors, begin, end = front_items(items, ks[0], most)
    prob, mass, after, out = factors.prob, factors.mass, factors.after, np.zeros((end, ks.size))
    for x in range(begin):
        out[x, :] = prob[x]
    if begin >= end:
        return order[:end], out  # for example if all items are certain
    block = 32 if ks.size < SUMMED_K else 16
    tree, q = new_tree(begin, end, most, block), np.empty(block + 1)
    ends = np.empty(block, np.bool_)
    cumulative, windows, steps = np.empty(most + 1), np.empty((block, ks.size)), np.int64(0)
    while True:
        a, b, depth = next_leaf(tree, factors, most, block)
        if depth == 0:
            return order[:end], out
        steps = after_signals(steps + 128 * (most + block * block))
        first = np.searchsorted(ks, tree.low[depth], side="right")  # before `first`, `out` stays 0
        _fill_cumulative(tree, depth, ks, first, cumulative, windows[: b - a])
        ends[: b - a] = False
        own = tree.at[depth]
        for j in range(own, own + tree.parts[depth]):
            if after[tree.items[j]] < b:
                ends[after[tree.items[j]] - a] = True
        degree = _partial_distribution(tree, depth, factors, a, q)
        for x in range(a, b):
            if x > a and ends[x - a]:
                degree = _partial_distribution(tree, depth, factors, x, q)
            elif x > a and after[x - 1] > x:
                _multiply_small(q, degree, mass[x - 1])
                degree += 1
            _add_tails(prob[x], q, degree, windows, first, out[x])


@compiled
def rank_distributions(items, most):
    """Return Pr(rank(x) = j + 1) for j < most: x and exactly j items of other rules above it exist.

    Returns owner int64[end], start int64[end + 1], first int64[end] and distribution
    float64[start[end]]: the item x in front, in rank order, belongs to tuple owner[x] and has
    Pr(rank = first[x] + 1 + i) = distribution[start[x] + i]. Other ranks and items are negligible.
    Cost: O(end log(end) band); memory O(end band).  Error: as for `top_k_tails`.
    """
    order, factors, _, end = front_items(items, 1, most)
    start, first = np.zeros(end + 1, np.int64), np.zeros(end, np.int64)
    distribution, tree = np.empty(16 * end + 16), new_tree(0, end, most, ITEMS_PER_LEAF)
    result, active = np.empty(most + 2 * MARGIN + 3 * (MARGIN + LANES)), np.empty(ITEMS_PER_LEAF)
    while True:
        a, b, depth = next_leaf(tree, factors, most, ITEMS_PER_LEAF)
        if depth == 0:
            return items.owner[order[:end]], start, first, distribution[: start[end]]
        own, low = tree.at[depth], tree.low[depth]
        for x in range(a, b):
            count = 0
            for j in range(own, own + tree.parts[depth]):
                i = tree.items[j]
                if i < x < factors.after[i]:
                    active[count] = factors.mass[i]
                    count += 1
            source, high = tree.distributions[depth], tree.high[depth]
            convolve_four(source, low, high, active[:count], 0, result)
            width = min(tree.high[depth] + count, most) - low
            if start[x] + width > distribution.size:
                distribution = with_room(distribution, 2 * (start[x] + width))
            for j in range(width):
                distribution[start[x] + j] = factors.prob[x] * result[low + MARGIN + j]
            first[x], start[x + 1] = low, start[x] + width
