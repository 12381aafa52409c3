"""The greatest values of several columns, each with its own number of them."""

import math

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.tolerances import CERTAIN

MOST_MOVES = 32  # a place, before sorting anew is quicker than repairing an order


@compiled
def ranked_as(values):
    """Probabilities as whole numbers of 1e-12, the error of all of them: what is equal on paper
    ranks as equal.  values : float64, or an array of them"""
    return np.rint(values * 1e12)


@compiled
def expected_key(key, prob, begin, end):
    """Mean of the keys of a tuple's alternatives [begin, end), given that it exists, to 12 digits:
    what orders tuples that are equal in all else. The key itself if there is one alternative."""
    if end - begin == 1:
        return key[begin]
    total, exists = 0.0, 0.0
    for a in range(begin, end):
        total += prob[a] * key[a]
        exists += prob[a]
    mantissa, exponent = math.frexp(total / exists)
    return math.ldexp(np.rint(mantissa * 2.0**40), exponent - 40)


@compiled
def expected_keys(key, prob, begin):
    """`expected_key` of all tuples: float64[n].  begin : int64[n + 1]"""
    result = np.empty(begin.size - 1)
    for i in range(result.size):
        result[i] = expected_key(key, prob, begin[i], begin[i + 1])
    return result


@compiled
def repair(order, value):
    """Bring places into descending order of value, equal values by ascending place; whether it was
    done.

    False, with `order` any permutation, after MOST_MOVES * n moves.  An insertion sort: few moves
    where the order hardly changes.
    """
    moves, most = 0, MOST_MOVES * order.size
    for j in range(1, order.size):
        place, own = order[j], value[j]
        i = j
        while i > 0 and (value[i - 1] < own or (value[i - 1] == own and order[i - 1] > place)):
            value[i], order[i] = value[i - 1], order[i - 1]
            i -= 1
        value[i], order[i] = own, place
        moves += j - i
        if moves > most:
            return False
    return True


@compiled
def best_of_columns(values, ks):
    """For each column c the places of its min(n, ks[c]) greatest values, the greatest first.

    values : float64[n, c], no NaN;  ks : int64[c], at least 1.  Values that are equal to within
    1e-12 by ascending place.
    Returns offsets int64[c + 1] and places int64[offsets[c]], column after column.
    O(n log n) a column, O(n) where it is ordered much as the one before, as for neighbouring k.
    """
    n = values.shape[0]
    offsets = np.zeros(ks.size + 1, dtype=np.int64)
    for c in range(ks.size):
        offsets[c + 1] = offsets[c] + min(n, ks[c])
    places = np.empty(offsets[ks.size], dtype=np.int64)
    order, value = np.arange(n), np.empty(n)
    for c in range(ks.size):
        done = False
        if c > 0:
            for j in range(n):
                value[j] = ranked_as(values[order[j], c])
            done = repair(order, value)
        if not done:
            for j in range(n):
                value[j] = -ranked_as(values[j, c])
            order[:] = np.argsort(value, kind="mergesort")
        places[offsets[c] : offsets[c + 1]] = order[: offsets[c + 1] - offsets[c]]
    return offsets, places


@compiled
def best_rows(values, ks, owner, scores):
    """best_of_columns as rows of answers: offsets, and rank from 1, owner, score and value of each,
    which is a probability.

    owner : int64[n], what stands at each place;  scores : float64[], of the owners, or empty: 0
    """
    offsets, places = best_of_columns(values, ks)
    rank, owners = np.empty(places.size, dtype=np.int64), np.empty(places.size, dtype=np.int64)
    score, value = np.zeros(places.size), np.empty(places.size)
    for c in range(ks.size):
        for i in range(offsets[c], offsets[c + 1]):
            rank[i] = i - offsets[c] + 1
            owners[i] = owner[places[i]]
            value[i] = values[places[i], c]
            if value[i] >= 1.0 - CERTAIN:
                value[i] = 1.0
    if scores.size:
        for i in range(places.size):
            score[i] = scores[owners[i]]
    return offsets, rank, owners, score, value
