"""Moments of a window's tuples by two stacks laid end to end, so that nothing is subtracted:

    head ===== front ===== middle ---- back ---- tail
    suffixes of the front, built        one partial that
    when it was turned over             grows with arrivals

An arrival is added to the back; when the front is used up, the back is turned over into it. Only
every STRIDE-th suffix is kept (a partial with nodes takes 5 KB), those between are built for one
stride at a time. Turning over depends on arrivals and evictions alone, and so does every last bit.
Source: queue of two stacks as in the window aggregation literature (two-stacks).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import lean
from sfumato.kernels.laws.mergeable_moments import (
    CERTAIN,
    SCALARS,
    TUPLES,
    add_tuple,
    clear_nodes,
    copy_set,
    merge_sets,
)

STRIDE = 16
# Places of the tuples held and of the front's end; block : which one of the front is built.
MARKS = np.dtype([(name, np.int64) for name in ("head", "middle", "tail", "block", "overflow")])


class Held(NamedTuple):
    """Tuples by place, alternatives by place, with room at the end.

    marks : MARKS[1]    offsets : int64[places + 1]    prob : float64[m]
    values : float64[a, m]    owner : int64[m], tuple of each alternative
    lifted : float64[channels, 3, places], see `lift`    rest : float64[places], all 1
    order : int64[extremes, m], alternatives held by sign * value, descending
    listed : int64[extremes], how many of them
    survival : float64[alternatives of a tuple, or more]: for each alternative of the oldest tuple,
        the probability that no other tuple is too far from it
    """

    marks: np.ndarray
    offsets: np.ndarray
    prob: np.ndarray
    values: np.ndarray
    owner: np.ndarray
    lifted: np.ndarray
    rest: np.ndarray
    order: np.ndarray
    listed: np.ndarray
    survival: np.ndarray


class Stacks(NamedTuple):
    """Partials (scalars, nodes): every STRIDE-th suffix, those of one stride, the back, a sum.

    nodes have one slot for all while no tuple of existence below 1 has come.
    """

    kept: np.ndarray
    kept_nodes: np.ndarray
    block: np.ndarray
    block_nodes: np.ndarray
    back: np.ndarray
    back_nodes: np.ndarray


@lean
def extend_partial(held, i, measures, scalars, nodes):
    """Add tuple i to the partials of all channels."""
    averages, rise = measures.averages, measures.rise
    for c in range(scalars.shape[0]):
        e, mu, var = held.lifted[c, 0, i], held.lifted[c, 1, i], held.lifted[c, 2, i]
        add_tuple(e, mu, var, rise, c < averages, scalars[c], nodes[min(c, nodes.shape[0] - 1)])


@lean
def copy_partial(scalars, nodes, averages, to_scalars, to_nodes):
    """Copy the partials of all channels; nodes not in use are cleared, ready for more tuples."""
    for c in range(scalars.shape[0]):
        i = min(c, nodes.shape[0] - 1)
        copy_set(scalars[c], nodes[i], c < averages, to_scalars[c], to_nodes[i])
        if c < averages and scalars[c, TUPLES] == scalars[c, CERTAIN]:
            clear_nodes(to_nodes[i])


@lean
def clear_partial(scalars, nodes):
    """Make the partials of all channels those of no tuples."""
    for c in range(scalars.shape[0]):
        for j in range(SCALARS):
            scalars[c, j] = 0.0
    for c in range(nodes.shape[0]):
        clear_nodes(nodes[c])


@lean
def turn_over(held, stacks, measures):
    """Make all held tuples the front, the back empty.  O(held)."""
    clear_partial(stacks.back, stacks.back_nodes)
    held.marks[0].middle = held.marks[0].tail
    build_front(held, stacks, measures)


@lean
def build_front(held, stacks, measures):
    """Suffixes of the front: `kept` of every STRIDE-th."""
    head, middle = held.marks[0].head, held.marks[0].middle
    held.marks[0].block = -1
    scalars, nodes = stacks.block[0], stacks.block_nodes[min(0, stacks.block_nodes.shape[0] - 1)]
    clear_partial(scalars, nodes)
    copy_partial(
        scalars,
        nodes,
        measures.averages,
        stacks.kept[0],
        stacks.kept_nodes[min(0, stacks.kept_nodes.shape[0] - 1)],
    )
    for r in range(1, middle - head + 1):
        extend_partial(held, middle - r, measures, scalars, nodes)
        if r % STRIDE == 0:
            b = r // STRIDE
            copy_partial(
                scalars,
                nodes,
                measures.averages,
                stacks.kept[b],
                stacks.kept_nodes[min(b, stacks.kept_nodes.shape[0] - 1)],
            )


@lean
def front_place(held, stacks, measures):
    """Where in `block` the front's partial is, -1 if it is empty; builds the block if needed."""
    middle = held.marks[0].middle
    r = middle - held.marks[0].head
    if r == 0:
        return -1
    b = (r - 1) // STRIDE
    if held.marks[0].block != b:
        held.marks[0].block = b
        before, before_nodes = (
            stacks.kept[b],
            stacks.kept_nodes[min(b, stacks.kept_nodes.shape[0] - 1)],
        )
        for j in range(r - b * STRIDE):
            scalars, nodes = (
                stacks.block[j],
                stacks.block_nodes[min(j, stacks.block_nodes.shape[0] - 1)],
            )
            copy_partial(before, before_nodes, measures.averages, scalars, nodes)
            extend_partial(held, middle - b * STRIDE - j - 1, measures, scalars, nodes)
            before, before_nodes = scalars, nodes
    return r - b * STRIDE - 1


@lean
def merge_parts(held, stacks, measures, total, nodes):
    """The partial of all tuples held, written to total, nodes."""
    averages = measures.averages
    place = front_place(held, stacks, measures)
    for c in range(total.shape[0]):
        used, z = c < averages, min(c, nodes.shape[0] - 1)
        copy_set(stacks.back[c], stacks.back_nodes[z], used, total[c], nodes[z])
        if place >= 0:
            own = stacks.block_nodes[min(place, stacks.block_nodes.shape[0] - 1)][z]
            merge_sets(stacks.block[place, c], own, used, total[c], nodes[z])
