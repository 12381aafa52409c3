"""Seeded possible worlds of a stream: which of its alternatives a tuple takes in world s."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled, lean
from sfumato.kernels.laws.order_statistics import rank_of
from sfumato.kernels.laws.tuples import AttributeTuples
from sfumato.kernels.signals import after_signals

SUM, AVERAGE, QUANTILE = 0, 1, 2
GOLDEN_BITS = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Drawn(NamedTuple):
    """Tuples of which alternatives are drawn.

    tuples : AttributeTuples    hashes : uint64[n], see `tuple_hashes`
    first : int64, stream index of the first of them; the others follow
    """

    tuples: AttributeTuples
    hashes: np.ndarray
    first: int


@lean
def _mixed(z):
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


@compiled
def tuple_hashes(seed, index):
    """uint64[n], what all draws for the tuples of these stream indices share.

    seed : int64; index : int64[n], a tuple's number among those of its key, from 0
    """
    out = np.empty(index.size, np.uint64)
    for i in range(index.size):
        out[i] = _mixed(np.uint64(seed) * GOLDEN_BITS + np.uint64(index[i]))
    return out


@lean
def uniform(hashed, world):
    """A number in [0, 1) that is a function of seed, tuple and world (SplitMix64's mixing).

    hashed : uint64, of `tuple_hashes`; world : int64
    """
    step = np.uint64(world) * GOLDEN_BITS
    z = _mixed(hashed + step) + step
    z = (z ^ (z >> np.uint64(30))) * FIRST
    return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@lean
def taken(tuples, hashes, i, world):
    """Place of the alternative that tuple i takes in this world, -1 where it does not exist.

    tuples : AttributeTuples; hashes : uint64[n].  O(alternatives).
    """
    left = uniform(hashes[i], world)
    for a in range(tuples.offsets[i], tuples.offsets[i + 1]):
        left -= tuples.prob[a]
        if left < 0.0:
            return a
    return np.int64(-1)


@lean
def take_all(tuples, hashes, begin, end, world, places):
    """`taken` for tuples begin ... end - 1, written to the first places."""
    prob = tuples.prob
    if prob.size == tuples.offsets.size - 1:  # one alternative each: a loop without branches
        for i in range(begin, end):
            places[i - begin] = i if uniform(hashes[i], world) < prob[i] else -1
    else:
        for i in range(begin, end):
            places[i - begin] = taken(tuples, hashes, i, world)


@compiled
def laws_of_samples(samples, existence, near):
    """Laws with equal weights on k rows of samples.  O(k n).

    samples : float64[k, n], each row ascending, NaN (last) for worlds without a result
    existence : float64[k], what each law's probabilities sum to
    near : float64, share of a value by which it may differ from the next and be the same
    Returns (places int64[k + 1], prob, value, used int64[k]): ascending different values, and how
    many samples each law is made of.
    """
    k, n = samples.shape
    places, used = np.zeros(k + 1, np.int64), np.zeros(k, np.int64)
    prob, value = np.empty(k * n), np.empty(k * n)
    at = 0
    for t in range(k):
        row, begin = samples[t], at
        for x in row:
            if np.isnan(x):
                break
            used[t] += 1
            if at > begin and x - value[at - 1] <= near * max(abs(x), abs(value[at - 1])):
                prob[at - 1] += 1.0
            else:
                prob[at], value[at] = 1.0, x
                at += 1
        for j in range(begin, at):
            prob[j] *= existence[t] / used[t]
        places[t + 1] = at
    return places, prob[:at], value[:at], used


@compiled
def sample_set(tuples, hashes, function, share, samples):
    """An aggregate of all tuples in sampled worlds: float64[samples], NaN where there is none.

    tuples : AttributeTuples; hashes : uint64[n], see `tuple_hashes`, of the tuples' stream indices
    function : SUM, AVERAGE or QUANTILE, of which `share` is
    Cost: O(samples * n), for quantiles times log n.  The worlds are those of count windows.
    """
    n = tuples.offsets.size - 1
    result, there, places = np.empty(samples), np.empty(n), np.empty(n, np.int64)
    steps = np.int64(0)
    for s in range(samples):
        steps = after_signals(steps + tuples.prob.size + 16 * n)
        take_all(tuples, hashes, 0, n, s, places)
        total, values = 0.0, 0
        for a in places:
            if a >= 0 and not np.isnan(tuples.value[a]):
                there[values] = tuples.value[a]
                total += there[values]
                values += 1
        if function == SUM:
            result[s] = total
        elif values == 0:
            result[s] = np.nan
        elif function == AVERAGE:
            result[s] = total / values
        else:
            result[s] = np.sort(there[:values])[rank_of(share, values) - 1]
    return result
