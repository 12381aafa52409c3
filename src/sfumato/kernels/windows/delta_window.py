"""Attribute-delta windows: evict the oldest tuple while another is probably too far from it.

A window is two stacks laid end to end, so that its moments follow without subtraction:

    head ===== front ===== middle ---- back ---- tail
    suffixes of the front, built        one partial that
    when it was turned over             grows with arrivals

An arrival is added to the back; when the front is used up, the back is turned over into it. Only
every STRIDE-th suffix is kept (a partial with nodes takes 5 KB), those between are built for one
stride at a time. Turning over depends on arrivals and evictions alone, and so does every last bit.
Source: A, section 8.1; queue of two stacks as in the window aggregation literature (two-stacks).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.laws.existence import SURE
from sfumato.kernels.laws.extreme_law import extreme_law
from sfumato.kernels.laws.finite_law import law_moments
from sfumato.kernels.laws.mergeable_moments import (
    CERTAIN,
    SCALARS,
    TUPLES,
    add_tuple,
    clear_nodes,
    copy_set,
    measure,
    merge_sets,
)

STRIDE = 16
HEAD, MIDDLE, TAIL, BLOCK, OVERFLOW = 0, 1, 2, 3, 4  # places in `marks`
MARKS = 5


class Held(NamedTuple):
    """Tuples by place, alternatives by place, with room at the end.

    marks : int64[MARKS]    offsets : int64[places + 1]    prob : float64[m]
    values : float64[a, m]    owner : int64[m], tuple of each alternative
    lifted : float64[channels, 3, places], see `lift`    rest : float64[places], all 1
    order : int64[extremes, m], alternatives held by sign * value, descending
    listed : int64[extremes], how many of them
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


@compiled_ieee
def too_far(held, k, i, on, delta):
    """1 - Pr(tuple i exists and is more than delta from alternative k)."""
    centre, rest = held.values[on, k], 1.0
    for j in range(held.offsets[i], held.offsets[i + 1]):
        if abs(held.values[on, j] - centre) > delta:  # not so for NaN, on either side
            rest -= held.prob[j]
    return 0.0 if rest < SURE else rest


@compiled_ieee
def begin_survival(held, on, delta, survival):
    """For each alternative of the oldest: probability that no other tuple is too far from it.

    survival : float64[alternatives of a tuple, or more], written.  O(held * l**2).
    """
    head, tail = held.marks[HEAD], held.marks[TAIL]
    begin = held.offsets[head]
    for k in range(begin, held.offsets[head + 1]):
        chance = 1.0
        for i in range(head + 1, tail):
            chance *= too_far(held, k, i, on, delta)
        survival[k - begin] = chance


@compiled_ieee
def outlast(held, i, on, delta, survival):
    """Update the survival of the oldest by arrival i, which may be the oldest itself.  O(l**2)."""
    head = held.marks[HEAD]
    begin = held.offsets[head]
    for k in range(begin, held.offsets[head + 1]):
        if head == i:
            survival[k - begin] = 1.0
        else:
            survival[k - begin] *= too_far(held, k, i, on, delta)


@compiled_ieee
def broken(held, survival):
    """Probability that some tuple is too far from the oldest, given that the oldest exists."""
    head = held.marks[HEAD]
    begin = held.offsets[head]
    total, lost = 0.0, 0.0
    for k in range(begin, held.offsets[head + 1]):
        total += held.prob[k]
        lost += held.prob[k] * (1.0 - survival[k - begin])
    return lost / total


@compiled_ieee
def extend_partial(held, i, averages, rise, scalars, nodes):
    """Add tuple i to the partials of all channels."""
    for c in range(scalars.shape[0]):
        e, mu, var = held.lifted[c, 0, i], held.lifted[c, 1, i], held.lifted[c, 2, i]
        add_tuple(e, mu, var, rise, c < averages, scalars[c], nodes[min(c, nodes.shape[0] - 1)])


@compiled_ieee
def copy_partial(scalars, nodes, averages, to_scalars, to_nodes):
    """Copy the partials of all channels; nodes not in use are cleared, ready for more tuples."""
    for c in range(scalars.shape[0]):
        i = min(c, nodes.shape[0] - 1)
        copy_set(scalars[c], nodes[i], c < averages, to_scalars[c], to_nodes[i])
        if c < averages and scalars[c, TUPLES] == scalars[c, CERTAIN]:
            clear_nodes(to_nodes[i])


@compiled_ieee
def clear_partial(scalars, nodes):
    """Make the partials of all channels those of no tuples."""
    for c in range(scalars.shape[0]):
        for j in range(SCALARS):
            scalars[c, j] = 0.0
    for c in range(nodes.shape[0]):
        clear_nodes(nodes[c])


@compiled_ieee
def at(nodes, i):
    """Nodes of slot i, or of the one slot there is."""
    return nodes[min(i, nodes.shape[0] - 1)]


@compiled_ieee
def turn_over(held, stacks, averages, rise):
    """Make all held tuples the front, the back empty.  O(held)."""
    clear_partial(stacks.back, stacks.back_nodes)
    held.marks[MIDDLE] = held.marks[TAIL]
    build_front(held, stacks, averages, rise)


@compiled_ieee
def build_front(held, stacks, averages, rise):
    """Suffixes of the front: `kept` of every STRIDE-th."""
    head, middle = held.marks[HEAD], held.marks[MIDDLE]
    held.marks[BLOCK] = -1
    scalars, nodes = stacks.block[0], at(stacks.block_nodes, 0)
    clear_partial(scalars, nodes)
    copy_partial(scalars, nodes, averages, stacks.kept[0], at(stacks.kept_nodes, 0))
    for r in range(1, middle - head + 1):
        extend_partial(held, middle - r, averages, rise, scalars, nodes)
        if r % STRIDE == 0:
            b = r // STRIDE
            copy_partial(scalars, nodes, averages, stacks.kept[b], at(stacks.kept_nodes, b))


