"""Distributions of MIN and MAX over the tuples of open extents, updated with each tuple.

Pr(max <= v) is the product of Pr(tuple <= v) over independent tuples. It rises in steps at the
values of the alternatives, so it is stored as a list of steps: values in descending order, each
with Pr(max <= value), and last -inf with the probability that there is no value. A tuple is such a
list, too, and is added by multiplying:

    list    9: 1     5: 0.6             -inf: 0.3
    tuple            5: 1     4: 0.5    -inf: 0.1
    both    9: 1     5: 0.6   4: 0.15   -inf: 0.03        0.15 is 0.3 of the list times 0.5

The probability of a value is the difference of two steps. It is also stored, as a sum of products
of probabilities, so that small probabilities keep their digits. Steps below NEGLIGIBLE are dropped,
so a tuple that certainly has a value drops all lower values. MIN is the MAX of the negated values.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, sort_pairs, with_room
from sfumato.kernels.compile import compiled, compiled_ieee, lean
from sfumato.kernels.distributions.tuples import value_parts
from sfumato.kernels.tolerances import NEGLIGIBLE, REMAINDER
from sfumato.kernels.windows.extents import NONE

# A value, Pr(max = value), Pr(max <= value), and the next step.
STEP = np.dtype([("value", float), ("mass", float), ("reached", float), ("following", np.int64)])
STEP_POOL = integers("steps free")  # number of steps used so far; first free step


class Extremes(NamedTuple):
    """Distributions of r extremes of each of several sets of tuples.

    sign : float64[r], 1 for MAX and -1 for MIN
    first : int64[sets, r], first step of each list; NONE without tuples
    """

    sign: np.ndarray
    pool: np.ndarray
    first: np.ndarray
    steps: np.ndarray


class TupleSteps(NamedTuple):
    """Lists of n tuples for each of r extremes, as in STEP: float64[r, alternatives + n].

    Tuple i's values start at offsets[i] + i and end with -inf.
    """

    offsets: np.ndarray
    value: np.ndarray
    mass: np.ndarray
    reached: np.ndarray


@compiled_ieee
def write_tuple_steps(offsets, prob, values, sign, value, mass, reached):
    """Write the tuples' steps for one extreme to the last three arguments, as in `TupleSteps`."""
    for i in range(offsets.size - 1):
        at, n = offsets[i] + i, 0
        valued, _ = value_parts(offsets, prob, values, i)
        for k in range(offsets[i], offsets[i + 1]):
            if values[k] == values[k] and prob[k] > 0.0:
                value[at + n], mass[at + n], n = -sign * values[k], prob[k], n + 1
        if n > 1:
            sort_pairs(value[at:], mass[at:], n)
        steps = 0
        for k in range(at, at + n):
            if steps > 0 and value[at + steps - 1] == -value[k]:
                mass[at + steps - 1] += mass[k]
            else:
                value[at + steps], mass[at + steps], steps = -value[k], mass[k], steps + 1
        below = 1.0 - valued if valued < 1.0 - REMAINDER else 0.0
        value[at + steps], mass[at + steps], reached[at + steps] = -np.inf, 0.0, below
        for k in range(at + steps - 1, at, -1):
            below = min(below + mass[k], 1.0)
            reached[k] = below
        if steps > 0:
            reached[at] = 1.0


@compiled
def with_extremes(extremes, sets, more):
    """Return `extremes` with room for this number of sets, and for `more` steps."""
    first, count = extremes.first, extremes.sign.size
    if first.shape[0] < sets:
        first = np.full((sets, count), NONE)
        for s in range(extremes.first.shape[0]):
            for r in range(count):
                first[s, r] = extremes.first[s, r]
    steps = with_room(extremes.steps, extremes.pool[0].steps + more)
    return Extremes(extremes.sign, extremes.pool, first, steps)


@lean
def _insert_step(value, mass, reached, above, following, s, r, extremes):
    pool, steps = extremes.pool[0], extremes.steps
    place = pool.free
    if place == NONE:
        place, pool.steps = pool.steps, pool.steps + 1
    else:
        pool.free = steps[place].following
    step = steps[place]
    step.value, step.mass, step.reached, step.following = value, mass, reached, following
    if above == NONE:
        extremes.first[s, r] = place
    else:
        steps[above].following = place
    return place


@lean
def add_to_extremes(tuples, i, s, extremes):
    """Add tuple i to the extremes of set s.  O(steps + alternatives) per extreme.

    There must be room for a step per alternative and one more.
    """
    steps, pool = extremes.steps, extremes.pool[0]
    for r in range(extremes.sign.size):
        if extremes.first[s, r] == NONE:
            _insert_step(-np.inf, 0.0, 1.0, NONE, NONE, s, r, extremes)
        value, mass, reached = tuples.value[r], tuples.mass[r], tuples.reached[r]
        at, above, place = tuples.offsets[i] + i, NONE, extremes.first[s, r]
        while place != NONE:
            step = steps[place]
            while value[at] > step.value:
                new, own = step.reached * reached[at], step.reached * mass[at]
                if new > NEGLIGIBLE:
                    above = _insert_step(value[at], own, new, above, place, s, r, extremes)
                at += 1
            following = step.following
            step.reached *= reached[at]
            step.mass *= reached[at]
            if value[at] == step.value:
                step.mass += steps[following].reached * mass[at] if following != NONE else 0.0
                at += 1
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
    """Return (mean, standard deviation, existence) of an extreme; (NaN, NaN, 0) without a value.

    Error: relative 1e-16 per tuple in each probability.
    """
    steps, sign, first = extremes.steps, extremes.sign[r], extremes.first[s, r]
    existence, total, square, place = 0.0, 0.0, 0.0, first
    while place != NONE and steps[place].following != NONE:
        existence += steps[place].mass
        total += steps[place].mass * (steps[place].value - steps[first].value)
        place = steps[place].following
    if existence <= 0.0:
        return np.nan, np.nan, 0.0
    mean, place = steps[first].value + total / existence, first
    while steps[place].following != NONE:
        square += steps[place].mass * (steps[place].value - mean) ** 2
        place = steps[place].following
    return sign * mean, np.sqrt(square / existence), min(existence, 1.0)
