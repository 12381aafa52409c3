"""Distributions of MIN and MAX over the tuples of open extents, updated with each tuple.

Pr(max <= v) is the product of Pr(tuple <= v) over independent tuples. It rises in steps at the
values of the alternatives, so it is stored as a list of steps: first -inf with the probability that
there is no value, then values in ascending order, each with Pr(max <= value). A tuple is also
such a list, and is added by multiplying:

    list    -inf: 0.3               5: 0.6     9: 1
    tuple   -inf: 0.1     4: 0.5    5: 1
    both    -inf: 0.03    4: 0.15   5: 0.6     9: 1         0.15 is 0.3 of the list times 0.5

Steps above the tuple's values are unchanged. The probability of a value is the difference of two
steps. This difference is also stored, as a sum of products of probabilities, so that small
probabilities keep their precision. Steps below NEGLIGIBLE are dropped, so a tuple that certainly
has a value drops all lower values. Once Pr(no value) is negligible, a tuple below all remaining
values changes nothing. MIN is the MAX of the negated values.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers, sort_pairs, with_room
from sfumato.kernels.compile import compiled, inlined, lean
from sfumato.kernels.distributions.tuples import value_parts
from sfumato.kernels.tolerances import NEGLIGIBLE, REMAINDER
from sfumato.kernels.windows.extents import NO_INDEX

# A value, Pr(max = value), Pr(max <= value), and the place of the next step.
CDF_STEP = np.dtype(
    [("value", float), ("mass", float), ("reached", float), ("following", np.int64)]
)
STEP_POOL = integers("steps free")  # number of steps used so far; first free step


class Extremes(NamedTuple):
    """Distributions of r extremes of each of several sets of tuples.

    sign : float64[r], 1 for MAX and -1 for MIN    attribute : int64[r]
    pool : STEP_POOL[1]    steps : CDF_STEP[room], the steps of all lists
    first : int64[sets, r], first step of each list; NO_INDEX without tuples
    """

    sign: np.ndarray
    attribute: np.ndarray
    pool: np.ndarray
    first: np.ndarray
    steps: np.ndarray


@inlined
def _write_steps(offsets, prob, values, sign, i, scratch):
    """Write tuple i's list of steps for one extreme to `scratch`; return their number.

    scratch : float64[3, alternatives + 1], the columns of CDF_STEP
    """
    value, mass, reached, n = scratch[0], scratch[1], scratch[2], 1
    valued, _ = value_parts(offsets, prob, values, i)
    for k in range(offsets[i], offsets[i + 1]):
        if values[k] == values[k] and prob[k] > 0.0:
            value[n], mass[n], n = sign * values[k], prob[k], n + 1
    if n > 2:
        sort_pairs(value[1:], mass[1:], n - 1)
    below = 1.0 - valued if valued < 1.0 - REMAINDER else 0.0
    value[0], mass[0], reached[0], steps = -np.inf, 0.0, below, 1
    for k in range(1, n):
        if value[steps - 1] == value[k]:
            mass[steps - 1] += mass[k]
        else:
            value[steps], mass[steps], steps = value[k], mass[k], steps + 1
    for k in range(1, steps - 1):
        below = min(below + mass[k], 1.0)
        reached[k] = below
    if steps > 1:
        reached[steps - 1] = 1.0
    return steps


@compiled
def with_extremes(extremes, sets, more):
    """Return `extremes` with room for `sets` sets, and for `more` additional steps."""
    first, count = extremes.first, extremes.sign.size
    if first.shape[0] < sets:
        first = np.full((sets, count), NO_INDEX)
        for s in range(extremes.first.shape[0]):
            for r in range(count):
                first[s, r] = extremes.first[s, r]
    steps = with_room(extremes.steps, extremes.pool[0].steps + more)
    return Extremes(extremes.sign, extremes.attribute, extremes.pool, first, steps)


@lean
def _insert_step(value, mass, reached, below, following, s, r, extremes):
    """Insert a step between the places `below` and `following`, or NO_INDEX; return its place."""
    pool, steps = extremes.pool[0], extremes.steps
    place = pool.free
    if place == NO_INDEX:
        place, pool.steps = pool.steps, pool.steps + 1
    else:
        pool.free = steps[place].following
    step = steps[place]
    step.value, step.mass, step.reached, step.following = value, mass, reached, following
    if below == NO_INDEX:
        extremes.first[s, r] = place
    else:
        steps[below].following = place
    return place


@inlined
def _changes_nothing(offsets, prob, values, i, s, r, extremes):
    """Return whether all values of tuple i are below the steps of an extreme."""
    first = extremes.steps[extremes.first[s, r]]
    if first.following == NO_INDEX or first.reached > NEGLIGIBLE:
        return False
    lowest, sign = extremes.steps[first.following].value, extremes.sign[r]
    for k in range(offsets[i], offsets[i + 1]):
        if prob[k] > 0.0 and sign * values[k] >= lowest:  # false for NaN
            return False
    return True


@inlined
def _multiply(tuple_steps, count, s, r, extremes):
    """Multiply an extreme by the first `count` of a tuple's steps."""
    value, mass, reached = tuple_steps[0], tuple_steps[1], tuple_steps[2]
    steps, pool = extremes.steps, extremes.pool[0]
    place, below, k = extremes.first[s, r], NO_INDEX, 0
    likely = 0.0  # `reached` of `below`
    while place != NO_INDEX:
        step = steps[place]
        while k < count and value[k] < step.value:
            if likely * reached[k] > NEGLIGIBLE:
                below = _insert_step(
                    value[k], likely * mass[k], likely * reached[k], below, place, s, r, extremes
                )
            k += 1
        if k == count:
            return
        following, own = step.following, 0.0
        if value[k] == step.value:
            own, k = likely * mass[k], k + 1
        likely = step.reached
        step.reached *= reached[k - 1]
        step.mass = step.mass * reached[k - 1] + own
        if step.reached > NEGLIGIBLE or below == NO_INDEX:
            below = place
        else:
            steps[below].following = following
            step.following, pool.free = pool.free, place
        place = following
    while k < count:
        if likely * reached[k] > NEGLIGIBLE:
            below = _insert_step(
                value[k], likely * mass[k], likely * reached[k], below, NO_INDEX, s, r, extremes
            )
        k += 1


