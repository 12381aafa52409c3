"""Ranked windows: their clocks, contents and answers."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled
from sfumato.kernels.ranking.best_of_columns import best_rows, expected_key
from sfumato.kernels.ranking.generation_rules import rule_factors, undecided
from sfumato.kernels.ranking.top_k_probability import (
    ITEMS_PER_BLOCK,
    SUMMED_K,
    Tails,
    sum_by_tuple,
    top_k_tails,
)
from sfumato.kernels.signals import after_signals

NO_INSTANT = -(2**62)  # no instant is past
NO_PUNCTUATION = np.iinfo(np.int64).min  # no punctuation, or time


@compiled
def judge(scope, time, late, punctuation, clock, newest):
    """Rows that come too late, those marked so and those behind; moves the clocks.

    scope, time, punctuation : int64[n]    late : bool[n], those marked
    clock, newest : int64[scopes], written: no instant up to `clock` is open, and the greatest
        punctuation
    Returns bool[n], and the clock of its scope after each row, int64[n].
    """
    n = scope.size
    behind, steps = late.copy(), np.empty(n, dtype=np.int64)
    for i in range(n):
        s, settled = scope[i], np.int64(NO_INSTANT)
        if not late[i] and punctuation[i] > newest[s]:  # a late row's is its own source's
            settled = min(newest[s] + 1, time[i])  # a row of that very time may follow it
            newest[s] = punctuation[i]
        behind[i] |= time[i] < max(clock[s], settled)
        clock[s] = max(clock[s], settled)
        if not late[i]:
            clock[s] = max(clock[s], time[i])
        steps[i] = clock[s]
    return behind, steps


@compiled
def known_at(begin, steps, scope, time, otherwise):
    """When some times were known: the first step of its scope that reaches each, int64[n].

    begin : int64[scopes + 1], scope s has the steps begin[s] ... begin[s + 1], ascending
    otherwise : int64[n], where a scope has no steps; NO_PUNCTUATION where none reaches
    """
    found = otherwise.copy()
    for i in range(scope.size):
        some = steps[begin[scope[i]] : begin[scope[i] + 1]]
        if some.size:
            place = np.searchsorted(some, time[i])
            found[i] = some[place] if place < some.size else NO_PUNCTUATION
    return found


class Rankings(NamedTuple):
    """The answers to several k, one after the other: k number c has offsets[c] ... offsets[c + 1].

    rank : int64, 1, 2, ...;  tuples : int64
    score : float64, of the tuple's most probable alternative
    value : float64, Pr_k; under U-Topk the probability of the whole vector, under U-kRanks that of
        having this rank, and the expected rank or the sum where these rank the tuples
    stream : int64, -1 unless streams are ranked
    """

    offsets: np.ndarray
    rank: np.ndarray
    tuples: np.ndarray
    score: np.ndarray
    value: np.ndarray
    stream: np.ndarray


class WindowRun(NamedTuple):
    """One run, at an instant, for several queries.

    query, k, ranking : int64[q], of each query its number, its k, and which ranking is its answer
    time, answered : int, the instant, and when it was answered, in microseconds
    row : int64[tuples], what is written of a tuple
    """

    query: np.ndarray
    k: np.ndarray
    ranking: np.ndarray
    time: int
    answered: int
    row: np.ndarray


class AnswerRows(NamedTuple):
    """n rows of answers, column by column: all int64[n], but score and probability float64[n]."""

    query: np.ndarray
    k: np.ndarray
    time: np.ndarray
    answered: np.ndarray
    rank: np.ndarray
    row: np.ndarray
    stream: np.ndarray
    score: np.ndarray
    probability: np.ndarray


@compiled
def write_answers(out, at, run, rankings):
    """Write the answers of one run to each of its queries; returns where the next ones go.

    out : AnswerRows, filled from row `at` on;  run : WindowRun;  rankings : Rankings of its k
    One pass, column by column: there may be far more rows than tuples, as every query gets its own.
    """
    offsets = rankings.offsets
    for j in range(run.query.size):
        begin, end = offsets[run.ranking[j]], offsets[run.ranking[j] + 1]
        size = end - begin
        out.query[at : at + size] = run.query[j]
        out.k[at : at + size] = run.k[j]
        out.time[at : at + size] = run.time
        out.answered[at : at + size] = run.answered
        out.rank[at : at + size] = rankings.rank[begin:end]
        out.stream[at : at + size] = rankings.stream[begin:end]
        out.score[at : at + size] = rankings.score[begin:end]
        out.probability[at : at + size] = rankings.value[begin:end]
        for i in range(size):
            out.row[at + i] = run.row[rankings.tuples[begin + i]]
        at += size
    return at


@compiled
def count_answers(changes, latency, every):
    """How many answers there are, how many are later than their `every`, and their latency.

    changes : bool[n], where another answer begins;  latency, every : int64[n] microseconds,
        latency negative where unknown
    Returns (answers, late ones, the sum of the known latencies).
    """
    answers, late, total = 0, 0, 0
    for i in range(changes.size):
        if changes[i]:
            answers += 1
            late += latency[i] > every[i]
            total += max(latency[i], 0)
    return answers, late, total


class MovingWindows(NamedTuple):
    """w windows, each with the tuples it held and then its arrivals: n tuples in all.

    begin : int64[w + 1], window j's tuples are those at begin[j] ... begin[j + 1]
    fresh : int64[w], place of its first arrival
    row, time : int64[n]
    since : int64[n], of an arrival the number of the oldest tuple that a window of so many rows
        holds behind it;  before : int64[w], the same before all of them
    length : int, of windows of time; 0 where they hold so many rows
    """

    begin: np.ndarray
    fresh: np.ndarray
    row: np.ndarray
    time: np.ndarray
    since: np.ndarray
    before: np.ndarray
    length: int


@compiled
def newest_times(time, begin, latest, until):
    """How far time has come with each arrival, and behind all of a window's.

    time : int64[n], of arrivals alone, window j's at begin[j] ... begin[j + 1]
    latest, until : int64[w], known before, and known by something else behind the arrivals
    Returns newest int64[n], last int64[w], and how many arrivals were older than the newest before
    them, int64[w].
    """
    newest, last, older = np.empty_like(time), until.copy(), np.zeros_like(until)
    for j in range(latest.size):
        known = latest[j]
        for i in range(begin[j], begin[j + 1]):
            older[j] += time[i] < known
            known = max(known, time[i])
            newest[i] = known
        last[j] = max(known, last[j])
    return newest, last, older


@compiled
def _span(windows, j, instant, visible):
    """First place, and the one behind the last, of what window j holds at an instant, of the tuples
    before place `visible`."""
    begin, end = windows.begin[j], windows.begin[j + 1]
    if windows.length == 0:
        since = windows.since[visible - 1] if visible > windows.fresh[j] else windows.before[j]
        return begin + np.searchsorted(windows.row[begin:end], since), visible
    time = windows.time[begin:end]
    first = begin + np.searchsorted(time, instant - windows.length)
    return first, min(begin + np.searchsorted(time, instant), visible)


@compiled
def window_spans(windows, newest, until, instants, runs):
    """Where the tuples of each run lie, and when it is answered.

    newest : int64[arrivals];  until : int64[w], see `newest_times`
    instants : int64[r], window j's at runs[j] ... runs[j + 1], ascending
    Returns first, last and answered, int64[r] each, and bool[w], whether all times of a window
    ascend: where they do not, those between `first` and `last` are in a window of time, or not.
    """
    r, w = instants.size, windows.fresh.size
    first, last = np.empty(r, np.int64), np.empty(r, np.int64)
    answered, ascending = np.empty(r, np.int64), np.empty(w, np.bool_)
    arrived = 0
    for j in range(w):
        begin, end = windows.begin[j], windows.begin[j + 1]
        ascending[j] = np.all(np.diff(windows.time[begin:end]) >= 0)
        shown = newest[arrived : arrived + end - windows.fresh[j]]
        arrived += shown.size
        for run in range(runs[j], runs[j + 1]):
            reached = np.searchsorted(shown, instants[run])  # this arrival shows that it is past
            answered[run] = shown[reached] if reached < shown.size else until[j]
            visible = windows.fresh[j] + reached
            if windows.length == 0 or ascending[j]:
                first[run], last[run] = _span(windows, j, instants[run], visible)
            else:
                first[run], last[run] = begin, visible
    return first, last, answered, ascending


class RankedTuples(NamedTuple):
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


class RankedWindows(NamedTuple):
    """r windows: int64[r] each.

    time, answered : as in `WindowRun`;  asked : which of the `RunQueries` it is for
    first, last : places of tuples [first, last), of which it holds those with since <= time < until
    """

    time: np.ndarray
    answered: np.ndarray
    asked: np.ndarray
    first: np.ndarray
    last: np.ndarray
    since: np.ndarray
    until: np.ndarray


class RunQueries(NamedTuple):
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
    block = ITEMS_PER_BLOCK if ks.size < SUMMED_K else ITEMS_PER_BLOCK // 2
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
        run = WindowRun(
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
