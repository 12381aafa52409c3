"""Ranked windows: their clocks, contents and answers."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import write_at
from sfumato.kernels.compile import compiled
from sfumato.kernels.ranking.ranked_items import RankedItems
from sfumato.kernels.ranking.semantics import rank_items, rank_streams
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import SUM_TOLERANCE

NO_INSTANT = -(2**62)  # before any instant
NO_PUNCTUATION = np.iinfo(np.int64).min  # no punctuation, or time
REJECT, SCALE = 0, 1  # treatment of rules above that: drop later tuples, or divide all


@compiled
def select_late(scope, time, late, punctuation, clock, newest):
    """Select late rows, marked as such or behind the clock, and advance the clocks.

    scope, time, punctuation : int64[n]    late : bool[n], rows marked as late
    clock, newest : int64[scopes], written: the last closed instant, and the greatest punctuation
    Returns bool[n], and the clock of its scope after each row, int64[n].
    """
    n = scope.size
    behind, steps = late.copy(), np.empty(n, np.int64)
    for i in range(n):
        s, settled = scope[i], np.int64(NO_INSTANT)
        if not late[i] and punctuation[i] > newest[s]:  # for a late row, it is its source's.
            settled = min(newest[s] + 1, time[i])  # A row of the same time may follow
            newest[s] = punctuation[i]
        behind[i] |= time[i] < max(clock[s], settled)
        clock[s] = max(clock[s], settled)
        if not late[i]:
            clock[s] = max(clock[s], time[i])
        steps[i] = clock[s]
    return behind, steps


@compiled
def known_at(begin, steps, scope, time, otherwise):
    """Return when some times became known: the first step of the scope that reaches each, int64[n].

    begin : int64[scopes + 1], scope s has the steps begin[s] ... begin[s + 1], ascending
    otherwise : int64[n], used if a scope has no steps; NO_PUNCTUATION if no step reaches the time
    """
    found = otherwise.copy()
    for i in range(scope.size):
        some = steps[begin[scope[i]] : begin[scope[i] + 1]]
        if some.size:
            place = np.searchsorted(some, time[i])
            found[i] = some[place] if place < some.size else NO_PUNCTUATION
    return found


class RankedWindowTuples(NamedTuple):
    """n tuples of w windows, window by window: held tuples, then arrivals.

    begin : int64[w + 1], window j has the tuples begin[j] ... begin[j + 1]
    fresh : int64[w], place of its first arrival
    place : int64[n], time, or number of arrival if windows are measured in rows
    valid : bool[n], False for a tuple that overfilled its rule; written
    rule : int64[n] in [-1, rules), -1 for none;  stream : int64[n]
    item : int64[n + 1], tuple i's alternatives are key[item[i] : item[i + 1]], score and prob
    """

    begin: np.ndarray
    fresh: np.ndarray
    place: np.ndarray
    valid: np.ndarray
    rule: np.ndarray
    rules: int
    stream: np.ndarray
    item: np.ndarray
    key: np.ndarray
    score: np.ndarray
    prob: np.ndarray


@compiled
def shown_intervals(tuples, time, latest, until, since, before, length):
    """Return instants that arrivals, and then something else, close, without instants at which a
    window of a length is empty.

    time : int64[n], of all tuples;  latest : int64[w], written: known before, then after all
    until : int64[w], closed by something else after the arrivals
    since : int64[n], for an arrival the place of the oldest tuple in a window of rows after it
    before : int64[w], the same before all;  length : of windows of time, else 0
    Returns int64[6, i]: window, the interval (after, upto] of instants, the time that closed them,
    the end of the tuples there, and `since`; and the number of arrivals older than `latest`.
    """
    out, count, older = np.empty((6, time.size + latest.size), np.int64), 0, 0
    for j in range(latest.size):
        known, greatest, oldest = latest[j], np.int64(NO_INSTANT), before[j]
        for i in range(tuples.begin[j], tuples.fresh[j]):
            greatest = max(greatest, time[i])
        for i in range(tuples.fresh[j], tuples.begin[j + 1] + 1):
            last = i == tuples.begin[j + 1]
            shown = max(known, until[j] if last else time[i])
            end = min(shown, greatest + length) if length else shown
            if end > known:
                out[0, count], out[1, count], out[2, count] = j, known, end
                out[3, count], out[4, count], out[5, count] = shown, i, oldest
                count += 1
            if not last:
                older += time[i] < known
                greatest, oldest = max(greatest, time[i]), since[i]
            known = shown
        latest[j] = known
    return out[:, :count], older


class WindowRuns(NamedTuple):
    """r runs, in order of time within a window: int64[r] each.

    window, time, query : window to rank, time of the run, index into `RunQueries`
    answered : the time known at the answer, in microseconds
    visible : the run sees the tuples before this place;  since : and holds tuples from this `place`
    """

    window: np.ndarray
    time: np.ndarray
    query: np.ndarray
    answered: np.ndarray
    visible: np.ndarray
    since: np.ndarray


class RunQueries(NamedTuple):
    """Requests of several runs: run a has the queries begin[a] ... begin[a + 1].

    query, k : int64, number and k of each query;  ranking : index of its answer among the run's
    ks : int64, run a's different k, ascending, at some_k[a] ... some_k[a + 1]
    of, least : the run's different answers, see `rank_items`, at some[a] ... some[a + 1]
    """

    begin: np.ndarray
    query: np.ndarray
    k: np.ndarray
    ranking: np.ndarray
    some_k: np.ndarray
    ks: np.ndarray
    some: np.ndarray
    of: np.ndarray
    least: np.ndarray


@compiled
def _window_items(tuples, chosen, number, full_rules):
    """Return the `RankedItems` of the tuples at some places, with rules numbered as they occur.

    number : int64[rules], working memory of -1;  full_rules : SCALE divides rules above 1 by their
    sum
    """
    size = 0
    for i in chosen:
        size += tuples.item[i + 1] - tuples.item[i]
    key, score, prob = np.empty(size), np.empty(size), np.empty(size)
    rule, owner = np.empty(size, np.int64), np.empty(size, np.int64)
    x, rules = 0, 0
    for j in range(chosen.size):
        i, own = chosen[j], -1
        if tuples.rule[i] >= 0:
            own = number[tuples.rule[i]]
        if own < 0 and (tuples.rule[i] >= 0 or tuples.item[i + 1] - tuples.item[i] > 1):
            own = rules
            rules += 1
        if tuples.rule[i] >= 0:
            number[tuples.rule[i]] = own
        for a in range(tuples.item[i], tuples.item[i + 1]):
            key[x], score[x], prob[x] = tuples.key[a], tuples.score[a], tuples.prob[a]
            rule[x], owner[x] = own, j
            x += 1
    for i in chosen:
        if tuples.rule[i] >= 0:
            number[tuples.rule[i]] = -1
    if full_rules == SCALE:
        mass = np.zeros(rules)
        for x in range(size):
            if rule[x] >= 0:
                mass[rule[x]] += prob[x]
        for x in range(size):
            if rule[x] >= 0 and mass[rule[x]] > 1.0 + SUM_TOLERANCE:
                prob[x] /= mass[rule[x]]
    return RankedItems(key, score, prob, rule, owner, rules, chosen.size, size == chosen.size)


@compiled
def _reject_overfull(tuples, chosen, mass):
    """Mark tuples that would raise their rule above 1 as not valid; return the other places.

    mass : float64[rules], working memory of zeros.  Rejected tuples do not count for later ones.
    """
    kept = 0
    for i in chosen:
        r = tuples.rule[i]
        if r >= 0:
            total = mass[r] + tuples.prob[tuples.item[i] : tuples.item[i + 1]].sum()
            tuples.valid[i] = total <= 1.0 + SUM_TOLERANCE
            if tuples.valid[i]:
                mass[r] = total
        if tuples.valid[i]:
            chosen[kept] = i
            kept += 1
    for i in chosen[:kept]:
        if tuples.rule[i] >= 0:
            mass[tuples.rule[i]] = 0.0
    return chosen[:kept]


@compiled
def _extend(array, room):
    """Return the array, or a copy with at least this room along its last axis."""
    if array.shape[1] >= room:
        return array
    result = np.empty((array.shape[0], 2 * room), array.dtype)
    for row in range(array.shape[0]):
        write_at(result[row], np.int64(0), array[row])
    return result


@compiled
def rank_windows(tuples, runs, asked, question, full_rules, skips, streams):
    """Rank the windows of all runs, for all their queries.

    full_rules : REJECT or SCALE;  skips : bool, leave out windows without tuples
    streams : bool, rank streams instead of tuples
    Returns int64[7, n], for each row of answers its window, query, k, time, time known, rank and
    tuple (a place); streams int64[n]; float64[2, n], scores and probabilities; ranked bool[r];
    rejected int64[], places in order; and the run at which U-Topk gave up, else -1.
    Cost: O(n log n) for a window of n tuples, plus the semantics over the items in front.
    Source: Chen et al. (2013), (1), (2) and section 3, see `rank_tree`.
    """
    whole, real = np.empty((8, 64), np.int64), np.empty((2, 64))
    ranked, first = np.zeros(runs.time.size, np.bool_), tuples.begin[:-1].copy()
    number, mass = np.full(tuples.rules, -1), np.zeros(tuples.rules)
    rejected, lost = np.empty(tuples.valid.size, np.int64), 0
    at, steps, failed = 0, np.int64(0), -1
    for r in range(runs.time.size):
        j, end, since = runs.window[r], runs.visible[r], runs.since[r]
        while first[j] < end and not (tuples.valid[first[j]] and tuples.place[first[j]] >= since):
            first[j] += 1  # no later run holds it
        steps = after_signals(steps + 256 * (end - first[j]))
        chosen, count = np.empty(end - first[j], np.int64), 0
        for i in range(first[j], end):
            if tuples.valid[i] and tuples.place[i] >= since:
                chosen[count] = i
                count += 1
        chosen = chosen[:count]
        if skips and count == 0:
            continue
        if tuples.rules and full_rules == REJECT:
            kept = _reject_overfull(tuples, chosen.copy(), mass)
            for i in chosen:
                if not tuples.valid[i]:
                    rejected[lost] = i
                    lost += 1
            chosen = kept
        items, a = _window_items(tuples, chosen, number, full_rules), runs.query[r]
        ks = asked.ks[asked.some_k[a] : asked.some_k[a + 1]]
        if streams:
            found = rank_streams(items, tuples.stream[chosen], ks)
        else:
            some = slice(asked.some[a], asked.some[a + 1])
            found = rank_items(items, ks, asked.of[some], asked.least[some], question)
        if not found.offsets.size:
            failed = r
            break
        ranked[r] = True
        for q in range(asked.begin[a], asked.begin[a + 1]):
            begin, end = found.offsets[asked.ranking[q]], found.offsets[asked.ranking[q] + 1]
            whole, real = _extend(whole, at + end - begin), _extend(real, at + end - begin)
            for i in range(begin, end):
                whole[0, at], whole[1, at], whole[2, at] = j, asked.query[q], asked.k[q]
                whole[3, at], whole[4, at] = runs.time[r], runs.answered[r]
                whole[5, at], whole[6, at] = found.rank[i], chosen[found.tuples[i]]
                whole[7, at], real[0, at], real[1, at] = (
                    found.stream[i], found.score[i], found.value[i],
                )  # fmt: skip
                at += 1
    return whole[:, :at], real[:, :at], ranked, rejected[:lost], failed
