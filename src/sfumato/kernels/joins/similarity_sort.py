"""Join of two uncertain windows of numbers by an ordered structure over samples (Sort-Match).

Each window has a treap (a binary search tree balanced by pseudo-random priorities) over the
samples of its tuples, ordered by value. A node is the place of the sample's probability in the
blocks, so the trees need no storage management of their own.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import sort_slots
from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.joins.match_probability import match_probability, widest_reach
from sfumato.kernels.joins.similarity_nested import FOUND, add_found, enter, forget_before
from sfumato.kernels.joins.tuple_store import (
    first_in_time,
    move_window,
    owned,
    padded,
    widest_window,
)
from sfumato.kernels.signals import after_signals

NO_NODE = -1
DEEPEST = 512  # the expected height is below 3 log2(n); 512 cannot be exceeded by chance


class Ordered(NamedTuple):
    """The trees of all windows.

    root : int64[windows], or NO_NODE    left, right : int64[places in blocks]
    value : float64[places], of the sample    owner : int64[places], slot of its tuple
    """

    root: np.ndarray
    left: np.ndarray
    right: np.ndarray
    value: np.ndarray
    owner: np.ndarray


class SortWork(NamedTuple):
    """To work in: mass by place in the window (-1: not touched), places touched, a stack."""

    mass: np.ndarray
    touched: np.ndarray
    stack: np.ndarray


def new_trees(places: int, windows: int) -> Ordered:
    """Empty trees."""
    return Ordered(
        root=np.full(windows, NO_NODE, np.int64),
        left=np.empty(places, np.int64),
        right=np.empty(places, np.int64),
        value=np.empty(places),
        owner=np.empty(places, np.int64),
    )


@lean
def _priority(node):
    h = (np.int64(node) + 1) * np.int64(0x2545F4914F6CDD1D)
    h = (h ^ (h >> 29)) * np.int64(0x369DEA0F31A53F85)
    return h ^ (h >> 32)


@lean
def _before(trees, a, b):
    return trees.value[a] < trees.value[b] or (trees.value[a] == trees.value[b] and a < b)


@lean
def _attach(trees, w, parent, leftwards, node):
    if parent == NO_NODE:
        trees.root[w] = node
    elif leftwards:
        trees.left[parent] = node
    else:
        trees.right[parent] = node


@lean
def _insert(trees, w, node):
    """Put a node where its priority is the largest below, splitting what is there. O(log n)."""
    parent, leftwards, here = np.int64(NO_NODE), False, trees.root[w]
    own = _priority(node)
    while here != NO_NODE and _priority(here) >= own:
        parent, leftwards = here, _before(trees, node, here)
        here = trees.left[here] if leftwards else trees.right[here]
    _attach(trees, w, parent, leftwards, node)
    trees.left[node] = trees.right[node] = NO_NODE
    low, high = node, node  # where the next smaller and the next larger part hang
    while here != NO_NODE:
        if _before(trees, here, node):
            _attach(trees, w, low, low == node, here)
            low, here = here, trees.right[here]
        else:
            _attach(trees, w, high, high != node, here)
            high, here = here, trees.left[here]
    _attach(trees, w, low, low == node, NO_NODE)
    _attach(trees, w, high, high != node, NO_NODE)


@lean
def _delete(trees, w, node):
    """Take a node out and merge its two subtrees in its place. O(log n)."""
    parent, leftwards, here = np.int64(NO_NODE), False, trees.root[w]
    while here != node:
        parent, leftwards = here, _before(trees, node, here)
        here = trees.left[here] if leftwards else trees.right[here]
    low, high = trees.left[node], trees.right[node]
    while low != NO_NODE and high != NO_NODE:
        if _priority(low) >= _priority(high):
            _attach(trees, w, parent, leftwards, low)
            parent, leftwards, low = low, False, trees.right[low]
        else:
            _attach(trees, w, parent, leftwards, high)
            parent, leftwards, high = high, True, trees.left[high]
    _attach(trees, w, parent, leftwards, low if low != NO_NODE else high)


@lean
def _insert_tuple(trees, store, w, s):
    """Put the samples of a tuple, if it is owned, into the tree of its window."""
    if not owned(store, s):
        return
    tuples = store.tuples
    at, count = tuples.at[s], tuples.samples[s]
    length = padded(count)
    for node in range(at, at + count):
        trees.value[node] = tuples.blocks[node + length]
        trees.owner[node] = s
        _insert(trees, w, node)


@lean
def _delete_before(trees, store, w, begin):
    """Take the samples of a window's tuples before `begin` out of its tree."""
    tuples = store.tuples
    for s in range(store.windows.head[w], begin):
        if not owned(store, s):
            continue
        for node in range(tuples.at[s], tuples.at[s] + tuples.samples[s]):
            _delete(trees, w, node)
    forget_before(store, w, begin)


@compiled_ieee
def empty_sorted(trees, store, windows):
    """`empty_windows`, and their trees. O(samples log n)."""
    for w in windows:
        _delete_before(trees, store, w, store.windows.tail[w])


