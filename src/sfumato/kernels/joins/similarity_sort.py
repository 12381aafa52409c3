"""Join of two uncertain windows of numbers by an ordered structure over samples (Sort-Match).

Each window has a treap (a binary search tree balanced by pseudo-random priorities) over the
samples of its tuples, ordered by value. A node is the place of the sample's probability in the
blocks, so the trees need no storage management of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import sort_slots
from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.joins.match_probability import match_probability
from sfumato.kernels.joins.similarity_nested import CANDIDATES, PAIRS, VISITED, keep
from sfumato.kernels.joins.tuple_store import padded

NONE = -1
DEEPEST = 512  # the expected height is below 3 log2(n); 512 cannot be exceeded by chance


class Ordered(NamedTuple):
    """The trees of all windows.

    root : int64[windows], or NONE    left, right : int64[places in blocks]
    value : float64[places], of the sample    owner : int64[places], slot of its tuple
    """

    root: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    owner: np.ndarray


@compiled_ieee
def _priority(node):
    h = (np.int64(node) + 1) * np.int64(0x2545F4914F6CDD1D)
    h = (h ^ (h >> 29)) * np.int64(0x369DEA0F31A53F85)
    return h ^ (h >> 32)


@compiled_ieee
def _before(trees, a, b):
    return trees.value[a] < trees.value[b] or (trees.value[a] == trees.value[b] and a < b)


@compiled_ieee
def _attach(trees, w, parent, leftwards, node):
    if parent == NONE:
        trees.root[w] = node
    elif leftwards:
        trees.left[parent] = node
    else:
        trees.right[parent] = node


@compiled_ieee
def _insert(trees, w, node):
    """Put a node where its priority is the largest below, splitting what is there. O(log n)."""
    parent, leftwards, here = np.int64(NONE), False, trees.root[w]
    own = _priority(node)
    while here != NONE and _priority(here) >= own:
        parent, leftwards = here, _before(trees, node, here)
        here = trees.left[here] if leftwards else trees.right[here]
    _attach(trees, w, parent, leftwards, node)
    trees.left[node] = trees.right[node] = NONE
    low, high = node, node  # where the next smaller and the next larger part hang
    while here != NONE:
        if _before(trees, here, node):
            _attach(trees, w, low, low == node, here)
            low, here = here, trees.right[here]
        else:
            _attach(trees, w, high, high != node, here)
            high, here = here, trees.left[here]
    _attach(trees, w, low, low == node, NONE)
    _attach(trees, w, high, high != node, NONE)


@compiled_ieee
def _delete(trees, w, node):
    """Take a node out and merge its two subtrees in its place. O(log n)."""
    parent, leftwards, here = np.int64(NONE), False, trees.root[w]
    while here != node:
        parent, leftwards = here, _before(trees, node, here)
        here = trees.left[here] if leftwards else trees.right[here]
    low, high = trees.left[node], trees.right[node]
    while low != NONE and high != NONE:
        if _priority(low) >= _priority(high):
            _attach(trees, w, parent, leftwards, low)
            parent, leftwards, low = low, False, trees.right[low]
        else:
            _attach(trees, w, parent, leftwards, high)
            parent, leftwards, high = high, True, trees.left[high]
    _attach(trees, w, parent, leftwards, low if low != NONE else high)


@compiled_ieee
def _insert_tuple(trees, tuples, w, s):
    at, count = tuples.at[s], tuples.samples[s]
    length = padded(count)
    for node in range(at, at + count):
        trees.value[node] = tuples.blocks[node + length]
        trees.owner[node] = s
        _insert(trees, w, node)


@compiled_ieee
def sort_all(trees, tuples, windows):
    """All trees from the windows' tuples, after the blocks moved. O(n log n)."""
    trees.root[:] = NONE
    for w in range(windows.head.size):
        for s in range(windows.head[w], windows.tail[w]):
            _insert_tuple(trees, tuples, w, s)


@compiled_ieee
def rename_owners(trees, tuples, windows, moves):
    """Tell the nodes the new slots of their tuples, after `move_windows`. O(samples)."""
    for i in range(moves.shape[0]):
        for s in range(windows.head[moves[i, 0]], windows.tail[moves[i, 0]]):
            for node in range(tuples.at[s], tuples.at[s] + tuples.samples[s]):
                trees.owner[node] = s


@compiled_ieee
def _add_matches(trees, tuples, o, x, weight, within, begin, mass, touched, n, stack):
    """Add weight * Pr(sample) to `mass` of the owner of every sample within the distance of x."""
    depth = 0
    here = trees.root[o]
    visited = 0
    while here != NONE or depth > 0:
        while here != NONE:
            # A difference rounds monotonically: too far here is too far in the whole subtree.
            if x - trees.value[here] > within:
                here = trees.right[here]
            else:
                stack[depth] = here
                depth += 1
                here = trees.left[here]
        if depth == 0:
            break
        depth -= 1
        here = stack[depth]
        if trees.value[here] - x > within:
            break  # in order of value: all others are larger
        visited += 1
        place = trees.owner[here] - begin
        if mass[place] < 0.0:
            mass[place] = 0.0
            touched[n] = place
            n += 1
        mass[place] += weight * tuples.blocks[here]
        here = trees.right[here]
    return n, visited


@compiled_ieee
def join_sorted(
    tuples, windows, trees, code, slots, begins, within, limit, least, probability, counters
):
    """Pairs of each arrival with the tuples then held opposite it, Pr(match) >= probability.

    One dimension only. trees : `Ordered` over the windows as they are before the batch; kept up
    to date. The rest, and the result, as for `join_nested`; VISITED counts samples here.

    Cost: O(l log n) a tuple to insert and delete, n samples held; O(l log n) and the matching
    pairs of samples an arrival.  Error: see `match_probability`.
    Source: A, section 6.2.2 (Sort-Match), with a treap for the red-black tree.
    """
    found, totals, n = np.empty((64, 3), np.int64), np.empty(64), 0
    widest = 1
    for w in range(windows.capacity.size):
        widest = max(widest, windows.capacity[w])
    mass, touched = np.full(widest, -1.0), np.empty(widest, np.int64)  # -1: not touched
    stack = np.empty(DEEPEST, np.int64)
    for i in range(code.size):
        w, u = code[i], slots[i]
        o = w ^ 1
        begin, end = windows.head[o], windows.tail[o]
        reached = 0
        at, length = tuples.at[u], padded(tuples.samples[u])
        for k in range(at, at + tuples.samples[u]):
            x, weight = tuples.blocks[k + length], tuples.blocks[k]
            reached, samples = _add_matches(
                trees, tuples, o, x, weight, within, begin, mass, touched, reached, stack
            )
            counters[VISITED] += samples
        counters[PAIRS] += end - begin
        likely = 0
        for j in range(reached):
            place = touched[j]
            if mass[place] >= least:
                touched[likely] = place
                likely += 1
            mass[place] = -1.0
        counters[CANDIDATES] += likely
        sort_slots(touched, likely)
        for j in range(likely):
            v = begin + touched[j]
            total = match_probability(tuples, u, v, 1, limit, least, probability)
            if total >= 0.0:
                found, totals = keep(found, totals, n, i, v, end, total)
                n += 1
        windows.tail[w] = u + 1
        _insert_tuple(trees, tuples, w, u)
        for s in range(windows.head[w], begins[i]):
            for node in range(tuples.at[s], tuples.at[s] + tuples.samples[s]):
                _delete(trees, w, node)
        windows.head[w] = begins[i]
    return found[:n], totals[:n]
