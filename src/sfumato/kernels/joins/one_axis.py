"""Pr(match) of an object whose samples differ along one axis, and of many others at once.

Let u lack attribute a alone; in all others it has one value. A sample of another object, whatever
that one lacks, is then near those of u's samples x whose value in a is near its own:

    (x - place)² <= budget       place: the sample's value in a
                                 budget: within² less what all other attributes add

so that a pair of samples costs one comparison. Places and budgets of the samples of all candidates
are gathered, and u's samples are held against all of them at once, in SIMD: one pair of objects
has too few samples for that. A sample whose budget is below 0 is near nothing; what is left bounds
Pr(match), and most pairs go before they are compared (a form of E, Lemma 4.2).

Budgets round, by up to `band`: what is within budget - band is surely near, what is beyond budget +
band surely not. Where that leaves the sum in doubt, the defining sum decides.
"""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled_ieee, lean, lean_inline
from sfumato.kernels.joins.match_probability import (
    UNDECIDED,
    defining_sum,
    judged,
    limit_of_reach,
    widest_reach,
)
from sfumato.kernels.joins.tuple_store import SAMPLE_LANES, padded
from sfumato.kernels.tolerances import EPSILON, SIFT_SLACK

ROUND = 1e-12  # roots are taken a little wider, or narrower, than they are
SEARCHED_SAMPLES = 128  # samples: from here on ranges of them are searched for instead


NO_MATCH = -1.0  # in place of a probability: below the threshold


class Boxes(NamedTuple):
    """The boxes of objects' samples, by slot.

    low, high : float64[T, slots]
    gap : int64[slots], the attribute, of T, that an object lacks alone, in which alone its samples
        differ; else -1
    """

    low: np.ndarray
    high: np.ndarray
    gap: np.ndarray


class Reached(NamedTuple):
    """Objects of a window whose boxes are within reach of an arrival's.

    near : int64[>= number], slots, ascending    totals : float64[>= number], Pr(match), UNDECIDED
        or NO_MATCH; of the first `number` each
    """

    near: np.ndarray
    number: int
    totals: np.ndarray


@compiled_ieee
def cumulated(blocks, x, count):
    """Probability of a block's samples before each, and of all, compensated; [0] if few."""
    if count < SEARCHED_SAMPLES:
        return np.empty(0)
    result, total, lost = np.empty(count + 1), 0.0, 0.0
    for k in range(count):
        term = blocks[x + k]
        result[k] = total + lost
        larger = total + term
        lost += (max(total, term) - larger) + min(total, term)
        total = larger
    result[count] = total + lost
    return result


@lean
def _number_below(blocks, row, count, place, bound, equal):
    """How many of a row's samples, ascending, are below place + bound, or at it if `equal`."""
    begin, rest = row, count
    while rest > 0:
        half = rest // 2
        difference = blocks[begin + half] - place
        below = (difference < bound) | (equal & (difference == bound))
        begin += (half + 1) * below
        rest = half * (1 - below) + (rest - half - 1) * below
    return begin - row


@lean
def _mass_between(blocks, row, count, cumulative, place, reach):
    """Probability of a row's samples, ascending, within `reach` of a place. O(log count)."""
    first = _number_below(blocks, row, count, place, -reach, False)
    return cumulative[_number_below(blocks, row, count, place, reach, True)] - cumulative[first]


@lean
def compare_all(blocks, x, row, count, band, entries, n):
    """sure and possible of n entries, from all of u's samples. O(count * n), in SIMD."""
    place, budget, sure, possible = entries.place, entries.budget, entries.sure, entries.possible
    # Unsigned places: no test for negative ones, which would keep the lanes from becoming SIMD.
    last = np.uint64(n)
    for e in range(last):
        sure[e], possible[e] = 0.0, 0.0
    for k in range(0, count, SAMPLE_LANES):
        p, q, r, s = blocks[x + k], blocks[x + k + 1], blocks[x + k + 2], blocks[x + k + 3]
        a, b = blocks[row + k], blocks[row + k + 1]
        c, d = blocks[row + k + 2], blocks[row + k + 3]
        for e in range(last):
            at, low, high = place[e], budget[e] - band, budget[e] + band
            one, two, three, four = a - at, b - at, c - at, d - at
            one, two, three, four = one * one, two * two, three * three, four * four
            sure[e] += ((p if one <= low else 0.0) + (q if two <= low else 0.0)) + (
                (r if three <= low else 0.0) + (s if four <= low else 0.0)
            )
            possible[e] += ((p if one <= high else 0.0) + (q if two <= high else 0.0)) + (
                (r if three <= high else 0.0) + (s if four <= high else 0.0)
            )


