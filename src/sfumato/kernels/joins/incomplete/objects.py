"""What a join of streams with missing values holds: windows as rings, and what is known of objects.

Every window of a stream is a ring of at most `rows` slots; it wraps only when it is full, so that
its objects always fill the slots from `base` on, in any order:

    slots   | base ======= held objects ======= base + held   room   base + capacity |

An object is at first known by a box: its present attributes, and for a missing one the interval of
the repository's values in the index nodes that its rule's box meets. Once it is imputed its box is
that of its samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import lean
from sfumato.kernels.imputation.dependency_choice import PRESENT
from sfumato.kernels.joins.match_probability import SLACK

COARSE, WHOLE, KEPT = 0, 1, 2  # states of an object: a box; imputed; imputed by other rows


class Rings(NamedTuple):
    """Windows by code, int64 each: first slot, slots of room, objects held, slot of the oldest."""

    base: np.ndarray
    capacity: np.ndarray
    held: np.ndarray
    oldest: np.ndarray


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


class Match(NamedTuple):
    """What makes a match: float64[6] `numbers`, and the units of distances, float64[T] each.

    numbers : within, limit, least, probability (see `match_probability`), then the largest square
        that may be within reach and the largest that certainly is (-1: none)
    """

    numbers: np.ndarray
    shift: np.ndarray
    span: np.ndarray


@lean
def enter(rings, w, rows):
    """The slot for an arrival in its window, that of the oldest object if it is full."""
    if rings.held[w] < rows:
        rings.held[w] += 1
        return rings.base[w] + rings.held[w] - 1
    s = rings.base[w] + rings.oldest[w]
    rings.oldest[w] = (rings.oldest[w] + 1) % rows
    return s


@lean
def place_object(tuples, objects, s, number, raw, rule, low, high):
    """Write an arrival to slot s, known by its box alone.

    raw : float64[D]    rule : int64[T]    low, high : float64[T]
    """
    tuples.number[s], tuples.samples[s] = number, 0
    objects.state[s], objects.gap[s] = COARSE, -1
    for a in range(raw.size):
        objects.raw[s, a] = raw[a]
    missing = 0
    for t in range(rule.size):
        if rule[t] != PRESENT:
            objects.gap[s] = t
            missing += 1
        objects.rule[s, t] = rule[t]
        objects.low[t, s], objects.high[t, s] = low[t], high[t]
    if missing != 1:
        objects.gap[s] = -1


def squares_of(within, probability, pairs_wanted):
    """(largest square that may be within reach, largest that certainly is, or -1)."""
    square = within * within
    bound = square * (1.0 + 4.0 * SLACK) + 1e-300
    trusted = probability <= 1.0 - SLACK and not pairs_wanted and 1e-280 < square < 1e300
    return bound, square * (1.0 - 4.0 * SLACK) if trusted else -1.0
