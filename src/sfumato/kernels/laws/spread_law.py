"""Statistics of the values of the w newest existing tuples, world by world.

For k values with mean m the sample variance is sum (x - m)**2 / (k - 1); fewer than two values have
none. Deviations are taken from the mean of each world, so large values next to a small spread lose
nothing. The number of distinct values and the oldest value are statistics of a world too.
"""

import numpy as np

from sfumato.kernels.compile import compiled, lean
from sfumato.kernels.laws.sampled_worlds import taken
from sfumato.kernels.laws.tuples import existence_of, value_parts
from sfumato.kernels.signals import after_signals
from sfumato.kernels.tolerances import NEGLIGIBLE

VARIANCE, DEVIATION, DISTINCT, FIRST = 0, 1, 2, 3  # statistics of a world


@compiled
def _statistic(values, count, what):
    """A statistic of the first `count` values, the newest first; NaN where there is none.

    O(count), for DISTINCT times log count, which also sorts them.
    """
    if what == DISTINCT:
        values[:count].sort()
        distinct = 0
        for i in range(count):
            distinct += i == 0 or values[i] != values[i - 1]
        return float(distinct)
    if what == FIRST:
        return values[count - 1] if count else np.nan
    if count < 2:
        return np.nan
    mean = 0.0
    for i in range(count):
        mean += (values[i] - mean) / (i + 1)
    squares = 0.0
    for i in range(count):
        squares += (values[i] - mean) ** 2
    variance = squares / (count - 1)
    return np.sqrt(variance) if what == DEVIATION else variance


@lean
def _choices(tuples, i):
    """How many things tuple i may be: its alternatives, and absent."""
    alternatives = tuples.offsets[i + 1] - tuples.offsets[i]
    return alternatives + (existence_of(tuples.offsets, tuples.prob, i) < 1.0)


@compiled
def _oldest_inside(tuples, head, end, w, most):
    """The oldest tuple that may be inside; -1 where its worlds have over `most` tuples."""
    worlds, certain = 1.0, 0
    for i in range(end - 1, head - 1, -1):
        worlds *= _choices(tuples, i)
        if worlds > 1.0 and worlds * (end - i) > most:
            return -1
        certain += existence_of(tuples.offsets, tuples.prob, i) >= 1.0
        if certain == w:
            return i
    return head


@compiled
def small_spreads(tuples, heads, begin, w, most):
    """bool[k]: whether `spread_law` looks at `most` tuples at most, or at one world, per arrival.

    tuples : Tuples; heads : int64[k], position of the oldest tuple held when tuple begin + t is
    the newest
    """
    out, steps = np.empty(heads.size, np.bool_), np.int64(0)
    for t in range(heads.size):
        steps = after_signals(steps + tuples.offsets[begin + t + 1] - tuples.offsets[heads[t]])
        out[t] = _oldest_inside(tuples, heads[t], begin + t + 1, w, most) >= 0
    return out


@compiled
def spread_law(tuples, head, end, w, what):
    """Distribution of a statistic of the w newest existing of head ... end - 1, world by world.

    what : VARIANCE, DEVIATION, DISTINCT or FIRST
    Returns (prob, value), one entry per world in which there is a result: equal values may come
    several times.  Cost: O(worlds * w); see `small_spreads`.
    """
    first = _oldest_inside(tuples, head, end, w, np.inf)
    n, worlds = end - first, 1
    choice = np.zeros(n, np.int64)
    for i in range(first, end):
        worlds *= _choices(tuples, i)
    prob, value, found = np.empty(worlds), np.empty(worlds), 0
    there, steps = np.empty(n), np.int64(0)
    for _ in range(worlds):
        steps = after_signals(steps + 4 * n)
        chance, inside, values = 1.0, 0, 0
        for i in range(end - 1, first - 1, -1):
            a = tuples.offsets[i] + choice[i - first]
            if a == tuples.offsets[i + 1]:
                chance *= 1.0 - existence_of(tuples.offsets, tuples.prob, i)
                continue
            if tuples.offsets[i + 1] - tuples.offsets[i] > 1 or tuples.prob[a] < 1.0:
                chance *= tuples.prob[a]
            inside += 1
            if inside <= w and not np.isnan(tuples.value[a]):
                there[values] = tuples.value[a]
                values += 1
        result = _statistic(there, values, what)
        if chance > 0.0 and not np.isnan(result):
            prob[found], value[found] = chance, result
            found += 1
        at = 0
        while at < n:
            choice[at] += 1
            if choice[at] < _choices(tuples, first + at):
                break
            choice[at] = 0
            at += 1
    return prob[:found], value[:found]


@compiled
def sampled_spreads(drawn, heads, begin, w, what, samples):
    """A statistic in sampled worlds after each arrival: float64[k, samples], NaN for none.

    drawn : Drawn, the tuples held and the arrivals    heads, begin : as of `small_spreads`
    Cost: O(tuples until w exist) per arrival and world.  The worlds are those of count windows.
    """
    out, there = np.empty((heads.size, samples)), np.empty(drawn.tuples.offsets.size)
    steps = np.int64(0)
    for t in range(heads.size):
        for s in range(samples):
            inside, values = 0, 0
            steps = after_signals(steps + 8 * (begin + t + 1 - heads[t]))
            for i in range(begin + t, heads[t] - 1, -1):
                a = taken(drawn.tuples, drawn.hashes, i, s)
                if a < 0:
                    continue
                if not np.isnan(drawn.tuples.value[a]):
                    there[values] = drawn.tuples.value[a]
                    values += 1
                inside += 1
                if inside == w:
                    break
            out[t, s] = _statistic(there, values, what)
    return out


@compiled
def _paired(tuples, head, end, w, none, one):
    """Probability that two of the inside tuples held (head ... end - 1) have a value.

    none, one : float64[w + 1], scratch: of the count in worlds with no value or one so far
    """
    none[:], one[:] = 0.0, 0.0
    none[0] = 1.0
    some, high = 0.0, 1  # counts below `high` are possible
    for i in range(end - 1, head - 1, -1):
        valued, without = value_parts(tuples.offsets, tuples.prob, tuples.value, i)
        stay, left = max(1.0 - valued - without, 0.0), 0.0
        for c in range(min(high, w) - 1, -1, -1):  # a count of w is full
            some += valued * one[c]
            one[c + 1] += without * one[c] + valued * none[c]
            none[c + 1] += without * none[c]
            one[c] *= stay
            none[c] *= stay
        high = min(high + 1, w + 1)
        for c in range(min(high, w)):
            left += one[c] + none[c]
        if left < NEGLIGIBLE:
            break
    return min(some, 1.0)


@compiled
def pair_existences(tuples, heads, begin, w):
    """Probability that two inside tuples have a value, after each arrival: float64[k].

    Arguments as of `small_spreads`.  Cost: O(tuples until no world is likely to have fewer * band).
    """
    longest = w
    if tuples.offsets.size - 1 < w:
        longest = tuples.offsets.size - 1
    out, steps = np.empty(heads.size), np.int64(0)
    none, one = np.empty(longest + 1), np.empty(longest + 1)
    for t in range(heads.size):
        steps = after_signals(
            steps + longest + tuples.offsets[begin + t + 1] - tuples.offsets[heads[t]]
        )
        out[t] = _paired(tuples, heads[t], begin + t + 1, longest, none, one)
    return out
