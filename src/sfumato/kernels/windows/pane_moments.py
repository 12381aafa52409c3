"""Moments of aggregates over time extents, from those of the panes the extents share.

Partials of panes (see `mergeable_moments`) are merged in blocks of K panes, K being the panes of
an extent. An extent that does not coincide with a block reaches from one into the next: it is a
suffix of the first and a prefix of the second.

    blocks of K = 4     |. . . .|. . . .|
    an extent               |. .|. .|        suffix of 2 panes, prefix of 2

Prefixes grow with each pane, suffixes are merged once a block: a pane costs two merges and an
extent one, whatever the overlap. Blocks are aligned to pane 0, so that the order of merging, and
with it the last bit, does not depend on calls. Late rows have partials of their own, which are
merged last.  Source: van Herk (1992), for running maxima.
"""

from typing import NamedTuple

import numpy as np

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
