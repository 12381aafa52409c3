"""The arrays of a count window: its tuples, what is kept of their laws, how one comes and goes.

`count_window` says what the laws are for.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import integers
from sfumato.kernels.compile import compiled

# The window's integers:
# head, mid, tail : places in `held`; ones : tuples held of existence 1; arrived : tuples so far
# built : 1 if the laws belong to the tuples held; block : the block in `rows`, -1 for none
# rows_needed, saved_needed : sizes a kernel asks for
# overflow : tuples evicted by `max_tuples`; short : 1 while the window is shorter for that
# zone_low, zone_high : where R is neither 1 nor 0; row_base : count of the first cell of `rows`
# recursions : tests that the plain recursion decided; shift : log2 of the stride
MARKS = integers(
    "head mid tail ones built block rows_needed saved_needed arrived overflow short zone_low "
    "zone_high row_base recursions shift"
)


class CountWindow(NamedTuple):
    """State of one window; the operator makes the arrays larger when a kernel asks for it.

    held : float64[capacity], existence of the held tuples at head ... tail - 1, all above 0
    at : int64[capacity], their stream indices
    front : float64[w + BUFFER], R: 1 below zone_low, then between, 0 from zone_high on
    saved : float64[...], suffix laws, 2**shift tuples apart, packed
    extent : int64[at most MOST_SAVED + 1, 3], of each saved law: where in `saved`, low, high
    rows : float64[2**shift, width], the suffix laws of the block in use, counts from row_base
    bands : int64[2**shift, 2], their low and high
    sums : float64[6], of an approximate method: mu, variance and skew, each a two-word sum
    marks : MARKS[1]
    """

    held: np.ndarray
    at: np.ndarray
    front: np.ndarray
    saved: np.ndarray
    extent: np.ndarray
    rows: np.ndarray
    bands: np.ndarray
    sums: np.ndarray
    marks: np.ndarray


@compiled
def append(held, at, marks, p):
    """Write one tuple at the tail; False, with nothing changed, when there is no room."""
    if marks.tail == held.size:
        head, tail = marks.head, marks.tail
        if head <= held.size // 2:
            return False
        for i in range(head, tail):
            held[i - head] = held[i]
            at[i - head] = at[i]
        marks.head = 0
        marks.mid -= head
        marks.tail = tail - head
    held[marks.tail] = p
    at[marks.tail] = marks.arrived
    marks.tail += 1
    marks.ones += p == 1.0
    return True


@compiled
def evict(held, marks):
    """Let the oldest tuple go."""
    marks.ones -= held[marks.head] == 1.0
    if marks.head == marks.mid:
        marks.built = 0  # it was counted in R, which cannot forget
    marks.head += 1


@compiled
def oldest(at, marks):
    """Stream index of the oldest tuple held; the next arrival's when none is held."""
    return at[marks.head] if marks.head < marks.tail else marks.arrived + 1


@compiled
def may_go_by_counting(held, marks, w, target):
    """For targets 0 (Pr > 0) and 1 (certainty): whether the oldest tuple may go."""
    if target <= 0.0:
        return True
    return marks.ones - (held[marks.head] == 1.0) >= w
