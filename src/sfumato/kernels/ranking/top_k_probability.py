"""Pr_k: the probability to exist with fewer than k items above, for all items and several k."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.laws.poisson_binomial import MARGIN
from sfumato.kernels.ranking.rank_law import LEVELS, enter, plant
from sfumato.kernels.signals import after_signals

ITEMS_PER_BLOCK = 32
SUMMED_K = 8  # from so many k on, a row of them is added up at once


class Tails(NamedTuple):
    """Which Pr_k are wanted, and where they go.

    ks : int64[c], ascending, at least 1
    place : int64[>= end], in which row of `out` each position's values go
    out : float64[..., c], the Pr_k
    """

    ks: np.ndarray
    place: np.ndarray
    out: np.ndarray


class LeafScratch(NamedTuple):
    """Room to work in, for leaves of `block` positions: see `fill_leaf` and `below`."""

    q: np.ndarray
    ends: np.ndarray
    cumulative: np.ndarray
    windows: np.ndarray


@compiled
def multiply_small(q, degree, mass):
    """q, a polynomial of this degree, times 1 - mass + mass z, in place."""
    rest = 1.0 - mass
    q[degree + 1] = mass * q[degree]
    for d in range(degree, 0, -1):
        q[d] = rest * q[d] + mass * q[d - 1]
    q[0] = rest * q[0]


@compiled
def partial_law(tree, depth, factors, x, q):
    """Law, in q, of the factors that hold at x but not on all of its leaf; its degree."""
    q[0] = 1.0
    degree = 0
    own = tree.at[depth]
    for j in range(own, own + tree.parts[depth]):
        i = tree.items[j]
        if i < x < factors.after[i]:
            multiply_small(q, degree, factors.mass[i])
            degree += 1
    return degree


@compiled
def below(tree, depth, ks, first, width, scratch):
    """windows[d, c] = Pr(fewer than ks[c] - d of its factors exist), d < width, c >= first."""
    cumulative, windows = scratch.cumulative, scratch.windows
    law, low, high = tree.laws[depth], tree.low[depth], tree.high[depth]
    total = 0.0
    for j in range(low, high):
        total += law[j + MARGIN]
        cumulative[j] = total
    for d in range(width):
        for c in range(first, ks.size):
            j = ks[c] - 1 - d
            if j >= high:
                windows[d, c] = total
            elif j >= low:
                windows[d, c] = cumulative[j]
            else:
                windows[d, c] = 0.0


@compiled
def add_tails(p, q, degree, windows, first, out):
    """out[c] = p times the chance that q's and the leaf's factors together are below ks[c]."""
    if out.size < SUMMED_K:
        for c in range(first, out.size):
            total = 0.0
            for d in range(degree + 1):
                total += q[d] * windows[d, c]
            out[c] = p * min(total, 1.0)
        return
    some, weight = windows[0, first : out.size], q[0]  # the same sums, so that many go at once
    row = out[first:]
    for c in range(row.size):
        row[c] = weight * some[c]
    for d in range(1, degree + 1):
        some, weight = windows[d, first : out.size], q[d]
        for c in range(row.size):
            row[c] += weight * some[c]
    for c in range(row.size):
        row[c] = p * min(row[c], 1.0)


@compiled
def fill_leaf(tree, depth, a, b, factors, tails, scratch):
    """Pr_k of the positions [a, b) of a leaf, for all k wanted.

    The factors that hold on parts of the leaf are multiplied into a small polynomial q, one by one;
    only where one of them ends, which is where its rule's next member stands, anew. The tail of the
    product of q and the leaf's law needs no more of that law than b - a sums.
    O(band + ks.size * (b - a)**2), and O((b - a)**2) for every factor that ends.
    """
    prob, mass, after = factors.prob, factors.mass, factors.after
    ks, q, ends = tails.ks, scratch.q, scratch.ends
    first = 0
    while first < ks.size and ks[first] <= tree.low[depth]:
        first += 1  # so many items are above for certain; `out` holds 0
    below(tree, depth, ks, first, b - a, scratch)
    ends[: b - a] = False
    own = tree.at[depth]
    for j in range(own, own + tree.parts[depth]):
        end = after[tree.items[j]]
        if end < b:
            ends[end - a] = True
    degree = partial_law(tree, depth, factors, a, q)
    for x in range(a, b):
        if x > a and ends[x - a]:
            degree = partial_law(tree, depth, factors, x, q)
        elif x > a and after[x - 1] > x:
            multiply_small(q, degree, mass[x - 1])
            degree += 1
        add_tails(prob[x], q, degree, scratch.windows, first, tails.out[tails.place[x]])


@compiled
def top_k_tails(factors, begin, end, block, tails):
    """Pr_k of every position for every k wanted, in one descent of the tree.

    factors : `Factors` of the items in rank order
    begin, end : what `undecided` says for the least and the greatest k
    block : int in [1, ITEMS_PER_BLOCK], the leaves' size
    tails : `out` all zeros, filled; the positions from `end` on have Pr_k < 4e-18
    Cost: O(m band + (end - begin) log(end - begin) band), band about 10 standard deviations.
    Error: absolute, below (m + k) (1e-20 + 4 u) with u = 2**-53; measured 5e-15 at m = 10,000.
    Source: D, (1) and (2), offline as a segment tree over the rank positions.
    """
    ks = tails.ks
    most = ks[ks.size - 1]
    for x in range(begin):
        tails.out[tails.place[x], :] = factors.prob[x]
    if begin >= end:
        return
    tree = plant(begin, end, most, block)
    scratch = LeafScratch(
        q=np.empty(block + 1),
        ends=np.empty(block, dtype=np.bool_),
        cumulative=np.empty(most + 1),
        windows=np.empty((block, ks.size)),
    )
    waiting = np.empty((LEVELS, 3), dtype=np.int64)
    waiting[0] = (begin, end, 1)
    top, steps = 1, np.int64(0)
    while top:
        steps = after_signals(steps + 64 * (most + block * block))
        top -= 1
        a, b, depth = waiting[top, 0], waiting[top, 1], waiting[top, 2]
        enter(tree, depth, a, b, factors, most)
        if b - a <= block:
            fill_leaf(tree, depth, a, b, factors, tails, scratch)
        else:
            middle = (a + b + 1) // 2
            waiting[top] = (middle, b, depth + 1)
            waiting[top + 1] = (a, middle, depth + 1)
            top += 2


@compiled
def sum_by_tuple(owner, tuples, values):
    """The sums of items' values over each tuple, the tuples in the order of their first items.

    owner : int64[m] in [0, tuples), the tuple of each item;  values : float64[m, c]
    Returns int64[t], those that have items, and float64[t, c].
    """
    place, count = np.full(tuples, -1), 0
    found, total = np.empty(owner.size, dtype=np.int64), np.zeros(values.shape)
    for x in range(owner.size):
        if place[owner[x]] < 0:
            place[owner[x]] = count
            found[count] = owner[x]
            count += 1
        for c in range(values.shape[1]):
            total[place[owner[x]], c] += values[x, c]
    return found[:count], total[:count]
