"""What a join of streams with missing values knows of its objects, beside their samples.

An object is at first known by a box: its present attributes, and for a missing one the interval of
the repository's values in the index nodes that its rule's box meets. Once it is imputed its box is
that of its samples. Objects lie in the slots of a `Store`; one that is not imputed has no samples.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import lean
from sfumato.kernels.imputation.dependency_choice import PRESENT
from sfumato.kernels.joins.match_probability import SLACK, Criterion, widest_reach
from sfumato.kernels.joins.store_room import move_window
from sfumato.kernels.joins.tuple_store import ULP

COARSE, WHOLE, KEPT = 0, 1, 2  # states of an object: a box; imputed; imputed by other rows
NONE = -1.0  # in place of a probability: below the threshold


class Objects(NamedTuple):
    """What is known of an object beside its samples, by slot.

    state : uint8[slots], COARSE, WHOLE, KEPT    raw : float64[slots, D], NaN = missing
    rule : int64[slots, T], see `imputation`    low, high : float64[T, slots], the box
    gap : int64[slots], the missing attribute of an object that lacks one, of T; else -1
    """

    state: np.ndarray
    raw: np.ndarray
    rule: np.ndarray
    low: np.ndarray
    high: np.ndarray
    gap: np.ndarray


class Incoming(NamedTuple):
    """n objects that can be imputed: raw, rule, low, high as of `Objects`, one a row."""

    raw: np.ndarray
    rule: np.ndarray
    low: np.ndarray
    high: np.ndarray


class Nearness(NamedTuple):
    """What makes a match, and the units of distances.

    criterion : `Criterion`    sure : the largest square of a distance of boxes that certainly is
        within reach (-1: none); see `largest_square` for the largest that may be
    shift, span : float64[T], coordinate = (value - shift) / span
    """

    criterion: Criterion
    sure: float
    shift: np.ndarray
    span: np.ndarray


class Reached(NamedTuple):
    """Objects of a window whose boxes are within reach of an arrival's.

    near : int64[>= number], slots, ascending    totals : float64[>= number], Pr(match), OPEN or
        NONE; of the first `number` each
    """

    near: np.ndarray
    number: int
    totals: np.ndarray


@lean
def place_objects(store, objects, batch, incoming):
    """Write arrivals to their slots, known by their boxes alone."""
    rule, slots = incoming.rule, batch.slots
    for i in range(slots.size):
        s, missing, largest = slots[i], 0, 0.0
        objects.state[s], objects.gap[s] = COARSE, -1
        for a in range(objects.raw.shape[1]):
            objects.raw[s, a] = incoming.raw[i, a]
        for t in range(rule.shape[1]):
            if rule[i, t] != PRESENT:
                objects.gap[s] = t
                missing += 1
            objects.rule[s, t] = rule[i, t]
            objects.low[t, s], objects.high[t, s] = incoming.low[i, t], incoming.high[i, t]
            largest = max(largest, abs(incoming.low[i, t]), abs(incoming.high[i, t]))
        if missing != 1:
            objects.gap[s] = -1
        # Of all that the object may be imputed to; of its samples once there are some.
        store.tuples.rounding[s] = largest * ULP
        w = batch.code[i]
        store.rounding[w] = max(store.rounding[w], store.tuples.rounding[s])


@lean
def copy_object(source, s, target, t):
    """Copy what is known of slot s to slot t."""
    target.state[t], target.gap[t] = source.state[s], source.gap[s]
    for a in range(source.raw.shape[1]):
        target.raw[t, a] = source.raw[s, a]
    for a in range(source.rule.shape[1]):
        target.rule[t, a] = source.rule[s, a]
        target.low[a, t], target.high[a, t] = source.low[a, s], source.high[a, s]


@lean
def move_objects(objects, store, moves):
    """`move_windows`, and the objects with them. O(objects moved)."""
    for i in range(moves.size):
        w = moves[i].window
        head, tail = store.windows.head[w], store.windows.tail[w]
        move_window(store, moves[i])
        shift = store.windows.head[w] - head
        for s in range(head, tail):
            copy_object(objects, s, objects, s + shift)


@lean
def copy_objects(source, before, target, after):
    """Copy the objects of slots `before` to the slots `after`, int64[n] each."""
    for i in range(before.size):
        copy_object(source, before[i], target, after[i])


@lean
def largest_square(within, rounding):
    """The largest square of a distance of boxes that may be within reach; rounding : of both."""
    reach = widest_reach(within, rounding)
    return reach * reach * (1.0 + 4.0 * SLACK) + 1e-300


def certain_square(within: float, probability: float, pairs_wanted: bool) -> float:
    """The largest square of a distance of boxes that certainly is within reach, or -1."""
    square = within * within
    trusted = probability <= 1.0 - SLACK and not pairs_wanted and 1e-280 < square < 1e300
    return square * (1.0 - 4.0 * SLACK) if trusted else -1.0