@compiled_ieee
def sort_all(trees, store):
    """All trees from the windows' tuples, after the blocks moved. O(n log n)."""
    trees.root[:] = NO_NODE
    for w in range(store.windows.head.size):
        for s in range(store.windows.head[w], store.windows.tail[w]):
            _insert_tuple(trees, store, w, s)


@compiled_ieee
def move_sorted(trees, store, moves):
    """`move_windows`, and the nodes' new owners. O(samples)."""
    tuples, windows = store.tuples, store.windows
    for i in range(moves.size):
        move_window(store, moves[i])
        w = moves[i].window
        for s in range(windows.head[w], windows.tail[w]):
            if not owned(store, s):
                continue
            for node in range(tuples.at[s], tuples.at[s] + tuples.samples[s]):
                trees.owner[node] = s


@lean
def _add_matches(trees, store, u, o, within, work):
    """Add Pr(sample of u) * Pr(sample) to work.mass of the owner of every sample near it in window
    o.

    Returns (owners reached, samples visited).
    """
    tuples, begin, n, visited = store.tuples, store.windows.head[o], 0, 0
    value, left, right, owner = trees.value, trees.left, trees.right, trees.owner
    blocks, mass, stack = tuples.blocks, work.mass, work.stack
    at, length, steps = tuples.at[u], padded(tuples.samples[u]), np.int64(0)
    for k in range(at, at + tuples.samples[u]):
        steps = after_signals(steps + 64)
        x, weight = blocks[k + length], blocks[k]
        depth, here = 0, trees.root[o]
        while here != NO_NODE or depth > 0:
            while here != NO_NODE:
                # A difference rounds monotonically: too far here is too far in the whole subtree.
                if x - value[here] > within:
                    here = right[here]
                else:
                    stack[depth] = here
                    depth += 1
                    here = left[here]
            if depth == 0:
                break
            depth -= 1
            here = stack[depth]
            if value[here] - x > within:
                break  # in order of value: all others are larger
            visited += 1
            steps += 8
            place = owner[here] - begin
            if mass[place] < 0.0:
                mass[place] = 0.0
                work.touched[n] = place
                n += 1
            mass[place] += weight * blocks[here]
            here = right[here]
    return n, visited


@lean
def _likely(work, reached, least):
    """Owners, of those reached, whose masses may suffice: ascending in work.touched; how many."""
    likely = 0
    for j in range(reached):
        place = work.touched[j]
        if work.mass[place] >= least:
            work.touched[likely] = place
            likely += 1
        work.mass[place] = -1.0
    sort_slots(work.touched, likely)
    return likely


@lean
def _pass_time(trees, store, batch, i):
    """What time excludes at arrival i leaves both windows."""
    w, now = batch.code[i], batch.time[i]
    _delete_before(trees, store, w, first_in_time(store, w, now))
    _delete_before(trees, store, w ^ 1, first_in_time(store, w ^ 1, now))


@lean
def _enter(trees, store, batch, i):
    """Take arrival i into its window, and out of it what leaves."""
    w, s = batch.code[i], batch.slots[i]
    enter(store, w, s)
    _insert_tuple(trees, store, w, s)
    _delete_before(trees, store, w, batch.begins[i])


@compiled_ieee
def join_sorted(store, trees, batch, criterion, counts):
    """Pairs of each arrival with the tuples then held opposite it, Pr(match) >= probability.

    One dimension only. trees : `Ordered` over the windows as they are before the batch; follows
    them. The rest, and the result, as for `join_nested`; `visited` counts samples here.
    Cost: O(l log n) a tuple to insert and delete, n samples held; O(l log n) and the matching pairs
    of samples an arrival.
    Source: A, section 6.2.2 (Sort-Match), with a treap for the red-black tree.
    """
    widest = widest_window(store.windows)
    touched, mass = np.empty(widest, np.int64), np.full(widest, -1.0)
    work = SortWork(mass, touched, np.empty(DEEPEST, np.int64))
    # Arrays taken out of the tuples once: each time costs two atomic reference counts an array.
    tuples, head, tail, slots = store.tuples, store.windows.head, store.windows.tail, batch.slots
    found, n, code, steps = np.empty(64, FOUND), 0, batch.code, np.int64(0)
    for i in range(code.size):
        o = code[i] ^ 1
        _pass_time(trees, store, batch, i)
        rounding = tuples.rounding[slots[i]] + store.rounding[o]
        within = widest_reach(criterion.within, rounding)
        reached, samples = _add_matches(trees, store, slots[i], o, within, work)
        likely = _likely(work, reached, criterion.least)
        counts[0].visited += samples
        counts[0].pairs += tail[o] - head[o]
        counts[0].candidates += likely
        for j in range(likely):
            v = head[o] + touched[j]
            steps = after_signals(steps + tuples.samples[slots[i]] * tuples.samples[v])
            total = match_probability(tuples, slots[i], v, criterion)
            if total >= 0.0:
                found = add_found(found, n, i, o, v, tail[o], total)
                n += 1
        _enter(trees, store, batch, i)
    return found[:n]
