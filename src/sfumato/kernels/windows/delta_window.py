"""Attribute-delta windows: evict the oldest tuple while another is probably too far from it.

Source: A, section 8.1.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.laws.extreme_law import Passed, extreme_law
from sfumato.kernels.laws.finite_law import law_moments
from sfumato.kernels.laws.mergeable_moments import add_tuple, measure, one_set
from sfumato.kernels.laws.tuples import reaches
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import REMAINDER
from sfumato.kernels.windows.sliding_partials import merge_parts, turn_over

FEW_COMPARED = 1 << 14  # of alternatives: up to here they are compared one by one
FEW_LISTED = 32  # alternatives: up to here they are inserted into a list one by one


class DeltaRule(NamedTuple):
    """When the oldest tuple is evicted.

    on : int, the attribute whose distance counts; delta : float, the largest allowed
    threshold : float, the probability from which on a tuple too far off counts
    most : int, more tuples than these are evicted too
    """

    on: int
    delta: float
    threshold: float
    most: int


@lean
def near_enough(held, k, i, rule):
    """Pr(tuple i does not exist, or is at most delta from alternative k)."""
    on, delta = rule.on, rule.delta
    centre, rest = held.values[on, k], 1.0
    for j in range(held.offsets[i], held.offsets[i + 1]):
        if abs(held.values[on, j] - centre) > delta:  # not so for NaN, on either side
            rest -= held.prob[j]
    return 0.0 if rest < REMAINDER else rest


@compiled_ieee
def _outlast_many(held, i, rule):
    """`_outlast_one` for many alternatives, by sorting those of tuple i.  O(l log l)."""
    begin, end = held.offsets[i], held.offsets[i + 1]
    value, prob = held.values[rule.on, begin:end], held.prob[begin:end]
    order, n = np.argsort(value, kind="mergesort"), end - begin
    while n > 0 and np.isnan(value[order[n - 1]]):
        n -= 1
    ordered, below, above = np.empty(n), np.zeros(n + 1), np.zeros(n + 1)
    for x in range(n):
        ordered[x] = value[order[x]]
        below[x + 1] = below[x] + prob[order[x]]
    for x in range(n - 1, -1, -1):
        above[x] = above[x + 1] + prob[order[x]]
    head, delta = held.marks[0].head, rule.delta
    first = held.offsets[head]
    for k in range(first, held.offsets[head + 1]):
        centre = held.values[rule.on, k]
        if np.isnan(centre):
            continue
        low, high = np.int64(0), n  # a difference rounds monotonically
        while low < high:
            half = (low + high) // 2
            if centre - ordered[half] > delta:
                low = half + 1
            else:
                high = half
        near, high = low, n
        while low < high:
            half = (low + high) // 2
            if ordered[half] - centre <= delta:
                low = half + 1
            else:
                high = half
        rest = 1.0 - (below[near] + above[low])
        held.survival[k - first] *= 0.0 if rest < REMAINDER else rest


@lean
def _outlast_one(held, i, rule):
    """Multiply the survival of the oldest by the chance that tuple i is near enough.

    O(l**2) for few alternatives, else O(l log l).
    """
    head, survival = held.marks[0].head, held.survival
    begin, end = held.offsets[head], held.offsets[head + 1]
    if (end - begin) * (held.offsets[i + 1] - held.offsets[i]) > FEW_COMPARED:
        _outlast_many(held, i, rule)
        return
    for k in range(begin, end):
        survival[k - begin] *= near_enough(held, k, i, rule)


@lean
def begin_survival(held, rule):
    """The survival of the oldest, anew.  O(held * l log l)."""
    head, tail = held.marks[0].head, held.marks[0].tail
    for k in range(held.offsets[head + 1] - held.offsets[head]):
        held.survival[k] = 1.0
    steps = np.int64(0)
    for i in range(head + 1, tail):
        steps = after_signals(steps + FEW_COMPARED)
        _outlast_one(held, i, rule)


@lean
def outlast(held, i, rule):
    """Update the survival of the oldest by arrival i, which may be the oldest itself.

    O(l log l).
    """
    head = held.marks[0].head
    if head != i:
        _outlast_one(held, i, rule)
        return
    for k in range(held.offsets[i + 1] - held.offsets[i]):
        held.survival[k] = 1.0


@lean
def broken(held):
    """Probability that some tuple is too far from the oldest, given that the oldest exists."""
    head, survival = held.marks[0].head, held.survival
    begin = held.offsets[head]
    total, lost = 0.0, 0.0
    for k in range(begin, held.offsets[head + 1]):
        total += held.prob[k]
        lost += held.prob[k] * (1.0 - survival[k - begin])
    return lost / total


@compiled_ieee
def _merge_alternatives(held, i, measures):
    """`list_alternatives` for many of them: sorted first.  O(held + l log l)."""
    begin, end = held.offsets[i], held.offsets[i + 1]
    for x in range(measures.sign.size):
        order, sign = held.order[x], measures.sign[x]
        values = held.values[measures.attribute[x]]
        fresh = np.argsort(-sign * values[begin:end], kind="mergesort")  # NaN at the end
        many, old = fresh.size, held.listed[x]
        while many > 0 and np.isnan(values[begin + fresh[many - 1]]):
            many -= 1
        held.listed[x] = at = old + many
        while many > 0:
            at -= 1
            k = begin + fresh[many - 1]
            if old > 0 and sign * values[order[old - 1]] < sign * values[k]:
                old -= 1
                order[at] = order[old]
            else:
                many -= 1
                order[at] = k


@lean
def list_alternatives(held, i, measures):
    """Insert tuple i's alternatives into the sorted lists, after equal ones.  O(held) moves."""
    if held.offsets[i + 1] - held.offsets[i] > FEW_LISTED:
        _merge_alternatives(held, i, measures)
        return
    for x in range(measures.sign.size):
        order, sign = held.order[x], measures.sign[x]
        values = held.values[measures.attribute[x]]
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


