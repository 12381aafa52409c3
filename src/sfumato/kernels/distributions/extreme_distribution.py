"""The distribution of MIN and MAX over independent tuples, from sorted alternatives.

Pr(max <= x) = product over tuples of (1 - Pr(the tuple exists with a value above x)). From the
largest value downwards, this product decreases with each passed alternative. Once the product is
below NEGLIGIBLE_REACH, the remaining alternatives are negligible. MIN is minus the MAX of the
negated values.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import sift_down, swap
from sfumato.kernels.compile import compiled_ieee
from sfumato.kernels.tolerances import NEGLIGIBLE_REACH, REMAINDER


class PassedValues(NamedTuple):
    """Alternatives, and the probability per tuple that has not been passed.

    value, prob : float64[m]    owner : int64[m], each alternative's tuple
    rest : float64[tuples], 1 minus the passed probability; all 1 between calls
    """

    value: np.ndarray
    prob: np.ndarray
    owner: np.ndarray
    rest: np.ndarray


@compiled_ieee
def take_alternative(p, tuple_, rest, reached):
    """Pass an alternative; return Pr(it is the extreme) and Pr(the next alternative is reached)."""
    old = rest[tuple_]
    new = old - p
    if new < REMAINDER:
        new = 0.0
    rest[tuple_] = new
    if new == 0.0:
        return reached, 0.0
    return reached * (p / old), reached * (new / old)


@compiled_ieee
def cut_alternatives(begin, end, of, order):
    """Return the number of sorted alternatives [begin, end) that are not negligible.

    order : int64[m]; order[begin:end] are their places, relative to begin, by descending
    sign * value, NaN last    O(returned number)
    """
    reached, kept = 1.0, 0
    while begin + kept < end and reached > NEGLIGIBLE_REACH:
        k = begin + order[begin + kept]
        if np.isnan(of.value[k]):
            break
        _, reached = take_alternative(of.prob[k], of.owner[k], of.rest, reached)
        kept += 1
    for j in range(kept):
        of.rest[of.owner[begin + order[begin + j]]] = 1.0
    return kept


@compiled_ieee
def extreme_distribution(sign, begins, kept, order, of, to_value, to_prob):
    """Write the distribution of the largest sign * value of sorted lists; return its size.

    begins, kept : int64[lists], see `cut_alternatives`
    to_value, to_prob : float64[at least sum of kept], written: distinct values, starting with the
        extreme, and their probabilities, whose sum is the probability that there is a value
    O(lists + r log lists) for r reached alternatives.
    Error: relative 1e-15 r, and NEGLIGIBLE_REACH.
    """
    size, value = np.int64(0), of.value
    heap = np.empty((2, begins.size))  # per list, minus its next sign * value, and its index
    at = np.zeros(begins.size, np.int64)
    for i in range(begins.size):
        if kept[i] > 0:
            heap[0, size], heap[1, size] = -sign * value[begins[i] + order[begins[i]]], i
            size += 1
    for i in range(size // 2 - 1, -1, -1):
        sift_down(heap, size, np.int64(i))
    found, reached = 0, 1.0
    while size > 0 and reached > NEGLIGIBLE_REACH:
        i = int(heap[1, 0])
        k = begins[i] + order[begins[i] + at[i]]
        chance, reached = take_alternative(of.prob[k], of.owner[k], of.rest, reached)
        if found > 0 and to_value[found - 1] == value[k]:
            to_prob[found - 1] += chance
        else:
            to_value[found], to_prob[found] = value[k], chance
            found += 1
        at[i] += 1
        if at[i] < kept[i]:
            heap[0, 0] = -sign * value[begins[i] + order[begins[i] + at[i]]]
        else:
            size -= 1
            swap(heap, 0, size)
        sift_down(heap, size, 0)
    for i in range(begins.size):
        for j in range(at[i]):
            of.rest[of.owner[begins[i] + order[begins[i] + j]]] = 1.0
    return found
