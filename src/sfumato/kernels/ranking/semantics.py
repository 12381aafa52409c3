"""Answers for several values of k under one of the semantics, and rankings of streams."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import distinct_values, kth_smallest, stable_order, write_at
from sfumato.kernels.compile import compiled
from sfumato.kernels.ranking.ranked_items import (
    best_of_columns,
    expected_keys,
    expected_ranks,
    exponential_ranks,
    front_probabilities,
    leading_scores,
    likeliest_at_ranks,
    round_digits,
    round_probability,
    weighted_ranks,
)
from sfumato.kernels.ranking.u_topk import (
    likeliest_vector,
    likeliest_vector_of_tuples,
    ordered_units,
)
from sfumato.kernels.tolerances import CERTAIN

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
def _rankings_of(items, offsets, tuples, value):
    """Return the `Rankings` of tuples in the given order, leaving out tuples that are -1."""
    kept = np.flatnonzero(tuples >= 0)
    rank = np.empty(tuples.size, np.int64)
    for c in range(offsets.size - 1):
        for i in range(offsets[c], offsets[c + 1]):
            rank[i] = i - offsets[c] + 1
    chosen = tuples[kept]
    return Rankings(
        np.searchsorted(kept, offsets), rank[kept], chosen, leading_scores(items)[chosen],
        value[kept], np.full(kept.size, -1),
    )  # fmt: skip


@compiled
def _rank_prefixes(items, tuples, value, ks):
    """Return the `Rankings` of the first k tuples of an order, for each of `ks`."""
    offsets = np.zeros(ks.size + 1, np.int64)
    for c in range(ks.size):
        offsets[c + 1] = offsets[c] + min(ks[c], tuples.size)
    places = np.empty(offsets[ks.size], np.int64)
    for c in range(ks.size):
        for i in range(offsets[c], offsets[c + 1]):
            places[i] = i - offsets[c]
    return _rankings_of(items, offsets, tuples[places], value[places])


@compiled
def _rank_by_front_probability(items, ks, least):
    distinct = distinct_values(ks)
    tuples, values = front_probabilities(items, distinct)
    begins, best = best_of_columns(values, distinct)
    offsets = np.zeros(ks.size + 1, np.int64)
    places = np.empty(ks.size * values.shape[0], np.int64)
    value = np.empty(places.size)
    for a in range(ks.size):
        c = np.searchsorted(distinct, ks[a])
        column = values[:, c].copy()
        if np.isnan(least[a]):
            chosen = best[begins[c] : begins[c + 1]]
        else:
            enough = np.flatnonzero(column >= least[a] * (1.0 - CERTAIN))
            chosen = enough[stable_order(-round_probability(column[enough]))]
        offsets[a + 1] = offsets[a] + chosen.size
        write_at(places, offsets[a], chosen)
        for i in range(chosen.size):
            value[offsets[a] + i] = column[chosen[i]]
    places, value = places[: offsets[-1]], value[: offsets[-1]]
    value[value >= 1.0 - CERTAIN] = 1.0
    return _rankings_of(items, offsets, tuples[places], value)


@compiled
def _likeliest_vectors(items, ks):
    """Return the `Rankings` under U-Topk; `offsets` is empty if a search reached MAX_SEQUENCES."""
    offsets = np.zeros(ks.size + 1, np.int64)
    most = np.minimum(ks, items.tuples).sum()
    tuples, value = np.empty(most, np.int64), np.empty(most)
    ordered = ordered_units(items, stable_order(items.key))
    for c in range(ks.size):
        if items.single:
            found, chance, _ = likeliest_vector(ordered, ks[c], np.bool_(False))
        else:
            keys = expected_keys(items)
            found, chance = likeliest_vector_of_tuples(items, keys, ks[c], np.bool_(False))
            if chance < 0.0:
                offsets = offsets[:0]
                break
        offsets[c + 1] = offsets[c] + found.size
        write_at(tuples, offsets[c], found)
        for i in range(offsets[c], offsets[c + 1]):
            value[i] = chance
    end = offsets[-1] if offsets.size else 0
    return _rankings_of(items, offsets, tuples[:end], value[:end])


@compiled
def rank_items(items, ks, least, parameters):
    """Return the `Rankings` of several answers.

    ks : int64[a], k of each answer, ascending; distinct except with Pr_k
    least : float64[a]; with Pr_k, an answer has all tuples whose Pr_k reaches this value or, for
        NaN, the k tuples with the largest Pr_k; other semantics ignore `least`
    Values equal to 12 digits are ordered by expected key, then by tuple.  `offsets` is empty if
    U-Topk failed.  Cost: as for the largest k; under U-Topk, as for each k separately.
    """
    code, most = parameters.semantics, ks[ks.size - 1]
    if code in (CODE_PK_TOPK, CODE_PT_K):
        return _rank_by_front_probability(items, ks, least)
    if code == CODE_U_TOPK:
        return _likeliest_vectors(items, ks)
    if code == CODE_U_KRANKS:
        tuples, value = likeliest_at_ranks(items, most)
        return _rank_prefixes(items, tuples, value, ks)
    if code == CODE_EXPECTED_RANK:
        values = expected_ranks(items)
    elif code == CODE_PRF:
        values = weighted_ranks(items, parameters.weights)
    else:
        values = exponential_ranks(items, parameters.alpha)
    if not values.size:
        return _rank_prefixes(items, np.empty(0, np.int64), values, ks)
    worth = np.empty(values.size)
    for t in range(values.size):
        worth[t] = round_digits(values[t] if code == CODE_EXPECTED_RANK else -values[t])
    count = min(most, values.size)
    near = np.flatnonzero(worth <= kth_smallest(worth.copy(), worth.size, count - 1))
    order = near[stable_order(expected_keys(items)[near])]
    order = order[stable_order(worth[order])][:count]
    return _rank_prefixes(items, order, values[order], ks)


@compiled
def rank_streams(items, streams, ks):
    """Return, for each k, the k streams with the highest sum of Pr_k over their tuples.

    streams : int64[tuples], the stream of each tuple;  ks : int64[c], distinct, ascending
    `score` and `tuples` belong to the stream's tuple with the highest Pr_k. Streams with equal sums
    are in ascending order.  Source: Chen et al. (2013), section 9.
    """
    tuples, values = front_probabilities(items, ks)
    ids = distinct_values(streams)
    total, most = np.zeros((ids.size, ks.size)), np.full((ids.size, ks.size), -1.0)
    leader = np.zeros((ids.size, ks.size), np.int64)
    for x in range(tuples.size):
        s = np.searchsorted(ids, streams[tuples[x]])
        for c in range(ks.size):
            total[s, c] += values[x, c]
            if values[x, c] > most[s, c]:
                leader[s, c], most[s, c] = tuples[x], values[x, c]
    for t in range(items.tuples):  # streams with probability 0 are also included
        s = np.searchsorted(ids, streams[t])
        if most[s, 0] < 0.0:
            for c in range(ks.size):
                leader[s, c], most[s, c] = t, 0.0
    offsets, places = best_of_columns(total, ks)
    chosen, value = np.empty(places.size, np.int64), np.empty(places.size)
    for c in range(ks.size):
        for i in range(offsets[c], offsets[c + 1]):
            chosen[i], value[i] = leader[places[i], c], total[places[i], c]
    found = _rankings_of(items, offsets, chosen, value)
    return Rankings(offsets, found.rank, chosen, found.score, value, ids[places])