@lean
def search_all(blocks, row, count, cumulative, band, entries, n):
    """The same by searching. O(n log count)."""
    for e in range(n):
        place, low, high = entries.place[e], entries.budget[e] - band, entries.budget[e] + band
        wide = np.sqrt(high) * (1.0 + ROUND)
        entries.possible[e] = _mass_between(blocks, row, count, cumulative, place, wide)
        entries.sure[e] = 0.0
        if low >= 0.0:
            narrow = np.sqrt(low) * (1.0 - ROUND)
            entries.sure[e] = _mass_between(blocks, row, count, cumulative, place, narrow)


COMPARED_SAMPLES = 512  # samples compared at once: what stays in the processor's nearest cache
GATHERED_SAMPLES = 128  # samples of one candidate gathered at once; even


class Entries(NamedTuple):
    """Samples of candidates, at most COMPARED_SAMPLES, and two more that are written before they
    are judged.

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
    """Room for `sums_over_axis`."""
    n = COMPARED_SAMPLES
    return Entries(
        np.empty(n + 2), np.empty(n + 2), np.empty(n + 2), np.empty(n), np.empty(n),
        np.empty(n + 1, np.int64), np.empty(n + 2, np.int64),
    )  # fmt: skip


class Own(NamedTuple):
    """The arrival u: its slot, the attribute a its samples differ in, and where they are.

    x, row : places of their probabilities, and of their values in a    number : of samples
    cumulative : see `cumulated`    limit, band : of squared distances, and their rounding
    """

    u: int
    a: int
    x: int
    row: int
    number: int
    cumulative: np.ndarray
    limit: float
    band: float


class SampleSpan(NamedTuple):
    """Samples [first, last) of a candidate's block at y, whose rows are `length` long."""

    y: int
    length: int
    first: int
    last: int


class Gap(NamedTuple):
    """A candidate that lacks attribute b alone.

    same : bool, whether u lacks the same    rest : see `_rest`
    there : the candidate's value in what u lacks    here : u's value in b
    """

    b: int
    same: bool
    rest: float
    there: float
    here: float


class SumWork(NamedTuple):
    """To work in: `Entries`, and by candidate its `_rest` and bounds of its sum, float64 each."""

    entries: Entries
    rests: np.ndarray
    sure: np.ndarray
    possible: np.ndarray


@lean
def _settle(blocks, own, work, runs, n):
    """Add what n entries, in so many runs, contribute to the sums of their owners."""
    entries, sure, possible = work.entries, work.sure, work.possible
    if own.cumulative.size > 0:
        search_all(blocks, own.row, own.number, own.cumulative, own.band, entries, n)
    else:
        compare_all(blocks, own.x, own.row, own.number, own.band, entries, n)
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


@lean_inline
def _gather_gap(blocks, part, gap, own, entries, n):
    """Add samples of a candidate that lacks one attribute to the entries: (n, their mass)."""
    place, budget, weight = entries.place, entries.budget, entries.weight
    same, rest, there, here = gap.same, gap.rest, gap.there, gap.here
    limit, band = own.limit, own.band
    one, other = 0.0, 0.0
    row = part.y + (gap.b + 1) * part.length
    # Unsigned places: no test for negative ones.
    at, values, to = np.uint64(part.y + part.first), np.uint64(row + part.first), np.uint64(n)
    step = np.uint64(1)
    for _ in range(part.first, part.last, 2):  # of an odd number the last one is padding
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


@lean_inline
def _gather_any(blocks, part, low, own, entries, n):
    """The same for a candidate that lacks several attributes, or none."""
    mass, y, length, a, u = 0.0, part.y, part.length, own.a, own.u
    for j in range(part.first, part.last):
        budget = own.limit
        for c in range(low.shape[0]):
            difference = low[c, u] - blocks[y + (c + 1) * length + j]
            budget -= difference * difference if c != a else 0.0
        entries.place[n], entries.budget[n] = blocks[y + (a + 1) * length + j], budget
        entries.weight[n] = blocks[y + j]
        mass += blocks[y + j] if budget + own.band >= 0.0 else 0.0
        n += budget + own.band >= 0.0
    return n, mass


