"""Attribute-delta windows: evict the oldest tuple while another tuple is probably too far from it.

Moments are maintained in two adjacent stacks, so that nothing is ever subtracted:

    head ===== front ===== middle ---- back ---- tail
    suffixes of the front, built        one partial that
    when it was flipped                 grows with arrivals

When the front is used up, the back is flipped into it. Only every STRIDE-th suffix is kept (a
partial with nodes has 5 KB); the others are built one stride at a time. Flips depend only on
arrivals and evictions, so results are reproducible bit for bit.

Source: windows, Dallachiesa et al. (2015), section 8.1; two stacks, window aggregation literature.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, stable_order
from sfumato.kernels.compile import compiled_ieee, inlined, lean
from sfumato.kernels.distributions.discrete_distribution import distribution_moments
from sfumato.kernels.distributions.extreme_distribution import PassedValues, extreme_distribution
from sfumato.kernels.distributions.mergeable_moments import (
    FIRST_SET,
    MomentPartials,
    add_tuple,
    clear_set,
    copy_set,
    measure,
    merge_set,
    new_set,
)
from sfumato.kernels.distributions.tuples import reaches
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import REMAINDER

STRIDE = 16
# Places of the held tuples and of the front's end; block : number of the built stride, or -1.
STACK_HEADER = integers("head middle tail block")
STEPS_PER_TUPLE = 1 << 14
SINGLE_ORDER = np.zeros(1, np.int64)  # the order of one alternative


class DeltaRule(NamedTuple):
    """The rule by which the oldest tuple is evicted.

    attribute : int, whose distance is tested; delta : float, the largest allowed distance
    threshold : float, the oldest tuple is evicted if Pr(another tuple is too far) reaches this
    max_tuples : int, the maximum number of tuples; the oldest tuples beyond it are also evicted
    """

    attribute: int
    delta: float
    threshold: float
    max_tuples: int


class DeltaTuples(NamedTuple):
    """n tuples of a group, held tuples first, and their m alternatives.

    offsets : int64[n + 1]    prob : float64[m]    values : float64[a, m]    owner : int64[m]
    tuple_moments : float64[channels, 3, n], see `tuple_moments`    rest : float64[n], all 1
    """

    offsets: np.ndarray
    prob: np.ndarray
    values: np.ndarray
    owner: np.ndarray
    tuple_moments: np.ndarray
    rest: np.ndarray


class PartialStacks(NamedTuple):
    """Partials: every STRIDE-th suffix, the suffixes of one stride, and the back."""

    kept: MomentPartials
    block: MomentPartials
    back: MomentPartials


@lean
def _build_front(header, per_tuple, stacks):
    """Build the suffixes of the front, and keep every STRIDE-th suffix."""
    block, header.block = stacks.block, -1
    clear_set(block, FIRST_SET)
    copy_set(block, FIRST_SET, stacks.kept, FIRST_SET)
    for r in range(1, header.middle - header.head + 1):
        add_tuple(per_tuple, header.middle - r, block, FIRST_SET)
        if r % STRIDE == 0:
            copy_set(block, FIRST_SET, stacks.kept, r // STRIDE)


@lean
def _merge_parts(header, per_tuple, stacks, total):
    """Write the partial of all held tuples to set 0 of `total`."""
    copy_set(stacks.back, FIRST_SET, total, FIRST_SET)
    r, block = header.middle - header.head, stacks.block
    if r == 0:
        return
    b = (r - 1) // STRIDE
    if header.block != b:
        header.block = b
        copy_set(stacks.kept, b, block, FIRST_SET)
        for j in range(r - b * STRIDE):
            if j > 0:
                copy_set(block, j - 1, block, j)
            add_tuple(per_tuple, header.middle - b * STRIDE - j - 1, block, j)
    merge_set(block, r - b * STRIDE - 1, total, FIRST_SET)


@inlined
def _sort_values(tuples, attribute):
    """Sort each tuple's values, and cumulate their probabilities from place offsets[i] + i onwards.

    Returns (values float64[m], values per tuple int64[n], cumulative probabilities float64[m + n]).
    """
    n, value = tuples.offsets.size - 1, tuples.values[attribute]
    near, many, mass = np.empty(value.size), np.zeros(n, np.int64), np.zeros(value.size + n)
    for i in range(n):
        begin, end = tuples.offsets[i], tuples.offsets[i + 1]
        order = stable_order(value[begin:end]) if end > begin + 1 else SINGLE_ORDER
        for k in order:  # NaN at the end
            if not np.isnan(value[begin + k]):
                at = begin + many[i]
                near[at] = value[begin + k]
                mass[at + i + 1] = mass[at + i] + tuples.prob[begin + k]
                many[i] += 1
    return near, many, mass


@lean
def _update_survival(header, i, tuples, by_value, rule, survival):
    """Multiply the oldest tuple's survival by the probability that tuple i is near enough.

    survival : float64[], Pr(no other tuple is too far), per alternative.  O(l log l).
    """
    near, many, mass = by_value
    begin, oldest = tuples.offsets[i], tuples.offsets[header.head]
    end = begin + many[i]
    for k in range(oldest, tuples.offsets[header.head + 1]):
        centre = tuples.values[rule.attribute, k]
        if np.isnan(centre):
            continue
        low, high = begin, end  # a difference rounds monotonically
        while low < high:
            half = (low + high) // 2
            if centre - near[half] > rule.delta:
                low = half + 1
            else:
                high = half
        first, high = low, end
        while low < high:
            half = (low + high) // 2
            if near[half] - centre <= rule.delta:
                low = half + 1
            else:
                high = half
        rest = 1.0 - (mass[first + i] + (mass[end + i] - mass[low + i]))
        survival[k - oldest] *= 0.0 if rest < REMAINDER else rest


@lean
def _begin_survival(header, tuples, by_value, rule, survival):
    """Compute the oldest tuple's survival.  O(held * l log l)."""
    survival[: tuples.offsets[header.head + 1] - tuples.offsets[header.head]] = 1.0
    steps = np.int64(0)
    for i in range(header.head + 1, header.tail):
        steps = after_signals(steps + STEPS_PER_TUPLE)
        _update_survival(header, i, tuples, by_value, rule, survival)


