"""Pr(match) of an object that lacks one attribute and of many others: their samples side by side.

Let u lack attribute a alone; in all others it has one value. A sample of another object, whatever
that one lacks, is then near those of u's samples x whose value in a is near its own:

    (x - place)² <= budget       place: the sample's value in a
                                 budget: within² less what all other attributes add

so that a pair of samples costs one comparison. Places and budgets of the samples of all candidates
are gathered, and u's samples are held against all of them at once, in SIMD: one pair of objects
has too few samples for that. A sample whose budget is below 0 is near nothing; what is left bounds
Pr(match), and most pairs go before they are compared (a form of E, Lemma 4.2).

Budgets round. They decide where they do so by more than that; else the defining sum does.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean
from sfumato.kernels.joins.incomplete.box_distance import NONE, OPEN
from sfumato.kernels.joins.incomplete.near_masses import compare_all, search_all
from sfumato.kernels.joins.match_probability import SLACK, defining_sum
from sfumato.kernels.joins.tuple_store import padded

ULP = 2.0**-52
ROOM = 512  # samples compared at once: what stays in the processor's nearest cache
STEP = 128  # samples of one candidate gathered at once; even


class Entries(NamedTuple):
    """Samples of candidates, at most ROOM, and two more that are written before they are judged.

    place, budget, weight : float64, see above, and the sample's probability
    sure, possible : float64, probability of u's samples that are surely, and possibly, near
    owner, begin : int64, runs of entries: the candidate, and where the run begins
    """

    place: np.ndarray
    budget: np.ndarray
    weight: np.ndarray
    sure: np.ndarray
    possible: np.ndarray
    owner: np.ndarray
    begin: np.ndarray


@compiled_ieee
def new_entries():
    """Room for `sums_over_gap`."""
    return Entries(
        np.empty(ROOM + 2), np.empty(ROOM + 2), np.empty(ROOM + 2), np.empty(ROOM),
        np.empty(ROOM), np.empty(ROOM + 1, np.int64), np.empty(ROOM + 2, np.int64),
    )  # fmt: skip


@lean
def _settle(blocks, x, row, count, cumulative, band, entries, runs, n, sure, possible):
    """Add what n entries, in so many runs, contribute to the sums of their owners."""
    if cumulative.size > 0:
        search_all(blocks, row, count, cumulative, band, entries, n)
    else:
        compare_all(blocks, x, row, count, band, entries, n)
    entries.begin[runs] = n
    for i in range(runs):
        one, other = 0.0, 0.0
        for e in range(entries.begin[i], entries.begin[i + 1]):
            one += entries.weight[e] * entries.sure[e]
            other += entries.weight[e] * entries.possible[e]
        sure[entries.owner[i]] += one
        possible[entries.owner[i]] += other


@lean
def _rest(low, u, v, a, b):
    """What the attributes but a and b add to the squared distance, of boxes that are points."""
    rest = 0.0
    for c in range(low.shape[0]):
        difference = low[c, u] - low[c, v]
        rest += difference * difference if c != a and c != b else 0.0
    return rest


@lean
def _gather_gap(blocks, y, row, first, last, same, rest, there, here, limit, band, entries, n):
    """Add samples [first, last) of a candidate that lacks one attribute to the entries.

    same : bool, whether u lacks the same one    rest : of the attributes that neither lacks
    there : the candidate's value in what u lacks    here : u's value in what the candidate lacks
    Returns (n, probability of those added).
    """
    place, budget, weight = entries.place, entries.budget, entries.weight
    one, other = 0.0, 0.0
    # Unsigned places: no test for negative ones.
    at, values, to, step = np.uint64(y + first), np.uint64(row + first), np.uint64(n), np.uint64(1)
    for _ in range(first, last, 2):  # of an odd number of samples the last one is padding
        value, following = blocks[values], blocks[values + step]
        p, q = blocks[at], blocks[at + step]
        a, b = value - here, following - here
        left = limit - (rest if same else rest + a * a)
        right = limit - (rest if same else rest + b * b)
        keep, keep_next = left + band >= 0.0, right + band >= 0.0
        place[to], budget[to], weight[to] = value if same else there, left, p
        to += np.uint64(keep)
        place[to], budget[to], weight[to] = following if same else there, right, q
        to += np.uint64(keep_next)
        one += p if keep else 0.0
        other += q if keep_next else 0.0
        at += np.uint64(2)
        values += np.uint64(2)
    return np.int64(to), one + other


@lean
def _gather_any(blocks, y, length, first, last, low, u, a, limit, band, entries, n):
    """The same for a candidate that lacks several attributes, or none."""
    mass = 0.0
    for j in range(first, last):
        budget = limit
        for c in range(low.shape[0]):
            difference = low[c, u] - blocks[y + (c + 1) * length + j]
            budget -= difference * difference if c != a else 0.0
        entries.place[n], entries.budget[n] = blocks[y + (a + 1) * length + j], budget
        entries.weight[n] = blocks[y + j]
        mass += blocks[y + j] if budget + band >= 0.0 else 0.0
        n += budget + band >= 0.0
    return n, mass


@lean
def _bounds(
    blocks, x, row, count, gap, low, u, a, near, reached, limit, band, cumulative, entries, rests,
    sure, possible, totals,
):  # fmt: skip
    """Upper bounds of Pr(match) from u's samples alone: to possible; in rests see `_rest`.

    NONE in totals where the attributes that neither lacks are out of reach.
    """
    n = 0
    for i in range(reached):
        if totals[i] != OPEN:
            continue
        v, b = near[i], gap[near[i]]
        rests[i] = _rest(low, u, v, a, b) if b >= 0 else 0.0
        sure[i], possible[i] = 0.0, 0.0
        if limit - rests[i] + band < 0.0:
            totals[i] = NONE
        elif b < 0 or a == b:
            possible[i] = 1.0
        else:
            entries.place[n], entries.budget[n] = low[a, v], limit - rests[i]
            entries.weight[n], entries.owner[n], entries.begin[n] = 1.0, i, n
            n += 1
            if n == ROOM:
                _settle(blocks, x, row, count, cumulative, band, entries, n, n, sure, possible)
                n = 0
    _settle(blocks, x, row, count, cumulative, band, entries, n, n, sure, possible)


@lean
def _touch(blocks, at, samples, gap, near, reached, possible, least, totals):
    """Drop what the bounds exclude; read a number of each row that is gathered next.

    The rows lie far apart, in slow memory. A loop that does nothing else waits for many of them at
    the same time; `_gather_gap` would wait for one after the other.
    """
    total = 0.0
    for i in range(reached):
        if totals[i] == OPEN:
            v = near[i]
            if possible[i] < least:
                totals[i] = NONE
            else:
                total += blocks[at[v]] + blocks[at[v] + (gap[v] + 1) * padded(samples[v])]
    return total


@lean
def sums_over_gap(
    blocks, at, samples, gap, low, u, a, near, reached, limit, least, probability, cumulative,
    entries, rests, sure, possible, totals,
):  # fmt: skip
    """Pr(match) of slot u, whose samples differ in attribute a alone, and near[:reached].

    low : float64[T, slots], T > 1, boxes    gap : see `Objects`    near : slots, int64
    totals : float64, where OPEN written: Pr(match) if it is at least `probability`, else NONE
    cumulative : of u, see `cumulated`    entries, rests, sure, possible : to work in; the latter
        float64[reached]
    Cost: O(samples of candidates * (T + samples of u)), the latter in SIMD.
    Error: nearness is decided as by the definition; summed in another order.
    """
    x, x_count, d, n, runs = at[u], samples[u], low.shape[0], 0, 0
    row, band = x + (a + 1) * padded(x_count), (2.0 * d + 4.0) * ULP * limit
    _bounds(
        blocks, x, row, x_count, gap, low, u, a, near, reached, limit, band, cumulative, entries,
        rests, sure, possible, totals,
    )  # fmt: skip
    touched = _touch(blocks, at, samples, gap, near, reached, possible, least, totals)
    entries.weight[ROOM + 1] = touched  # kept, so that it is computed
    for i in range(reached):
        if totals[i] != OPEN:
            continue
        v, y = near[i], at[near[i]]
        b, y_count, left, right = gap[v], samples[v], possible[i], 0.0
        length = padded(y_count)
        sure[i], possible[i] = 0.0, 0.0
        start, start_run = n, runs
        for first in range(0, y_count, STEP):
            if n > ROOM - STEP:
                _settle(blocks, x, row, x_count, cumulative, band, entries, runs, n, sure, possible)
                n = runs = start = start_run = 0
            last = min(y_count, first + STEP)
            entries.owner[runs], entries.begin[runs] = i, n
            runs += 1
            if b >= 0:
                n, mass = _gather_gap(
                    blocks, y, y + (b + 1) * length, first, last, a == b, rests[i], low[a, v],
                    low[b, u], limit, band, entries, n,
                )  # fmt: skip
            else:
                n, mass = _gather_any(
                    blocks, y, length, first, last, low, u, a, limit, band, entries, n
                )
            right += mass
        if left * right < least:
            totals[i], n, runs = NONE, start, start_run
    _settle(blocks, x, row, x_count, cumulative, band, entries, runs, n, sure, possible)
    for i in range(reached):
        if totals[i] == OPEN:
            total, v = sure[i], near[i]
            if possible[i] != total or abs(total - probability) <= 2.0 * SLACK * probability:
                total = defining_sum(blocks, x, x_count, at[v], samples[v], d, limit)
            totals[i] = total if total >= probability else NONE
