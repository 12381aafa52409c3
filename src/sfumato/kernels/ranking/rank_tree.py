"""Laws of how many items rank higher, by divide and conquer over the positions.

A node of the tree is a range of positions [a, b); its law is the product of the factors (see
`Factors`) that hold on all of [a, b). A factor enters at the O(log m) nodes that its range
covers and whose parent's it does not. Only multiplications of probabilities: each entry of a law
keeps its relative precision. (Dividing one's own rule out again would be shorter, and has no
digits left after some hundred ordinary pairs.) Depth first, one law and one list a level.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.laws.poisson_binomial import LANES, MARGIN, convolve_four, copy, trim

# Entries below this leave a law at its ends: at most one for each factor and count on the way
# from the root to a leaf, so that less than (m + k) * 1e-20 is lost in all.
NEGLIGIBLE = 1e-20
LEVELS = 64


class RankTree(NamedTuple):
    """The path from the root to the node at work; level 0 stands above the root.

    laws : float64[levels + 1, size], laws[d, j + MARGIN] = Pr(j of the factors exist), j < most,
        in the band [low[d], high[d]); the last row is scratch
    items : int64[...], from at[d] on: parts[d] items whose factors hold on a part of the node
    masses : float64[m], scratch
    """

    laws: np.ndarray
    low: np.ndarray
    high: np.ndarray
    items: np.ndarray
    at: np.ndarray
    parts: np.ndarray
    masses: np.ndarray


@compiled
def plant(begin, end, most, block):
    """A tree over positions [begin, end), leaves up to `block`, laws of counts below `most`."""
    levels, length = 2, end - begin
    while length > block:
        length = (length + 1) // 2
        levels += 1
    laws = np.empty((levels + 1, most + 2 * MARGIN + 3 * (MARGIN + LANES)))
    laws[0, MARGIN] = 1.0
    low = np.zeros(levels, dtype=np.int64)
    high = np.ones(levels, dtype=np.int64)
    at = np.zeros(levels, dtype=np.int64)
    parts = np.zeros(levels, dtype=np.int64)
    # Within a node of some length, at most as many factors begin and as many end.
    room, length = end, end - begin
    for d in range(1, levels):
        at[d] = room
        room += 2 * length + 2
        length = (length + 1) // 2
    items = np.empty(room, dtype=np.int64)
    for i in range(end):
        items[i] = i
    parts[0] = end
    return RankTree(laws, low, high, items, at, parts, np.empty(end))


@compiled
def enter(tree, depth, a, b, factors, most):
    """Go down to the node [a, b) at `depth` from its parent: its law, and its list of parts."""
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
    source, low, high = tree.laws[depth - 1], tree.low[depth - 1], tree.high[depth - 1]
    target, masses = tree.laws[depth], tree.masses[:full]
    passes = (full + 3) // 4
    if passes == 0:
        copy(source, low + MARGIN, target, low + MARGIN, high - low)
    for step in range(passes):
        # In turns, so that the last pass ends in this level's own law.
        result = target if (passes - step) % 2 == 1 else tree.laws[tree.low.size]
        convolve_four(source, low, high, masses, 4 * step, result)
        low, high = trim(result, low, min(high + min(4, full - 4 * step), most), NEGLIGIBLE)
        source = result
    tree.low[depth], tree.high[depth] = low, high
