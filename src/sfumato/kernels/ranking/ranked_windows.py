"""Many small windows of the same tuples, each ranked by Pr_k and written out: one call for all."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.ranking.answer_rows import AnswerRows, Rankings, Run, write_answers
from sfumato.kernels.ranking.best_of_columns import best_rows, expected_key
from sfumato.kernels.ranking.generation_rules import rule_factors, undecided
from sfumato.kernels.ranking.top_k_probability import (
    BLOCK,
    MANY,
    Tails,
    sum_by_tuple,
    top_k_tails,
)
from sfumato.kernels.signals import after_signals


class Tuples(NamedTuple):
    """n tuples with m alternatives in all, in order of arrival.

    row, time : int64[n];  valid : bool[n], whether it takes part
    rule : int64[n] in [-1, rules), -1 for no rule;  rules : int
    begin : int64[n + 1], tuple i's alternatives are key[begin[i] : begin[i + 1]], score and prob
    key : float64[m], the least ranks first;  score : float64[m];  prob : float64[m] in (0, 1]
    """

    row: np.ndarray
    time: np.ndarray
    valid: np.ndarray
    rule: np.ndarray
    rules: int
    begin: np.ndarray
    key: np.ndarray
    score: np.ndarray
    prob: np.ndarray


class Windows(NamedTuple):
    """r windows: int64[r] each.

    time, answered : as in `Run`;  asked : which of the `Asked` it is for
    first, last : places of tuples [first, last), of which it holds those with since <= time < until
    """

    time: np.ndarray
    answered: np.ndarray
    asked: np.ndarray
    first: np.ndarray
    last: np.ndarray
    since: np.ndarray
    until: np.ndarray


class Asked(NamedTuple):
    """What several runs are asked for: run a has queries begin[a] ... begin[a + 1].

    query, k : int64, of each query its number and its k;  ranking : which of the run's ks that is
    ks : int64, run a's different k, ascending, at some_k[a] ... some_k[a + 1]
    """

    begin: np.ndarray
    query: np.ndarray
    k: np.ndarray
    ranking: np.ndarray
    some_k: np.ndarray
    ks: np.ndarray


@compiled
def inside(tuples, windows, r):
    """Places of the tuples that window r holds, in order of arrival."""
    first, last = windows.first[r], windows.last[r]
    places, count = np.empty(max(last - first, 0), dtype=np.int64), 0
    for i in range(first, last):
        if tuples.valid[i] and windows.since[r] <= tuples.time[i] < windows.until[r]:
            places[count] = i
            count += 1
    return places[:count]


@compiled
def rank_window(tuples, places, ks):
    """Pk-topk for each of `ks`, of the tuples at some places: Rankings, tuples by their place
    among these."""
    items = 0
    for i in places:
        items += tuples.begin[i + 1] - tuples.begin[i]
    key, prob = np.empty(items), np.empty(items)
    rule, owner = np.empty(items, dtype=np.int64), np.empty(items, dtype=np.int64)
    score, mean, x = np.empty(places.size), np.empty(places.size), 0
    for j in range(places.size):
        i, best = places[j], 0.0
        mean[j] = expected_key(tuples.key, tuples.prob, tuples.begin[i], tuples.begin[i + 1])
        for a in range(tuples.begin[i], tuples.begin[i + 1]):
            key[x], prob[x], owner[x] = tuples.key[a], tuples.prob[a], j
            rule[x] = tuples.rule[i] if tuples.rule[i] >= 0 else tuples.rules + j
            if prob[x] > best:
                best, score[j] = prob[x], tuples.score[a]
            x += 1
    order = np.argsort(key, kind="mergesort")
    factors = rule_factors(prob[order], rule[order], tuples.rules + places.size)
    begin, end = undecided(factors, ks[0], ks[ks.size - 1])
    tails = np.zeros((end, ks.size))
    block = BLOCK if ks.size < MANY else BLOCK // 2
    top_k_tails(factors, begin, end, block, Tails(ks, np.arange(end), tails))
    owners, values = sum_by_tuple(owner[order[:end]], places.size, tails)
    if items > places.size:  # tuples of equal probability by expected score, then by arrival
        arrived = np.argsort(owners)
        by_score = arrived[np.argsort(mean[owners[arrived]], kind="mergesort")]
        owners, values = owners[by_score], values[by_score]
    offsets, rank, chosen, score, value = best_rows(values, ks, owners, score)
    return Rankings(offsets, rank, chosen, score, value, np.full(rank.size, -1))


@compiled
def most_rows(windows, asked):
    """How many rows of answers there can be."""
    rows = 0
    for r in range(windows.time.size):
        for j in range(asked.begin[windows.asked[r]], asked.begin[windows.asked[r] + 1]):
            rows += min(asked.k[j], max(windows.last[r] - windows.first[r], 0))
    return rows


@compiled
def rank_windows(tuples, windows, asked, skips):
    """The answers of all windows, one after the other, and how many rows each has: int64[r], -1 of
    a window that is left out.

    skips : whether a window without tuples is left out
    The members of a rule have at most probability 1 in each window.
    Cost: that of ranking each window, without its tuples far behind: O(n log n) for n tuples.
    Source: D, (1), (2) and section 3, as `top_k_tails`.
    """
    room = most_rows(windows, asked)
    out = AnswerRows(
        np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64),
        np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64),
        np.empty(room, np.int64), np.empty(room), np.empty(room),
    )  # fmt: skip
    sizes, at, steps = np.full(windows.time.size, -1), 0, np.int64(0)
    for r in range(windows.time.size):
        steps = after_signals(steps + 256 * max(windows.last[r] - windows.first[r], 0))
        places, a = inside(tuples, windows, r), windows.asked[r]
        if skips and not places.size:
            continue
        of = slice(asked.begin[a], asked.begin[a + 1])
        run = Run(
            asked.query[of], asked.k[of], asked.ranking[of],
            windows.time[r], windows.answered[r], tuples.row[places],
        )  # fmt: skip
        found = rank_window(tuples, places, asked.ks[asked.some_k[a] : asked.some_k[a + 1]])
        end = write_answers(out, at, run, found)
        sizes[r], at = end - at, end
    return (
        AnswerRows(
            out.query[:at], out.k[:at], out.time[:at], out.answered[:at], out.rank[:at],
            out.row[:at], out.stream[:at], out.score[:at], out.probability[:at],
        ),
        sizes,
    )  # fmt: skip