@lean
def drop_alternatives(held, before):
    """Remove all alternatives placed before `before` from the sorted lists.  O(held)."""
    for x in range(held.listed.size):
        order, kept = held.order[x], 0
        for j in range(held.listed[x]):
            if order[j] >= before:
                order[kept] = order[j]
                kept += 1
        held.listed[x] = kept


@lean
def evict(held, stacks, rule):
    """Evict from a window that has taken an arrival; its survival includes the arrival."""
    marks = held.marks[0]
    before = marks.head
    while True:
        if marks.tail - marks.head > 1 and reaches(broken(held), rule.threshold):
            pass
        elif marks.tail - marks.head > rule.most:
            marks.overflow += 1
        else:
            break
        if marks.head == marks.middle:
            turn_over(held, stacks)
        marks.head += 1
        begin_survival(held, rule)
    if marks.head > before:
        drop_alternatives(held, held.offsets[marks.head])


@compiled_ieee
def slide_delta(held, stacks, enters, rule, measures, bounds, answers):
    """Take arrivals, written after the tail; answers after each.

    enters : bool[n]; those that do not enter (and are not written) are only answered
    bounds : int64[2, n], written: where the window began and ended
    answers : float64[r, 3, n], written
    Cost: O(l log l) an arrival and O(held * l log l) an eviction; O(held) moves for MIN and MAX.
    """
    marks, what, extreme = held.marks[0], measures.what, measures.extreme
    total = one_set(stacks.back)
    room = held.order.shape[1] if extreme.size else 0
    law, chance, steps = np.empty(room), np.empty(room), np.int64(0)
    for n in range(enters.size):
        steps = after_signals(steps + FEW_COMPARED)
        if enters[n]:
            i = marks.tail
            marks.tail += 1
            add_tuple(held.lifted, i, stacks.back, 0)
            list_alternatives(held, i, measures)
            outlast(held, i, rule)
            evict(held, stacks, rule)
        bounds[0, n], bounds[1, n] = marks.head, marks.tail
        merge_parts(held, stacks, total)
        for r in range(what.size):
            x = extreme[r]
            if what[r] >= 0:
                answers[r, 0, n], answers[r, 1, n], answers[r, 2, n] = measure(
                    what[r], total, 0, measures.channel[r]
                )
            elif x >= 0:
                value = held.values[measures.attribute[x]]
                of = Passed(value, held.prob, held.owner, held.rest)
                begins, listed = np.zeros(1, np.int64), held.listed[x : x + 1]
                found = extreme_law(
                    measures.sign[x], begins, listed, held.order[x], of, law, chance
                )
                answers[r, 0, n], answers[r, 1, n], answers[r, 2, n] = law_moments(
                    chance[:found], law[:found]
                )
