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

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled, lean
from sfumato.kernels.laws.extreme_law import Passed, cut_alternatives, extreme_law
from sfumato.kernels.laws.finite_law import law_moments
from sfumato.kernels.laws.mergeable_moments import (
    SCALARS,
    TUPLES,
    add_tuple,
    clear_nodes,
    copy_set,
    measure,
    merge_sets,
)


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

    partial, prefix : float64[slots, channels, SCALARS]
    nodes, prefix_nodes : float64[slots, averaged, ROWS, q] of the channels of which an average is
        asked for, at least 1; one slot for all while no tuple of existence below 1 has come
    suffixed : bool[slots], whether `partial` is by now of the pane and the rest of its block
    """

    partial: np.ndarray
    nodes: np.ndarray
    prefix: np.ndarray
    prefix_nodes: np.ndarray
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
def at(i, size):
    """Place i of an axis, or its last one: nodes that are not used take no room."""
    return min(i, size - 1)


@lean
def fill_slots(slots, rows, lifted, measures, partials):
    """Partials of slots: that of slots[i] from the tuples rows[i] ... rows[i + 1].

    lifted : float64[channels, 3, rows], see `lift`
    """
    averages, partial, nodes = measures.averages, partials.partial, partials.nodes
    for i in range(slots.size):
        s = slots[i]
        for c in range(partial.shape[1]):
            scalars, here = (
                partial[s, c],
                nodes[at(s, nodes.shape[0]), at(c, nodes.shape[1])],
            )
            for j in range(SCALARS):
                scalars[j] = 0.0
            if c < averages and s < nodes.shape[0]:
                clear_nodes(here)
            e, mu, var = lifted[c, 0], lifted[c, 1], lifted[c, 2]
            for k in range(rows[i], rows[i + 1]):
                add_tuple(e[k], mu[k], var[k], measures.rise, c < averages, scalars, here)


@lean
def prefix_panes(panes, fresh, width, averages, partials):
    """Prefixes of fresh panes: of their group's block, up to and with each.  fresh : bool[p]"""
    partial, nodes, prefix, prefix_nodes, _ = partials
    group, number = panes.group, panes.number
    for i in range(number.size):
        if not fresh[i]:
            continue
        s, t = panes.slot[i], -1
        if i > 0 and group[i - 1] == group[i] and number[i - 1] // width == number[i] // width:
            t = panes.slot[i - 1]
        for c in range(partial.shape[1]):
            used, own, to = (
                c < averages,
                nodes[at(s, nodes.shape[0]), at(c, nodes.shape[1])],
                prefix_nodes[at(s, prefix_nodes.shape[0]), at(c, prefix_nodes.shape[1])],
            )
            if t >= 0:
                copy_set(
                    prefix[t, c],
                    prefix_nodes[
                        min(t, prefix_nodes.shape[0] - 1), min(c, prefix_nodes.shape[1] - 1)
                    ],
                    used,
                    prefix[s, c],
                    to,
                )
                merge_sets(partial[s, c], own, used, prefix[s, c], to)
            else:
                copy_set(partial[s, c], own, used, prefix[s, c], to)


@lean
def _suffix(slots, begin, last, averages, partials):
    """Turn the partials of panes [begin, last), the end of a block, into suffixes, in place."""
    partial, nodes, suffixed = partials.partial, partials.nodes, partials.suffixed
    if suffixed[slots[begin]]:
        return
    for i in range(last - 1, begin - 1, -1):
        s = slots[i]
        if suffixed[s]:
            continue
        suffixed[s] = True
        if i + 1 == last:
            continue
        t = slots[i + 1]
        for c in range(partial.shape[1]):
            here, there = (
                nodes[at(t, nodes.shape[0]), at(c, nodes.shape[1])],
                nodes[at(s, nodes.shape[0]), at(c, nodes.shape[1])],
            )
            merge_sets(partial[t, c], here, c < averages, partial[s, c], there)


@compiled
def answer_extents(extents, panes, grid, late, measures, partials, answers, held):
    """Mean, standard deviation and existence of each aggregate over each extent.

    extents : EXTENT[m], of each group in order of number    late : LateSlots
    answers : float64[r, 3, m], written    held : int64[m], written: tuples, of the last channel
    """
    partial, nodes, prefix, prefix_nodes, _ = partials
    averages, what = measures.averages, measures.what
    total, total_nodes = np.empty(partial.shape[1:]), np.empty(nodes.shape[1:])
    for x in range(extents.size):
        low, high = extents[x].low, extents[x].high
        start = extents[x].number * grid.per_slide - grid.width
        middle = low
        if low < high and start % grid.width != 0:
            boundary = (start // grid.width + 1) * grid.width
            middle = low + np.searchsorted(panes.number[low:high], boundary)
            if middle > low:
                _suffix(panes.slot, low, middle, averages, partials)
        for c in range(total.shape[0]):
            for k in range(SCALARS):
                total[c, k] = 0.0
            used, to = c < averages, total_nodes[min(c, total_nodes.shape[0] - 1)]
            if middle > low:
                s = panes.slot[low]
                copy_set(
                    partial[s, c],
                    nodes[at(s, nodes.shape[0]), at(c, nodes.shape[1])],
                    used,
                    total[c],
                    to,
                )
            if middle < high:
                s = panes.slot[high - 1]
                merge_sets(
                    prefix[s, c],
                    prefix_nodes[
                        min(s, prefix_nodes.shape[0] - 1), min(c, prefix_nodes.shape[1] - 1)
                    ],
                    used,
                    total[c],
                    to,
                )
            for i in range(late.begins[x], late.begins[x + 1]):
                s = late.slot[i]
                merge_sets(
                    partial[s, c],
                    nodes[at(s, nodes.shape[0]), at(c, nodes.shape[1])],
                    used,
                    total[c],
                    to,
                )
        held[x] = np.int64(total[-1, TUPLES])
        for r in range(what.size):
            if what[r] >= 0:
                c = measures.channel[r]
                to = total_nodes[min(c, total_nodes.shape[0] - 1)]
                answers[r, 0, x], answers[r, 1, x], answers[r, 2, x] = measure(
                    what[r], total[c], to, measures.node, measures.weight, measures.rise
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
    for x in range(extents.size):
        size = 0
        for i in range(extents[x].low, extents[x].high):
            begins[size], counts[size] = ranked.begins[i], kept[panes.slot[i]]
            size += 1
        for i in range(late.begins[x], late.begins[x + 1]):
            begins[size], counts[size] = late.place[i], kept[late.slot[i]]
            size += 1
        found = extreme_law(sign, begins[:size], counts[:size], ranked.order, of, law, chance)
        to[0, x], to[1, x], to[2, x] = law_moments(chance[:found], law[:found])