@compiled_ieee
def front_place(held, stacks, averages, rise):
    """Where in `block` the front's partial is, -1 if it is empty; builds the block if needed."""
    middle = held.marks[MIDDLE]
    r = middle - held.marks[HEAD]
    if r == 0:
        return -1
    b = (r - 1) // STRIDE
    if held.marks[BLOCK] != b:
        held.marks[BLOCK] = b
        before, before_nodes = stacks.kept[b], at(stacks.kept_nodes, b)
        for j in range(r - b * STRIDE):
            scalars, nodes = stacks.block[j], at(stacks.block_nodes, j)
            copy_partial(before, before_nodes, averages, scalars, nodes)
            extend_partial(held, middle - b * STRIDE - j - 1, averages, rise, scalars, nodes)
            before, before_nodes = scalars, nodes
    return r - b * STRIDE - 1


@compiled_ieee
def list_alternatives(held, i, signs, columns):
    """Insert tuple i's alternatives into the sorted lists, after equal ones.  O(held) moves."""
    for x in range(signs.size):
        order, values, sign = held.order[x], held.values[columns[x]], signs[x]
        for k in range(held.offsets[i], held.offsets[i + 1]):
            if np.isnan(values[k]):
                continue
            n, key = held.listed[x], sign * values[k]
            low, high = 0, n
            while low < high:
                half = (low + high) // 2
                if sign * values[order[half]] >= key:
                    low = half + 1
                else:
                    high = half
            for j in range(n, low, -1):
                order[j] = order[j - 1]
            order[low] = k
            held.listed[x] = n + 1


@compiled_ieee
def drop_alternatives(held, before):
    """Remove all alternatives placed before `before` from the sorted lists.  O(held)."""
    for x in range(held.listed.size):
        order, kept = held.order[x], 0
        for j in range(held.listed[x]):
            if order[j] >= before:
                order[kept] = order[j]
                kept += 1
        held.listed[x] = kept


@compiled_ieee
def evict(held, stacks, on, delta, threshold, most, averages, rise, survival):
    """Evict from a window that has taken an arrival; its survival includes the arrival."""
    marks = held.marks
    before = marks[HEAD]
    while True:
        if marks[TAIL] - marks[HEAD] > 1 and broken(held, survival) >= threshold:
            pass
        elif marks[TAIL] - marks[HEAD] > most:
            marks[OVERFLOW] += 1
        else:
            break
        if marks[HEAD] == marks[MIDDLE]:
            turn_over(held, stacks, averages, rise)
        marks[HEAD] += 1
        begin_survival(held, on, delta, survival)
    if marks[HEAD] > before:
        drop_alternatives(held, held.offsets[marks[HEAD]])


@compiled_ieee
def slide_delta(
    held, stacks, enters, on, delta, threshold, most, averages, what, channel, extreme, signs,
    columns, node, weight, rise, survival, bounds, answers,
):  # fmt: skip
    """Take arrivals, written after the tail; answers after each.

    enters : bool[n]; those that do not enter (and are not written) are only answered
    on, delta, threshold, most : of the window    what, channel : as in `answer_extents`
    extreme : int64[r], which of `signs`, `columns` (int64[x]) a MIN or MAX is, or -1
    survival : float64[], of the oldest, see `begin_survival`; updated
    bounds : int64[2, n], written: where the window began and ended
    answers : float64[r, 3, n], written
    Cost: O(l) an arrival and O(held * l**2) an eviction; O(held) moves for MIN and MAX.
    """
    marks = held.marks
    total, total_nodes = np.empty(stacks.back.shape), np.empty(stacks.back_nodes.shape)
    room = held.order.shape[1] if extreme.size else 0
    law, chance = np.empty(room), np.empty(room)
    for n in range(enters.size):
        if enters[n]:
            i = marks[TAIL]
            marks[TAIL] += 1
            extend_partial(held, i, averages, rise, stacks.back, stacks.back_nodes)
            list_alternatives(held, i, signs, columns)
            outlast(held, i, on, delta, survival)
            evict(held, stacks, on, delta, threshold, most, averages, rise, survival)
        bounds[0, n], bounds[1, n] = marks[HEAD], marks[TAIL]
        place = front_place(held, stacks, averages, rise)
        for c in range(total.shape[0]):
            used, z = c < averages, min(c, total_nodes.shape[0] - 1)
            copy_set(stacks.back[c], stacks.back_nodes[z], used, total[c], total_nodes[z])
            if place >= 0:
                nodes = at(stacks.block_nodes, place)[z]
                merge_sets(stacks.block[place, c], nodes, used, total[c], total_nodes[z])
        for r in range(what.size):
            c = channel[r]
            if what[r] >= 0:
                answers[r, 0, n], answers[r, 1, n], answers[r, 2, n] = measure(
                    what[r], total[c], total_nodes[min(c, total_nodes.shape[0] - 1)], node,
                    weight, rise,
                )  # fmt: skip
            elif extreme[r] >= 0:
                x = extreme[r]
                found = extreme_law(
                    signs[x], np.zeros(1, np.int64), held.listed[x : x + 1], held.order[x],
                    held.values[columns[x]], held.prob, held.owner, held.rest, law, chance,
                )  # fmt: skip
                answers[r, 0, n], answers[r, 1, n], answers[r, 2, n] = law_moments(
                    chance[:found], law[:found]
                )
