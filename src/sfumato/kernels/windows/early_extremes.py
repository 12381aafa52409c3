"""The distribution of MIN and MAX over the tuples of open extents, tuple by tuple.

Pr(max <= v) is the product of Pr(tuple <= v) over independent tuples. It rises in steps at the
values of the alternatives, so a list of steps holds it: values in descending order, each with
Pr(max <= value), and last -inf with the probability that there is no value. A tuple is such a list
too, and is added by multiplying:

    list    9: 1     5: 0.6             -inf: 0.3
    tuple            5: 1     4: 0.5    -inf: 0.1
    both    9: 1     5: 0.6   4: 0.15   -inf: 0.03        0.15 is 0.3 of the list times 0.5

Steps below NEGLIGIBLE are dropped; what they had belongs to the last value. So a tuple that
certainly has a value drops all lower ones. MIN is the MAX of the negated values.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, sort_pairs, with_room
from sfumato.kernels.compile import compiled, compiled_ieee, lean
from sfumato.kernels.laws.tuples import value_parts
from sfumato.kernels.tolerances import NEGLIGIBLE
from sfumato.kernels.windows.extents import NONE

STEP = np.dtype([("value", float), ("reached", float), ("following", np.int64)])
STEP_POOL = integers("steps free")  # steps used so far; the first of those that are free again


class Extremes(NamedTuple):
    """Distributions of r extremes of each of some sets of tuples.

    sign : float64[r], 1 for MAX and -1 for MIN
    first : int64[sets, r], first step of each list; NONE without tuples
    """

    sign: np.ndarray
    pool: np.ndarray
    first: np.ndarray
    steps: np.ndarray


class TupleSteps(NamedTuple):
    """Lists of n tuples for each of r extremes: float64[r, alternatives + n].

    Those of tuple i start at offsets[i] + i and end with the value -inf.
    """

    offsets: np.ndarray
    value: np.ndarray
    reached: np.ndarray


@compiled_ieee
def write_tuple_steps(offsets, prob, values, sign, value, reached):
    """Write the steps of tuples for one extreme to `value` and `reached`, see `TupleSteps`."""
    for i in range(offsets.size - 1):
        at, n = offsets[i] + i, 0
        valued, _ = value_parts(offsets, prob, values, i)
        for k in range(offsets[i], offsets[i + 1]):
            if values[k] == values[k] and prob[k] > 0.0:
                value[at + n], reached[at + n], n = -sign * values[k], prob[k], n + 1
        sort_pairs(value[at:], reached[at:], n)
        steps = 0
        for k in range(at, at + n):
            if steps > 0 and value[at + steps - 1] == -value[k]:
                reached[at + steps - 1] += reached[k]
            else:
                value[at + steps], reached[at + steps], steps = -value[k], reached[k], steps + 1
        below = 1.0 - valued
        value[at + steps], reached[at + steps] = -np.inf, below
        for k in range(at + steps - 1, at, -1):
            below += reached[k]
            reached[k] = below
        if steps > 0:
            reached[at] = 1.0


@compiled
def with_extremes(extremes, sets, more):
    """Return `extremes` with room for a number of sets, and for `more` steps."""
    first, asked = extremes.first, extremes.sign.size
    if first.shape[0] < sets:
        first = np.full((sets, asked), NONE)
        for s in range(extremes.first.shape[0]):
            for r in range(asked):
                first[s, r] = extremes.first[s, r]
    steps = with_room(extremes.steps, extremes.pool[0].steps + more)
    return Extremes(extremes.sign, extremes.pool, first, steps)


@lean
def _insert(value, reached, above, following, s, r, extremes):
    """Insert a step after the step `above`; return its place."""
    pool, steps = extremes.pool[0], extremes.steps
    place = pool.free
    if place == NONE:
        place, pool.steps = pool.steps, pool.steps + 1
    else:
        pool.free = steps[place].following
    step = steps[place]
    step.value, step.reached, step.following = value, reached, following
    if above == NONE:
        extremes.first[s, r] = place
    else:
        steps[above].following = place
    return place


@lean
def add_to_extremes(tuples, i, s, extremes):
    """Add tuple i to the extremes of set s, for whose alternatives and one step more there is room.

    O(steps + alternatives) for each extreme.
    """
    steps, pool = extremes.steps, extremes.pool[0]
    for r in range(extremes.sign.size):
        if extremes.first[s, r] == NONE:
            _insert(-np.inf, 1.0, NONE, NONE, s, r, extremes)
        at, above, place = tuples.offsets[i] + i, NONE, extremes.first[s, r]
        while place != NONE:
            step = steps[place]
            while tuples.value[r, at] > step.value:
                reached = step.reached * tuples.reached[r, at]
                if reached > NEGLIGIBLE:
                    above = _insert(tuples.value[r, at], reached, above, place, s, r, extremes)
                at += 1
            step.reached *= tuples.reached[r, at]
            at += tuples.value[r, at] == step.value
            following = step.following
            if step.reached > NEGLIGIBLE or following == NONE:
                above = place
            else:
                if above == NONE:
                    extremes.first[s, r] = following
                else:
                    steps[above].following = following
                step.following, pool.free = pool.free, place
            place = following


@lean
def clear_extremes(s, extremes):
    """Remove all tuples of a set."""
    for r in range(extremes.sign.size):
        place = extremes.first[s, r]
        while place != NONE:
            step = extremes.steps[place]
            following = step.following
            step.following, extremes.pool[0].free = extremes.pool[0].free, place
            place = following
        extremes.first[s, r] = NONE


@lean
def extreme_moments(s, r, extremes):
    """Return (mean, standard deviation, existence) of an extreme; NaN, NaN, 0 without a value.

    Error: absolute 1e-16 per tuple in each probability.
    """
    steps, sign, first = extremes.steps, extremes.sign[r], extremes.first[s, r]
    if first == NONE or steps[first].following == NONE:
        return np.nan, np.nan, 0.0
    centre, total, square, place = steps[first].value, 0.0, 0.0, first
    last = place
    while steps[place].following != NONE:
        step, last = steps[place], steps[place].following
        chance = step.reached - steps[last].reached
        total += chance * (step.value - centre)
        place = last
    existence = steps[first].reached - steps[last].reached
    if existence <= 0.0:
        return np.nan, np.nan, 0.0
    mean, place = total / existence, first
    while steps[place].following != NONE:
        step = steps[place]
        chance = step.reached - steps[step.following].reached
        square += chance * (step.value - centre - mean) ** 2
        place = step.following
    return sign * (centre + mean), np.sqrt(square / existence), existence
