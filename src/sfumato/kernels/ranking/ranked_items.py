"""Items to rank, and the values by which each semantics ranks their tuples."""

import math
from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import kth_smallest, stable_order
from sfumato.kernels.compile import compiled
from sfumato.kernels.ranking.generation_rules import rule_factors, undecided
from sfumato.kernels.ranking.rank_tree import rank_distributions, top_k_tails
from sfumato.kernels.tolerances import CERTAIN

SAMPLED = 8  # one item in SAMPLED is used to estimate the limit of the front
MAX_MOVES = 32  # per place; beyond this, sorting again is faster than repairing an order


class RankedItems(NamedTuple):
    """m items: alternatives of tuples, in order of arrival.

    key : float64[m], the smallest key ranks first; equal keys rank by position;  score : float64[m]
    prob : float64[m] in (0, 1];  owner : int64[m] in [0, tuples), the item's tuple
    rule : int64[m] in [-1, rules), shared by a tuple's alternatives; -1 for a single alternative
        without a rule
    single : bool, True if item x is tuple x
    """

    key: np.ndarray
    score: np.ndarray
    prob: np.ndarray
    rule: np.ndarray
    owner: np.ndarray
    rules: int
    tuples: int
    single: bool


@compiled
def round_probability(value):
    """Return a probability as a multiple of 1e-12, the error bound, so that ties remain ties."""
    return np.rint(value * 1e12)


@compiled
def round_digits(value):
    """Round to 12 significant digits, so that exactly equal values remain equal."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(np.rint(mantissa * 2.0**40), exponent - 40)


@compiled
def expected_keys(items):
    """Return each tuple's mean key given existence, to 12 digits; exact for one alternative."""
    if items.single:
        return items.key
    mean, exists = np.zeros(items.tuples), np.zeros(items.tuples)
    count, only = np.zeros(items.tuples, np.int64), np.zeros(items.tuples)
    for x in range(items.key.size):
        t = items.owner[x]
        mean[t] += items.prob[x] * items.key[x]
        exists[t] += items.prob[x]
        only[t] = items.key[x]
        count[t] += 1
    for t in range(items.tuples):
        mean[t] = only[t] if count[t] == 1 else round_digits(mean[t] / exists[t])
    return mean


@compiled
def leading_scores(items):
    """Return the score of each tuple's most probable alternative, the first one on ties."""
    if items.single:
        return items.score
    score, best = np.zeros(items.tuples), np.zeros(items.tuples)
    for x in range(items.key.size):
        t = items.owner[x]
        if items.prob[x] > best[t]:
            score[t], best[t] = items.score[x], items.prob[x]
    return score


@compiled
def rank_order(key, wanted):
    """Return about `wanted` of the best positions in rank order, and all ties with the last one."""
    if wanted >= 0.6 * key.size:
        return stable_order(key)
    sample = key[::SAMPLED].copy()
    limit = kth_smallest(sample, sample.size, min(int(wanted / SAMPLED), sample.size - 1))
    front = np.flatnonzero(key <= limit)
    return front[stable_order(key[front])]


@compiled
def front_items(items, least, most):
    """Return the items with possibly fewer than `most` items above: order, `Factors`, begin, end.

    order : int64[], in rank order;  begin, end : see `undecided`
    O(m + f log f) for f returned items, because the others are not sorted.
    """
    m = items.key.size
    # The cut of Chernoff's bound if all probabilities equal their mean.
    enough = most + 40 + math.sqrt(80.0 * most + 1600.0)
    wanted = 1.4 * enough * m / max(items.prob.sum(), 1e-300) + 32
    while True:
        order = rank_order(items.key, wanted)
        factors = rule_factors(items.prob[order], items.rule[order], items.rules)
        begin, end = undecided(factors, least, most)
        if end < order.size or order.size == m:
            return order, factors, begin, end
        wanted *= 3  # the items in front are improbable, or the estimate was too low


@compiled
def front_probabilities(items, ks):
    """Return the tuples with non-negligible Pr_k, by expected key, and their Pr_k, float64[t, c].

    ks : int64[c], ascending, at least 1.  At least min(k, number of tuples) tuples are returned.
    """
    order, factors, begin, end = front_items(items, ks[0], ks[ks.size - 1])
    tails = np.zeros((end, ks.size))
    top_k_tails(factors, begin, end, ks, np.arange(end), tails)
    if items.single:
        return order[:end], tails
    place = np.full(items.tuples, -1)
    for x in range(end):
        place[items.owner[order[x]]] = 0
    found = np.flatnonzero(place == 0)
    found = found[stable_order(expected_keys(items)[found])]
    for f in range(found.size):
        place[found[f]] = f
    total = np.zeros((found.size, ks.size))
    for x in range(end):
        t = place[items.owner[order[x]]]
        for c in range(ks.size):
            total[t, c] += tails[x, c]
    return found, total


@compiled
def top_k_probabilities(items, ks):
    """Return Pr_k of all tuples, float64[tuples, c].  ks : as in `front_probabilities`."""
    out = np.zeros((items.tuples, ks.size))
    if items.single:  # written in place, because copying takes longer with many k
        order, factors, begin, end = front_items(items, ks[0], ks[ks.size - 1])
        top_k_tails(factors, begin, end, ks, order, out)
        return out
    found, values = front_probabilities(items, ks)
    for f in range(found.size):
        for c in range(ks.size):
            out[found[f], c] = values[f, c]
    return out