@lean
def add_to_extremes(offsets, prob, values, i, s, scratch, extremes):
    """Add tuple i to the extremes of set s.

    prob, values : float64[k], float64[attributes, k], the tuples' alternatives
    scratch : see `_write_steps`
    There must be room for a step per alternative and one more, for each extreme.
    Cost: O(alternatives) per extreme, and O(steps) unless all values are below the steps.
    """
    for r in range(extremes.sign.size):
        x = values[extremes.attribute[r]]
        if extremes.first[s, r] == NO_INDEX:
            _insert_step(-np.inf, 0.0, 1.0, NO_INDEX, NO_INDEX, s, r, extremes)
        elif _changes_nothing(offsets, prob, x, i, s, r, extremes):
            continue
        count = _write_steps(offsets, prob, x, extremes.sign[r], i, scratch)
        _multiply(scratch, count, s, r, extremes)


@lean
def clear_extremes(s, extremes):
    """Remove all tuples of a set."""
    for r in range(extremes.sign.size):
        place = extremes.first[s, r]
        while place != NO_INDEX:
            step = extremes.steps[place]
            following = step.following
            step.following, extremes.pool[0].free = extremes.pool[0].free, place
            place = following
        extremes.first[s, r] = NO_INDEX


@lean
def extreme_moments(s, r, extremes):
    """Return (mean, standard deviation, existence) of an extreme; (NaN, NaN, 0) without a value.

    Error: relative 1e-16 per tuple in each probability.
    """
    steps, sign, lowest = extremes.steps, extremes.sign[r], extremes.first[s, r]
    if lowest != NO_INDEX:
        lowest = steps[lowest].following
    existence, total, square, place = 0.0, 0.0, 0.0, lowest
    while place != NO_INDEX:
        existence += steps[place].mass
        total += steps[place].mass * (steps[place].value - steps[lowest].value)
        place = steps[place].following
    if existence <= 0.0:
        return np.nan, np.nan, 0.0
    mean, place = steps[lowest].value + total / existence, lowest
    while place != NO_INDEX:
        square += steps[place].mass * (steps[place].value - mean) ** 2
        place = steps[place].following
    return sign * mean, np.sqrt(square / existence), min(existence, 1.0)
