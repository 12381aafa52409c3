"""Sliding aggregates without subtractions.

Of a window's tuples, by two stacks laid end to end:

    head ===== front ===== middle ---- back ---- tail
    suffixes of the front, built        one partial that
    when it was turned over             grows with arrivals

An arrival is added to the back; when the front is used up, the back is turned over into it. Only
every STRIDE-th suffix is kept (a partial with nodes takes 5 KB), those between are built for one
stride at a time. Turning over depends on arrivals and evictions alone, and so does every last bit.
Source: queue of two stacks as in the window aggregation literature (two-stacks).

Of time extents, from the panes that they share: partials of panes (see `mergeable_moments`) are
merged in blocks of K panes, K being the panes of an extent. An extent that does not coincide with a
block reaches from one into the next: it is a suffix of the first and a prefix of the second.

    blocks of K = 4     |. . . .|. . . .|
    an extent               |. .|. .|        suffix of 2 panes, prefix of 2

Prefixes grow with each pane, suffixes are merged once a block: a pane costs two merges and an
extent one, whatever the overlap. Blocks are aligned to pane 0, so that the order of merging, and
with it the last bit, does not depend on calls. Late rows have partials of their own, which are
merged last.  Source: van Herk (1992), for running maxima.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled, lean
from sfumato.kernels.laws.extreme_law import Passed, cut_alternatives, extreme_law
from sfumato.kernels.laws.finite_law import law_moments
from sfumato.kernels.laws.mergeable_moments import (
    Sets,
    add_tuple,
    clear_set,
    copy_set,
    measure,
    merge_set,
    one_set,
)
from sfumato.kernels.signals import after_signals


@compiled
def running_sums(x, first, mid, heads, begin, out):
    """Sum of x over the held tuples after each arrival; the new `mid`.

    x : float64[n], held tuples then arrivals from position `begin`; first : stream index of
    position 0; mid : int64, stream index where the older part ends; heads : int64[n - begin]
    out : float64[n - begin], written
    A queue as two stacks: suffix sums of the older part, one growing sum of the newer, so nothing
    is ever subtracted and no rounding stays behind.  Cost: O(1) amortised.
    """
    older = np.zeros(max(mid - first, 0) + 1)
    for i in range(older.size - 2, -1, -1):
        older[i] = older[i + 1] + x[i]
    newer = 0.0
    for i in range(max(mid - first, 0), begin):
        newer += x[i]
    start = 0  # position of older[0]
    for t in range(heads.size):
        i = begin + t
        if heads[t] > mid - first:
            mid, start, newer = first + i, heads[t], 0.0
            older = np.zeros(i - start + 1)
            for j in range(older.size - 2, -1, -1):
                older[j] = older[j + 1] + x[start + j]
        newer += x[i]
        out[t] = newer + older[heads[t] - start]
    return mid


STRIDE = 16
# Places of the tuples held and of the front's end; block : which one of the front is built.
STACK_MARKS = integers("head middle tail block overflow")


class HeldByPlace(NamedTuple):
    """Tuples by place, alternatives by place, with room at the end.

    marks : STACK_MARKS[1]    offsets : int64[places + 1]    prob : float64[m]
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


class PartialStacks(NamedTuple):
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


class ChannelMeasures(NamedTuple):
    """Of each of r aggregates, what it is and over which channel or list of values.

    what, channel : int64[r], what is measured over which channel; what < 0: MIN, MAX or nothing
    extreme : int64[r], which of the extremes a MIN or MAX is, or -1
    sign : float64[x], 1 for a MAX, -1 for a MIN; attribute : int64[x], of each extreme
    """

    what: np.ndarray
    channel: np.ndarray
    extreme: np.ndarray
    sign: np.ndarray
    attribute: np.ndarray


class Panes(NamedTuple):
    """Panes in order of (group, number): int64[p] each.

    slot : of its partials    first, size : its tuples, one after the other in the pool
    """

    group: np.ndarray
    number: np.ndarray
    slot: np.ndarray
    first: np.ndarray
    size: np.ndarray


class Partials(NamedTuple):
    """Partials by slot, of a pane and of its block up to and with it.

    suffixed : bool[slots], whether `own` is by now of the pane and the rest of its block
    """

    own: Sets
    prefix: Sets
    suffixed: np.ndarray


class LateSlots(NamedTuple):
    """begins : int64[m + 1], where each extent's late rows are in; slot, place : int64[], their
    slots, and where their alternatives begin in the pool"""

    begins: np.ndarray
    slot: np.ndarray
    place: np.ndarray


class RankedValues(NamedTuple):
    """Alternatives of the pool by the value of an extreme, see `cut_alternatives`.

    begins : int64[p], where each pane's begin    kept : int64[slots], how many may matter
    """

    begins: np.ndarray
    values: np.ndarray
    prob: np.ndarray
    owner: np.ndarray
    rest: np.ndarray
    order: np.ndarray
    kept: np.ndarray


