"""Seeded possible worlds of a stream: the alternative of each tuple in world s."""

from typing import NamedTuple

import numpy as np

from sfumato.kernels.compile import compiled, lean
from sfumato.kernels.distributions.tuples import AttributeTuples

GOLDEN_BITS = np.uint64(0x9E3779B97F4A7C15)
SPLITMIX_1, SPLITMIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class SampledWorlds(NamedTuple):
    """Tuples whose alternatives are drawn.

    tuples : AttributeTuples    hashes : uint64[n], see `tuple_hashes`
    first : int64, stream index of the first tuple; the other indices follow consecutively
    """

    tuples: AttributeTuples
    hashes: np.ndarray
    first: int


@lean
def _mix64(z):
    z = (z ^ (z >> np.uint64(30))) * SPLITMIX_1
    z = (z ^ (z >> np.uint64(27))) * SPLITMIX_2
    return z ^ (z >> np.uint64(31))


@compiled
def tuple_hashes(seed, index):
    """Return a hash of each tuple number `index`, uint64[n]; all draws for a tuple use its hash."""
    out = np.empty(index.size, np.uint64)
    for i in range(index.size):
        out[i] = _mix64(np.uint64(seed) * GOLDEN_BITS + np.uint64(index[i]))
    return out


@compiled
def list_hashes(offsets, values):
    """Return a hash of each of n lists of float64 values, int64[n]; equal lists share a hash."""
    bits, out = values.view(np.uint64), np.empty(offsets.size - 1, np.int64)
    for i in range(out.size):
        of = _mix64(np.uint64(offsets[i + 1] - offsets[i]))
        for a in range(offsets[i], offsets[i + 1]):
            of = _mix64(of * GOLDEN_BITS + bits[a])
        out[i] = np.int64(of)
    return out


@lean
def uniform(hashed, world):
    """Return a number in [0, 1) that depends only on seed, tuple and world (SplitMix64)."""
    step = np.uint64(world) * GOLDEN_BITS
    z = _mix64(hashed + step) + step
    z = (z ^ (z >> np.uint64(30))) * SPLITMIX_1
    return np.float64((z ^ (z >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@lean
def alternative_in_world(tuples, hashes, i, world):
    """Return the place of tuple i's alternative in this world, or -1 if the tuple is absent."""
    left = uniform(hashes[i], world)
    for a in range(tuples.offsets[i], tuples.offsets[i + 1]):
        left -= tuples.prob[a]
        if left < 0.0:
            return a
    return np.int64(-1)


@lean
def draw_alternatives(tuples, hashes, begin, end, world, places):
    """Write `alternative_in_world` for tuples begin ... end - 1 to places[:end - begin]."""
    prob = tuples.prob
    if prob.size == tuples.offsets.size - 1:  # one alternative each: a loop without branches
        for i in range(begin, end):
            places[i - begin] = i if uniform(hashes[i], world) < prob[i] else -1
    else:
        for i in range(begin, end):
            places[i - begin] = alternative_in_world(tuples, hashes, i, world)


@compiled
def draw_worlds(offsets, prob, hashes, worlds):
    """Return the tuples that exist in each world, ordered by tuple, then world.

    offsets : int64[n + 1]    prob : float64[m]    hashes : uint64[n], one per tuple
    Returns (tuple int64[m], world int64[m], place int64[m] of `alternative_in_world`).
    O(n worlds alternatives).
    """
    tuples, n, m = AttributeTuples(offsets, prob, prob), hashes.size, 0  # no values are read
    row = np.empty(n * worlds, np.int64)
    world, place = np.empty(n * worlds, np.int64), np.empty(n * worlds, np.int64)
    for i in range(n):
        for w in range(worlds):
            at = alternative_in_world(tuples, hashes, i, w)
            if at >= 0:
                row[m], world[m], place[m] = i, w, at
                m += 1
    return row[:m], world[:m], place[:m]


@compiled
def distributions_of_samples(samples, existence, near):
    """Return the distribution of each of k rows of equally weighted samples.

    samples : float64[k, n], each row ascending, NaN (last) for worlds without a result
    existence : float64[k], the sum of each distribution's probabilities
    near : float64, relative difference up to which successive values are merged
    Returns (places int64[k + 1], prob, value, used int64[k], the numbers of samples with a result).
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
