"""Moments of a window's tuples by two stacks laid end to end, so that nothing is subtracted:

    head ===== front ===== middle ---- back ---- tail
    suffixes of the front, built        one partial that
    when it was turned over             grows with arrivals

An arrival is added to the back; when the front is used up, the back is turned over into it. Only
every STRIDE-th suffix is kept (a partial with nodes takes 5 KB), those between are built for one
stride at a time. Turning over depends on arrivals and evictions alone, and so does every last bit.
Source: queue of two stacks as in the window aggregation literature (two-stacks).
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import lean
from sfumato.kernels.laws.mergeable_moments import Sets, add_tuple, clear_set, copy_set, merge_set

STRIDE = 16
# Places of the tuples held and of the front's end; block : which one of the front is built.
MARKS = integers("head middle tail block overflow")


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
    """Partials: every STRIDE-th suffix, those of one stride, and the back's alone."""

    kept: Sets
    block: Sets
    back: Sets


@lean
def turn_over(held, stacks):
    """Make all held tuples the front, the back empty.  O(held)."""
    clear_set(stacks.back, 0)
    held.marks[0].middle = held.marks[0].tail
    build_front(held, stacks)


@lean
def build_front(held, stacks):
    """Suffixes of the front: `kept` of every STRIDE-th."""
    head, middle, block = held.marks[0].head, held.marks[0].middle, stacks.block
    held.marks[0].block = -1
    clear_set(block, 0)
    copy_set(block, 0, stacks.kept, 0)
    for r in range(1, middle - head + 1):
        add_tuple(held.lifted, middle - r, block, 0)
        if r % STRIDE == 0:
            copy_set(block, 0, stacks.kept, r // STRIDE)


@lean
def front_place(held, stacks):
    """Where in `block` the front's partial is, -1 if it is empty; builds the block if needed."""
    middle, block = held.marks[0].middle, stacks.block
    r = middle - held.marks[0].head
    if r == 0:
        return -1
    b = (r - 1) // STRIDE
    if held.marks[0].block != b:
        held.marks[0].block = b
        copy_set(stacks.kept, b, block, 0)
        for j in range(r - b * STRIDE):
            if j > 0:
                copy_set(block, j - 1, block, j)
            add_tuple(held.lifted, middle - b * STRIDE - j - 1, block, j)
    return r - b * STRIDE - 1


@lean
def merge_parts(held, stacks, total):
    """The partial of all tuples held, written to set 0 of `total`."""
    place = front_place(held, stacks)
    copy_set(stacks.back, 0, total, 0)
    if place >= 0:
        merge_set(stacks.block, place, total, 0)