@lean
def _bounds(blocks, boxes, own, reached, work):
    """Upper bounds of Pr(match) from u's samples alone, to work.possible; NO_MATCH in totals if out
    of reach."""
    low, gap, u, a = boxes.low, boxes.gap, own.u, own.a
    totals, near = reached.totals, reached.near
    entries, rests, sure, possible, n = work.entries, work.rests, work.sure, work.possible, 0
    for i in range(reached.number):
        if totals[i] != UNDECIDED:
            continue
        v, b = near[i], gap[near[i]]
        rests[i] = _rest(low, u, v, a, b) if b >= 0 else 0.0
        sure[i], possible[i] = 0.0, 0.0
        if own.limit - rests[i] + own.band < 0.0:
            totals[i] = NO_MATCH
        elif b < 0 or a == b:
            possible[i] = 1.0
        else:
            entries.place[n], entries.budget[n] = low[a, v], own.limit - rests[i]
            entries.weight[n], entries.owner[n], entries.begin[n] = 1.0, i, n
            n += 1
            if n == COMPARED_SAMPLES:
                _settle(blocks, own, work, n, n)
                n = 0
    _settle(blocks, own, work, n, n)


@lean
def _touch(tuples, gap, reached, possible, least):
    """Drop what the bounds exclude; read a number of each row that is gathered next.

    The rows lie far apart, in slow memory: a loop that does nothing else waits for many at a time.
    """
    blocks, at, samples, total = tuples.blocks, tuples.at, tuples.samples, 0.0
    for i in range(reached.number):
        if reached.totals[i] == UNDECIDED:
            v = reached.near[i]
            if possible[i] < least:
                reached.totals[i] = NO_MATCH
            else:
                total += blocks[at[v]] + blocks[at[v] + (gap[v] + 1) * padded(samples[v])]
    return total


@lean
def _gather_all(tuples, boxes, own, reached, work, least):
    """Gather and settle the samples of all that are UNDECIDED: bounds of Pr(match) to the work."""
    blocks, at, samples = tuples.blocks, tuples.at, tuples.samples
    low, gap = boxes.low, boxes.gap
    entries, rests, sure, possible = work.entries, work.rests, work.sure, work.possible
    totals, near, n, runs = reached.totals, reached.near, 0, 0
    for i in range(reached.number):
        if totals[i] != UNDECIDED:
            continue
        v, y = near[i], at[near[i]]
        b, y_count, left, right = gap[v], samples[v], possible[i], 0.0
        length = padded(y_count)
        sure[i], possible[i] = 0.0, 0.0
        start, start_run = n, runs
        for first in range(0, y_count, GATHERED_SAMPLES):
            if n > COMPARED_SAMPLES - GATHERED_SAMPLES:
                _settle(blocks, own, work, runs, n)
                n = runs = start = start_run = 0
            part = SampleSpan(y, length, first, min(y_count, first + GATHERED_SAMPLES))
            entries.owner[runs], entries.begin[runs] = i, n
            runs += 1
            if b >= 0:
                about = Gap(b, own.a == b, rests[i], low[own.a, v], low[b, own.u])
                n, mass = _gather_gap(blocks, part, about, own, entries, n)
            else:
                n, mass = _gather_any(blocks, part, low, own, entries, n)
            right += mass
        if left * right < least:
            totals[i], n, runs = NO_MATCH, start, start_run
    _settle(blocks, own, work, runs, n)


@lean
def sums_over_axis(tuples, boxes, criterion, u, reached, cumulative, work):
    """Pr(match) of slot u, whose samples differ in one attribute alone, and those reached: totals.

    cumulative : of u, see `cumulated`    work : `SumWork`    T > 1
    O(samples of candidates * (T + samples of u)), the latter in SIMD.  Error: summed in another
    order than the definition.
    """
    d, probability, largest = criterion.d, criterion.probability, 0.0
    for i in range(reached.number):
        largest = max(largest, tuples.rounding[reached.near[i]])
    # The candidates' own limits lie between these two; what differs by them, the definition judges.
    least = criterion.limit
    most = limit_of_reach(criterion, widest_reach(criterion.within, tuples.rounding[u] + largest))
    limit = 0.5 * least + 0.5 * most
    x, count = tuples.at[u], tuples.samples[u]
    # An object with one sample may be thought to lack any attribute.
    a = max(boxes.gap[u], 0)
    band = 0.5 * (most - least) + (2.0 * d + 6.0) * EPSILON * most
    own = Own(u, a, x, x + (a + 1) * padded(count), count, cumulative, limit, band)
    _bounds(tuples.blocks, boxes, own, reached, work)
    touched = _touch(tuples, boxes.gap, reached, work.possible, criterion.least)
    work.entries.weight[COMPARED_SAMPLES + 1] = touched  # kept, so that it is computed
    _gather_all(tuples, boxes, own, reached, work, criterion.least)
    for i in range(reached.number):
        if reached.totals[i] == UNDECIDED:
            total, v = work.sure[i], reached.near[i]
            if (
                work.possible[i] != total
                or abs(total - probability) <= 2.0 * SIFT_SLACK * probability
            ):
                total = defining_sum(tuples, u, v, criterion)
            reached.totals[i] = judged(tuples, u, v, criterion, total)
