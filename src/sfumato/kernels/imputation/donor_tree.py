"""Static k-d trees over a repository's rows, for finding the rows in a box.

A tree is implicit. The rows of every node are at consecutive places; a leaf has 64 places:

    places   | 0 ... 63 | 64 ... 127 | ... | ... N - 1 (NaN to the end of the leaf) |
    nodes    1: all; 2i and 2i + 1: the two halves of node i, cut at a multiple of 64

So a leaf is filtered as 64 consecutive numbers per attribute, in SIMD, and a node that lies
entirely in the box is accepted without reading its rows.

A row lies in a box iff |row[a] - centre[a]| <= reach[a] in float64, for every constrained
attribute. Subtraction rounds monotonically, so a test that holds for both ends of a node's extent
holds for all its rows, and an excluded node has no row in the box.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, inlined, lean

DONORS_PER_LEAF = 64


class DonorTree(NamedTuple):
    """A tree over N rows with D attributes; P = N rounded up to whole leaves.

    columns : float64[D, P], attributes by place, NaN beyond N
    rows : int64[P], the row at each place, -1 beyond N
    low, high : float64[nodes, D], extents of nodes; inf, -inf for an empty node
    begin, end : int64[nodes], each node's places
    """

    columns: np.ndarray
    rows: np.ndarray
    low: np.ndarray
    high: np.ndarray
    begin: np.ndarray
    end: np.ndarray


class BoxSearch(NamedTuple):
    """A box and working memory for one search at a time.

    attributes : int64[D], constrained attributes first
    reach : float64[D], distance from the centre by attribute, finite where constrained
    nodes, unsure : int64[nodes of the tree], results: nodes in the order of their places, and for
        each a bit mask of positions in `attributes` on which its rows must still be tested
    stack : int64[64, 2], waiting nodes and their masks, at most one per level    near : uint8[64]
    """

    attributes: np.ndarray
    reach: np.ndarray
    nodes: np.ndarray
    unsure: np.ndarray
    stack: np.ndarray
    near: np.ndarray


def tree_order(points, weight):
    """Return the order of rows for a tree: int64[N], row by place. O(N log N).

    points : float64[N, D], finite
    weight : float64[D] >= 0, ideally 1 / (usual reach); nodes are cut on the attribute with the
        largest extent times weight
    """
    order = np.arange(len(points))
    stack = [(0, len(points))]
    while stack:
        begin, end = stack.pop()
        if end - begin <= DONORS_PER_LEAF:
            continue
        rows = order[begin:end]
        inside = points[rows]
        # Values are halved because their differences could overflow.
        extent = (inside.max(axis=0) * 0.5 - inside.min(axis=0) * 0.5) * weight
        leaves = -(-(end - begin) // DONORS_PER_LEAF)
        half = DONORS_PER_LEAF * (1 << (leaves - 1).bit_length() - 1)
        if extent.max() > 0.0:
            chosen = np.argpartition(inside[:, int(extent.argmax())], half)
            order[begin:end] = rows[chosen]
        stack += [(begin, begin + half), (begin + half, end)]
    return order


def build_tree(points, order):
    """Build the tree of rows in the order of `tree_order` (in any other order, it is slower)."""
    n, d = points.shape
    leaves = 1
    while leaves * DONORS_PER_LEAF < n:
        leaves *= 2
    places = -(-n // DONORS_PER_LEAF) * DONORS_PER_LEAF
    columns = np.full((d, places), np.nan)
    columns[:, :n] = points[order].T
    rows = np.full(places, -1, np.int64)
    rows[:n] = order
    low, high = np.full((2 * leaves, d), np.inf), np.full((2 * leaves, d), -np.inf)
    begin, end = np.zeros(2 * leaves, np.int64), np.zeros(2 * leaves, np.int64)
    begin[leaves:] = np.minimum(np.arange(leaves) * DONORS_PER_LEAF, n)
    end[leaves:] = np.minimum(begin[leaves:] + DONORS_PER_LEAF, n)
    filled = places // DONORS_PER_LEAF
    blocks = columns.reshape(d, filled, DONORS_PER_LEAF)
    low[leaves : leaves + filled] = np.fmin.reduce(blocks, axis=2).T
    high[leaves : leaves + filled] = np.fmax.reduce(blocks, axis=2).T
    for level in range(leaves.bit_length() - 2, -1, -1):
        nodes = np.arange(1 << level, 2 << level)
        low[nodes] = np.minimum(low[2 * nodes], low[2 * nodes + 1])
        high[nodes] = np.maximum(high[2 * nodes], high[2 * nodes + 1])
        begin[nodes], end[nodes] = begin[2 * nodes], end[2 * nodes + 1]
    return DonorTree(columns, rows, low, high, begin, end)


@compiled_ieee
def new_search(nodes, attributes):
    """Return working memory for searches in trees with these numbers of nodes and attributes."""
    return BoxSearch(
        attributes=np.empty(attributes, np.int64),
        reach=np.empty(attributes),
        nodes=np.empty(nodes, np.int64),
        unsure=np.empty(nodes, np.int64),
        stack=np.empty((64, 2), np.int64),
        near=np.empty(DONORS_PER_LEAF, np.uint8),
    )


@lean
def nodes_in_box(tree, constrained, centre, search):
    """Find nodes that together contain all rows in the box: whole nodes, and leaves to filter.

    constrained : int <= 62, the number of constrained entries of `search.attributes`
    centre : float64[D], finite where constrained    search : `nodes` and `unsure` are written
    Returns the number of nodes. O(constrained * leaves that the box's edge crosses).
    """
    low, high, attributes, reach = tree.low, tree.high, search.attributes, search.reach
    nodes, unsure, stack = search.nodes, search.unsure, search.stack
    leaves = low.shape[0] // 2
    count, top = 0, 0
    stack[0, 0], stack[0, 1] = 1, (1 << constrained) - 1
    while top >= 0:
        node, mask = stack[top, 0], stack[top, 1]
        top -= 1
        outside = low[node, 0] > high[node, 0]
        for i in range(constrained):
            if (mask >> i) & 1:
                a = attributes[i]
                first, last = low[node, a] - centre[a], high[node, a] - centre[a]
                if first > reach[a] or last < -reach[a]:
                    outside = True
                    break
                if first >= -reach[a] and last <= reach[a]:
                    mask ^= 1 << i
        if outside:
            continue
        if mask == 0 or node >= leaves:
            nodes[count], unsure[count] = node, mask
            count += 1
        else:
            stack[top + 1, 0], stack[top + 1, 1] = 2 * node + 1, mask
            stack[top + 2, 0], stack[top + 2, 1] = 2 * node, mask
            top += 2
    return count


@inlined
def _filter_leaf(columns, begin, mask, centre, search):
    """Mark in search.near which of a leaf's 64 rows are near in the attributes of `mask`."""
    attributes, reach, near = search.attributes, search.reach, search.near
    # Unsigned places, because a test for negative places would prevent SIMD.
    place, i = np.uint64(begin), 0
    near[:] = 1
    while mask:
        if mask & 1:
            a = np.uint64(attributes[i])
            middle, most = centre[a], reach[a]
            for j in range(np.uint64(DONORS_PER_LEAF)):
                near[j] &= abs(columns[a, place + j] - middle) <= most
        mask >>= 1
        i += 1


@lean
def rows_in_nodes(tree, count, centre, search, enough, out, n):
    """Write the places of the rows in the box to out[n:], ascending; return the end position.

    count, search : from `nodes_in_box`    enough : int64, stop after finding this number of rows
    out : int64[], with room for all rows of the nodes plus one; empty to count rows only
    O(64 * unsure attributes) per unsure leaf, in SIMD; O(rows) for whole nodes.
    """
    begin, end, nodes, unsure, near = tree.begin, tree.end, search.nodes, search.unsure, search.near
    stop = n + enough
    for i in range(count):
        first, last = begin[nodes[i]], end[nodes[i]]
        if unsure[i] != 0:
            _filter_leaf(tree.columns, first, unsure[i], centre, search)
        if unsure[i] == 0 and out.size == 0:
            n += last - first
        elif unsure[i] == 0:
            for place in range(first, last):
                out[n + place - first] = place
            n += last - first
        elif out.size == 0:
            found = 0
            for j in range(DONORS_PER_LEAF):
                found += near[j]
            n += found
        else:  # branchless: places are written before they are tested
            for j in range(last - first):
                out[n] = first + j
                n += near[j]
        if n >= stop:
            break
    return n