@lean
def _eviction_probability(head, tuples, survival):
    """Return Pr(some tuple is too far from the oldest | the oldest exists)."""
    begin, total, lost = tuples.offsets[head], 0.0, 0.0
    for k in range(begin, tuples.offsets[head + 1]):
        total += tuples.prob[k]
        lost += tuples.prob[k] * (1.0 - survival[k - begin])
    return lost / total


@compiled_ieee
def _list_alternatives(begin, end, values, sign, order, listed):
    """Merge alternatives [begin, end) into a list by descending sign * value, after equal values.

    order : int64[m], of which `listed` are in use.  Returns the new `listed`.  O(moves + l log l).
    """
    fresh = stable_order(-sign * values[begin:end])  # NaN at the end
    many, old = fresh.size, listed
    while many > 0 and np.isnan(values[begin + fresh[many - 1]]):
        many -= 1
    listed = at = old + many
    while many > 0:
        at -= 1
        k = begin + fresh[many - 1]
        if old > 0 and sign * values[order[old - 1]] < sign * values[k]:
            old -= 1
            order[at] = order[old]
        else:
            many -= 1
            order[at] = k
    return listed


@compiled_ieee
def slide_delta(tuples, state, enters, rule, measures, stacks, bounds, answers):
    """Process arrivals, which follow the held tuples; write the answers after each arrival.

    state : STACK_HEADER[1], updated    enters : bool[n], False for arrivals that are not added
    bounds : int64[2, n], answers : float64[r, 3, n], written; bounds : start and end of the window
    Returns the number of tuples evicted only because of `max_tuples`.
    Cost: O(held * l log l) per call and eviction, O(l log l) per arrival; for MIN and MAX O(held)
    moves per arrival.
    """
    header, what, extreme = state[0], measures.what, measures.extreme
    offsets, by_value = tuples.offsets, _sort_values(tuples, rule.attribute)
    total = new_set(stacks.back)
    held, overflow, room = header.tail, 0, tuples.prob.size
    order, listed = np.empty((measures.sign.size, room), np.int64), np.zeros(extreme.size, np.int64)
    distribution, chance, survival = np.empty(room), np.empty(room), np.empty(room)
    _build_front(header, tuples.tuple_moments, stacks)
    clear_set(stacks.back, FIRST_SET)
    for i in range(header.middle, held):
        add_tuple(tuples.tuple_moments, i, stacks.back, FIRST_SET)
    for x in range(measures.sign.size):
        values = tuples.values[measures.attribute[x]]
        listed[x] = _list_alternatives(
            np.int64(0), offsets[held], values, measures.sign[x], order[x], np.int64(0)
        )
    if held > 0:
        _begin_survival(header, tuples, by_value, rule, survival)
    steps = np.int64(0)
    for n in range(enters.size):
        steps = after_signals(steps + STEPS_PER_TUPLE)
        if enters[n]:
            i, before = header.tail, header.head
            header.tail += 1
            add_tuple(tuples.tuple_moments, i, stacks.back, FIRST_SET)
            if before == i:
                survival[: offsets[i + 1] - offsets[i]] = 1.0
            else:
                _update_survival(header, i, tuples, by_value, rule, survival)
            while header.tail - header.head > 1:
                if not reaches(
                    _eviction_probability(header.head, tuples, survival), rule.threshold
                ):
                    if header.tail - header.head <= rule.max_tuples:
                        break
                    overflow += 1
                if header.head == header.middle:  # flip the back
                    clear_set(stacks.back, FIRST_SET)
                    header.middle = header.tail
                    _build_front(header, tuples.tuple_moments, stacks)
                header.head += 1
                _begin_survival(header, tuples, by_value, rule, survival)
            for x in range(measures.sign.size):
                values, sign, one = tuples.values[measures.attribute[x]], measures.sign[x], order[x]
                if header.head > before:
                    kept = 0
                    for j in range(listed[x]):
                        if one[j] >= offsets[header.head]:
                            one[kept] = one[j]
                            kept += 1
                    listed[x] = kept
                listed[x] = _list_alternatives(
                    offsets[i], offsets[i + 1], values, sign, one, listed[x]
                )
        bounds[0, n], bounds[1, n] = header.head, header.tail
        _merge_parts(header, tuples.tuple_moments, stacks, total)
        for r in range(what.size):
            x = extreme[r]
            if what[r] >= 0:
                answers[r, 0, n], answers[r, 1, n], answers[r, 2, n] = measure(
                    what[r], total, 0, measures.channel[r]
                )
            elif x >= 0:
                value = tuples.values[measures.attribute[x]]
                of = PassedValues(value, tuples.prob, tuples.owner, tuples.rest)
                found = extreme_distribution(
                    measures.sign[x], np.zeros(1, np.int64), listed[x : x + 1], order[x], of,
                    distribution, chance,
                )  # fmt: skip
                answers[r, 0, n], answers[r, 1, n], answers[r, 2, n] = distribution_moments(
                    chance[:found], distribution[:found]
                )
    return overflow
