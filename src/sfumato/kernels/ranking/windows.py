"""Ranked windows: their clocks, contents and answers."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.arrays import write_at
from sfumato.kernels.compile import compiled, inlined
from sfumato.kernels.ranking.ranked_items import RankedItems
from sfumato.kernels.ranking.semantics import rank_items
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import SUM_TOLERANCE

NO_INSTANT = -(2**62)  # earlier than any instant
NO_PUNCTUATION = np.iinfo(np.int64).min  # no punctuation or time


@compiled
def select_late(scope, time, late, punctuation, clock, newest):
    """Select rows that are marked as late or are earlier than the clock, and advance the clocks.

    scope, time, punctuation : int64[n]    late : bool[n], rows marked as late
    clock, newest : int64[scopes], updated: the last closed instant, and the highest punctuation
    Returns bool[n], whether each row is late, and int64[n], the scope's clock after each row.
    """
    n = scope.size
    behind, steps = late.copy(), np.empty(n, np.int64)
    for i in range(n):
        s, settled = scope[i], np.int64(NO_INSTANT)
        if not late[i] and punctuation[i] > newest[s]:  # a late row has its source's punctuation
            settled = min(newest[s] + 1, time[i])  # a row of the same time may follow
            newest[s] = punctuation[i]
        behind[i] |= time[i] < max(clock[s], settled)
        clock[s] = max(clock[s], settled)
        if not late[i]:
            clock[s] = max(clock[s], time[i])
        steps[i] = clock[s]
    return behind, steps


@compiled
def known_times(begin, steps, scope, time, otherwise):
    """Return, for each time, the first step of its scope that reaches the time: int64[n].
    begin : int64[scopes + 1], scope s has the ascending steps begin[s] ... begin[s + 1]
    otherwise : int64[n], returned if the scope has no steps
    If no step of the scope reaches a time, NO_PUNCTUATION is returned.
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
    fresh : int64[w], index of each window's first arrival
    place : int64[n], the tuple's time, or in count windows its arrival number
    valid : bool[n], updated: False for a tuple that raised the sum of its rule above 1
    rule : int64[n] in [-1, rules), -1 for no rule;  stream : int64[n]
    item : int64[n + 1], tuple i's alternatives are [item[i] : item[i + 1]] of key, score and prob
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
def closed_intervals(tuples, time, latest, until, since, before, length):
    """Return the intervals of instants that arrivals close, and then the intervals up to `until`.

    time : int64[n], of all tuples;  latest : int64[w], updated: the last closed instant
    until : int64[w], instant up to which each window is closed after its arrivals
    since : int64[n], the `place` of the oldest tuple in a count window after an arrival
    before : int64[w], the same before all arrivals;  length : of time windows; 0 for count windows
    Returns int64[6, i]: window, both ends of the interval (after, upto] of instants, the time that
    closed the interval, the end of the tuples that had arrived, and the `since` of that time; and
    the number of arrivals older than `latest`.
    Instants at which a time window is empty are left out.
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
    """r rankings of windows, in order of time within a window: int64[r] each.

    window, time, query : window to rank, its instant, index into `RunQueries`
    answered : the time that closed the instant, in microseconds
    visible, since : the run ranks the tuples before index `visible` whose `place` is at least
        `since`
    """

    window: np.ndarray
    time: np.ndarray
    query: np.ndarray
    answered: np.ndarray
    visible: np.ndarray
    since: np.ndarray


class RunQueries(NamedTuple):
    """Requests of several kinds of runs: kind a has the queries begin[a] ... begin[a + 1].

    query, k : int64, number and k of each query;  ranking : index of its answer in the kind
    ks, least : arguments of `rank_items` for kind a, at answers_begin[a] ... answers_begin[a + 1]
    """

    begin: np.ndarray
    query: np.ndarray
    k: np.ndarray
    ranking: np.ndarray
    answers_begin: np.ndarray
    ks: np.ndarray
    least: np.ndarray


@inlined
def _window_items(tuples, chosen, number, rescale):
    """Return the `RankedItems` of the chosen tuples, with rules numbered by first occurrence.

    number : int64[rules], working memory, all -1;  rescale : bool, see `rank_windows`
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
    if rescale:
        mass = np.zeros(rules)
        for x in range(size):
            if rule[x] >= 0:
                mass[rule[x]] += prob[x]
        for x in range(size):
            if rule[x] >= 0 and mass[rule[x]] > 1.0 + SUM_TOLERANCE:
                prob[x] /= mass[rule[x]]
    return RankedItems(key, score, prob, rule, owner, rules, chosen.size, size == chosen.size)


@inlined
def _reject_overfull(tuples, chosen, mass):
    """Mark tuples that would raise the sum of their rule above 1 as invalid; return the others.

    mass : float64[rules], working memory, all 0.  The sums do not include rejected tuples.
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
    """Return the array, or a copy with room for at least `room` entries along its last axis."""
    if array.shape[1] >= room:
        return array
    result = np.empty((array.shape[0], 2 * room), array.dtype)
    for row in range(array.shape[0]):
        write_at(result[row], 0, array[row])
    return result


@compiled
def rank_windows(tuples, runs, asked, parameters, rescale, skips, streams):
    """Rank the windows of all runs, for all their queries.

    rescale : bool, scale the probabilities of a rule with a sum above 1 to the sum 1, instead of
        rejecting its later tuples
    skips : bool, leave out windows without tuples
    streams : bool, rank streams instead of tuples
    Returns int64[8, n], for each row of answers its window, query, k, time, known time, rank, tuple
    (an index) and stream; float64[2, n], scores and values; bool[r], whether each run was ranked;
    int64[], rejected tuples, in order; and the run that U-Topk could not answer, or -1.
    Cost: O(n log n) for a window of n tuples, plus the cost of ranking the items in front.
    """
    whole, real = np.empty((8, 64), np.int64), np.empty((2, 64))
    ranked, first = np.zeros(runs.time.size, np.bool_), tuples.begin[:-1].copy()
    number, mass = np.full(tuples.rules, -1), np.zeros(tuples.rules)
    rejected, lost = np.empty(tuples.valid.size, np.int64), 0
    at, steps, failed = 0, np.int64(0), -1
    for r in range(runs.time.size):
        j, end, since = runs.window[r], runs.visible[r], runs.since[r]
        while first[j] < end and not (tuples.valid[first[j]] and tuples.place[first[j]] >= since):
            first[j] += 1  # no later run includes this tuple
        steps = after_signals(steps + 256 * (end - first[j]))
        chosen, count = np.empty(end - first[j], np.int64), 0
        for i in range(first[j], end):
            if tuples.valid[i] and tuples.place[i] >= since:
                chosen[count] = i
                count += 1
        chosen = chosen[:count]
        if skips and count == 0:
            continue
        if tuples.rules and not rescale:
            kept = _reject_overfull(tuples, chosen.copy(), mass)
            for i in chosen:
                if not tuples.valid[i]:
                    rejected[lost] = i
                    lost += 1
            chosen = kept
        items, a = _window_items(tuples, chosen, number, rescale), runs.query[r]
        some = slice(asked.answers_begin[a], asked.answers_begin[a + 1])
        found = rank_items(
            items, tuples.stream[chosen if streams else chosen[:0]], asked.ks[some],
            asked.least[some], parameters,
        )  # fmt: skip
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