@lean
def fill_slots(slots, rows, lifted, partials):
    """Partials of slots: that of slots[i] from the tuples rows[i] ... rows[i + 1].

    lifted : float64[channels, 3, rows], see `lift`
    """
    for i in range(slots.size):
        clear_set(partials.own, slots[i])
        for k in range(rows[i], rows[i + 1]):
            add_tuple(lifted, k, partials.own, slots[i])


@lean
def prefix_panes(panes, fresh, width, partials):
    """Prefixes of fresh panes: of their group's block, up to and with each.  fresh : bool[p]"""
    own, prefix, group, number = partials.own, partials.prefix, panes.group, panes.number
    for i in range(number.size):
        if not fresh[i]:
            continue
        s = panes.slot[i]
        if i > 0 and group[i - 1] == group[i] and number[i - 1] // width == number[i] // width:
            copy_set(prefix, panes.slot[i - 1], prefix, s)
            merge_set(own, s, prefix, s)
        else:
            copy_set(own, s, prefix, s)


@lean
def _suffix(slots, begin, last, partials):
    """Turn the partials of panes [begin, last), the end of a block, into suffixes, in place."""
    suffixed = partials.suffixed
    if suffixed[slots[begin]]:
        return
    for i in range(last - 1, begin - 1, -1):
        if not suffixed[slots[i]]:
            suffixed[slots[i]] = True
            if i + 1 < last:
                merge_set(partials.own, slots[i + 1], partials.own, slots[i])


@compiled
def answer_extents(extents, panes, grid, late, measures, partials, answers, held):
    """Mean, standard deviation and existence of each aggregate over each extent.

    extents : EXTENT[m], of each group in order of number    late : LateSlots
    answers : float64[r, 3, m], written    held : int64[m], written: tuples, of the last channel
    """
    own, total, what = partials.own, one_set(partials.own), measures.what
    for x in range(extents.size):
        low, high = extents[x].low, extents[x].high
        start = extents[x].number * grid.per_slide - grid.width
        middle = low
        if low < high and start % grid.width != 0:
            boundary = (start // grid.width + 1) * grid.width
            middle = low + np.searchsorted(panes.number[low:high], boundary)
            if middle > low:
                _suffix(panes.slot, low, middle, partials)
        clear_set(total, 0)
        if middle > low:
            copy_set(own, panes.slot[low], total, 0)
        if middle < high:
            merge_set(partials.prefix, panes.slot[high - 1], total, 0)
        for i in range(late.begins[x], late.begins[x + 1]):
            merge_set(own, late.slot[i], total, 0)
        held[x] = np.int64(total.sums[0, -1].tuples)
        for r in range(what.size):
            if what[r] >= 0:
                answers[r, 0, x], answers[r, 1, x], answers[r, 2, x] = measure(
                    what[r], total, 0, measures.channel[r]
                )


@lean
def cut_slots(slots, begins, ranked, order):
    """How many alternatives of each slot `answer_extremes` may need, written to `ranked.kept`.

    begins : int64[slots + 1], where they are in values, prob and owner of `ranked` and in `order`
    """
    of = Passed(ranked.values, ranked.prob, ranked.owner, ranked.rest)
    for i in range(slots.size):
        ranked.kept[slots[i]] = cut_alternatives(begins[i], begins[i + 1], of, order)


@compiled
def answer_extremes(extents, panes, late, sign, ranked, to):
    """Mean, standard deviation and existence of MIN (sign -1) or MAX (1) over each extent.

    late : LateSlots    ranked : RankedValues    to : float64[3, m], written
    O(K + r log K) an extent for r alternatives reached.
    """
    kept, most, lists = ranked.kept, 0, 0
    for x in range(extents.size):
        total, low, high = 0, extents[x].low, extents[x].high
        for i in range(low, high):
            total += kept[panes.slot[i]]
        for i in range(late.begins[x], late.begins[x + 1]):
            total += kept[late.slot[i]]
        most = max(most, total)
        lists = max(lists, high - low + late.begins[x + 1] - late.begins[x])
    law, chance = np.empty(most), np.empty(most)
    of = Passed(ranked.values, ranked.prob, ranked.owner, ranked.rest)
    begins, counts = np.empty(lists, np.int64), np.empty(lists, np.int64)
    steps = np.int64(0)
    for x in range(extents.size):
        steps = after_signals(steps + 64 * lists)
        size = 0
        for i in range(extents[x].low, extents[x].high):
            begins[size], counts[size] = ranked.begins[i], kept[panes.slot[i]]
            size += 1
        for i in range(late.begins[x], late.begins[x + 1]):
            begins[size], counts[size] = late.place[i], kept[late.slot[i]]
            size += 1
        found = extreme_law(sign, begins[:size], counts[:size], ranked.order, of, law, chance)
        to[0, x], to[1, x], to[2, x] = law_moments(chance[:found], law[:found])
