"""Moments of aggregates over time extents, from those of the panes the extents share.

Partials of panes (see `set_moments`) are merged in blocks of K panes, K being the panes of an
extent. An extent that does not coincide with a block reaches from one into the next: it is a
suffix of the first and a prefix of the second.

    blocks of K = 4     |. . . .|. . . .|
    an extent               |. .|. .|        suffix of 2 panes, prefix of 2

Prefixes grow with each pane, suffixes are merged once a block: a pane costs two merges and an
extent one, whatever the overlap. Blocks are aligned to pane 0, so that the order of merging, and
with it the last bit, does not depend on calls.  Source: van Herk (1992), for running maxima.

Arrays: partial, prefix : float64[slots, channels, SCALARS]; nodes, prefix_nodes :
float64[slots, averaged, ROWS, q] of the first `averages` channels, those of which an average is
asked for, at least 1; one slot for all while no tuple of existence below 1 has come.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.laws.extreme_law import cut_alternatives, extreme_law
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


@compiled
def nodes_of(nodes, slot, channel):
    """A channel's nodes, or any that are not used."""
    return nodes[min(slot, nodes.shape[0] - 1), min(channel, nodes.shape[1] - 1)]


@compiled
def fill_panes(slots, rows, lifted, rise, averages, partial, nodes):
    """Partials of panes: that of slots[i] from the tuples rows[i] ... rows[i + 1].

    lifted : float64[channels, 3, rows], see `lift`
    """
    for i in range(slots.size):
        s = slots[i]
        for c in range(partial.shape[1]):
            scalars, here = partial[s, c], nodes_of(nodes, s, c)
            for j in range(SCALARS):
                scalars[j] = 0.0
            if c < averages and s < nodes.shape[0]:
                clear_nodes(here)
            e, mu, var = lifted[c, 0], lifted[c, 1], lifted[c, 2]
            for k in range(rows[i], rows[i + 1]):
                add_tuple(e[k], mu[k], var[k], rise, c < averages, scalars, here)


@compiled
def prefix_panes(
    groups, panes, slots, fresh, width, averages, partial, nodes, prefix, prefix_nodes
):
    """Prefixes of fresh panes: of their group's block, up to and with each.

    groups, panes, slots, fresh : int64[p], int64[p], int64[p], bool[p], ordered by group and pane
    """
    for i in range(panes.size):
        if not fresh[i]:
            continue
        s = slots[i]
        t = -1
        if i > 0 and groups[i - 1] == groups[i] and panes[i - 1] // width == panes[i] // width:
            t = slots[i - 1]
        for c in range(partial.shape[1]):
            used, own, to = c < averages, nodes_of(nodes, s, c), nodes_of(prefix_nodes, s, c)
            if t >= 0:
                copy_set(prefix[t, c], nodes_of(prefix_nodes, t, c), used, prefix[s, c], to)
                merge_sets(partial[s, c], own, used, prefix[s, c], to)
            else:
                copy_set(partial[s, c], own, used, prefix[s, c], to)


@compiled
def suffix_panes(slots, begin, last, averages, suffixed, partial, nodes):
    """Turn the partials of panes [begin, last), the end of a block, into suffixes, in place.

    suffixed : bool[slots], which are ones already
    """
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
            here, there = nodes_of(nodes, t, c), nodes_of(nodes, s, c)
            merge_sets(partial[t, c], here, c < averages, partial[s, c], there)


@compiled
def answer_extents(
    extents, panes, slots, per_slide, width, averages, suffixed, partial, nodes, prefix,
    prefix_nodes, what, channel, node, weight, rise, answers, held,
):  # fmt: skip
    """Mean, standard deviation and existence of each aggregate over each extent.

    extents : int64[m, 4], see `extents_of_group`, of each group in order of number
    what, channel : int64[r], what is measured and over which channel (what < 0: skipped)
    answers : float64[r, 3, m], written    held : int64[m], written: tuples, of the last channel
    """
    total = np.empty(partial.shape[1:])
    total_nodes = np.empty(nodes.shape[1:])
    for x in range(extents.shape[0]):
        low, high = extents[x, 1], extents[x, 2]
        start = extents[x, 0] * per_slide - width
        middle = low
        if low < high and start % width != 0:
            boundary = (start // width + 1) * width
            middle = low + np.searchsorted(panes[low:high], boundary)
            if middle > low:
                suffix_panes(slots, low, middle, averages, suffixed, partial, nodes)
        for c in range(total.shape[0]):
            for k in range(SCALARS):
                total[c, k] = 0.0
            used, to = c < averages, total_nodes[min(c, total_nodes.shape[0] - 1)]
            if middle > low:
                s = slots[low]
                copy_set(partial[s, c], nodes_of(nodes, s, c), used, total[c], to)
            if middle < high:
                s = slots[high - 1]
                merge_sets(prefix[s, c], nodes_of(prefix_nodes, s, c), used, total[c], to)
        held[x] = np.int64(total[-1, TUPLES])
        for r in range(what.size):
            if what[r] >= 0:
                c = channel[r]
                to = total_nodes[min(c, total_nodes.shape[0] - 1)]
                answers[r, 0, x], answers[r, 1, x], answers[r, 2, x] = measure(
                    what[r], total[c], to, node, weight, rise
                )


@compiled
def cut_panes(slots, begins, values, prob, tuple_of, rest, order, kept):
    """How many alternatives of each pane `answer_extremes` may need.

    begins : int64[p + 1], the panes' alternatives    kept : int64[slots], written
    others : as in `cut_alternatives`
    """
    for i in range(slots.size):
        kept[slots[i]] = cut_alternatives(
            begins[i], begins[i + 1], values, prob, tuple_of, rest, order
        )


@compiled
def answer_extremes(extents, slots, begins, sign, values, prob, tuple_of, rest, order, kept, to):
    """Mean, standard deviation and existence of MIN (sign -1) or MAX (1) over each extent.

    begins : int64[panes], where each pane's alternatives begin    others : as in `cut_alternatives`
    to : float64[3, m], written.  O(K + r log K) an extent for r alternatives reached.
    """
    most = 0
    for x in range(extents.shape[0]):
        total = 0
        for i in range(extents[x, 1], extents[x, 2]):
            total += kept[slots[i]]
        most = max(most, total)
    law, chance = np.empty(most), np.empty(most)
    for x in range(extents.shape[0]):
        low, high = extents[x, 1], extents[x, 2]
        found = extreme_law(
            sign, begins[low:high], kept[slots[low:high]], order, values, prob, tuple_of, rest,
            law, chance,
        )  # fmt: skip
        to[0, x], to[1, x], to[2, x] = law_moments(chance[:found], law[:found])
