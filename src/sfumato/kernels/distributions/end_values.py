"""Distributions of the first and the last value of the w newest existing tuples.

The last value is the value of the newest inside tuple that has a value. A pass from the newest
tuple to the oldest computes, for each number of newer existing tuples, the probability that none of
them has a value. For the first value, the probability that no older inside tuple has a value is
also needed.
"""

import numpy as np

from sfumato.kernels.compile import inlined, lean
from sfumato.kernels.distributions.poisson_binomial import count_one
from sfumato.kernels.distributions.tuples import value_parts
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import NEGLIGIBLE_COUNT


@lean
def _write_values(tuples, i, reached, prob, value, found):
    """Write the alternatives of tuple i that have a value; return the number written so far."""
    for a in range(tuples.offsets[i], tuples.offsets[i + 1]):
        if not np.isnan(tuples.value[a]):
            prob[found], value[found] = reached * tuples.prob[a], tuples.value[a]
            found += 1
    return found


@inlined
def _no_value_table(tuples, head, end, w, most):
    """Return a table of Pr(the c newest existing tuples of [head, head + i) have no value).

    If fewer than c tuples exist, none of them has a value. Two columns suffice if all existing
    tuples have values. The table is empty if it would have more than `most` entries.
    """
    n, missing = end - head, False
    for i in range(head, end):
        missing |= value_parts(tuples.offsets, tuples.prob, tuples.value, i)[1] > 0.0
    width, steps = w if missing else min(w, 2), np.int64(0)
    if missing and n * w > most:
        return np.empty((0, 1))
    table = np.ones((n + 1, width))
    for i in range(n):
        valued, without = value_parts(tuples.offsets, tuples.prob, tuples.value, head + i)
        absent = max(1.0 - valued - without, 0.0)
        for c in range(1, width):
            table[i + 1, c] = absent * table[i, c] + without * table[i, c - 1]
        steps = after_signals(steps + width)
    return table


@inlined
def end_value(tuples, head, end, w, newest, most):
    """Return the distribution of an end value of the w newest existing tuples of [head, end).

    newest : bool, the last value instead of the first
    Returns (done, prob, value), newest tuple first; equal values may occur several times. done :
    bool, False if a first value would require more than `most` cells
    Cost: O(tuples * band of their number) for a first value, O(tuples * w) if tuples may have no
    value. O(tuples until a value is certain) for a last value, times w while newer tuples may have
    no value.
    """
    w, last, older = min(w, end - head), 0, np.ones((0, 1))
    size = tuples.offsets[end] - tuples.offsets[head]
    prob, value, found = np.empty(size), np.empty(size), np.int64(0)
    if not newest and w > 0:
        older = _no_value_table(tuples, head, end, w, most)
        last = older.shape[1] - 1
        if older.size == 0:
            return False, prob[:0], value[:0]
    counts = np.zeros(w + 1)  # numbers of newer existing tuples; without a value, for a last value
    counts[0], low, high, steps = 1.0, np.int64(0), np.int64(1), np.int64(0)
    for i in range(end - 1, head - 1, -1):
        reached = 0.0
        for c in range(low, high):
            reached += counts[c] * (1.0 if newest else older[i - head, min(w - 1 - c, last)])
        if reached >= NEGLIGIBLE_COUNT:
            found = _write_values(tuples, i, reached, prob, value, found)
        valued, without = value_parts(tuples.offsets, tuples.prob, tuples.value, i)
        absent, counted = max(1.0 - valued - without, 0.0), without
        if not newest:
            counted = min(valued + without, 1.0)
            absent = 1.0 - counted
        low, high = count_one(counts, low, high, absent, counted, w, NEGLIGIBLE_COUNT)
        if low == high:
            break
        steps = after_signals(steps + high - low + 1)
    return True, prob[:found], value[:found]