@compiled
def _repair(order, value):
    """Insertion-sort by descending value, then place; return False after MAX_MOVES * n moves."""
    moves, most = 0, MAX_MOVES * order.size
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
    """Return, for each column c, the places of its min(n, ks[c]) largest values, largest first.

    values : float64[n, c], no NaN; ties, to within 1e-12, by place;  ks : int64[c], at least 1
    Returns offsets int64[c + 1] and places int64[offsets[c]], column by column.
    O(n log n) per column; O(n) if its order is similar to the previous column's, as for
    neighbouring k.
    """
    n = values.shape[0]
    offsets = np.zeros(ks.size + 1, np.int64)
    for c in range(ks.size):
        offsets[c + 1] = offsets[c] + min(n, ks[c])
    places = np.empty(offsets[ks.size], np.int64)
    order, value = np.arange(n), np.empty(n)
    for c in range(ks.size):
        for j in range(n):
            value[j] = round_probability(values[order[j], c])
        if c == 0 or not _repair(order, value):
            for j in range(n):
                value[j] = -round_probability(values[j, c])
            order[:] = stable_order(value)
        places[offsets[c] : offsets[c + 1]] = order[: offsets[c + 1] - offsets[c]]
    return offsets, places


@compiled
def _sum_by_tuple(items, order, values):
    total = np.zeros(items.tuples)
    for x in range(values.size):
        total[items.owner[order[x]]] += values[x]
    return total


@compiled
def weighted_ranks(items, weights):
    """Return each tuple's sum over j of weights[j] * Pr(rank = j + 1), float64[tuples].

    Source: PRF(omega) of Li, Saha and Deshpande (2009), as named in Chen et al. (2013), section 2.
    """
    order, factors, _, end = front_items(items, np.int64(1), weights.size)
    start, first, distribution = rank_distributions(factors, end, weights.size)
    out = np.zeros(end)
    for x in range(end):
        for j in range(start[x], start[x + 1]):
            out[x] += distribution[j] * weights[first[x] + j - start[x]]
    return _sum_by_tuple(items, order, out)


@compiled
def likeliest_at_ranks(items, most):
    """Return the most probable tuple at each rank up to `most` (U-kRanks).

    Returns tuples int64[most], -1 if none can have that rank, and probabilities float64[most].
    Ties, to within 1e-12, are broken by expected key.  Cost: as for `rank_distributions`.
    Source: U-kRanks of Soliman et al. (2007), as in Chen et al. (2013), section 2.
    """
    order, factors, _, end = front_items(items, np.int64(1), most)
    start, first, distribution = rank_distributions(factors, end, most)
    by_tuple = stable_order(items.owner[order[:end]])
    begins, tuples = np.zeros(end + 1, np.int64), np.empty(end, np.int64)
    count = 0
    for i in range(end):
        t = items.owner[order[by_tuple[i]]]
        if count == 0 or tuples[count - 1] != t:
            tuples[count], begins[count] = t, i
            count += 1
    begins[count] = end
    found, best, total = np.full(most, -1), np.zeros(most), np.zeros(most)
    for g in stable_order(expected_keys(items)[tuples[:count]]):
        low, high = most, 0
        for i in range(begins[g], begins[g + 1]):
            x = by_tuple[i]
            width = start[x + 1] - start[x]
            low, high = min(low, first[x]), max(high, first[x] + width)
            for j in range(width):
                total[first[x] + j] += distribution[start[x] + j]
        for j in range(low, high):
            if total[j] > best[j] + CERTAIN or (found[j] < 0 and total[j] > 0.0):
                found[j], best[j] = tuples[g], total[j]
            total[j] = 0.0
    return found, best


@compiled
def expected_ranks(items):
    """Return each tuple's expected rank, float64[tuples]: 0 if first, the world's size if absent.

    O(m log m).  Error: relative, about 2 m u.  Source: expected ranks of Cormode, Li and Yi (2009),
    as named in Chen et al. (2013), section 2, for rules of any shape.
    """
    order = stable_order(items.key)
    everything = 0.0
    total, own = np.zeros(items.rules), np.zeros(items.tuples)
    for x in order:
        everything += items.prob[x]
        own[items.owner[x]] += items.prob[x]
        if items.rule[x] >= 0:
            total[items.rule[x]] += items.prob[x]
    out, seen = np.zeros(items.tuples), np.zeros(items.tuples, np.bool_)
    above, above_rule = 0.0, np.zeros(items.rules)
    for x in order:
        t, r = items.owner[x], items.rule[x]
        mass = total[r] if r >= 0 else own[t]
        if not seen[t]:
            # If absent: the members of other rules, and the other members of the same rule.
            out[t] += (1.0 - min(own[t], 1.0)) * (everything - mass) + (mass - own[t])
            seen[t] = True
        out[t] += items.prob[x] * (above - (above_rule[r] if r >= 0 else 0.0))
        above += items.prob[x]
        if r >= 0:
            above_rule[r] += items.prob[x]
    return out


@compiled
def exponential_ranks(items, alpha):
    """Return each tuple's sum over j >= 1 of alpha**j Pr(rank = j), float64[tuples].

    alpha : float64 in (0, 1].  O(m log m).  Error: relative, 4 m u.
    The generating function of the number of items above is evaluated at alpha. The value is a
    scalar, so the factor of the item's rule, which is at least alpha, can be divided out.
    Source: PRFe of Li, Saha and Deshpande (2009), as named in Chen et al. (2013), section 2.
    """
    order = stable_order(items.key)
    out, value, mass = np.empty(order.size), 1.0, np.zeros(items.rules)
    for i in range(order.size):
        r, p = items.rule[order[i]], items.prob[order[i]]
        before = mass[r] if r >= 0 else 0.0
        others = value / (1.0 - before + before * alpha)
        out[i] = p * alpha * others
        now = min(before + p, 1.0)
        value = others * (1.0 - now + now * alpha)
        if r >= 0:
            mass[r] = now
    return _sum_by_tuple(items, order, out)
