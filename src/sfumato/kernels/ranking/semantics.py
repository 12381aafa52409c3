"""The values by which each semantics ranks tuples, and the answers for several values of k."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import distinct_values, kth_smallest, stable_order, write_at
from sfumato.kernels.compile import compiled, inlined
from sfumato.kernels.ranking.rank_tree import rank_distributions, top_k_tails
from sfumato.kernels.ranking.ranked_items import (
    expected_keys,
    leading_scores,
    round_digits,
    round_probability,
)
from sfumato.kernels.ranking.u_topk import likeliest_vectors
from sfumato.kernels.tolerances import CERTAIN

MAX_MOVES = 32  # per place; beyond this, sorting again is faster than repairing an order

# Codes of the semantics, in the order of operators.ranking.semantics.SEMANTICS.
CODE_PK_TOPK, CODE_PT_K, CODE_U_TOPK, CODE_U_KRANKS, CODE_EXPECTED_RANK, CODE_PRF, CODE_PRFE = (
    range(7)
)


class SemanticsParameters(NamedTuple):
    """The code of the semantics, alpha of PRFe, and the weights float64[] of CODE_PRF."""

    semantics: int
    alpha: float
    weights: np.ndarray


class Rankings(NamedTuple):
    """Several answers, concatenated: answer c has rows offsets[c] ... offsets[c + 1].

    rank : int64, 1, 2, ...;  tuples : int64
    score : float64, of the tuple's most probable alternative
    value : float64, Pr_k; under U-Topk the probability of the whole vector, under U-kRanks the
        probability of this rank, otherwise the expected rank or the sum by which tuples are ranked
    stream : int64, -1 unless streams are ranked
    """

    offsets: np.ndarray
    rank: np.ndarray
    tuples: np.ndarray
    score: np.ndarray
    value: np.ndarray
    stream: np.ndarray


@compiled
def front_probabilities(items, ks):
    """Return the tuples with non-negligible Pr_k, by expected key, and their Pr_k, float64[t, c].

    ks : int64[c], ascending, at least 1.  At least min(k, number of tuples) tuples are returned.
    """
    order, tails = top_k_tails(items, ks)
    if items.single:
        return order, tails
    place = np.full(items.tuples, -1)
    for x in order:
        place[items.owner[x]] = 0
    found = np.flatnonzero(place == 0)
    found = found[stable_order(expected_keys(items)[found])]
    for f in range(found.size):
        place[found[f]] = f
    total = np.zeros((found.size, ks.size))
    for x in range(order.size):
        t = place[items.owner[order[x]]]
        for c in range(ks.size):
            total[t, c] += tails[x, c]
    return found, total


@compiled
def top_k_probabilities(items, ks):
    """Return Pr_k of all tuples, float64[tuples, c].  ks : as in `front_probabilities`."""
    out = np.zeros((items.tuples, ks.size))
    found, values = front_probabilities(items, ks)
    for f in range(found.size):
        for c in range(ks.size):
            out[found[f], c] = values[f, c]
    return out


@inlined
def _weighted_ranks(items, weights):
    """Return each tuple's sum over j of weights[j] * Pr(rank = j + 1), float64[tuples].

    Source: PRF(omega) of Li, Saha and Deshpande (2009), as named in Chen et al. (2013), section 2.
    """
    owner, start, first, distribution = rank_distributions(items, weights.size)
    out = np.zeros(items.tuples)
    for x in range(owner.size):
        total = 0.0
        for j in range(start[x], start[x + 1]):
            total += distribution[j] * weights[first[x] + j - start[x]]
        out[owner[x]] += total
    return out


@inlined
def _likeliest_at_ranks(items, most):
    """Return the most probable tuple at each rank up to `most` (U-kRanks).

    Returns tuples int64[most], -1 if none can have that rank, and probabilities float64[most].
    Ties, to within 1e-12, are broken by expected key.  Cost: as for `rank_distributions`.
    Source: U-kRanks of Soliman et al. (2007), as in Chen et al. (2013), section 2.
    """
    owner, start, first, distribution = rank_distributions(items, most)
    by_tuple, tuples, count = stable_order(owner), np.empty(owner.size, np.int64), 0
    begins = np.zeros(owner.size + 1, np.int64)
    for i in range(owner.size):
        t = owner[by_tuple[i]]
        if count == 0 or tuples[count - 1] != t:
            tuples[count], begins[count] = t, i
            count += 1
    begins[count] = owner.size
    found, best, total = np.full(most, -1), np.zeros(most), np.zeros(most)
    for g in stable_order(expected_keys(items)[tuples[:count]]):
        low, high = most, 0
        for x in by_tuple[begins[g] : begins[g + 1]]:
            width = start[x + 1] - start[x]
            low, high = min(low, first[x]), max(high, first[x] + width)
            for j in range(width):
                total[first[x] + j] += distribution[start[x] + j]
        for j in range(low, high):
            if total[j] > best[j] + CERTAIN or (found[j] < 0 and total[j] > 0.0):
                found[j], best[j] = tuples[g], total[j]
            total[j] = 0.0
    return found, best


@inlined
def _expected_ranks(items):
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


@inlined
def _exponential_ranks(items, alpha):
    """Return each tuple's sum over j >= 1 of alpha**j Pr(rank = j), float64[tuples].

    alpha : float64 in (0, 1].  O(m log m).  Error: relative, 4 m u.
    The generating function of the number of items above is evaluated at alpha. The value is a
    scalar, so the factor of the item's rule, which is at least alpha, can be divided out.
    Source: PRFe of Li, Saha and Deshpande (2009), as named in Chen et al. (2013), section 2.
    """
    order = stable_order(items.key)
    out, value, mass = np.zeros(items.tuples), 1.0, np.zeros(items.rules)
    for x in order:
        r, p = items.rule[x], items.prob[x]
        before = mass[r] if r >= 0 else 0.0
        others = value / (1.0 - before + before * alpha)
        out[items.owner[x]] += p * alpha * others
        now = min(before + p, 1.0)
        value = others * (1.0 - now + now * alpha)
        if r >= 0:
            mass[r] = now
    return out


@compiled
def tuple_values(items, parameters):
    """Return the value by which expected rank, PRF or PRFe rank each tuple, float64[tuples]."""
    if parameters.semantics == CODE_EXPECTED_RANK:
        return _expected_ranks(items)
    if parameters.semantics == CODE_PRF:
        return _weighted_ranks(items, parameters.weights)
    return _exponential_ranks(items, parameters.alpha)


@inlined
def _answer_vectors(items, ks):
    """Return offsets, tuples and values of the answers under U-Topk; offsets[:0] if it failed."""
    offsets, tuples, chance, _ = likeliest_vectors(items, ks, False)
    value = np.empty(tuples.size)
    for c in range(offsets.size - 1):
        for i in range(offsets[c], offsets[c + 1]):
            value[i] = chance[c]
    return offsets, tuples, value


@inlined
def _best_tuples(items, values, most):
    """Return the `most` tuples with the lowest values, int64[]; see `rank_items` for ties."""
    count = min(most, values.size)
    if count == 0:
        return np.empty(0, np.int64)
    near = np.flatnonzero(values <= kth_smallest(values.copy(), values.size, count - 1))
    order = near[stable_order(expected_keys(items)[near])]
    return order[stable_order(values[order])][:count]


@inlined
def _sum_by_stream(streams, tuples, values):
    """Return the streams, each with its tuple of the highest Pr_k and the sum of Pr_k for each k.

    tuples, values : from `front_probabilities`
    Returns int64[n], ascending, int64[n, c] and float64[n, c].
    """
    ids = distinct_values(streams)
    total, most = np.zeros((ids.size, values.shape[1])), np.full((ids.size, values.shape[1]), -1.0)
    leader = np.zeros(total.shape, np.int64)
    for x in range(tuples.size):
        s = np.searchsorted(ids, streams[tuples[x]])
        for c in range(values.shape[1]):
            total[s, c] += values[x, c]
            if values[x, c] > most[s, c]:
                leader[s, c], most[s, c] = tuples[x], values[x, c]
    for t in range(streams.size):  # streams with probability 0 are also included
        s = np.searchsorted(ids, streams[t])
        if most[s, 0] < 0.0:
            for c in range(values.shape[1]):
                leader[s, c], most[s, c] = t, 0.0
    return ids, leader, total


@inlined
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


@inlined
def _best_by_probability(items, streams, ks, least):
    """Return offsets, tuples, values and streams of the answers by Pr_k; see `rank_items`."""
    distinct = distinct_values(ks)
    tuples, values = front_probabilities(items, distinct)
    stream, leader = np.full(tuples.size, -1), np.empty(values.shape, np.int64)
    if streams.size:
        stream, leader, values = _sum_by_stream(streams, tuples, values)
    else:
        for x in range(tuples.size):
            for c in range(distinct.size):
                leader[x, c] = tuples[x]
                if values[x, c] >= 1.0 - CERTAIN:
                    values[x, c] = 1.0
    offsets, room, n = np.zeros(ks.size + 1, np.int64), ks.size * stream.size, 0
    chosen, value, of = np.empty(room, np.int64), np.empty(room), np.empty(room, np.int64)
    best = np.arange(stream.size)
    for a in range(ks.size):
        c = np.searchsorted(distinct, ks[a])
        rounded = round_probability(values[:, c].copy())
        # The order for neighbouring k is similar.
        if a == 0 or not _repair(best, rounded[best]):
            best = stable_order(-rounded)
        for x in best[: ks[a]] if np.isnan(least[a]) else best:
            if np.isnan(least[a]) or values[x, c] >= least[a] * (1.0 - CERTAIN):
                chosen[n], value[n], of[n] = leader[x, c], values[x, c], stream[x]
                n += 1
        offsets[a + 1] = n
    return offsets, chosen[:n], value[:n], of[:n]


@compiled
def rank_items(items, streams, ks, least, parameters):
    """Return the `Rankings` of several answers.

    streams : int64[tuples], the stream of each tuple, to rank streams by the sum of Pr_k over their
        tuples; `score` and `tuples` are then of the tuple with the highest Pr_k. Empty to rank
        tuples
    ks : int64[a], k of each answer, ascending; distinct except with Pr_k
    least : float64[a]; with Pr_k, an answer has all tuples whose Pr_k reaches this value or, for
        NaN, the k tuples with the largest Pr_k; other semantics ignore `least`
    Values equal to 12 digits are ordered by expected key, then by tuple; streams with equal sums
    are in ascending order.  `offsets` is empty if U-Topk failed.
    Cost: as for the largest k; under U-Topk, as for each k separately.
    Source: Chen et al. (2013), section 9, for streams.
    """
    code, most, stream = parameters.semantics, ks[ks.size - 1], np.empty(0, np.int64)
    if code in (CODE_PK_TOPK, CODE_PT_K):
        offsets, tuples, value, stream = _best_by_probability(items, streams, ks, least)
    elif code == CODE_U_TOPK:
        offsets, tuples, value = _answer_vectors(items, ks)
    else:
        if code == CODE_U_KRANKS:
            order, values = _likeliest_at_ranks(items, most)
        else:
            values = tuple_values(items, parameters)
            worth = np.empty(values.size)
            for t in range(values.size):
                worth[t] = round_digits(values[t] if code == CODE_EXPECTED_RANK else -values[t])
            order = _best_tuples(items, worth, most)
            values = values[order]
        offsets = np.zeros(ks.size + 1, np.int64)
        for c in range(ks.size):
            offsets[c + 1] = offsets[c] + min(ks[c], order.size)
        tuples, value = np.empty(offsets[-1], np.int64), np.empty(offsets[-1])
        for c in range(ks.size):
            write_at(tuples, offsets[c], order[: ks[c]])
            write_at(value, offsets[c], values[: ks[c]])
    kept, rank = np.flatnonzero(tuples >= 0), np.empty(tuples.size, np.int64)
    for c in range(offsets.size - 1):
        for i in range(offsets[c], offsets[c + 1]):
            rank[i] = i - offsets[c] + 1
    if stream.size < kept.size:
        stream = np.full(kept.size, -1)
    offsets, tuples = np.searchsorted(kept, offsets), tuples[kept]
    score = leading_scores(items)[tuples]
    return Rankings(offsets, rank[kept], tuples, score, value[kept], stream)
